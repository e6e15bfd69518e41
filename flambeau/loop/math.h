// Vector mathematics: each function appends loop IR to a builder that computes it lane by lane,
// for f32 and f64 values of any lanes, and returns the result. The result of a lane depends on its
// value alone, never on the lanes beside it. Special values are those of C99 Annex F; the sign and
// payload of a NaN result are unspecified.
//
// Bounds, in units in the last place (tests/unit/loop_math_test.cpp, tools/check_math.cpp):
// float32 1 for every input, float64 2; pow 2 in both. lgamma, digamma and erfinv: float32 1,
// float64 4; lgamma and digamma of negative arguments float64 16, where the result is not near
// zero.
#pragma once

#include "flambeau/loop/builder.h"

namespace flambeau::loop::math {

Value exp(Builder& b, Value x);
Value exp2(Builder& b, Value x);
Value expm1(Builder& b, Value x);
Value sinh(Builder& b, Value x);
Value cosh(Builder& b, Value x);
Value tanh(Builder& b, Value x);

Value log(Builder& b, Value x);
Value log2(Builder& b, Value x);
Value log10(Builder& b, Value x);
Value log1p(Builder& b, Value x);
Value asinh(Builder& b, Value x);
Value acosh(Builder& b, Value x);
Value atanh(Builder& b, Value x);

Value sin(Builder& b, Value x);
Value cos(Builder& b, Value x);
Value tan(Builder& b, Value x);
Value asin(Builder& b, Value x);
Value acos(Builder& b, Value x);
Value atan(Builder& b, Value x);
Value atan2(Builder& b, Value y, Value x);

Value erf(Builder& b, Value x);
Value erfc(Builder& b, Value x);
Value erfinv(Builder& b, Value x);

Value lgamma(Builder& b, Value x);
/// The logarithmic derivative of gamma: -inf at +0, +inf at -0, NaN at negative integers.
Value digamma(Builder& b, Value x);

Value pow(Builder& b, Value x, Value y);
/// 1 / sqrt(x); float32 in float64 with one rounding, float64 with two.
Value rsqrt(Builder& b, Value x);

}  // namespace flambeau::loop::math
