// Arithmetic: operators as C++ functions.
#pragma once

#include "flambeau/ops/op.h"

namespace flambeau::ops {

extern const Op<Tensor(const Tensor&, const Tensor&, const Number&)> add_tensor;
extern const Op<Tensor(const Tensor&, const Number&, const Number&)> add_scalar;
extern const Op<Tensor(const Tensor&, const Tensor&, const Number&)> sub_tensor;
extern const Op<Tensor(const Tensor&, const Number&, const Number&)> sub_scalar;
extern const Op<Tensor(const Tensor&, const Tensor&)> mul_tensor;
extern const Op<Tensor(const Tensor&, const Number&)> mul_scalar;
extern const Op<Tensor(const Tensor&, const Tensor&)> div_tensor;
extern const Op<Tensor(const Tensor&, const Number&)> div_scalar;

}  // namespace flambeau::ops
