// The pool. Each worker waits on a ticket of its own; a region raises the tickets of the workers it
// needs, runs its first range itself and waits until a counter of unfinished ranges falls to zero.
#include "flambeau/base/threads.h"

#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <deque>
#include <exception>
#include <thread>
#include <utility>

#include "flambeau/base/error.h"
#include "flambeau/base/files.h"
#include "flambeau/base/settings.h"

namespace flambeau {

namespace {

constexpr int64_t kMaxThreads = 4096;
constexpr auto kSpin = std::chrono::microseconds(30);  // about what a sleep and wake-up cost
constexpr unsigned kFloatControl = 0xFFC0;             // MXCSR without its sticky exception flags

using Body = void (*)(void* context, int64_t begin, int64_t end, int64_t worker);

// Waits until the value differs from `old`: awake for a short time, then asleep. `slept` may be
// null.
uint32_t wait_for_change(const std::atomic<uint32_t>& value, uint32_t old, bool* slept) {
  uint32_t now = value.load(std::memory_order_acquire);
  if (now != old) return now;
  auto start = std::chrono::steady_clock::now();
  do {
    for (int i = 0; i < 32; ++i) {
      _mm_pause();
      now = value.load(std::memory_order_acquire);
      if (now != old) return now;
    }
  } while (std::chrono::steady_clock::now() - start < kSpin);
  if (slept != nullptr) *slept = true;
  while (true) {
    value.wait(old, std::memory_order_acquire);
    now = value.load(std::memory_order_acquire);
    if (now != old) return now;
  }
}

// Moves this thread away from a CPU. Where the kernel knows of no cache that CPUs share (in many
// virtual machines) it wakes a thread where it slept before, even behind the busy thread that wakes
// it while another CPU is idle; and there it would stay.
void leave_cpu(int cpu) {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  cpu_set_t others = allowed;
  CPU_CLR(cpu, &others);
  if (CPU_COUNT(&others) == 0 || ::sched_setaffinity(0, sizeof others, &others) != 0) return;
  ::sched_setaffinity(0, sizeof allowed, &allowed);
}

// Ranges are whole units of `align`; the last ones take one unit more where it does not divide
// evenly, so that the only incomplete unit, the last, falls into a long range.
struct Partition {
  int64_t count, align, ranges, base, longer;

  Partition(int64_t count, int64_t grain, int64_t align, int64_t threads)
      : count(count), align(align) {
    int64_t units = count / align + (count % align != 0);
    int64_t least = grain / align + (grain % align != 0);
    ranges = std::clamp<int64_t>(units / least, 1, threads);
    if (ranges > 1 && units == ranges * least && count < units * align) {
      int64_t last = least * align - (units * align - count);
      if (last < grain) --ranges;
    }
    base = units / ranges;
    longer = units % ranges;
  }

  int64_t begin(int64_t range) const {
    if (range == ranges) return count;
    return (range * base + std::max<int64_t>(0, range - (ranges - longer))) * align;
  }
};

struct alignas(64) Worker {
  std::atomic<uint32_t> ticket{0};
  int64_t index = 0;
  std::exception_ptr failure;
};

class Pool {
 public:
  explicit Pool(Pool* previous) : previous_(previous) {}

  /// False when another thread has the pool.
  bool acquire() {
    return !busy_.load(std::memory_order_relaxed) &&
           !busy_.exchange(true, std::memory_order_acquire);
  }
  void release() { busy_.store(false, std::memory_order_release); }

  /// By the thread that acquired the pool.
  void run(const Partition& partition, Body body, void* context);

 private:
  void start_workers(int64_t count);
  void work(Worker& worker);
  void run_range(Worker& slot, int64_t range) noexcept;

