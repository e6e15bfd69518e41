#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>

#include "flambeau/base/error.h"
#include "flambeau/base/files.h"
#include "flambeau/io/safetensors.h"

namespace flambeau::io {
namespace {

std::string file_of(const std::string& json, const std::string& data = "", int64_t length = -1) {
  uint64_t header = length < 0 ? json.size() : static_cast<uint64_t>(length);
  std::string out(8, '\0');
  std::memcpy(out.data(), &header, 8);
  return out + json + data;
}

// The text after "'f'"; the content is copied to memory of its exact size for address checkers.
std::string message_of(const std::string& content) {
  auto exact = std::make_unique<char[]>(content.size());
  std::memcpy(exact.get(), content.data(), content.size());
  try {
    parse_safetensors({exact.get(), content.size()}, "f");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::runtime);
    std::string message = error.what();
    EXPECT_EQ(message.substr(0, 3), "'f'");
    return message.substr(3);
  }
  return "no error";
}

constexpr const char* kEntry = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";

TEST(Safetensors, Parse) {
  std::string json =
      R"({"b":{"dtype":"U8","shape":[2,2],"data_offsets":[8,12]},)"
      R"("__metadata__":{"format":"pt","k\u00e9":"v"},"e":{"dtype":"I64","shape":[0,7],)"
      R"("data_offsets":[12,12]},"a\n":{"data_offsets":[0,8],"shape":[],"dtype":"F64"}   })";
  auto header = parse_safetensors(file_of(json, std::string(12, 'x')), "f");
  ASSERT_EQ(header.entries.size(), 3u);
  size_t start = 8 + json.size();
  EXPECT_EQ(header.entries[0].name, "b");
  EXPECT_EQ(header.entries[0].dtype, "U8");
  EXPECT_EQ(header.entries[0].shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(header.entries[0].offset, start + 8);
  EXPECT_EQ(header.entries[0].bytes, 4u);
  EXPECT_EQ(header.entries[1].bytes, 0u);
  EXPECT_EQ(header.entries[2].name, "a\n");
  EXPECT_EQ(header.entries[2].shape, std::vector<int64_t>{});
  EXPECT_EQ(header.entries[2].offset, start);
  ASSERT_EQ(header.metadata.size(), 2u);
  EXPECT_EQ(header.metadata[1].first, "k\u00e9");
  EXPECT_EQ(header.metadata[1].second, "v");
  EXPECT_TRUE(parse_safetensors(file_of("{}"), "f").entries.empty());
}

TEST(Safetensors, DamagedLengths) {
  EXPECT_EQ(message_of(""), " has 0 bytes, too few for a safetensors file");
  EXPECT_EQ(message_of("1234567"), " has 7 bytes, too few for a safetensors file");
  EXPECT_EQ(message_of(file_of("{}", "", int64_t{1} << 60)),
            " is no safetensors file: it gives its header 1152921504606846976 bytes; at most "
            "100000000 are allowed");
  EXPECT_EQ(message_of(file_of("{}", "", 3)),
            ": the safetensors header has 3 bytes, but the file has 2 after the length: it is "
            "truncated");
  EXPECT_EQ(message_of(file_of("")), " is no safetensors file: the header does not begin with '{'");
  EXPECT_EQ(message_of(file_of("[]")),
            " is no safetensors file: the header does not begin with '{'");
}

TEST(Safetensors, DamagedJson) {
  EXPECT_EQ(message_of(file_of("{")), ": the safetensors header is not JSON in UTF-8 at byte 2");
  EXPECT_EQ(message_of(file_of("{} x")), ": the safetensors header is not JSON in UTF-8 at byte 4");
  EXPECT_NE(message_of(file_of("{\"\xff\":{}}")).find("not JSON in UTF-8"), std::string::npos);
  EXPECT_NE(message_of(file_of("{\"a\":" + std::string(100'000, '['))).find("an array where"),
            std::string::npos);
}

TEST(Safetensors, DamagedEntries) {
  auto entry = [](const std::string& members) {
    return message_of(file_of("{\"a\":{" + members + "}}", std::string(8, 'x')));
  };
  std::string start = ": safetensors entry 'a': ";
  EXPECT_EQ(entry(R"("dtype":"F32","shape":[2])"), start + "the member data_offsets is missing");
  EXPECT_EQ(entry(R"("shape":[2],"data_offsets":[0,8])"), start + "the member dtype is missing");
  EXPECT_EQ(entry(R"("dtype":"F32","dtype":"F32")"),
            start + "the member dtype occurs more than once");
  EXPECT_EQ(entry(R"("x":1)"),
            start + "unknown member 'x'; an entry has dtype, shape and data_offsets");
  EXPECT_EQ(entry(R"("dtype":"float","shape":[2],"data_offsets":[0,8])"),
            start +
                "unknown dtype 'float'; known are BOOL, U8, I8, F8_E4M3, F8_E5M2, F8_E8M0, I16, "
                "U16, F16, BF16, I32, U32, F32, I64, U64, F64, C64");
  EXPECT_EQ(entry(R"("dtype":5)"), start + "a number where a string is expected");
  EXPECT_EQ(entry(R"("dtype":{})"), start + "an object where a string is expected");
  EXPECT_EQ(entry(R"("shape":5)"), start + "a number where an array of integers is expected");
  EXPECT_EQ(entry(R"("shape":null)"), start + "null where an array of integers is expected");
  EXPECT_EQ(entry(R"("shape":[-1])"),
            start + "the number -1 where an integer that is not negative is expected");
  EXPECT_EQ(entry(R"("shape":[1.0])"),
            start + "a fraction where an integer that is not negative is expected");
  EXPECT_EQ(entry(R"("shape":[[1]])"),
            start + "an array where an integer that is not negative is expected");
  EXPECT_EQ(entry(R"("shape":[9223372036854775808])"),
            start + "the size 9223372036854775808 in shape is too large");
  EXPECT_EQ(entry(R"("data_offsets":[0])"), start + "data_offsets has 1 members; it needs 2");
  EXPECT_EQ(entry(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8])"),
            start + "the shape [4294967296, 4294967296] has more than 2^64 bytes");
  EXPECT_EQ(entry(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"),
            start + "data_offsets [0, 8] hold 8 bytes; shape [3] of F32 needs 12");
  EXPECT_NE(entry(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])").find("do not lie within"),
            std::string::npos);
  EXPECT_NE(entry(R"("dtype":"F32","shape":[2],"data_offsets":[18446744073709551608,0])")
                .find("do not lie within"),
            std::string::npos);
  EXPECT_EQ(message_of(file_of(R"({"a":5})")), start + "a number where an object is expected");
  EXPECT_EQ(message_of(file_of(text("{", kEntry, ",", kEntry, "}"), std::string(8, 'x'))),
            start + "the name occurs more than once");
  EXPECT_EQ(
      message_of(file_of(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"\u0061":{}})")),
      start + "the name occurs more than once");
}

TEST(Safetensors, DamagedMetadata) {
  std::string start = ": safetensors entry '__metadata__': ";
  EXPECT_EQ(message_of(file_of(R"({"__metadata__":{"a":1}})")),
            start + "a number where a string is expected");
  EXPECT_EQ(message_of(file_of(R"({"__metadata__":{"a":"1","a":"2"}})")),
            start + "the key 'a' occurs more than once");
  EXPECT_EQ(message_of(file_of(R"({"__metadata__":{},"__metadata__":{}})")),
            start + "the name occurs more than once");
}

TEST(Safetensors, DamagedLayout) {
  auto two = [](int begin, int end, int bytes) {
    return message_of(
        file_of(text("{", kEntry, R"(,"b":{"dtype":"U8","shape":[4],"data_offsets":[)", begin, ",",
                     end, "]}}"),
                std::string(bytes, 'x')));
  };
  EXPECT_EQ(two(8, 12, 12), "no error");
  EXPECT_EQ(two(4, 8, 8),
            ": safetensors entry 'b': its bytes from 4 overlap those of another entry, which end "
            "at 8");
  EXPECT_EQ(two(9, 13, 13),
            ": safetensors entry 'b': its bytes begin at 9, but the entry before ends at 8");
  EXPECT_EQ(two(8, 12, 13),
            ": the safetensors entries have 12 bytes, but the file has 13 after the header");
  EXPECT_EQ(two(8, 12, 11),
            ": the safetensors entries have 12 bytes, but the file has 11 after the header: it is "
            "truncated");
  EXPECT_EQ(message_of(file_of("{}", "x")),
            ": the safetensors entries have 0 bytes, but the file has 1 after the header");
}

class SafetensorsFiles : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/flambeau_safetensors_XXXXXX";
    folder_ = mkdtemp(name);
    path_ = folder_ + "/x.safetensors";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_, path_;
};

TEST_F(SafetensorsFiles, WriteAndParse) {
  float a[] = {1, 2, 3, 4, 5, 6};
  double b[] = {7};
  uint8_t c[] = {8, 9, 10};
  write_safetensors(path_,
                    {{"z\"quote", "U8", {3}, c, 3},
                     {"a", "F32", {2, 3}, a, 24},
                     {"b", "F64", {}, b, 8},
                     {"none", "BF16", {4, 0}, nullptr, 0}},
                    {{"format", "pt"}, {"note", "line\nbreak"}});
  MappedFile file(path_);
  auto header = parse_safetensors({file.data(), file.size()}, path_);
  ASSERT_EQ(header.entries.size(), 4u);
  EXPECT_EQ(header.entries[0].name, "b");
  EXPECT_EQ(header.entries[1].name, "a");
  EXPECT_EQ(header.entries[2].name, "none");
  EXPECT_EQ(header.entries[3].name, "z\"quote");
  EXPECT_EQ(header.entries[0].offset % 8, 0u);
  EXPECT_EQ(std::memcmp(file.data() + header.entries[0].offset, b, 8), 0);
  EXPECT_EQ(std::memcmp(file.data() + header.entries[1].offset, a, 24), 0);
  EXPECT_EQ(std::memcmp(file.data() + header.entries[3].offset, c, 3), 0);
  ASSERT_EQ(header.metadata.size(), 2u);
  EXPECT_EQ(header.metadata[1].second, "line\nbreak");
  write_safetensors(path_, {}, {});
  EXPECT_EQ(read_file(path_), file_of("{}      "));
}

TEST_F(SafetensorsFiles, WhatCannotBeWritten) {
  auto message = [&](const std::vector<SafetensorsTensor>& tensors) -> std::string {
    try {
      write_safetensors(path_, tensors, {});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::value);
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message({{"a", "U8", {0}, nullptr, 0}, {"a", "U8", {0}, nullptr, 0}}),
            "write_safetensors: the name 'a' is given more than once");
  EXPECT_EQ(message({{"__metadata__", "U8", {0}, nullptr, 0}}),
            "write_safetensors: the name '__metadata__' is reserved");
  EXPECT_EQ(message({{"a", "U8", {2}, nullptr, 0}}),
            "write_safetensors: 'a' has 0 bytes, which do not fit shape [2] of U8");
  EXPECT_EQ(message({{"a\xff", "U8", {0}, nullptr, 0}}),
            "write_safetensors: 'a\\xff' is not UTF-8");
  EXPECT_NE(message({{"a", "C128", {0}, nullptr, 0}}).find("safetensors has no dtype 'C128'"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

// Whatever happens to a valid file, an Error comes out or entries that lie within it.
TEST_F(SafetensorsFiles, Mutations) {
  std::vector<char> data(64, 'd');
  write_safetensors(path_,
                    {{"first", "F32", {2, 3}, data.data(), 24},
                     {"second", "I64", {}, data.data(), 8},
                     {"third", "BOOL", {5}, data.data(), 5}},
                    {{"format", "pt"}});
  std::string valid = read_file(path_);
  std::mt19937 random(7);
  int errors = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string content = valid;
    int flips = 1 + random() % 3;
    for (int k = 0; k < flips; ++k) {
      char& byte = content[random() % content.size()];
      if (random() % 2)
        byte ^= 1 << random() % 8;
      else
        byte = R"(0123456789"{}[],:-\ea)"[random() % 21];
    }
    if (random() % 8 == 0) content.resize(random() % content.size());
    if (random() % 8 == 0) content.insert(random() % (content.size() + 1), 1, '9');
    auto exact = std::make_unique<char[]>(content.size());
    std::memcpy(exact.get(), content.data(), content.size());
    try {
      auto header = parse_safetensors({exact.get(), content.size()}, "f");
      for (auto& entry : header.entries) {
        ASSERT_LE(entry.offset, content.size());
        ASSERT_LE(entry.bytes, content.size() - entry.offset);
      }
    } catch (const Error&) {
      ++errors;
    }
  }
  EXPECT_GT(errors, 10'000);
}

}  // namespace
}  // namespace flambeau::io
