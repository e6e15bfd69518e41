// Padding.
#pragma once

#include "flambeau/ops/op.h"

namespace flambeau::ops {

extern const Op<Tensor(const Tensor&, const DimList&, const Number&)> constant_pad_nd;

}  // namespace flambeau::ops
