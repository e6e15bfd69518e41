// What the tape keeps for a tensor, and how a tensor's history is found. A tensor that neither
// requires a gradient nor is a view has no state at all.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "flambeau/autograd/autograd.h"
#include "flambeau/autograd/hooks.h"
#include "flambeau/autograd/views.h"

namespace flambeau::autograd {

/// Lets go of a node, of what a view knows, without recursion: what only they kept alive is
/// released afterwards.
void release_node(NodePointer node);
void release_view(std::unique_ptr<ViewInfo> view);

struct AutogradState final : GradientState {
  ~AutogradState() override {
    release_node(std::move(grad_fn));
    release_view(std::move(view));
  }

  NodePointer grad_fn;
  int32_t output_number = 0;
  uint32_t history_version = 0;  // of the storage, that grad_fn of a view stands for
  bool retains = false;
  std::shared_ptr<GradientSlot> slot;
  std::weak_ptr<Node> accumulator;
  std::vector<std::shared_ptr<Hooks>> hooks;  // every list in which this tensor has one
  std::unique_ptr<ViewInfo> view;
};

/// Null when there is none.
inline AutogradState* find_state(const Tensor& t) {
  return static_cast<AutogradState*>(t.impl()->gradient.get());
}
/// Made when there is none. Not to be called for one tensor from two threads.
AutogradState& make_state(const Tensor& t);

/// Guards the lazily made parts of a tensor's state.
std::mutex& state_mutex(const TensorImpl* t);

/// Makes (node, index) the history of t, in place of what it was. A retained gradient moves along.
void replace_history(const Tensor& t, NodePointer node, int32_t index);

/// The list of hooks of a leaf, made when there is none; its accumulating node shares it.
std::shared_ptr<Hooks> leaf_hooks(const Tensor& t);

}  // namespace flambeau::autograd
