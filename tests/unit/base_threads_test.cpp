#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <atomic>
#include <limits>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "flambeau/base/error.h"
#include "flambeau/base/threads.h"

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

struct Range {
  int64_t begin, end, worker;
};

template <class F>
void run(int64_t count, int64_t grain, int64_t align, F&& body) {
  parallel_for(
      count, grain, align,
      [](void* context, int64_t begin, int64_t end, int64_t worker) {
        (*static_cast<std::remove_reference_t<F>*>(context))(begin, end, worker);
      },
      &body);
}

std::vector<Range> ranges_of(int64_t count, int64_t grain, int64_t align) {
  std::mutex mutex;
  std::vector<Range> ranges;
  run(count, grain, align, [&](int64_t begin, int64_t end, int64_t worker) {
    std::lock_guard lock(mutex);
    ranges.push_back({begin, end, worker});
  });
  std::sort(ranges.begin(), ranges.end(), [](auto& a, auto& b) { return a.begin < b.begin; });
  return ranges;
}

class Threads : public testing::Test {
 protected:
  void SetUp() override { before_ = num_threads(); }
  void TearDown() override { set_num_threads(before_); }
  int before_ = 1;
};

TEST_F(Threads, PartitionLaws) {
  for (int threads : {1, 2, 3, 4, 7}) {
    set_num_threads(threads);
    for (int64_t count : {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 63, 100, 1000, 1001}) {
      for (int64_t grain : {0, 1, 2, 3, 8, 10, 50, 2000}) {
        for (int64_t align : {0, 1, 2, 4, 8, 16, 1024}) {
          SCOPED_TRACE(testing::Message() << count << " " << grain << " " << align);
          std::vector<Range> ranges = ranges_of(count, grain, align);
          ASSERT_FALSE(ranges.empty());
          ASSERT_LE(ranges.size(), static_cast<size_t>(threads));
          ASSERT_EQ(ranges.front().begin, 0);
          ASSERT_EQ(ranges.back().end, count);
          std::set<int64_t> workers;
          for (size_t i = 0; i < ranges.size(); ++i) {
            ASSERT_LT(ranges[i].begin, ranges[i].end);
            if (i > 0) ASSERT_EQ(ranges[i].begin, ranges[i - 1].end);
            int64_t length = ranges[i].end - ranges[i].begin;
            if (i + 1 < ranges.size() && align > 0) ASSERT_EQ(length % align, 0);
            if (ranges.size() > 1) ASSERT_GE(length, grain);
            ASSERT_GE(ranges[i].worker, 0);
            ASSERT_LT(ranges[i].worker, threads);
            ASSERT_TRUE(workers.insert(ranges[i].worker).second);
          }
        }
      }
    }
  }
}

TEST_F(Threads, UsesAllThreadsWhenThereIsWork) {
  set_num_threads(4);
  EXPECT_EQ(ranges_of(4, 1, 1).size(), 4u);
  EXPECT_EQ(ranges_of(1000, 10, 16).size(), 4u);
  EXPECT_EQ(ranges_of(7, 1, 4).size(), 2u);
}

TEST_F(Threads, ExtremeSizes) {
  set_num_threads(3);
  int64_t largest = std::numeric_limits<int64_t>::max();
  auto ranges = ranges_of(largest, 1, 1);
  EXPECT_EQ(ranges.size(), 3u);
  EXPECT_EQ(ranges.back().end, largest);
  ranges = ranges_of(largest, largest, 64);
  EXPECT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges_of(largest, 1, largest).size(), 1u);
  EXPECT_TRUE(ranges_of(0, 1, 1).empty());
  EXPECT_TRUE(ranges_of(-5, 1, 1).empty());
}

TEST_F(Threads, NestedCallsRunOnTheirCaller) {
  set_num_threads(4);
  std::vector<int64_t> counts(4, 0);
  run(4, 1, 1, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t i = begin; i < end; ++i) {
      auto self = std::this_thread::get_id();
      run(1000, 1, 1, [&](int64_t inner_begin, int64_t inner_end, int64_t worker) {
        EXPECT_EQ(std::this_thread::get_id(), self);
        EXPECT_EQ(worker, 0);
        counts[i] += inner_end - inner_begin;
      });
    }
  });
  EXPECT_EQ(counts, std::vector<int64_t>(4, 1000));
}