  std::atomic<bool> busy_{false};
  alignas(64) std::atomic<uint32_t> unfinished_{0};
  alignas(64) const Partition* partition_ = nullptr;
  Body body_ = nullptr;
  void* context_ = nullptr;
  unsigned float_control_ = 0;
  int caller_cpu_ = -1;
  Worker caller_;
  std::deque<Worker> workers_;  // a worker's address does not change
  // The pool of the process that this one was forked from, kept reachable for leak checkers.
  [[maybe_unused]] Pool* previous_;
};

constinit std::atomic<Pool*> current_pool{nullptr};
constinit std::atomic<int> thread_count{0};  // 0: not known yet
constinit thread_local bool inside_region = false;

// The pool of the parent has no threads here, and a thread may have been forked away in the middle
// of changing it: the child leaves it alone and starts with a new one.
void start_anew_in_child() {
  Pool* old = current_pool.load(std::memory_order_relaxed);
  if (old != nullptr) current_pool.store(new Pool(old), std::memory_order_relaxed);
}

// Never destroyed: its workers sleep until the process ends.
Pool& pool() {
  Pool* found = current_pool.load(std::memory_order_acquire);
  if (found != nullptr) return *found;
  static const bool made = [] {
    current_pool.store(new Pool(nullptr), std::memory_order_release);
    ::pthread_atfork(nullptr, nullptr, start_anew_in_child);
    return true;
  }();
  (void)made;
  return *current_pool.load(std::memory_order_acquire);
}

// The quota of the control group in CPUs, rounded up; 0 where there is none.
int64_t cpu_quota() {
  auto content = try_read_file("/sys/fs/cgroup/cpu.max");
  long long quota = 0, period = 0;
  if (!content || std::sscanf(content->c_str(), "%lld %lld", &quota, &period) != 2) return 0;
  return quota > 0 && period > 0 ? (quota + period - 1) / period : 0;
}

int64_t usable_cpus() {
  int64_t count = std::max(1u, std::thread::hardware_concurrency());
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) count = std::max(1, CPU_COUNT(&set));
  int64_t quota = cpu_quota();
  return quota > 0 ? std::min(count, quota) : count;
}

int first_num_threads() {
  int64_t count = setting_integer("FLAMBEAU_NUM_THREADS", 0);
  if (count == 0) count = std::min(usable_cpus(), kMaxThreads);
  check(count >= 1 && count <= kMaxThreads, ErrorKind::value,
        "FLAMBEAU_NUM_THREADS must be from 1 to ", kMaxThreads, "; got ", count);
  int expected = 0;
  thread_count.compare_exchange_strong(expected, static_cast<int>(count));
  return thread_count.load();
}

void Pool::run_range(Worker& slot, int64_t range) noexcept {
  try {
    body_(context_, partition_->begin(range), partition_->begin(range + 1), range);
  } catch (...) {
    if (!slot.failure) slot.failure = std::current_exception();
  }
}

void Pool::work(Worker& worker) {
  inside_region = true;  // whatever a body calls runs on this thread
  ::pthread_setname_np(::pthread_self(), "flambeau");
  uint32_t seen = 0;
  while (true) {
    bool slept = false;
    seen = wait_for_change(worker.ticket, seen, &slept);
    if (slept && caller_cpu_ >= 0 && ::sched_getcpu() == caller_cpu_) leave_cpu(caller_cpu_);
    // The caller's rounding and denormal modes hold for the whole region; a result must not
    // depend on who computed it.
    if ((_mm_getcsr() & kFloatControl) != float_control_) {
      _mm_setcsr((_mm_getcsr() & ~kFloatControl) | float_control_);
    }
    run_range(worker, worker.index);
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished_.notify_one();
  }
}

void Pool::start_workers(int64_t count) {
  // Signals are for the program's own threads.
  sigset_t all, old;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &old);
  try {
    while (static_cast<int64_t>(workers_.size()) < count) {
      Worker& worker = workers_.emplace_back();
      worker.index = static_cast<int64_t>(workers_.size());
      try {
        std::thread([this, &worker] { work(worker); }).detach();
      } catch (...) {
        workers_.pop_back();
        throw;
      }
    }
  } catch (const std::exception&) {
    // The system has no more threads: the caller runs the ranges of the missing ones.
  }
  ::pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

void Pool::run(const Partition& partition, Body body, void* context) {
  int64_t wanted = partition.ranges - 1;
  if (static_cast<int64_t>(workers_.size()) < wanted) start_workers(wanted);
  int64_t helpers = std::min<int64_t>(wanted, static_cast<int64_t>(workers_.size()));
  partition_ = &partition;
  body_ = body;
  context_ = context;
  float_control_ = _mm_getcsr() & kFloatControl;
  caller_cpu_ = ::sched_getcpu();
  unfinished_.store(static_cast<uint32_t>(helpers), std::memory_order_relaxed);
  for (int64_t i = 0; i < helpers; ++i) {
    workers_[i].ticket.fetch_add(1, std::memory_order_release);
    workers_[i].ticket.notify_one();
  }
  run_range(caller_, 0);
  for (int64_t range = helpers + 1; range < partition.ranges; ++range) run_range(caller_, range);
  // A body that forked returns here in the child too, where the workers are gone.
  check(current_pool.load(std::memory_order_relaxed) == this, ErrorKind::runtime,
        "the process was forked inside a parallel loop: the child cannot finish it");
  uint32_t left = unfinished_.load(std::memory_order_acquire);
  while (left != 0) left = wait_for_change(unfinished_, left, nullptr);
  // The first failure by index, whichever was first in time.
  std::exception_ptr failure = std::exchange(caller_.failure, nullptr);
  for (int64_t i = 0; i < helpers; ++i) {
    std::exception_ptr other = std::exchange(workers_[i].failure, nullptr);
    if (!failure) failure = other;
  }
  if (failure) std::rethrow_exception(failure);
}

class Region {
 public:
  explicit Region(Pool& pool) : pool_(pool) { inside_region = true; }
  ~Region() {
    inside_region = false;
    pool_.release();
  }

 private:
  Pool& pool_;
};

}  // namespace

int num_threads() {
  int count = thread_count.load(std::memory_order_relaxed);
  return count != 0 ? count : first_num_threads();
}

void set_num_threads(int count) {
  check(count >= 1 && count <= kMaxThreads, ErrorKind::value,
        "set_num_threads: the number of threads must be from 1 to ", kMaxThreads, "; got ", count);
  thread_count.store(count, std::memory_order_relaxed);
}

void parallel_for(int64_t count, int64_t grain, int64_t align, Body body, void* context) {
  if (count <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  align = std::max<int64_t>(align, 1);
  if (count / 2 < grain || count <= align || inside_region) return body(context, 0, count, 0);
  int threads = num_threads();
  if (threads == 1) return body(context, 0, count, 0);
  Partition partition(count, grain, align, threads);
  if (partition.ranges == 1) return body(context, 0, count, 0);
  Pool& the_pool = pool();
  if (!the_pool.acquire()) return body(context, 0, count, 0);
  Region region(the_pool);
  the_pool.run(partition, body, context);
}

}  // namespace flambeau
