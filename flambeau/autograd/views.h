// Differentiable views. A view knows its base, which is no view itself, and the steps that lead
// from the base to it; each step is a program, so it has a derivative. When the storage has been
// written, the history of a view is made anew from that of its base.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "flambeau/autograd/autograd.h"
#include "flambeau/run/program.h"

namespace flambeau::autograd {

/// One view operator between a base and a view.
struct ViewStep {
  std::function<run::ProgramPointer()> program;
  std::vector<run::Operand> operands;  // undefined where the tensor itself stands
  size_t self = 0;                     // which operand that is
  std::vector<int64_t> size_arguments;
  std::shared_ptr<ViewStep> previous;  // null for the step that starts at the base

  ~ViewStep();
  /// The operands with `t` as the tensor.
  std::vector<run::Operand> operands_for(const Tensor& t) const;
};

struct ViewInfo {
  Tensor base;
  std::shared_ptr<ViewStep> last;  // null when made_without_gradients
  bool made_without_gradients = false;
  bool stale = false;  // the history is to be renewed whatever its version
};

/// `view` was made from `source` by the operator that `step` describes.
void record_view(const Tensor& source, const Tensor& view, std::shared_ptr<ViewStep> step);

/// Makes the history of a view anew if its storage was written since; no effect on other tensors.
void renew_view(const Tensor& view);

/// The node of a write into part of a base: `view` of it now holds result value.index of value.node
/// (null: a value without history).
NodePointer make_region_node(const Tensor& base, const std::shared_ptr<ViewStep>& last, Edge value);

}  // namespace flambeau::autograd
