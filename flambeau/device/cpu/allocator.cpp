#include "flambeau/device/cpu/allocator.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "flambeau/base/error.h"
#include "flambeau/device/cpu/blocks.h"
#include "flambeau/device/cpu/poison.h"
#include "flambeau/device/cpu/size_class.h"
#include "flambeau/device/cpu/system_memory.h"

namespace flambeau::cpu {

namespace {

// A thread tells the allocator of its balance when it is off by this much.
constexpr int64_t kSettle = 1024 * 1024;
constexpr int64_t kAlwaysSettle = std::numeric_limits<int64_t>::min();
// A list holds about this many bytes; half of them move at a time.
constexpr size_t kListBytes = 256 * 1024;
// From this size on a request is compared with what the system has left, which costs about 50 us.
constexpr size_t kCheckedSize = 64 * 1024 * 1024;
// Bytes that may be cached beyond the peak of what was in use.
constexpr int64_t kCacheSlack = 64 * 1024 * 1024;

constexpr uint32_t list_capacity(int index) {
  return static_cast<uint32_t>(std::clamp<size_t>(kListBytes / class_bytes(index), 4, 256));
}

// What a thread keeps to itself. Only the thread writes; sums read the counters from elsewhere.
struct ThreadCache {
  std::array<FreeList, kSmallClasses> lists;
  std::atomic<int64_t> balance{0};  // bytes allocated less bytes released since it last settled
  std::atomic<int64_t> highest{0};  // largest balance since then
  std::atomic<int64_t> allocations{0};
  ThreadCache* previous = nullptr;
  ThreadCache* next = nullptr;
};

int64_t get(const std::atomic<int64_t>& value) { return value.load(std::memory_order_relaxed); }
void set(std::atomic<int64_t>& value, int64_t to) { value.store(to, std::memory_order_relaxed); }

constinit thread_local ThreadCache* thread_cache = nullptr;
constinit thread_local bool thread_ended = false;

class CpuAllocator final : public Allocator {
 public:
  void* allocate(size_t bytes) override;
  void release(void* memory, size_t bytes) noexcept override;
  MemoryStatistics statistics() const override;
  void reset_peak() override;
  void empty_cache() override;
  void set_limit(int64_t bytes) override;

  void end_thread();
  void before_fork() { mutex_.lock(); }
  void after_fork() { mutex_.unlock(); }
  void after_fork_in_child();

 private:
  ThreadCache* make_cache() noexcept;
  void* take_small(int index, size_t bytes, ThreadCache* cache);
  void* take_large(int index, size_t bytes);
  void* map_large(int index, size_t bytes);
  void give(int index, void* memory, ThreadCache* cache) noexcept;
  void give_small(int index, void* memory, ThreadCache* cache) noexcept;
  void give_large(int index, void* memory) noexcept;
  bool count_allocation(int64_t bytes, ThreadCache* cache);
  void count_release(int64_t bytes, ThreadCache* cache) noexcept;
  bool settle_allocation(int64_t bytes, ThreadCache* cache);
  bool over_limit(int64_t bytes) const;
  void settle(ThreadCache* cache) noexcept;
  int64_t in_use() const;
  int64_t peak() const;
  int64_t cached() const;
  void shrink_large_cache(int64_t coming) noexcept;
  void empty_large_cache() noexcept;
  [[noreturn]] void fail_out_of_memory(size_t bytes, bool over_limit) const;

