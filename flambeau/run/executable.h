// A program compiled for the layouts of its operands: the launches, their machine code and what
// they need to run.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "flambeau/emit/code.h"
#include "flambeau/kernel/schedule.h"
#include "flambeau/run/program.h"

namespace flambeau::run {

struct Executable {
  kernel::Schedule schedule;
  std::vector<std::shared_ptr<const emit::Code>> code;  // by step
};

struct Program::Executables {
  using ByLayout = std::map<std::string, std::unique_ptr<const Executable>>;
  std::mutex mutex;
  ByLayout by_layout;  // only grows
  std::atomic<const ByLayout::value_type*> recent{nullptr};
};

/// Number of step launches (not of phases) since the process started; for tests and the profiler.
int64_t launch_count();

/// dst = src, converting the dtype; the shapes are equal.
void copy_into(const Tensor& dst, const Tensor& src);

}  // namespace flambeau::run
