// A tensor that a node keeps for its backward pass, with the version that it had.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "flambeau/autograd/autograd.h"

namespace flambeau::autograd {

/// What the user wants to keep instead of saved tensors (offloading, recomputing).
struct SavedTensorHooks {
  std::function<std::shared_ptr<void>(const Tensor&)> pack;
  std::function<Tensor(const std::shared_ptr<void>&)> unpack;
};
/// Of this thread; they hold for tensors saved until the matching pop.
void push_saved_tensor_hooks(std::shared_ptr<const SavedTensorHooks> hooks);
void pop_saved_tensor_hooks();

/// An in-place operator is about to write a storage on this thread: until it has, tensors over it
/// that nodes save as operands are copied.
void announce_write(const Storage* storage);

/// A result of the owner itself is kept as a detached alias, so that node and tensor do not keep
/// each other alive.
class SavedTensor {
 public:
  SavedTensor() = default;
  /// `output`: the owner's result that t is, -1 when it is none.
  SavedTensor(const Tensor& t, int32_t output);

  bool defined() const { return data_.defined() || replaced_; }
  /// Throws the field's error when the memory was written since. A result of the owner gets its
  /// history back when `create_graph`.
  Tensor unpack(const NodePointer& owner, bool create_graph) const;
  /// What is kept alive; undefined when hooks took the tensor.
  const Tensor& data() const { return data_; }
  /// A write that made the saved result itself (an in-place operator computing into its operand) is
  /// no change.
  void allow_write(const Storage& storage);

 private:
  struct Replaced;
  Tensor with_history(const Tensor& t, const NodePointer& owner) const;
  Tensor data_;
  std::shared_ptr<const Replaced> replaced_;  // where something else than the tensor is kept
  uint32_t version_ = 0;
  int32_t output_ = -1;
};

/// The field's error for a node whose saved tensors are gone.
[[noreturn]] void fail_released();

}  // namespace flambeau::autograd
