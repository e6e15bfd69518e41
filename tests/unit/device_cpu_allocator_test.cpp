#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "flambeau/base/error.h"
#include "flambeau/device/cpu/allocator.h"
#include "flambeau/device/cpu/poison.h"
#include "flambeau/device/cpu/size_class.h"

// ThreadSanitizer does not follow forks of a process with threads.
#if defined(__SANITIZE_THREAD__)
#define FLAMBEAU_WATCHES_THREADS
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FLAMBEAU_WATCHES_THREADS
#endif
#endif

namespace flambeau {
namespace {

Allocator& memory() { return allocator(DeviceType::cpu); }

TEST(Device, ParseAndPrint) {
  EXPECT_EQ(parse_device("cpu"), (Device{DeviceType::cpu, -1}));
  EXPECT_EQ(parse_device("cuda:0"), (Device{DeviceType::cuda, 0}));
  EXPECT_EQ(parse_device("mps:127"), (Device{DeviceType::mps, 127}));
  EXPECT_EQ(to_string(Device{DeviceType::cuda, 1}), "cuda:1");
  EXPECT_EQ(text(Device{}), "cpu");
  auto message = [](std::string_view name) -> std::string {
    try {
      parse_device(name);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::runtime);
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message("gpu:0"),
            "Expected one of cpu, cuda, opencl, hip, mps, meta device type at start of device "
            "string: gpu:0");
  EXPECT_EQ(message(""), "Device string must not be empty");
  for (const char* bad : {"cuda:", "cuda:x", "cuda:-1", "cuda:01", "cuda:128", "cuda:1:2",
                          "cuda: 1", "cuda:99999999999999999999", "cuda:-0"}) {
    EXPECT_EQ(message(bad), text("Invalid device string: '", bad,
                                 "'; expected a device type, or one followed by ':' and an index "
                                 "from 0 to 127, such as 'cuda:0'"));
  }
}

TEST(Device, AllocatorsAreFoundByType) {
  EXPECT_EQ(&memory(), &cpu::cpu_allocator());
  try {
    allocator(DeviceType::cuda);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "no memory on device type cuda: this build has memory on cpu");
  }
}

TEST(SizeClass, Laws) {
  for (int i = 0; i < cpu::kClasses; ++i) {
    size_t size = cpu::class_bytes(i);
    EXPECT_EQ(size % 64, 0u);
    EXPECT_EQ(cpu::size_class(size), i);
    EXPECT_EQ(cpu::size_class(size - 1), i);
    if (i + 1 < cpu::kClasses) {
      EXPECT_EQ(cpu::size_class(size + 1), i + 1);
      if (i >= 3) EXPECT_LE(cpu::class_bytes(i + 1) * 4, size * 5);
    }
  }
  EXPECT_EQ(cpu::size_class(0), 0);
  EXPECT_EQ(cpu::class_bytes(cpu::kSmallClasses - 1), cpu::kLargestSmall);
  EXPECT_EQ(cpu::class_bytes(cpu::kClasses - 1), cpu::kLargest);
}

TEST(CpuAllocator, BlocksAreAlignedWritableAndDistinct) {
  struct Held {
    unsigned char* memory;
    size_t bytes;
    unsigned char mark;
  };
  std::vector<Held> held;
  std::mt19937 random(1);
  int64_t before = memory().statistics().allocated_bytes;
  int64_t in_use = 0;
  auto drop = [&](size_t i) {
    for (size_t k : {size_t{0}, held[i].bytes / 2, held[i].bytes - 1}) {
      if (held[i].bytes > 0) ASSERT_EQ(held[i].memory[k], held[i].mark);
    }
    memory().release(held[i].memory, held[i].bytes);
    in_use -= static_cast<int64_t>(held[i].bytes);
    held[i] = held.back();
    held.pop_back();
  };
  for (int step = 0; step < 20'000; ++step) {
    size_t bytes = random() % (size_t{1} << (random() % (step % 100 == 0 ? 24 : 17)));
    auto* block = static_cast<unsigned char*>(memory().allocate(bytes));
    ASSERT_EQ(reinterpret_cast<uintptr_t>(block) % 64, 0u);
    auto mark = static_cast<unsigned char>(step);
    std::memset(block, mark, bytes);
    held.push_back({block, bytes, mark});
    in_use += static_cast<int64_t>(bytes);
    if (held.size() > 200) drop(random() % held.size());
    if (step % 100 == 0) ASSERT_EQ(memory().statistics().allocated_bytes - before, in_use);
  }
  while (!held.empty()) drop(held.size() - 1);
  EXPECT_EQ(memory().statistics().allocated_bytes, before);
}

TEST(CpuAllocator, ReleasedMemoryIsReused) {
  for (size_t bytes : {size_t{10}, size_t{5000}, size_t{100'000}, size_t{5'000'000}}) {
    void* first = memory().allocate(bytes);
    memory().release(first, bytes);
    int64_t system = memory().statistics().system_allocations;
    for (int i = 0; i < 100; ++i) {
      void* again = memory().allocate(bytes);
      EXPECT_EQ(again, first);
      memory().release(again, bytes);
    }
    EXPECT_EQ(memory().statistics().system_allocations, system);
  }
}

TEST(CpuAllocator, Statistics) {
  memory().empty_cache();
  memory().reset_peak();
  MemoryStatistics start = memory().statistics();
  EXPECT_EQ(start.peak_allocated_bytes, start.allocated_bytes);
  std::vector<size_t> sizes = {100, 3000, 70'000, 3'000'000, 0};
  std::vector<void*> blocks;
  int64_t sum = 0;
  for (size_t size : sizes) {
    blocks.push_back(memory().allocate(size));
    sum += static_cast<int64_t>(size);
  }
  MemoryStatistics full = memory().statistics();
  EXPECT_EQ(full.allocated_bytes - start.allocated_bytes, sum);
  EXPECT_EQ(full.allocations - start.allocations, 5);
  EXPECT_GE(full.system_allocations - start.system_allocations, 2);
  for (size_t i = 0; i < sizes.size(); ++i) memory().release(blocks[i], sizes[i]);
  MemoryStatistics after = memory().statistics();
  EXPECT_EQ(after.allocated_bytes, start.allocated_bytes);
  EXPECT_EQ(after.peak_allocated_bytes - start.allocated_bytes, sum);
  EXPECT_GE(after.cached_bytes, sum);
  memory().reset_peak();
  EXPECT_EQ(memory().statistics().peak_allocated_bytes, after.allocated_bytes);
  memory().empty_cache();
  EXPECT_LT(memory().statistics().cached_bytes, after.cached_bytes);
  // Small blocks can be had again after their slabs were returned.
  for (int round = 0; round < 3; ++round) {
    std::vector<void*> small;
    for (int i = 0; i < 3000; ++i) {
      small.push_back(memory().allocate(1000));
      std::memset(small.back(), i, 1000);
    }
    for (int i = round; i < 3000; ++i) memory().release(small[i], 1000);
    memory().empty_cache();
    for (int i = 0; i < round; ++i) memory().release(small[i], 1000);
  }
  EXPECT_EQ(memory().statistics().allocated_bytes, start.allocated_bytes);
}

template <class F>
std::string out_of_memory_message(F&& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::out_of_memory);
    return error.what();
  }
  return "no error";
}

TEST(CpuAllocator, MemoryThatIsNotThere) {
  memory().reset_peak();
  int64_t before = memory().statistics().allocated_bytes;
  for (size_t bytes : {size_t{1} << 45, size_t{1} << 59, size_t{1} << 62, ~size_t{0}}) {
    std::string message = out_of_memory_message([&] { memory().allocate(bytes); });
    EXPECT_EQ(message.find(text("out of memory on cpu: ", bytes, " bytes asked for, ", before,
                                " bytes in use, ")),
              0u)
        << message;
  }
  EXPECT_EQ(memory().statistics().allocated_bytes, before);
  EXPECT_EQ(memory().statistics().peak_allocated_bytes, before);
  void* block = memory().allocate(1000);
  memory().release(block, 1000);
}

TEST(CpuAllocator, Limit) {
  int64_t before = memory().statistics().allocated_bytes;
  memory().set_limit(before + 100'000);
  void* first = memory().allocate(60'000);
  for (size_t bytes : {size_t{40'001}, size_t{1'000'000}}) {
    std::string message = out_of_memory_message([&] { memory().allocate(bytes); });
    EXPECT_NE(message.find(text("limit ", before + 100'000, " bytes")), std::string::npos)
        << message;
  }
  void* second = memory().allocate(40'000);
  EXPECT_EQ(memory().statistics().allocated_bytes, before + 100'000);
  memory().release(first, 60'000);
  memory().release(second, 40'000);
  memory().set_limit(0);
  void* large = memory().allocate(1'000'000);
  memory().release(large, 1'000'000);
  EXPECT_THROW(memory().set_limit(-1), Error);
}

TEST(CpuAllocator, CacheIsBoundedByTheLargestUse) {
  memory().empty_cache();
  for (size_t bytes = 10'000'000; bytes < 60'000'000; bytes += 500'000) {
    void* block = memory().allocate(bytes);
    memory().release(block, bytes);
  }
  // Largest use so far about 60 MB: a quarter more, and the slack of 64 MiB.
  EXPECT_LT(memory().statistics().cached_bytes, 60'000'000 * 5 / 4 + 100'000'000);
}

TEST(CpuAllocator, ReleaseFromOtherThreads) {
  int64_t before = memory().statistics().allocated_bytes;
  struct Item {
    void* memory;
    size_t bytes;
  };
  std::mutex mutex;
  std::vector<Item> queue;
  std::atomic<int> producing{2};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 5000; ++i) {
        size_t bytes = 1 + random() % (i % 50 == 0 ? 300'000 : 5'000);
        void* block = memory().allocate(bytes);
        std::memset(block, t, bytes);
        std::lock_guard lock(mutex);
        queue.push_back({block, bytes});
      }
      --producing;
    });
    threads.emplace_back([&] {
      while (true) {
        bool last = producing == 0;
        std::vector<Item> items;
        {
          std::lock_guard lock(mutex);
          items.swap(queue);
        }
        for (Item item : items) {
          std::memset(item.memory, 7, item.bytes);
          memory().release(item.memory, item.bytes);
        }
        if (last && items.empty()) return;
        std::this_thread::yield();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(memory().statistics().allocated_bytes, before);
}

TEST(CpuAllocator, EndingThreadsGiveTheirListsBack) {
  auto use = [] {
    std::vector<void*> blocks;
    for (int i = 0; i < 1000; ++i) blocks.push_back(memory().allocate(2000));
    for (void* block : blocks) memory().release(block, 2000);
  };
  std::thread(use).join();
  MemoryStatistics first = memory().statistics();
  for (int i = 0; i < 20; ++i) std::thread(use).join();
  MemoryStatistics last = memory().statistics();
  EXPECT_EQ(first.system_allocations, last.system_allocations);
  EXPECT_EQ(first.allocated_bytes, last.allocated_bytes);
  EXPECT_EQ(last.allocations - first.allocations, 20'000);
}

struct AtThreadEnd {
  void* block = nullptr;
  ~AtThreadEnd() {
    if (block != nullptr) memory().release(block, 500);
    memory().release(memory().allocate(500), 500);
  }
};

TEST(CpuAllocator, WorksInDestructorsOfAnEndedThread) {
  int64_t before = memory().statistics().allocated_bytes;
  std::thread([] {
    thread_local AtThreadEnd late;  // made before the lists, so destroyed after them
    late.block = memory().allocate(500);
  }).join();
  EXPECT_EQ(memory().statistics().allocated_bytes, before);
}

#ifndef FLAMBEAU_WATCHES_THREADS
TEST(CpuAllocator, Fork) {
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) {
      void* a = memory().allocate(300);
      void* b = memory().allocate(200'000);
      memory().release(a, 300);
      memory().release(b, 200'000);
      memory().empty_cache();
    }
  });
  for (int i = 0; i < 20; ++i) {
    void* kept = memory().allocate(300);
    pid_t child = fork();
    if (child == 0) {
      alarm(20);
      memory().release(kept, 300);
      for (int k = 0; k < 1000; ++k) {
        void* block = memory().allocate(k * 300);
        std::memset(block, k, k * 300);
        memory().release(block, k * 300);
      }
      std::thread([] { memory().release(memory().allocate(3000), 3000); }).join();
      memory().empty_cache();
      _exit(memory().statistics().allocated_bytes >= 0 ? 0 : 1);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    memory().release(kept, 300);
  }
  stop = true;
  other.join();
}
#endif

#ifdef FLAMBEAU_CHECKS_ADDRESSES
TEST(CpuAllocatorDeathTest, UseAfterReleaseAndOverflowAreReported) {
  for (size_t bytes : {size_t{10}, size_t{100}, size_t{100'000}, size_t{4 << 20}}) {
    auto* block = static_cast<volatile char*>(memory().allocate(bytes));
    EXPECT_DEATH(block[bytes] = 1, "use-after-poison");
    memory().release(const_cast<char*>(block), bytes);
    EXPECT_DEATH(block[0] = 1, "use-after-poison");
    EXPECT_DEATH(block[bytes - 1] = 1, "use-after-poison");
  }
}
#endif

}  // namespace
}  // namespace flambeau
