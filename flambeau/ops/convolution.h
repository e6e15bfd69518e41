// Convolutions.
#pragma once

#include <optional>

#include "flambeau/ops/op.h"

namespace flambeau::ops {

extern const Op<Tensor(const Tensor&, const Tensor&, std::optional<Tensor>, const DimList&,
                       const DimList&, const DimList&, bool, const DimList&, Dim)>
    convolution;

using Conv = Op<Tensor(const Tensor&, const Tensor&, std::optional<Tensor>, const DimList&,
                       const DimList&, const DimList&, Dim)>;
extern const Conv conv1d, conv2d, conv3d;

}  // namespace flambeau::ops
