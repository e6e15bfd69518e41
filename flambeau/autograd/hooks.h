// Hooks of a node, shared with the tensors that they were added to.
#pragma once

#include <utility>
#include <vector>

#include "flambeau/autograd/autograd.h"

namespace flambeau::autograd {

/// Where a gradient is kept: by a leaf, or by another tensor that retains it and the node that
/// writes it.
struct GradientSlot {
  Tensor grad;
};

struct Hooks {
  template <class F>
  struct Entry {
    uint64_t id;
    F hook;
    int32_t result = 0;
  };
  std::vector<Entry<Hook>> tensor;  // on the cotangent of a result
  std::vector<Entry<NodePreHook>> before;
  std::vector<Entry<NodeHook>> after;
  std::vector<Entry<std::function<void(const Tensor&)>>> accumulated;
  std::vector<std::pair<int32_t, std::shared_ptr<GradientSlot>>>
      retained;  // by result; after all other hooks

  bool remove(uint64_t id);
};

/// A number for a new hook, different from all others of the process.
uint64_t next_hook_id();

/// Runs the hooks on tensors, then writes the slots of those that retain their gradient.
void run_tensor_hooks(const Hooks& hooks, std::vector<Tensor>& cotangents);

}  // namespace flambeau::autograd