TEST_F(Threads, FirstExceptionByIndexIsRethrownAfterAllRanges) {
  set_num_threads(4);
  for (int repeat = 0; repeat < 100; ++repeat) {
    std::atomic<int> done{0};
    try {
      run(4, 1, 1, [&](int64_t begin, int64_t, int64_t) {
        done.fetch_add(1);
        if (begin >= 1) throw std::runtime_error(std::to_string(begin));
      });
      FAIL();
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "1");
    }
    EXPECT_EQ(done.load(), 4);
  }
  EXPECT_EQ(ranges_of(4, 1, 1).size(), 4u);  // the pool is free again
}

TEST_F(Threads, FromSeveralThreadsAtOnce) {
  set_num_threads(3);
  std::vector<std::thread> callers;
  std::atomic<int64_t> total{0};
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&] {
      for (int repeat = 0; repeat < 500; ++repeat) {
        std::vector<int> seen(64, 0);
        run(64, 1, 4, [&](int64_t begin, int64_t end, int64_t) {
          for (int64_t i = begin; i < end; ++i) ++seen[i];
        });
        for (int value : seen) total += value;
      }
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(total.load(), 4 * 500 * 64);
}

TEST_F(Threads, SetNumThreads) {
  for (int threads : {1, 5, 2, 8, 1, 3}) {
    set_num_threads(threads);
    EXPECT_EQ(num_threads(), threads);
    EXPECT_EQ(ranges_of(1000, 1, 1).size(), static_cast<size_t>(threads));
  }
  try {
    set_num_threads(0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::value);
    EXPECT_STREQ(error.what(),
                 "set_num_threads: the number of threads must be from 1 to 4096; got 0");
  }
}

TEST_F(Threads, FloatingControlOfTheCallerHoldsInAllRanges) {
  set_num_threads(4);
  unsigned before = _mm_getcsr();
  for (unsigned control : {before | 0x8040u, before & ~0x8040u}) {  // denormals flushed, kept
    _mm_setcsr(control);
    std::atomic<int> same{0};
    run(4, 1, 1, [&](int64_t, int64_t, int64_t) {
      if ((_mm_getcsr() & 0xFFC0) == (control & 0xFFC0)) ++same;
    });
    EXPECT_EQ(same.load(), 4);
  }
  _mm_setcsr(before);
}

TEST_F(Threads, SleepersWakeUp) {
  set_num_threads(3);
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_EQ(ranges_of(30, 1, 1).size(), 3u);
  }
}

#ifndef FLAMBEAU_WATCHES_THREADS
int exit_code_of(pid_t child) {
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
}

TEST_F(Threads, ForkedChildMakesItsOwnThreads) {
  set_num_threads(3);
  EXPECT_EQ(ranges_of(30, 1, 1).size(), 3u);
  std::atomic<bool> stop{false};
  // The pool is in use by another thread at the time of the fork.
  std::thread other([&] {
    while (!stop) {
      run(3, 1, 1, [](int64_t, int64_t, int64_t) {});
    }
  });
  for (int repeat = 0; repeat < 20; ++repeat) {
    pid_t child = fork();
    if (child == 0) {
      alarm(20);
      bool good = true;
      for (int i = 0; i < 50; ++i) good = good && ranges_of(30, 1, 1).size() == 3;
      pid_t grandchild = fork();
      if (grandchild == 0) {
        alarm(20);
        _exit(ranges_of(30, 1, 1).size() == 3 ? 0 : 1);
      }
      good = good && exit_code_of(grandchild) == 0;
      _exit(good ? 0 : 1);
    }
    EXPECT_EQ(exit_code_of(child), 0);
  }
  stop = true;
  other.join();
}

TEST_F(Threads, ForkInsideARegionEndsInAnError) {
  set_num_threads(2);
  pid_t child = -1;
  try {
    run(2, 1, 1, [&](int64_t begin, int64_t, int64_t) {
      if (begin == 0) child = fork();
      if (child == 0) alarm(20);
    });
    if (child == 0) _exit(1);
  } catch (const Error& error) {
    if (child == 0) _exit(error.kind() == ErrorKind::runtime ? 0 : 2);
    FAIL();
  }
  EXPECT_EQ(exit_code_of(child), 0);
}
#endif

}  // namespace
}  // namespace flambeau
