// What most bodies begin and end with: promotion, broadcasting, the type arithmetic is done in, and
// complex numbers as pairs of real tensors.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "flambeau/graph/trace.h"
#include "flambeau/ops/op.h"
#include "flambeau/prim/prim.h"

namespace flambeau::ops {

/// The dtype that tensors and numbers meet in: tensors with dims come first, then 0-d tensors, then
/// numbers; a later group changes the result only when its category is higher. Undefined tensors do
/// not count.
DType result_type(const std::vector<Tensor>& tensors, const std::vector<Number>& numbers = {});

/// Conversion between any dtypes; complex to real keeps the real part.
Tensor to_dtype(const Tensor& x, DType to);
/// A number as a 0-d tensor of the dtype.
Tensor to_tensor(const Number& n, DType dtype);
/// float16 and bfloat16 are computed in float32, everything else in itself.
DType compute_type(DType t);
/// The type that functions such as exp give: floats and complex keep theirs, others the default
/// float type.
DType float_type(DType t);

/// Sizes after broadcasting; a runtime Error in the field's words when they do not match.
Sizes broadcast_sizes(const std::vector<Tensor>& tensors, const char* operator_name);
/// x repeated over new leading dims and dims of size 1.
Tensor expand_to(const Tensor& x, const Sizes& sizes);

/// Dims as given by a caller, wrapped, ascending, each once: an index Error out of range, a runtime
/// Error for repeated ones. `none_means_all`: an absent or empty list stands for all dims.
std::vector<int64_t> reduced_dims(const std::optional<DimList>& dims, int64_t rank,
                                  const char* operator_name, bool none_means_all = true);
/// Puts reduced dims back with size 1.
Tensor keep_dims(const Tensor& reduced, const std::vector<int64_t>& dims, const Sizes& full);

/// A complex tensor as its parts, and back.
struct Pair {
  Tensor re, im;
};
Pair components(const Tensor& x);  // a real tensor has an imaginary part of zeros
Tensor join(const Pair& p);

// Arithmetic on traced tensors of one shape and dtype, complex included.
Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
Tensor neg(const Tensor& x);
Tensor conj(const Tensor& x);
Tensor zeros_like(const Tensor& x);
Tensor sum(const Tensor& x, const std::vector<int64_t>& dims);  // complex included; no dims: x

/// fn on broadcast operands, promoted and computed in `compute_type`, rounded to the promoted
/// dtype.
Tensor binary(const Tensor& a, const Tensor& b, DType dtype, const char* operator_name,
              Tensor (*fn)(const Tensor&, const Tensor&));
/// fn on x in the type of functions such as exp (float_type), rounded once.
Tensor unary_float(const Tensor& x, Tensor (*fn)(const Tensor&),
                   Tensor (*complex_fn)(const Tensor&), const char* operator_name);

}  // namespace flambeau::ops
