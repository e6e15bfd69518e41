// pow and rsqrt. x^y = exp(y log x) needs the logarithm to some 65 bits, relative to 1 even where
// it is small: log(1 + f) = 2 s + 2/3 s^3 + s^5 T(s^2) with s = f / (2 + f), the first two terms as
// sums of two doubles.
#include <limits>

#include "flambeau/loop/math.h"
#include "flambeau/loop/math_coefficients.h"
#include "flambeau/loop/math_term.h"

namespace flambeau::loop::math {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kLn2High = 0x1.62e42fefa38p-1;  // 42 bits: the exponent times it is exact
constexpr double kLn2Low = 0x1.ef35793c7673p-45;

// log(x), 0 < x < inf.
Pair precise_log(Term x) {
  const Decomposed d = decompose(x);
  const Term zero = x.real(0.0);
  const Pair s = divide({d.fraction, zero}, fast_two_sum(x.real(2.0), d.fraction));
  const Pair z = s * s;
  const Pair cubic = Pair{x.real(kTwoThirds), x.real(kTwoThirdsLow)} * z;
  const Pair head = fast_two_sum(x.real(2.0), cubic.high);
  const Term tail = fma(z.high * z.high, polynomial(z.high, kLogTail), cubic.low);
  const Pair l = s * Pair{head.high, head.low + tail};
  const Pair sum = fast_two_sum(d.exponent * kLn2High, l.high);
  // Where the exponent is 0 the sum is l.high itself.
  return {sum.high, sum.low + fma(d.exponent, kLn2Low, l.low)};
}

// exp(y log(a)) for a >= 0, NaN or inf apart from a = 1.
Term power_of_magnitude(Term a, Term y) {
  const Pair l = precise_log(a);
  const Term end = select(a == 0.0, -kInfinity, a);  // log at 0 and inf; keeps NaN
  const Term high = select((a > 0.0) & (a < kInfinity), l.high, end);
  const Pair p = two_product(y, high);
  const Term low = fma(y, l.low, p.low);
  const Pair exponent = fast_two_sum(p.high, low);
  const Term ordinary = abs(p.high) < 1000.0;
  const Term zero = a.real(0.0);
  return exp_of({select(ordinary, exponent.high, p.high), select(ordinary, exponent.low, zero)})
      .value();
}

Term pow_double(Term x, Term y) {
  const Term a = abs(x);
  const Term is_integer = round_even(y) == y;
  const Term half = y * 0.5;
  const Term is_odd = is_integer & (round_even(half) != half);
  Term r = select(a == 1.0, 1.0, power_of_magnitude(a, y));
  r = (r.as_bits() | select(is_odd, sign_bit(x), x.as_bits().integer(0))).as_real();
  r = select((x < 0.0) & (x > -kInfinity) & !is_integer, kNaN, r);
  r = select((x == x) & (y == y), r, kNaN);
  return select((x == 1.0) | (y == 0.0), 1.0, r);
}

}  // namespace

Value pow(Builder& b, Value x, Value y) { return in_double(b, x, y, pow_double); }

Value rsqrt(Builder& b, Value x) {
  return in_double(b, x, [](Term t) { return 1.0 / sqrt(t); });
}

}  // namespace flambeau::loop::math
