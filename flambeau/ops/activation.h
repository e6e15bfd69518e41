// Activations: operators as C++ functions.
#pragma once

#include <string>

#include "flambeau/ops/op.h"

namespace flambeau::ops {

extern const Op<Tensor(const Tensor&)> relu;
extern const Op<Tensor(const Tensor&, const std::string&)> gelu;
extern const Op<Tensor(const Tensor&)> silu;

}  // namespace flambeau::ops
