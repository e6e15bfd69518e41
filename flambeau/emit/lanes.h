// What compiled kernels call: masked accesses that AVX2 has no instruction for (elements of 1 and 2
// bytes, and gathers and scatters with a mask).
#pragma once

#include <cstdint>

extern "C" {

/// For each set bit i of `mask`, ascending: element i of `packed` = pointer[at], where at is
/// index[i], or i when `index` is null. Elements have 1, 2, 4 or 8 bytes.
void flambeau_load_lanes(void* packed, const void* pointer, const int64_t* index, uint64_t mask,
                         int64_t bytes) noexcept;
/// The reverse: pointer[at] = element i of `packed`.
void flambeau_store_lanes(const void* packed, void* pointer, const int64_t* index, uint64_t mask,
                          int64_t bytes) noexcept;
}
