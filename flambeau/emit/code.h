// From loop IR to machine code that runs on this CPU, through a memory cache and a disk cache.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "flambeau/loop/ir.h"

namespace flambeau::emit {

using loop::Entry;

/// Machine code of a module; the code stays mapped while a Code lives.
class Code {
 public:
  virtual ~Code() = default;
  const std::vector<Entry>& entries() const {
    return entries_;
  }  // in the order of the module's functions

 protected:
  std::vector<Entry> entries_;
};

/// What code is made for. Bits of results do not depend on it (promise 1).
struct Target {
  std::string features = "x86-64-v3";  ///< "x86-64-v3" or "x86-64-v4"
  int vector_bytes = 32;               ///< width that schedules aim at: 16, 32 or 64
};

/// The target of this process: the best this CPU has, or what FLAMBEAU_TARGET names
/// (a name of `features`, optionally ":" and the vector bytes). Thread-safe.
Target target();
/// A number that tells targets apart; cheap.
int target_number();
/// For tests and tuning. Throws value Error when the CPU lacks the features.
void set_target(const Target& target);

/// Compiles or finds the module. Safe from many threads: one compiles, others wait.
std::shared_ptr<const Code> compile(const loop::Module& module);

struct CacheStatistics {
  int64_t compiled = 0;  ///< modules compiled by this process
  double seconds = 0;    ///< spent compiling
  int64_t memory_hits = 0;
  int64_t disk_hits = 0;
};
CacheStatistics cache_statistics();

/// Plain C++ (GCC and clang vector extensions) with the same meaning: one `extern "C"` function of
/// type Entry per function of the module. Compile with -std=c++20 -O1 -ffp-contract=off
/// -march=x86-64-v3.
std::string print_source(const loop::Module& module);

}  // namespace flambeau::emit
