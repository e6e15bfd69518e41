// Softmax: what losses use of it.
#pragma once

#include <optional>

#include "flambeau/ops/op.h"

namespace flambeau::ops {

extern const Op<Tensor(const Tensor&, Dim, std::optional<DType>)> softmax;
extern const Op<Tensor(const Tensor&, Dim, std::optional<DType>)> log_softmax;

/// x - log(sum(exp(x))) along dim on a traced float32 or float64 tensor; [..., n, ...] -> the same.
Tensor log_normalized(const Tensor& x, int64_t dim);

}  // namespace flambeau::ops
