// Positions as data: what other families use of it.
#pragma once

#include <vector>

#include "flambeau/ops/op.h"

namespace flambeau::ops {

extern const Op<Tensor(const Tensor&, Dim, const Tensor&)> index_select;
extern const Op<Tensor(const Tensor&, Dim, const Tensor&, bool)> gather;

/// The size of a dim as a 0-d int64 tensor, traced.
Tensor size_value(const Tensor& x, int64_t dim);
/// `index` with an error where it is not in [0, size of `dim` of x).
Tensor checked_index(const Tensor& index, const Tensor& x, int64_t dim, bool runtime_error = false);
/// `index` with negative positions counted from the end of `dim` of x.
Tensor wrapped_index(const Tensor& index, const Tensor& x, int64_t dim);
/// x as one dim.
Tensor flat(const Tensor& x);
/// Positions of the elements that are not 0: [count, rank], int64; reads the values.
Tensor nonzero_positions(const Tensor& x);

}  // namespace flambeau::ops
