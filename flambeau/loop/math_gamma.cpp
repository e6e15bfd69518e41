// The logarithm of gamma and its derivative: polynomials around 2 and over [1, 2], recurrences up
// to 8, the asymptotic series of Stirling beyond, and reflection for negative arguments
// (Abramowitz & Stegun 1964, 6.1 and 6.3).
#include <limits>

#include "flambeau/loop/math.h"
#include "flambeau/loop/math_coefficients.h"
#include "flambeau/loop/math_term.h"

namespace flambeau::loop::math {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kPi = 2 * kHalfPi;
constexpr double kPiLow = 2 * kHalfPiLow;

// sin and cos of pi |r|, r = x - nearest integer.
struct HalfTurns {
  Term r;
  Term sine, cosine;
};

HalfTurns half_turns(Term x) {
  const Term r = x - round_even(x);
  const Term a = abs(r);
  const Term swap = a > 0.25;
  const Term m = select(swap, 0.5 - a, a);
  const Pair p = two_product(m, x.real(kPi));
  const Pair angle{p.high, fma(m, kPiLow, p.low)};
  const Pair s = sin_of(angle);
  const Pair c = cos_of(angle);
  const Term sine = s.high + s.low;
  const Term cosine = c.high + c.low;
  return {r, select(swap, cosine, sine), select(swap, sine, cosine)};
}

// log(gamma(x)), x >= 0.
Term lgamma_positive(Term x) {
  const Term large = x >= 8.0;
  // gamma(x) = (x - 1) ... y gamma(y), y in [3/2, 5/2), or gamma(y) / (x or x (x + 1)).
  Term product = x.real(1.0);
  Term t = x - 2.0;
  for (int i = 1; i <= 6; ++i) {
    const Term down = x >= i + 1.5;
    const Term factor = x - i;
    product = select(down, product * factor, product);
    t = select(down, x - (i + 2), t);
  }
  const Term below = x < 1.5;
  const Term far_below = x < 0.5;
  product = select(far_below, fma(x, x, x), select(below, x, product));
  t = select(far_below, x, select(below, x - 1.0, t));
  const Term log = log_of(select(large, x, product));
  const Term small = fma(t, polynomial(t, kLgamma), select(below, -log, log));

  const Term inverse = 1.0 / x;
  const Term series = fma(inverse, polynomial(inverse * inverse, kStirling), kStirlingConstant);
  return select(large, fma(x - 0.5, log - 1.0, series), small);
}

Term lgamma_double(Term x) {
  const Term negative = x < 0.0;
  const Term y = lgamma_positive(select(negative, 1.0 - x, x));
  // gamma(x) gamma(1 - x) = pi / sin(pi x); for tiny x it is 1 / x.
  const Term tiny = x > -0x1p-60;
  const Term sine = half_turns(x).sine;
  const Term log = log_of(select(tiny, -x, sine));
  const Term reflected = select(tiny, x.real(0.0), x.real(kLogPi)) - log - y;
  const Term pole = (x <= 0.0) & (round_even(x) == x);
  return select(pole, kInfinity, select(negative, reflected, y));
}

// digamma(x), x >= 0.
Term digamma_positive(Term x) {
  const Term below = x < 1.0;
  // digamma(x) = digamma(y) + 1/(x - 1) + ... + 1/y, y in [1, 2), or digamma(x + 1) - 1/x; the
  // sum as one fraction.
  Term top = select(below, -1.0, x.real(0.0));
  Term bottom = select(below, x, x.real(1.0));
  Term y = select(below, x + 1.0, x);
  for (int i = 1; i <= 6; ++i) {
    const Term down = x >= i + 1;
    const Term factor = x - i;
    top = select(down, fma(top, factor, bottom), top);
    bottom = select(down, bottom * factor, bottom);
    y = select(down, factor, y);
  }
  const Term from_root = (y - kDigammaRoot) - kDigammaRootLow;
  const Term small = fma(from_root, polynomial(y - 1.5, kDigamma), top / bottom);

  const Term inverse = 1.0 / x;
  const Term square = inverse * inverse;
  const Term series = fma(square, polynomial(square, kDigammaTail), inverse * 0.5);
  return select(x >= 8.0, log_of(x) - series, small);
}

Term digamma_double(Term x) {
  const Term negative = x < 0.0;
  const Term y = digamma_positive(select(negative, 1.0 - x, x));
  const HalfTurns h = half_turns(x);
  const Term cotangent = h.cosine / with_sign(h.sine, h.r);
  const Term reflected = fma(cotangent, -kPi, y);
  const Term pole = round_even(x) == x;
  return select(negative, select(pole, kNaN, reflected), y);
}

}  // namespace

Value lgamma(Builder& b, Value x) { return in_double(b, x, lgamma_double); }
Value digamma(Builder& b, Value x) { return in_double(b, x, digamma_double); }

}  // namespace flambeau::loop::math
