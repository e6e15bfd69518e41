// What losses share: how the loss of each element becomes one number.
#pragma once

#include <optional>
#include <string>

#include "flambeau/ops/op.h"

namespace flambeau::ops {

extern const Op<Tensor(const Tensor&, const Tensor&, std::optional<Tensor>, std::optional<bool>,
                       const Number&, std::optional<bool>, const std::string&, const Number&)>
    cross_entropy;

enum class Reduction { none, mean, sum };

/// A value Error for other texts; `size_average` and `reduce`, where given, come first.
Reduction reduction_of(const std::string& text, std::optional<bool> size_average,
                       std::optional<bool> reduce);
/// A traced loss, reduced over all dims.
Tensor reduced(const Tensor& loss, Reduction reduction);

}  // namespace flambeau::ops
