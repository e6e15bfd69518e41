#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

#include "flambeau/base/error.h"
#include "flambeau/base/text.h"

namespace flambeau {
namespace {

TEST(Text, Parts) {
  EXPECT_EQ(text(), "");
  EXPECT_EQ(text("a", std::string("b"), std::string_view("c"), 'd'), "abcd");
  EXPECT_EQ(text(true, false), "truefalse");
  EXPECT_EQ(text(int8_t{-5}, " ", uint8_t{200}, " ", short{7}, " ", 1u, " ", 2ll), "-5 200 7 1 2");
  EXPECT_EQ(text(std::numeric_limits<int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(text(std::numeric_limits<uint64_t>::max()), "18446744073709551615");
}

TEST(Text, NumbersReadBackToTheSameValue) {
  for (double value : {0.1, 1.0 / 3, 1e300, 5e-324, -2.5, 1e22}) {
    EXPECT_EQ(std::strtod(text(value).c_str(), nullptr), value) << text(value);
  }
  EXPECT_EQ(text(0.1), "0.1");
  EXPECT_EQ(text(2.0f), "2");
  EXPECT_EQ(text(std::numeric_limits<double>::infinity()), "inf");
}

TEST(Text, Sequences) {
  EXPECT_EQ(text(std::vector<int64_t>{}), "[]");
  EXPECT_EQ(text(std::vector<int64_t>{2, 3}), "[2, 3]");
  EXPECT_EQ(text(std::vector<std::vector<int>>{{1}, {2, 3}}), "[[1], [2, 3]]");
}

struct Printable {};
void append(std::string& out, Printable) { out += "printable"; }

TEST(Text, OtherTypesBringTheirOwnAppend) { EXPECT_EQ(text("a ", Printable{}), "a printable"); }

TEST(Errors, KindAndMessage) {
  try {
    check(1 + 1 == 3, ErrorKind::index, "index ", 7, " of ", 5);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::index);
    EXPECT_STREQ(error.what(), "index 7 of 5");
  }
  EXPECT_NO_THROW(check(true, ErrorKind::value, "unused"));
  try {
    internal_check(false, "x");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::internal);
    EXPECT_STREQ(error.what(), "internal error: x");
  }
}

}  // namespace
}  // namespace flambeau
