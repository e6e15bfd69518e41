// Marks memory that nobody owns, so that AddressSanitizer reports its use. Nothing in other builds.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define FLAMBEAU_CHECKS_ADDRESSES
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FLAMBEAU_CHECKS_ADDRESSES
#endif
#endif
#ifdef FLAMBEAU_CHECKS_ADDRESSES
#include <sanitizer/asan_interface.h>
#endif

namespace flambeau::cpu {

#ifdef FLAMBEAU_CHECKS_ADDRESSES
/// Bytes between two blocks that are never handed out.
constexpr size_t kRedZone = 64;
inline void poison(void* memory, size_t bytes) { ASAN_POISON_MEMORY_REGION(memory, bytes); }
inline void unpoison(void* memory, size_t bytes) { ASAN_UNPOISON_MEMORY_REGION(memory, bytes); }
#else
constexpr size_t kRedZone = 0;
inline void poison(void*, size_t) {}
inline void unpoison(void*, size_t) {}
#endif

}  // namespace flambeau::cpu
