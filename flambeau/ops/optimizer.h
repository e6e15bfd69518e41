// Optimizer steps: operators as C++ functions.
#pragma once

#include "flambeau/ops/op.h"

namespace flambeau::ops {

extern const Op<TensorList(const TensorList&, const TensorList&, const TensorList&, const Number&,
                           const Number&, const Number&, const Number&, bool, bool, bool)>
    fused_sgd;
using AdamStep = TensorList(const TensorList&, const TensorList&, const TensorList&,
                            const TensorList&, const TensorList&, const TensorList&, const Number&,
                            const Number&, const Number&, const Number&, const Number&, bool, bool);
extern const Op<AdamStep> fused_adam;
extern const Op<AdamStep> fused_adamw;

}  // namespace flambeau::ops
