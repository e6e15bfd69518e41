// Hashing of bytes and of sequences of integers. Not for untrusted keys: whoever stores under a
// hash compares the whole key when it reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace flambeau {

/// 64-bit hash of bytes, the same in every process.
uint64_t hash_bytes(const void* data, size_t size, uint64_t seed = 0);
inline uint64_t hash_text(std::string_view s, uint64_t seed = 0) {
  return hash_bytes(s.data(), s.size(), seed);
}
/// Mixes a value into a running hash (finalizer of MurmurHash3, Appleby 2008).
inline uint64_t hash_combine(uint64_t h, uint64_t v) {
  uint64_t x = h * 0x9E3779B97F4A7C15ull + v;
  x ^= x >> 33;
  x *= 0xFF51AFD7ED558CCDull;
  x ^= x >> 33;
  x *= 0xC4CEB9FE1A85EC53ull;
  return x ^ (x >> 33);
}

}  // namespace flambeau
