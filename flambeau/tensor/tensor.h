// The tensor handle: dtype, device, sizes, strides and an offset over a storage. A handle is one
// counted pointer; copies are the same tensor. While an operator's body is traced a tensor has no
// storage but a value number in the graph under construction.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "flambeau/tensor/device.h"
#include "flambeau/tensor/dims.h"
#include "flambeau/tensor/dtype.h"
#include "flambeau/tensor/pointer.h"
#include "flambeau/tensor/scalar.h"
#include "flambeau/tensor/storage.h"

namespace flambeau {

struct TensorImpl;

/// What autograd keeps for a tensor; autograd/ derives from it.
struct GradientState {
  virtual ~GradientState() = default;
  bool requires_grad = false;
  const TensorImpl* base =
      nullptr;  // of a differentiable view: it requires a gradient when its base does
};

struct TensorImpl {
  Dims sizes;
  Dims strides;        // in elements
  int64_t offset = 0;  // in elements
  int64_t numel = 1;
  DType dtype = DType::float32;
  Device device;
  bool contiguous = true;  // row-major without gaps
  int32_t traced = -1;     // value number in the graph being traced, -1 outside of tracing
  Pointer<Storage> storage;
  std::unique_ptr<GradientState> gradient;
  void* python = nullptr;  // the Python object of this tensor, managed by the module

  std::atomic<int64_t> references{0};
  void retain() { references.fetch_add(1, std::memory_order_relaxed); }
  void release();
  bool requires_grad() const {
    return gradient &&
           (gradient->requires_grad || (gradient->base && gradient->base->requires_grad()));
  }
  /// Recomputes numel and contiguous from sizes and strides. Throws when the product of sizes
  /// overflows.
  void refresh();
};

/// Set by the Python module: called when the last C++ handle of a tensor that has a Python object
/// goes away; returns true when it took the tensor over.
extern bool (*release_python_tensor)(TensorImpl*);

class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(TensorImpl* impl) : impl_(impl) {}

  bool defined() const { return static_cast<bool>(impl_); }
  TensorImpl* impl() const { return impl_.get(); }
  DType dtype() const { return impl_->dtype; }
  Device device() const { return impl_->device; }
  int64_t dim() const { return impl_->sizes.size(); }
  int64_t numel() const { return impl_->numel; }
  const Dims& sizes() const { return impl_->sizes; }
  const Dims& strides() const { return impl_->strides; }
  int64_t offset() const { return impl_->offset; }
  int64_t size(int64_t d) const { return impl_->sizes[d < 0 ? d + dim() : d]; }
  int64_t stride(int64_t d) const { return impl_->strides[d < 0 ? d + dim() : d]; }
  bool is_contiguous() const { return impl_->contiguous; }
  bool requires_grad() const { return impl_->requires_grad(); }
  bool traced() const { return impl_->traced >= 0; }
  Storage& storage() const { return *impl_->storage; }
  /// The first element, with nothing pending on the storage.
  char* data() const { return storage().data() + impl_->offset * itemsize(impl_->dtype); }
  template <class T>
  T* data_as() const {
    return reinterpret_cast<T*>(data());
  }
  bool same(const Tensor& other) const { return impl_ == other.impl_; }

 private:
  Pointer<TensorImpl> impl_;
};

/// Row-major strides of `sizes`.
Dims contiguous_strides(const Dims& sizes);
/// Product of sizes; throws a runtime Error when it overflows or a size is negative.
int64_t checked_numel(const Dims& sizes);
/// Uninitialised memory, contiguous.
Tensor empty_tensor(const Dims& sizes, DType dtype, Device device = {});
/// Another view of the storage of `base`; the caller has checked the bounds. Shares no gradient
/// state.
Tensor view_tensor(const Tensor& base, Dims sizes, Dims strides, int64_t offset, DType dtype);
inline Tensor view_tensor(const Tensor& base, Dims sizes, Dims strides, int64_t offset) {
  return view_tensor(base, std::move(sizes), std::move(strides), offset, base.dtype());
}
/// True when two elements of the tensor may be the same memory (a stride of 0 over a size above 1,
/// ...).
bool has_internal_overlap(const Tensor& t);
/// Whether the memory of the tensors intersects: 0 no, 1 exactly the same elements, 2 partly or
/// unknown.
int memory_overlap(const Tensor& a, const Tensor& b);
/// Strides for `sizes` over the same elements as (old_sizes, old_strides), if there are any.
bool view_strides(const Dims& old_sizes, const Dims& old_strides, const Dims& sizes, Dims* strides);

/// d in [-n, n) made non-negative; else an index Error in PyTorch's words. n = 0 counts as 1.
int64_t wrap_dim(int64_t d, int64_t n, const char* operator_name);

}  // namespace flambeau
