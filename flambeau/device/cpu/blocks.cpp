#include "flambeau/device/cpu/blocks.h"

#include <algorithm>
#include <new>
#include <unordered_map>

#include "flambeau/device/cpu/poison.h"
#include "flambeau/device/cpu/system_memory.h"

namespace flambeau::cpu {

bool SmallBlocks::add_slab(Class& entry) noexcept {
  try {
    entry.slabs.reserve(entry.slabs.size() + 1);
  } catch (const std::bad_alloc&) {
    return false;
  }
  char* slab = static_cast<char*>(map_memory(kSlab, kSlab));
  if (slab == nullptr) return false;
  poison(slab, kSlab);
  ++system_allocations_;
  entry.slabs.push_back(slab);
  entry.fresh = slab;
  entry.fresh_end = slab + kSlab;
  return true;
}

void SmallBlocks::take(int index, uint32_t count, FreeList& out) {
  Class& entry = classes_[index];
  size_t size = class_bytes(index);
  for (; count > 0; --count) {
    void* block = entry.free.pop();
    if (block == nullptr) {
      size_t left = static_cast<size_t>(entry.fresh_end - entry.fresh);
      if (left < size) {
        if (out.head() != nullptr || !add_slab(entry)) return;
      }
      block = entry.fresh;
      entry.fresh += size;
    }
    out.push(block);
  }
}

void SmallBlocks::give(int index, uint32_t count, FreeList& from) {
  Class& entry = classes_[index];
  for (; count > 0; --count) {
    void* block = from.pop();
    if (block == nullptr) return;
    entry.free.push(block);
  }
}

size_t SmallBlocks::cached_bytes() const {
  size_t sum = 0;
  for (int i = 0; i < kSmallClasses; ++i) sum += classes_[i].free.count() * class_bytes(i);
  return sum;
}

void SmallBlocks::empty() {
  for (int i = 0; i < kSmallClasses; ++i) empty_class(i);
}

void SmallBlocks::empty_class(int index) {
  Class& entry = classes_[index];
  auto slab_of = [](void* block) {
    return reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(block) / kSlab * kSlab);
  };
  std::unordered_map<char*, size_t> in_use;  // blocks of a slab that are not here
  for (char* slab : entry.slabs) {
    bool newest = entry.fresh_end == slab + kSlab;
    size_t used = newest ? static_cast<size_t>(entry.fresh - slab) : kSlab;
    in_use[slab] = used / class_bytes(index);
  }
  for (void* block = entry.free.head(); block != nullptr; block = next_block(block)) {
    --in_use[slab_of(block)];
  }
  FreeList all;
  while (void* block = entry.free.pop()) all.push(block);
  while (void* block = all.pop()) {
    if (in_use[slab_of(block)] > 0) entry.free.push(block);
  }
  if (entry.fresh_end != nullptr && in_use[entry.fresh_end - kSlab] == 0) {
    entry.fresh = entry.fresh_end = nullptr;
  }
  auto unused = std::partition(entry.slabs.begin(), entry.slabs.end(),
                               [&](char* slab) { return in_use[slab] > 0; });
  for (auto slab = unused; slab != entry.slabs.end(); ++slab) {
    unpoison(*slab, kSlab);
    unmap_memory(*slab, kSlab);
  }
  entry.slabs.erase(unused, entry.slabs.end());
}

void* LargeBlocks::take(int index) {
  auto& bin = bins_[index];
  if (bin.empty()) return nullptr;
  void* memory = bin.back().memory;
  bin.pop_back();
  cached_bytes_ -= class_bytes(index);
  return memory;
}

bool LargeBlocks::put(int index, void* memory) noexcept {
  try {
    bins_[index].push_back({memory, index, ++time_});
  } catch (const std::bad_alloc&) {
    return false;
  }
  cached_bytes_ += class_bytes(index);
  return true;
}

LargeBlocks::Block LargeBlocks::take_oldest() {
  std::vector<Block>* oldest = nullptr;
  for (auto& bin : bins_) {
    if (bin.empty()) continue;
    if (oldest == nullptr || bin.front().time < oldest->front().time) oldest = &bin;
  }
  if (oldest == nullptr) return {};
  Block block = oldest->front();
  oldest->erase(oldest->begin());
  cached_bytes_ -= class_bytes(block.index);
  return block;
}

}  // namespace flambeau::cpu
