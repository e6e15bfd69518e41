// Products of matrices: operators as C++ functions.
#pragma once

#include <optional>

#include "flambeau/ops/op.h"

namespace flambeau::ops {

extern const Op<Tensor(const Tensor&, const Tensor&)> matmul;
extern const Op<Tensor(const Tensor&, const Tensor&)> mm;
extern const Op<Tensor(const Tensor&, const Tensor&, std::optional<Tensor>)> linear;

}  // namespace flambeau::ops
