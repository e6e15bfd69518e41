// Copies, conversions and writes: operators as C++ functions.
#pragma once

#include <optional>

#include "flambeau/ops/op.h"

namespace flambeau::ops {

extern const Op<Tensor(const Tensor&, DType)> convert;
extern const Op<Tensor(const Tensor&, std::optional<std::string>)> clone;

}  // namespace flambeau::ops
