// Sorting: operators as C++ functions.
#pragma once

#include <tuple>

#include "flambeau/ops/op.h"

namespace flambeau::ops {

extern const Op<std::tuple<Tensor, Tensor>(const Tensor&, Dim, bool, bool)> sort;
extern const Op<std::tuple<Tensor, Tensor>(const Tensor&, Size, Dim, bool, bool)> topk;

}  // namespace flambeau::ops
