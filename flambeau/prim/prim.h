// The primitives as functions over traced tensors, as operator bodies and derivative rules call
// them. Operands of elementwise primitives must have equal shapes and the dtypes named; arithmetic
// exists for integers, float32 and float64 (half types are cast first, complex numbers are split).
#pragma once

#include <vector>

#include "flambeau/graph/primitive.h"
#include "flambeau/graph/size.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau::prim {

// Elementwise, one operand. Floats (float32, float64) unless said otherwise.
Tensor neg(const Tensor& x);  // integers too
Tensor abs(const Tensor& x);  // integers too
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
Tensor trunc(const Tensor& x);
Tensor round(const Tensor& x);  // halves to even
Tensor sqrt(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor exp2(const Tensor& x);
Tensor expm1(const Tensor& x);
Tensor log(const Tensor& x);
Tensor log2(const Tensor& x);
Tensor log10(const Tensor& x);
Tensor log1p(const Tensor& x);
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tan(const Tensor& x);
Tensor asin(const Tensor& x);
Tensor acos(const Tensor& x);
Tensor atan(const Tensor& x);
Tensor sinh(const Tensor& x);
Tensor cosh(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor asinh(const Tensor& x);
Tensor acosh(const Tensor& x);
Tensor atanh(const Tensor& x);
Tensor erf(const Tensor& x);
Tensor erfc(const Tensor& x);
Tensor erfinv(const Tensor& x);
Tensor lgamma(const Tensor& x);
Tensor digamma(const Tensor& x);
Tensor bit_not(const Tensor& x);  // integers and bool
Tensor cast(
    const Tensor& x,
    DType to);  // any real dtypes; to bool: not equal to zero. Complex only to its own type.
Tensor bitcast(const Tensor& x, DType to);  // equal sizes, no bool, no complex
Tensor barrier(const Tensor& x);            // the value without its derivative; any dtype

// Elementwise, two operands of one dtype.
Tensor add(const Tensor& a, const Tensor& b);  // integers (wrapping), floats
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a,
           const Tensor& b);  // floats; integers towards zero, an error word for a zero divisor
Tensor rem(const Tensor& a,
           const Tensor& b);  // C remainder: sign of the dividend; integers and floats
Tensor pow(
    const Tensor& a,
    const Tensor& b);  // floats; integers wrap, negative exponents give 0 except for bases 1 and -1
Tensor atan2(const Tensor& y, const Tensor& x);
Tensor maximum(const Tensor& a, const Tensor& b);  // NaN wins; of equals the first
Tensor minimum(const Tensor& a, const Tensor& b);
Tensor bit_and(const Tensor& a, const Tensor& b);  // integers and bool
Tensor bit_or(const Tensor& a, const Tensor& b);
Tensor bit_xor(const Tensor& a, const Tensor& b);
Tensor shift_left(const Tensor& a, const Tensor& b);  // integers; amounts outside the width give 0
Tensor shift_right(const Tensor& a,
                   const Tensor& b);  // arithmetic for signed types; outside the width: the sign
Tensor eq(const Tensor& a, const Tensor& b);  // result bool; any real dtype but half types
Tensor ne(const Tensor& a, const Tensor& b);
Tensor lt(const Tensor& a, const Tensor& b);
Tensor le(const Tensor& a, const Tensor& b);
Tensor gt(const Tensor& a, const Tensor& b);
Tensor ge(const Tensor& a, const Tensor& b);
Tensor select(const Tensor& condition, const Tensor& a, const Tensor& b);  // bool, any, same
Tensor make_complex(const Tensor& re, const Tensor& im);  // float32 or float64 pairs
Tensor real(const Tensor& x);
Tensor imag(const Tensor& x);

// Made from nothing or numbers.
Tensor constant(Scalar value, DType dtype, const Sizes& sizes = {});
Tensor iota(const Sizes& sizes, int64_t dim);  // int64: position along dim
/// int64 holding 32 random bits of Philox: word `word` of the block (seed, offset, linear index).
Tensor random_bits(const Tensor& seed, const Tensor& offset, const Sizes& sizes, int word);

// Index maps. Any dtype.
Tensor broadcast(
    const Tensor& x, const Sizes& sizes,
    const std::vector<int64_t>& from);  // output dim d repeats input dim from[d]; -1: new
Tensor permute(const Tensor& x, const std::vector<int64_t>& dims);
Tensor reshape(const Tensor& x, const Sizes& sizes);
Tensor slice(const Tensor& x, int64_t dim, Size start, Size count, Size step);  // step > 0
/// Element i of `dim` goes to low + i * step of `total` positions, `value` (0-d) to all others.
Tensor pad(const Tensor& x, int64_t dim, Size low, Size total, Size step, const Tensor& value);
/// The same for any `low`; elements that would go outside are left out.
Tensor spread(const Tensor& x, int64_t dim, int64_t low, Size total, int64_t step,
              const Tensor& value);
Tensor reverse(const Tensor& x, const std::vector<int64_t>& dims);
Tensor concat(const std::vector<Tensor>& xs, int64_t dim);

// Positions as data. `index` is int64, 0 <= index < size, else an error word.
/// x[..., index, ...] along `dim`: the sizes of index take the place of the dim.
Tensor take(const Tensor& x, const Tensor& index, int64_t dim);
/// index itself, with an error word where it is not below `size`; `runtime_error`: reported as
/// that, not as an index error.
Tensor check_index(const Tensor& index, Size size, bool runtime_error);
enum class Combine : int64_t { set, add, multiply, maximum, minimum };
/// x with the positions that `take` would read combined with src, in ascending order of src.
Tensor put(const Tensor& x, const Tensor& index, const Tensor& src, int64_t dim, Combine combine);

enum class Monoid : int64_t { sum, product, maximum, minimum, all, any, argmax, argmin };
/// Over `dims` (ascending), which are removed. sum, product: integers, float32, float64, complex
/// (sum); maximum, minimum, arg-: real dtypes but half types; all, any: bool. arg- gives int64
/// positions in the row-major order of the reduced dims. Empty extents give the identity (arg-: an
/// error of the caller). Dims apart from each other are reduced group by group, the last first.
Tensor reduce(const Tensor& x, const std::vector<int64_t>& dims, Monoid monoid);
/// Running sum or product (sum, product, maximum, minimum) along dim.
Tensor scan(const Tensor& x, int64_t dim, Monoid monoid);

/// [batch, m, k] x [batch, k, n] -> [batch, m, n] in the order of docs/design.md. Operands of one
/// real dtype; half types give float32, others their own.
Tensor dot(const Tensor& a, const Tensor& b);

/// How a convolution's window lies over its input, by spatial dim. `pairs`: terms in the order of
/// bfloat16 pairs.
struct Window {
  std::vector<int64_t> steps, dilations, taps;
  bool pairs = false;
};
/// [n, g, c, s...] with [g, o, c, taps...] -> [n, g, o, y...], no padding: position y sees s = y *
/// step + tap * dilation. One to three spatial dims; float32, float64, int32, int64. In the order
/// of docs/design.md over (c, taps...).
Tensor conv(const Tensor& x, const Tensor& weight, const Window& window);
/// The cotangent of conv's weight, [g, o, c, taps...], in order over (n, y...).
Tensor conv_weight(const Tensor& x, const Tensor& cotangent, const Window& window);
/// The cotangent of conv's input with the spatial sizes given, from position `cropped` of it on:
/// conv of the cotangent spread by the steps with the weight reversed.
Tensor conv_input(const Tensor& cotangent, const Tensor& weight, const Sizes& sizes,
                  const Window& window, const std::vector<int64_t>& cropped = {});

/// The attributes by name, where passes need to tell primitives apart.
extern const graph::Primitive kCast, kBarrier, kSelect, kMakeComplex, kReal, kImag, kConstant,
    kIota, kRandomBits, kBroadcast, kPermute, kReshape, kSlice, kPad, kReverse, kConcat, kTake,
    kPut, kReduce, kScan, kDot, kConv, kConvWeight, kConvWeightByOuter;

/// The sum of two cotangents of one value, either of which may be undefined; one rounding.
Tensor add_cotangents(const Tensor& a, const Tensor& b);
Tensor zeros_like(const Tensor& x);
Tensor constant_like(const Tensor& x, double value);  // real dtypes

}  // namespace flambeau::prim
