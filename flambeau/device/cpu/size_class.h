// Sizes of the blocks of memory that the CPU allocator deals in: multiples of 64 bytes up to 256,
// then four in each power of two, so that at most a fifth of a block is unused.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace flambeau::cpu {

constexpr size_t kAlignment = 64;
/// Blocks up to this size come from lists of the thread; larger ones from shared bins.
constexpr size_t kLargestSmall = 64 * 1024;
/// Nothing larger can be asked for: far beyond any address space, and no arithmetic overflows.
constexpr size_t kLargest = size_t{1} << 60;

/// The smallest class whose blocks have `bytes` bytes; bytes <= kLargest.
constexpr int size_class(size_t bytes) {
  if (bytes <= 256) return bytes <= 64 ? 0 : static_cast<int>((bytes - 1) / 64);
  int power = std::bit_width(bytes - 1) - 1;  // 2^power < bytes <= 2^(power + 1)
  return (power - 8) * 4 + static_cast<int>((bytes - 1) >> (power - 2));
}

constexpr size_t class_bytes(int index) {
  if (index < 4) return static_cast<size_t>(index + 1) * 64;
  int power = (index - 4) / 4 + 8;
  return static_cast<size_t>((index - 4) % 4 + 5) << (power - 2);
}

constexpr int kSmallClasses = size_class(kLargestSmall) + 1;
constexpr int kClasses = size_class(kLargest) + 1;

}  // namespace flambeau::cpu
