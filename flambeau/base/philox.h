// Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel random
// numbers: as easy as 1, 2, 3" (SC 2011). A random value is a function of (seed, offset, index), so
// it does not depend on who computes it, or when.
#pragma once

#include <array>
#include <cstdint>

namespace flambeau {

/// Four words of 32 random bits. The key is the seed, low word first. The counter's words are, from
/// the lowest: low and high half of `index` (the element's logical index, or that of its group of
/// four), low and high half of `offset` (reserved by the call, in program order).
std::array<uint32_t, 4> philox(uint64_t seed, uint64_t offset, uint64_t index);

}  // namespace flambeau
