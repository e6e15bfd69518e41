#include "flambeau/base/hash.h"

#include <cstring>

namespace flambeau {

namespace {

// Odd constants: the golden ratio (Knuth, The Art of Computer Programming 3, 6.4) and the two of
// MurmurHash3's finalizer (Appleby 2008).
constexpr uint64_t kGolden = 0x9E3779B97F4A7C15ull;
constexpr uint64_t kFirst = 0xFF51AFD7ED558CCDull;
constexpr uint64_t kSecond = 0xC4CEB9FE1A85EC53ull;

uint64_t load(const char* p) {
  uint64_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

// Both halves of the 128-bit product: each bit of the result depends on all bits of both factors.
uint64_t fold(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  Wide product = static_cast<Wide>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

}  // namespace

uint64_t hash_bytes(const void* data, size_t size, uint64_t seed) {
  const char* p = static_cast<const char*>(data);
  uint64_t h = hash_combine(seed, size);
  size_t left = size;
  // Two chains, so that two multiplications are under way at a time.
  uint64_t g = h ^ kSecond;
  for (; left >= 32; p += 32, left -= 32) {
    h = fold(load(p) ^ h, load(p + 8) ^ kFirst) + kGolden;
    g = fold(load(p + 16) ^ g, load(p + 24) ^ kSecond) + kFirst;
  }
  h = hash_combine(h, g);
  for (; left >= 8; p += 8, left -= 8) h = hash_combine(h, load(p));
  if (left > 0) {
    uint64_t last = 0;
    std::memcpy(&last, p, left);
    h = hash_combine(h, last);
  }
  return hash_combine(h, kGolden);
}

}  // namespace flambeau
