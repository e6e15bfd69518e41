// Softmax: what losses use of it.
#pragma once

#include "flambeau/tensor/tensor.h"

namespace flambeau::ops {

/// x - log(sum(exp(x))) along dim on a traced float32 or float64 tensor; [..., n, ...] -> the same.
Tensor log_normalized(const Tensor& x, int64_t dim);

}  // namespace flambeau::ops
