// New tensors: operators as C++ functions.
#pragma once

#include <optional>

#include "flambeau/ops/op.h"

namespace flambeau::ops {

extern const Op<Tensor(const Sizes&, const Number&, std::optional<DType>)> full;

/// A contiguous tensor over a copy of the values; for C++ programs and tests.
Tensor from_values(const std::vector<double>& values, const Dims& sizes,
                   DType dtype = DType::float32);

}  // namespace flambeau::ops
