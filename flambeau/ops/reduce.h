// Reductions: operators as C++ functions.
#pragma once

#include <optional>
#include <tuple>

#include "flambeau/ops/op.h"
#include "flambeau/prim/prim.h"

namespace flambeau::ops {

extern const Op<Tensor(const Tensor&, std::optional<DimList>, bool, std::optional<DType>)> sum_dims;
extern const Op<Tensor(const Tensor&, std::optional<DimList>, bool, std::optional<DType>)>
    mean_dims;
extern const Op<Tensor(const Tensor&, DimList, bool)> amax;
extern const Op<Tensor(const Tensor&, DimList, bool)> amin;
extern const Op<Tensor(const Tensor&, std::optional<Dim>, bool)> argmax;

// On traced tensors: with dims kept when `keep`; [..., 1, ...].
Tensor reduce_keep(const Tensor& x, const std::vector<int64_t>& dims, prim::Monoid monoid,
                   bool keep);
/// Mean over dims in the compute type.
Tensor mean_of(const Tensor& x, const std::vector<int64_t>& dims, bool keep);
/// Number of elements along dims as a 0-d tensor.
Tensor count_of(const Tensor& x, const std::vector<int64_t>& dims, DType dtype);

}  // namespace flambeau::ops
