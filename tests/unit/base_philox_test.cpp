#include <gtest/gtest.h>

#include <set>

#include "flambeau/base/philox.h"

namespace flambeau {
namespace {

using Words = std::array<uint32_t, 4>;

// The vectors published with the paper's library Random123 (philox4x32, 10 rounds).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox(0, 0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~0ull, ~0ull, ~0ull), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822ull, 0x0370734413198a2eull, 0x85a308d3243f6a88ull),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, ArgumentsAreIndependent) {
  std::set<Words> seen;
  for (uint64_t seed : {0ull, 1ull, 1ull << 32}) {
    for (uint64_t offset : {0ull, 1ull, 1ull << 32}) {
      for (uint64_t index : {0ull, 1ull, 1ull << 32}) seen.insert(philox(seed, offset, index));
    }
  }
  EXPECT_EQ(seen.size(), 27u);
}

}  // namespace
}  // namespace flambeau
