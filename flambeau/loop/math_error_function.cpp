// The error function, its complement and its inverse. Near 0 a polynomial in x^2; the tail as
// (1 + 2x) exp(x^2) erfc(x), which is smooth on [0, inf) once the axis is mapped to [-1, 1)
// (Shepherd & Laframboise, Chebyshev approximation of (1 + 2x) exp(x^2) erfc x, 1981).
#include <limits>

#include "flambeau/loop/math.h"
#include "flambeau/loop/math_coefficients.h"
#include "flambeau/loop/math_term.h"

namespace flambeau::loop::math {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// erfc(a), a >= 1/2.
Term tail(Term a) {
  const Term x = at_most(a, 40.0);
  const Pair square = two_product(x, x);
  const Exponential e = exp_of({-square.high, -square.low});
  const Term t = (x - 3.5) / (x + 3.5);
  const std::span<const double> c = kErfc;
  const Pair p = fast_two_sum(x.real(c[0]), t * polynomial(t, c.subspan(1)));
  const Pair q = divide(p, fast_two_sum(x * 2.0, x.real(1.0)));
  const Pair y = Pair{e.mantissa.high, e.mantissa.low} * q;
  return scale(y.high + y.low, e.exponent);
}

// erf(x), |x| <= 1.
Term near_zero(Term x) { return fma(x, polynomial(x * x, kErf), x); }

Term erf_double(Term x) {
  const Term a = abs(x);
  return select(a < 1.0, near_zero(x), with_sign(1.0 - tail(a), x));
}

// In float32 arithmetic. The tail is at most 0.2, so that its error counts a fifth; the last
// product of its polynomial is kept whole.
Term erf_single(Term x) {
  const Term a = abs(x);
  const Term near = fma(x, polynomial(x * x, kErfSingle), x);
  const Term c = at_most(a, 4.0);
  const std::span<const float> tail_coefficients = kErfTailSingle;
  const Pair g = two_product(c, polynomial(c, tail_coefficients.subspan(1)));
  const Term far = 1.0 - exp_single({-g.high, -(g.low + static_cast<double>(kErfTailSingle[0]))});
  return select(a < 0.92, near, with_sign(far, x));
}

Term erfc_double(Term x) {
  const Term a = abs(x);
  const Term t = tail(a);
  return select(a < 0.5, 1.0 - near_zero(x), select(x < 0.0, 2.0 - t, t));
}

// erfinv(x) = x P(w), w = -log(1 - x^2) (Giles, Approximating the erfinv function, 2010), here
// with pieces of our own.
Term erfinv_double(Term x) {
  const Term a = abs(x);
  const Pair square = two_product(x, x);
  const Term w = -log1p_of({-square.high, -square.low}, x.real(0.0));
  const Term root = sqrt(w);
  const Term p = select(w <= 5.0, polynomial(w - 2.5, kErfinvSmall),
                        select(w <= 16.0, polynomial(root - 3.0, kErfinvMiddle),
                               polynomial(root - 5.0, kErfinvLarge)));
  const Term end = select(a == 1.0, with_sign(x.real(kInfinity), x), kNaN);
  return select(a < 1.0, x * p, end);
}

}  // namespace

Value erf(Builder& b, Value x) {
  if (b.type(x).scalar == Scalar::f32) return erf_single({&b, x}).value;
  return in_double(b, x, erf_double);
}
Value erfc(Builder& b, Value x) { return in_double(b, x, erfc_double); }
Value erfinv(Builder& b, Value x) { return in_double(b, x, erfinv_double); }

}  // namespace flambeau::loop::math
