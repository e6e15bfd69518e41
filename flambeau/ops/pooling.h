// Pooling: operators as C++ functions. max_pool gives a tensor, or with return_indices a list of
// two.
#pragma once

#include <optional>

#include "flambeau/ops/op.h"

namespace flambeau::ops {

using MaxPool = Op<Argument(const Tensor&, const DimList&, std::optional<DimList>, const DimList&,
                            const DimList&, bool, bool)>;
extern const MaxPool max_pool1d, max_pool2d, max_pool3d;

}  // namespace flambeau::ops
