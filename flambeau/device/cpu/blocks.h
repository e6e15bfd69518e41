// Free blocks of the CPU allocator that all threads share. Nothing here locks: the allocator does.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "flambeau/device/cpu/size_class.h"

namespace flambeau::cpu {

/// Free blocks of one class, linked through their first bytes. Only its owner changes it; the count
/// may be read from anywhere.
class FreeList {
 public:
  void* head() const { return head_; }
  uint32_t count() const { return count_.load(std::memory_order_relaxed); }
  void push(void* block);
  /// Null when empty.
  void* pop();

 private:
  void* head_ = nullptr;
  std::atomic<uint32_t> count_{0};
};

/// Small blocks, cut from slabs of one class each.
class SmallBlocks {
 public:
  static constexpr size_t kSlab = 1024 * 1024;

  /// Moves up to `count` blocks to `out`: at least one, or none when the system has no memory.
  void take(int index, uint32_t count, FreeList& out);
  void give(int index, uint32_t count, FreeList& from);
  size_t cached_bytes() const;
  int64_t system_allocations() const { return system_allocations_; }
  /// Returns the slabs to the system of which every block is here.
  void empty();

 private:
  struct Class {
    FreeList free;
    char* fresh = nullptr;  // the rest of the newest slab, never used yet
    char* fresh_end = nullptr;
    std::vector<char*> slabs;
  };
  bool add_slab(Class& entry) noexcept;
  void empty_class(int index);

  std::array<Class, kSmallClasses> classes_;
  int64_t system_allocations_ = 0;
};

/// Large blocks, each a mapping of its own.
class LargeBlocks {
 public:
  struct Block {
    void* memory = nullptr;
    int index = 0;
    uint64_t time = 0;
  };
  /// The one that was put here last, because it may still be in a cache; null when there is none.
  void* take(int index);
  /// False when there is no memory to remember it: the caller unmaps it.
  bool put(int index, void* memory) noexcept;
  /// Removes the one that has been here longest; its memory is null when there is none.
  Block take_oldest();
  size_t cached_bytes() const { return cached_bytes_; }

 private:
  std::array<std::vector<Block>, kClasses> bins_;  // each in order of time
  uint64_t time_ = 0;
  size_t cached_bytes_ = 0;
};

// The first bytes of a free block hold the next one, although the block is poisoned.
[[gnu::no_sanitize_address]] inline void* next_block(void* block) {
  return *static_cast<void**>(block);
}
[[gnu::no_sanitize_address]] inline void set_next_block(void* block, void* next) {
  *static_cast<void**>(block) = next;
}

inline void FreeList::push(void* block) {
  set_next_block(block, head_);
  head_ = block;
  count_.store(count() + 1, std::memory_order_relaxed);
}

inline void* FreeList::pop() {
  void* block = head_;
  if (block == nullptr) return nullptr;
  head_ = next_block(block);
  count_.store(count() - 1, std::memory_order_relaxed);
  return block;
}

}  // namespace flambeau::cpu
