// Random tensors: operators as C++ functions.
#pragma once

#include <optional>
#include <string>

#include "flambeau/ops/op.h"

namespace flambeau::ops {

/// By sizes; the other arguments are dtype, layout, device and pin_memory.
using RandomFactory = Tensor(const Sizes&, std::optional<DType>, std::optional<std::string>,
                             std::optional<Device>, std::optional<bool>);
extern const Op<RandomFactory> rand;
extern const Op<RandomFactory> randn;
extern const Op<Tensor(const Tensor&, const Number&, bool)> dropout;
extern const Op<Tensor(Size, std::optional<DType>, std::optional<std::string>,
                       std::optional<Device>, std::optional<bool>)>
    randperm;

}  // namespace flambeau::ops
