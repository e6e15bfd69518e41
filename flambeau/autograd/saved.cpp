#include "flambeau/autograd/saved.h"

#include <vector>

#include "flambeau/autograd/programs.h"
#include "flambeau/autograd/state.h"
#include "flambeau/base/error.h"

namespace flambeau::autograd {

struct SavedTensor::Replaced {
  std::shared_ptr<void> value;
  std::shared_ptr<const SavedTensorHooks> hooks;  // null: data_ is a copy
  Edge edge;  // history of a tensor that is no result of the owner
};

namespace {

thread_local std::vector<std::shared_ptr<const SavedTensorHooks>> hook_stack;

struct AnnouncedWrite {
  const Storage* storage = nullptr;  // may be gone: only compared
  uint32_t version = 0;
};
thread_local AnnouncedWrite announced;

std::string field_name(DType t) {
  switch (t) {
    case DType::uint8:
      return "ByteTensor";
    case DType::int8:
      return "CharTensor";
    case DType::int16:
      return "ShortTensor";
    case DType::int32:
      return "IntTensor";
    case DType::int64:
      return "LongTensor";
    case DType::float16:
      return "HalfTensor";
    case DType::float32:
      return "FloatTensor";
    case DType::float64:
      return "DoubleTensor";
    case DType::complex64:
      return "ComplexFloatTensor";
    case DType::complex128:
      return "ComplexDoubleTensor";
    case DType::boolean:
      return "BoolTensor";
    case DType::bfloat16:
      return "BFloat16Tensor";
  }
  return "Tensor";
}

[[noreturn]] void fail_written(const Tensor& t, const Node* made_by, int32_t output,
                               uint32_t expected, const Node& owner) {
  std::string message = text(
      "one of the variables needed for gradient computation has been modified by an inplace "
      "operation: [",
      field_name(t.dtype()), " ", t.sizes(), "]");
  if (made_by) message += text(", which is output ", output, " of ", made_by->name(), ",");
  message +=
      text(" is at version ", t.storage().version(), "; expected version ", expected, " instead.");
  if (!anomaly().enabled) {
    message +=
        " Hint: enable anomaly detection to find the operation that failed to compute its "
        "gradient, with "
        "torch.autograd.set_detect_anomaly(True).";
  } else {
    if (!owner.location().empty())
      message += text(" It was needed by ", owner.name(), ", called at ", owner.location(), ".");
    if (made_by && made_by != &owner && !made_by->location().empty()) {
      message += text(" It was last written by ", made_by->name(), ", called at ",
                      made_by->location(), ".");
    }
  }
  fail(ErrorKind::runtime, std::move(message));
}

}  // namespace

void push_saved_tensor_hooks(std::shared_ptr<const SavedTensorHooks> hooks) {
  hook_stack.push_back(std::move(hooks));
}

void pop_saved_tensor_hooks() {
  check(!hook_stack.empty(), ErrorKind::runtime, "there are no saved tensor hooks to remove");
  hook_stack.pop_back();
}

void announce_write(const Storage* storage) {
  announced = {storage, storage ? storage->version() : 0};
}

SavedTensor::SavedTensor(const Tensor& t, int32_t output) : output_(output) {
  if (!t.defined()) return;
  const Storage* storage = t.impl()->storage.get();
  if (storage) version_ = storage->version();
  bool hooked = !hook_stack.empty() && hook_stack.back();
  bool overwritten =
      storage && storage == announced.storage && version_ == announced.version && output < 0;
  if (!hooked && !overwritten) [[likely]] {
    data_ = output < 0 ? t : detach(t);
    return;
  }
  auto replaced = std::make_shared<Replaced>();
  Tensor kept = overwritten ? copied(t) : output < 0 ? t : detach(t);
  if (output < 0) replaced->edge = gradient_edge(t);
  if (hooked) {
    replaced->hooks = hook_stack.back();
    replaced->value = replaced->hooks->pack(kept);
  } else {
    data_ = kept;
  }
  replaced_ = std::move(replaced);
}

Tensor SavedTensor::with_history(const Tensor& t, const NodePointer& owner) const {
  Edge edge = output_ >= 0 ? Edge{owner, output_} : replaced_->edge;
  if (!edge.node || !is_inexact(t.dtype())) return t;
  Tensor alias = detach(t);
  replace_history(alias, std::move(edge.node), edge.index);
  return alias;
}

Tensor SavedTensor::unpack(const NodePointer& owner, bool create_graph) const {
  if (replaced_) {
    Tensor t = replaced_->hooks ? replaced_->hooks->unpack(replaced_->value) : data_;
    check(t.defined(), ErrorKind::runtime, "saved tensor hooks: unpack must return a tensor");
    return create_graph ? with_history(t, owner) : t;
  }
  if (data_.impl()->storage && data_.storage().version() != version_) {
    bool own = output_ >= 0;
    NodePointer made_by = own ? owner : grad_fn(data_);
    fail_written(data_, made_by.get(), own ? output_ : output_number(data_), version_, *owner);
  }
  return output_ >= 0 && create_graph ? with_history(data_, owner) : data_;
}

void SavedTensor::allow_write(const Storage& storage) {
  if (output_ >= 0 && data_.defined() && data_.impl()->storage.get() == &storage)
    version_ = storage.version();
}

void fail_released() {
  fail(ErrorKind::runtime,
       "Trying to backward through the graph a second time (or directly access saved tensors after "
       "they have already "
       "been freed). Saved intermediate values of the graph are freed when you call .backward() or "
       "autograd.grad(). "
       "Specify retain_graph=True if you need to backward through the graph a second time or if "
       "you need to access "
       "saved tensors after calling backward.");
}

}  // namespace flambeau::autograd
