// Deferred execution: while a scope is open on a thread, program runs are recorded and fused when
// something needs their values.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "flambeau/run/program.h"

namespace flambeau::run {

class Recording {
 public:
  virtual ~Recording() = default;
  virtual std::vector<Tensor> add(const ProgramPointer& program,
                                  const std::vector<Operand>& operands,
                                  const std::vector<int64_t>& size_arguments,
                                  const std::vector<Tensor>& destinations) = 0;
};

/// The recording of this thread, or nullptr.
Recording* current_recording();

/// Runs a program at once, whatever scope is open.
std::vector<Tensor> execute_now(const ProgramPointer& program, const std::vector<Operand>& operands,
                                const std::vector<int64_t>& size_arguments,
                                const std::vector<Tensor>& destinations = {});

/// Opens a deferred scope on this thread; scopes nest, the outermost one flushes when it ends, by
/// exception too.
class DeferredScope {
 public:
  DeferredScope();
  /// Closes it; errors of what was recorded are thrown unless another exception is under way.
  ~DeferredScope() noexcept(false);
  /// Ends the scope; throws what the recorded runs throw.
  void close();
  DeferredScope(const DeferredScope&) = delete;
  DeferredScope& operator=(const DeferredScope&) = delete;

 private:
  int exceptions_;  // in flight when it opened
  bool open_ = true;
};
/// Runs what is recorded on this thread.
void flush();

}  // namespace flambeau::run
