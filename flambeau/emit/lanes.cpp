// Masked accesses lane by lane.
#include "flambeau/emit/lanes.h"

#include <bit>
#include <cstring>

namespace {

// Moves the set lanes one by one; the side in memory follows `index`.
template <int kBytes, bool kStore>
void move_lanes(char* to, const char* from, const int64_t* index, uint64_t mask) {
  for (; mask != 0; mask &= mask - 1) {
    const int64_t lane = std::countr_zero(mask);
    const int64_t at = index == nullptr ? lane : index[lane];
    std::memcpy(to + (kStore ? at : lane) * kBytes, from + (kStore ? lane : at) * kBytes, kBytes);
  }
}

template <bool kStore>
void move_lanes(char* to, const char* from, const int64_t* index, uint64_t mask, int64_t bytes) {
  switch (bytes) {
    case 1:
      return move_lanes<1, kStore>(to, from, index, mask);
    case 2:
      return move_lanes<2, kStore>(to, from, index, mask);
    case 4:
      return move_lanes<4, kStore>(to, from, index, mask);
    default:
      return move_lanes<8, kStore>(to, from, index, mask);
  }
}

}  // namespace

void flambeau_load_lanes(void* packed, const void* pointer, const int64_t* index, uint64_t mask,
                         int64_t bytes) noexcept {
  move_lanes<false>(static_cast<char*>(packed), static_cast<const char*>(pointer), index, mask,
                    bytes);
}

void flambeau_store_lanes(const void* packed, void* pointer, const int64_t* index, uint64_t mask,
                          int64_t bytes) noexcept {
  move_lanes<true>(static_cast<char*>(pointer), static_cast<const char*>(packed), index, mask,
                   bytes);
}
