// One pool of threads for the process. Work is divided statically by index, so which thread does
// what never changes a result.
#pragma once

#include <cstdint>

namespace flambeau {

/// Number of threads that parallel_for uses, the caller included. Starts as the number of CPUs this
/// process may use, or FLAMBEAU_NUM_THREADS.
int num_threads();
/// Throws a value Error unless count >= 1.
void set_num_threads(int count);

/// Calls body(context, begin, end, worker) on ranges that partition [0, count): at most
/// num_threads() ranges, each a multiple of `align` long except the last, none shorter than `grain`
/// (except when there is one). worker is below num_threads() and differs between ranges that run at
/// the same time. A nested call, or a call while another thread uses the pool, runs on the caller
/// alone with worker 0 of its own range. An exception of the body is rethrown at the caller after
/// all ranges ended. After fork the child starts with no pool threads and makes them again at its
/// first use.
void parallel_for(int64_t count, int64_t grain, int64_t align,
                  void (*body)(void* context, int64_t begin, int64_t end, int64_t worker),
                  void* context);

}  // namespace flambeau