  mutable std::mutex mutex_;  // guards everything below
  SmallBlocks small_;
  LargeBlocks large_;
  ThreadCache* caches_ = nullptr;
  // Sums over what threads have settled and over threads that ended.
  int64_t settled_ = 0;
  int64_t peak_ = 0;
  int64_t allocations_ = 0;
  int64_t large_mappings_ = 0;
  int64_t limit_ = 0;
  int64_t largest_peak_ = 0;  // not reset by reset_peak: it bounds the cache
  std::atomic<int64_t> settle_at_{kSettle};
};

CpuAllocator& instance() {
  static CpuAllocator* const made = [] {
    auto* result = new CpuAllocator;
    ::pthread_atfork([] { instance().before_fork(); }, [] { instance().after_fork(); },
                     [] { instance().after_fork_in_child(); });
    return result;
  }();
  return *made;
}

// Its destructor gives the lists of an ending thread back.
struct ThreadEnd {
  ~ThreadEnd() { instance().end_thread(); }
  void touch() {}
};
thread_local ThreadEnd thread_end;

// Counting. The first five are called with mutex_ locked.

int64_t CpuAllocator::in_use() const {
  int64_t sum = settled_;
  for (ThreadCache* c = caches_; c != nullptr; c = c->next) sum += get(c->balance);
  return sum;
}

int64_t CpuAllocator::peak() const {
  int64_t now = in_use();
  int64_t result = std::max(peak_, now);
  for (ThreadCache* c = caches_; c != nullptr; c = c->next) {
    result = std::max(result, now - get(c->balance) + get(c->highest));
  }
  return result;
}

int64_t CpuAllocator::cached() const {
  size_t sum = small_.cached_bytes() + large_.cached_bytes();
  for (ThreadCache* c = caches_; c != nullptr; c = c->next) {
    for (int i = 0; i < kSmallClasses; ++i) sum += c->lists[i].count() * class_bytes(i);
  }
  return static_cast<int64_t>(sum);
}

void CpuAllocator::settle(ThreadCache* cache) noexcept {
  peak_ = peak();
  largest_peak_ = std::max(largest_peak_, peak_);
  settled_ += get(cache->balance);
  set(cache->balance, 0);
  set(cache->highest, 0);
}

bool CpuAllocator::over_limit(int64_t bytes) const {
  return limit_ > 0 && bytes > limit_ - in_use();
}

bool CpuAllocator::settle_allocation(int64_t bytes, ThreadCache* cache) {
  std::lock_guard lock(mutex_);
  if (cache != nullptr) settle(cache);
  if (over_limit(bytes)) return false;
  settled_ += bytes;
  ++allocations_;
  peak_ = std::max(peak_, in_use());
  largest_peak_ = std::max(largest_peak_, peak_);
  return true;
}

// False when that is beyond the limit.
bool CpuAllocator::count_allocation(int64_t bytes, ThreadCache* cache) {
  if (cache == nullptr) return settle_allocation(bytes, cache);
  int64_t balance = get(cache->balance) + bytes;
  if (balance >= settle_at_.load(std::memory_order_relaxed)) return settle_allocation(bytes, cache);
  set(cache->balance, balance);
  if (balance > get(cache->highest)) set(cache->highest, balance);
  set(cache->allocations, get(cache->allocations) + 1);
  return true;
}

void CpuAllocator::count_release(int64_t bytes, ThreadCache* cache) noexcept {
  if (cache == nullptr) {
    std::lock_guard lock(mutex_);
    settled_ -= bytes;
    return;
  }
  int64_t balance = get(cache->balance) - bytes;
  set(cache->balance, balance);
  if (balance <= -kSettle) {
    std::lock_guard lock(mutex_);
    settle(cache);
  }
}

void CpuAllocator::fail_out_of_memory(size_t bytes, bool over_limit) const {
  std::string message;
  {
    std::lock_guard lock(mutex_);
    message = text("out of memory on cpu: ", bytes, " bytes asked for, ", in_use(),
                   " bytes in use, ", cached(), " bytes cached");
    if (over_limit) message += text(", limit ", limit_, " bytes");
  }
  if (!over_limit) message += text(", about ", available_memory(), " bytes left in the system");
  fail(ErrorKind::out_of_memory, std::move(message));
}

// Threads.

ThreadCache* CpuAllocator::make_cache() noexcept {
  if (thread_ended) return nullptr;
  auto* cache = new (std::nothrow) ThreadCache;
  if (cache == nullptr) return nullptr;
  thread_end.touch();
  std::lock_guard lock(mutex_);
  cache->next = caches_;
  if (caches_ != nullptr) caches_->previous = cache;
  caches_ = cache;
  thread_cache = cache;
  return cache;
}

void CpuAllocator::end_thread() {
  thread_ended = true;
  ThreadCache* cache = std::exchange(thread_cache, nullptr);
  if (cache == nullptr) return;
  std::lock_guard lock(mutex_);
  settle(cache);
  allocations_ += get(cache->allocations);
  for (int i = 0; i < kSmallClasses; ++i) small_.give(i, cache->lists[i].count(), cache->lists[i]);
  (cache->previous != nullptr ? cache->previous->next : caches_) = cache->next;
  if (cache->next != nullptr) cache->next->previous = cache->previous;
  delete cache;
}

// The other threads do not exist here. Each may have been in the middle of changing its lists, so
// their blocks are left alone (a bounded loss); what they had allocated stays in use.
void CpuAllocator::after_fork_in_child() {
  settled_ = in_use() - (thread_cache != nullptr ? get(thread_cache->balance) : 0);
  for (ThreadCache* c = caches_; c != nullptr; c = c->next) {
    if (c != thread_cache) allocations_ += get(c->allocations);
  }
  caches_ = thread_cache;
  if (caches_ != nullptr) caches_->previous = caches_->next = nullptr;
  mutex_.unlock();
}

// Small blocks.

void* CpuAllocator::take_small(int index, size_t bytes, ThreadCache* cache) {
  FreeList here;
  FreeList& list = cache != nullptr ? cache->lists[index] : here;
  {
    std::lock_guard lock(mutex_);
    small_.take(index, cache != nullptr ? list_capacity(index) / 2 : 1, list);
  }
  void* block = list.pop();
  if (block == nullptr) {
    empty_large_cache();
    std::lock_guard lock(mutex_);
    small_.take(index, 1, list);
    block = list.pop();
  }
  if (block == nullptr) fail_out_of_memory(bytes, false);
  return block;
}

void CpuAllocator::give_small(int index, void* memory, ThreadCache* cache) noexcept {
  if (cache != nullptr) {
    FreeList& list = cache->lists[index];
    list.push(memory);
    if (list.count() <= list_capacity(index)) return;
    std::lock_guard lock(mutex_);
    small_.give(index, list_capacity(index) / 2, list);
  } else {
    FreeList one;
    one.push(memory);
    std::lock_guard lock(mutex_);
    small_.give(index, 1, one);
  }
}

// Large blocks.

void* CpuAllocator::take_large(int index, size_t bytes) {
  void* memory = nullptr;
  bool refused;
  {
    std::lock_guard lock(mutex_);
    refused = over_limit(static_cast<int64_t>(bytes));
    if (!refused) memory = large_.take(index);
  }
  if (refused) fail_out_of_memory(bytes, true);
  if (memory == nullptr) memory = map_large(index, bytes);
  if (memory == nullptr) fail_out_of_memory(bytes, false);
  return memory;
}

void* CpuAllocator::map_large(int index, size_t bytes) {
  shrink_large_cache(static_cast<int64_t>(bytes));
  if (bytes >= kCheckedSize && bytes > available_memory()) {
    empty_large_cache();
    if (bytes > available_memory()) return nullptr;
  }
  size_t size = class_bytes(index);
  void* memory = map_memory(size, kAlignment);
  if (memory == nullptr) {
    empty_large_cache();
    memory = map_memory(size, kAlignment);
    if (memory == nullptr) return nullptr;
  }
  poison(memory, size);
  std::lock_guard lock(mutex_);
  ++large_mappings_;
  return memory;
}

void unmap_large(int index, void* memory) noexcept {
  unpoison(memory, class_bytes(index));
  unmap_memory(memory, class_bytes(index));
}

void CpuAllocator::give_large(int index, void* memory) noexcept {
  bool kept;
  {
    std::lock_guard lock(mutex_);
    kept = large_.put(index, memory);
  }
  if (!kept) unmap_large(index, memory);
  shrink_large_cache(0);
}

// Drops what has been cached longest while more memory is held than the largest use so far
// explains. `coming` bytes are about to be allocated.
void CpuAllocator::shrink_large_cache(int64_t coming) noexcept {
  while (true) {
    LargeBlocks::Block block;
    {
      std::lock_guard lock(mutex_);
      int64_t used = in_use() + coming;
      int64_t most = std::max(largest_peak_, used);
      int64_t held = used + static_cast<int64_t>(large_.cached_bytes());
      if (held <= most + most / 4 + kCacheSlack) return;
      block = large_.take_oldest();
    }
    if (block.memory == nullptr) return;
    unmap_large(block.index, block.memory);
  }
}

void CpuAllocator::empty_large_cache() noexcept {
  while (true) {
    LargeBlocks::Block block;
    {
      std::lock_guard lock(mutex_);
      block = large_.take_oldest();
    }
    if (block.memory == nullptr) return;
    unmap_large(block.index, block.memory);
  }
}

// The interface.

void* CpuAllocator::allocate(size_t bytes) {
  if (bytes > kLargest - kRedZone) [[unlikely]]
    fail_out_of_memory(bytes, false);
  int index = size_class(bytes + kRedZone);
  ThreadCache* cache = thread_cache;
  if (cache == nullptr) [[unlikely]]
    cache = make_cache();
  void* memory = nullptr;
  if (index >= kSmallClasses) {
    memory = take_large(index, bytes);
  } else {
    if (cache != nullptr) memory = cache->lists[index].pop();
    if (memory == nullptr) [[unlikely]]
      memory = take_small(index, bytes, cache);
  }
  if (!count_allocation(static_cast<int64_t>(bytes), cache)) [[unlikely]] {
    give(index, memory, cache);
    fail_out_of_memory(bytes, true);
  }
  unpoison(memory, bytes);
  return memory;
}

void CpuAllocator::release(void* memory, size_t bytes) noexcept {
  if (memory == nullptr) return;
  int index = size_class(bytes + kRedZone);
  ThreadCache* cache = thread_cache;
  if (cache == nullptr) [[unlikely]]
    cache = make_cache();
  poison(memory, class_bytes(index));
  count_release(static_cast<int64_t>(bytes), cache);
  give(index, memory, cache);
}

void CpuAllocator::give(int index, void* memory, ThreadCache* cache) noexcept {
  if (index < kSmallClasses) {
    give_small(index, memory, cache);
  } else {
    give_large(index, memory);
  }
}

MemoryStatistics CpuAllocator::statistics() const {
  std::lock_guard lock(mutex_);
  MemoryStatistics result;
  result.allocated_bytes = in_use();
  result.peak_allocated_bytes = peak();
  result.cached_bytes = cached();
  result.allocations = allocations_;
  for (ThreadCache* c = caches_; c != nullptr; c = c->next)
    result.allocations += get(c->allocations);
  result.system_allocations = large_mappings_ + small_.system_allocations();
  return result;
}

void CpuAllocator::reset_peak() {
  std::lock_guard lock(mutex_);
  peak_ = in_use();
  for (ThreadCache* c = caches_; c != nullptr; c = c->next) set(c->highest, get(c->balance));
}

// Lists of other threads stay with them.
void CpuAllocator::empty_cache() {
  empty_large_cache();
  std::lock_guard lock(mutex_);
  if (thread_cache != nullptr) {
    for (int i = 0; i < kSmallClasses; ++i) {
      FreeList& list = thread_cache->lists[i];
      small_.give(i, list.count(), list);
    }
  }
  small_.empty();
}

void CpuAllocator::set_limit(int64_t bytes) {
  check(bytes >= 0, ErrorKind::value, "the memory limit must be 0 (none) or more bytes; got ",
        bytes);
  std::lock_guard lock(mutex_);
  limit_ = bytes;
  // With a limit each allocation looks at the sum over all threads.
  settle_at_.store(bytes > 0 ? kAlwaysSettle : kSettle, std::memory_order_relaxed);
}

struct Registration {
  Registration() { register_allocator(DeviceType::cpu, &instance()); }
} registration;

}  // namespace

Allocator& cpu_allocator() { return instance(); }

}  // namespace flambeau::cpu
