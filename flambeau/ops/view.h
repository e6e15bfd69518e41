// Views: operators that change only how a storage is read. On real tensors they compute sizes,
// strides and offset; while tracing they are index maps.
#pragma once

#include <optional>
#include <vector>

#include "flambeau/ops/op.h"

namespace flambeau::ops {

// The maps themselves; the operators below check arguments and call these.
Tensor permuted(const Tensor& x, const std::vector<int64_t>& dims);
Tensor sliced(const Tensor& x, int64_t dim, Size start, Size count, Size step);
Tensor expanded(const Tensor& x, const Sizes& sizes);  // sizes are final, no -1
/// A runtime Error where the memory of a real tensor does not allow it.
Tensor viewed(const Tensor& x, const Sizes& sizes, const char* operator_name);
/// The one -1 among sizes replaced by what is left of the elements.
Sizes complete_sizes(const Tensor& x, const Sizes& sizes, const char* operator_name);

extern const Op<Tensor(const Tensor&, const Sizes&)> view;
extern const Op<Tensor(const Tensor&, const Sizes&)> reshape;
extern const Op<Tensor(const Tensor&, const Sizes&, bool)> expand;
extern const Op<Tensor(const Tensor&, const DimList&)> permute;
extern const Op<Tensor(const Tensor&, Dim, Dim)> transpose;
extern const Op<Tensor(const Tensor&, Dim)> unsqueeze;
extern const Op<Tensor(const Tensor&, Dim)> squeeze_dim;
extern const Op<Tensor(const Tensor&, Dim, Size)> select;
extern const Op<Tensor(const Tensor&, Dim, std::optional<Size>, std::optional<Size>, Size)> slice;
extern const Op<Tensor(const Tensor&, Dim, Size, Size)> narrow;
extern const Op<Tensor(const Tensor&)> contiguous_copy;
extern const Op<Tensor(const TensorList&, Dim)> cat;
extern const Op<Tensor(const TensorList&, Dim)> stack;

}  // namespace flambeau::ops
