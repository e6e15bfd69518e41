// Memory from the operating system, in huge pages where the size allows.
#pragma once

#include <cstddef>

namespace flambeau::cpu {

constexpr size_t kHugePage = 2 * 1024 * 1024;

/// Zeroed memory aligned to a page and to `alignment` (a power of two), or null when the system has
/// no more. From kHugePage on it is aligned to huge pages and asks for them.
void* map_memory(size_t bytes, size_t alignment) noexcept;
void unmap_memory(void* memory, size_t bytes) noexcept;

/// Bytes that this process could still use without being killed, as far as the system tells. Linux
/// promises more memory than it has and kills whoever uses it, so large requests look here first.
size_t available_memory();

}  // namespace flambeau::cpu
