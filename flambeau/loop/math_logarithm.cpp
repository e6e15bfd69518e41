// Logarithms and inverse hyperbolic functions. x = 2^k (1 + f) with 1 + f around 1, s = f / (2 + f)
// and log(1 + f) = 2 atanh(s) = f - f^2/2 + s (f^2/2 + R(s^2)), whose rounding errors are small
// beside f (Tang, Table-driven implementation of the logarithm, 1990, has the error analysis).
#include <limits>

#include "flambeau/loop/math.h"
#include "flambeau/loop/math_coefficients.h"
#include "flambeau/loop/math_term.h"

namespace flambeau::loop::math {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kLn2High = 0x1.62e42fefa38p-1;  // 42 bits: n times it is exact
constexpr double kLn2Low = 0x1.ef35793c7673p-45;

// log(1 + f) as a pair to about 2^-60, for results that are then multiplied by a constant.
Pair log_pair(Term f) {
  const Term s = f / (f + 2.0);
  const Term z = s * s;
  const Term half = f * 0.5;
  const Pair square = two_product(half, f);
  const Pair head = fast_two_sum(f, -square.high);
  const Term rest = s * fma(z, polynomial(z, kLog), square.high);
  return {head.high, (head.low - square.low) + rest};
}

// log(x) / log(base), where n is exponent / log2(base).
Term log_base(Term x, Pair inverse, Pair one_exponent) {
  const Decomposed d = decompose(x);
  const Pair l = log_pair(d.fraction);
  const Pair p = two_product(l.high, inverse.high);
  const Term low = fma(l.high, inverse.low, fma(l.low, inverse.high, p.low));
  const Pair whole = two_product(d.exponent, one_exponent.high);
  const Pair sum = fast_two_sum(whole.high, p.high);
  const Term tail = fma(d.exponent, one_exponent.low, whole.low) + low;
  // Without an exponent the larger part is p itself.
  const Term y = sum.high + (sum.low + tail);
  return with_log_specials(x, y);
}

}  // namespace

Decomposed decompose(Term x) {
  const bool single = x.type().scalar == Scalar::f32;
  const int fraction_bits = single ? 23 : 52;
  const int64_t one = single ? 0x3f800000 : 0x3ff0000000000000;
  const int64_t root_half = single ? 0x3f3504f3 : 0x3fe6a09e667f3bcd;
  const Term tiny = x < (single ? 0x1p-126 : 0x1p-1022);
  const Term normal = select(tiny, x * (single ? 0x1p25 : 0x1p54), x);
  // Counted from sqrt(1/2), so that the exponent field changes there.
  const Term bits = normal.as_bits() + (one - root_half);
  const Term mantissa = (bits & ((int64_t{1} << fraction_bits) - 1)) + root_half;
  const Term bias =
      select(tiny, single ? -127 - 25.0 : -1023 - 54.0, x.real(single ? -127.0 : -1023.0));
  const Term field = bits >> fraction_bits;
  const Term exponent = single ? field.cast(Opcode::sitofp, Scalar::f32) + bias
                               : ((field | 0x4330000000000000).as_real() - 0x1p52) + bias;
  return {mantissa.as_real() - 1.0, exponent};
}

Term with_log_specials(Term x, Term y) {
  const Term ordinary = (x > 0.0) & (x < kInfinity);
  const Term special = select(x == 0.0, -kInfinity, select(x < 0.0, kNaN, x));
  return select(ordinary, y, special);
}

Term log_near_one(Pair f, Term n) {
  const Term s = f.high / (f.high + 2.0);
  const Term z = s * s;
  const Term half_square = f.high * 0.5 * f.high;
  // The slope 1 / (1 + f) = (1 - s) / (1 + s), well enough for the low part.
  const Term slope = fma(s * 2.0, s - 1.0, 1.0);
  const Term low = fma(n, kLn2Low, f.low * slope);
  const Term rest = fma(s, fma(z, polynomial(z, kLog), half_square), low);
  return fma(n, kLn2High, f.high - (half_square - rest));
}

Term log1p_of(Pair f, Term n) {
  const Pair sum = two_sum(f.high.real(1.0), f.high);
  const Pair u = fast_two_sum(sum.high, sum.low + f.low);
  const Decomposed d = decompose(u.high);
  // u may be above 2^1000 or below 2^-1000, so the low part is scaled in two steps.
  const Term low = scale(u.low, -d.exponent);
  // Near 1 the argument itself has more bits than the fraction of u.
  const Term direct = d.exponent == 0.0;
  const Pair near{select(direct, f.high, d.fraction), select(direct, f.low, low)};
  return log_near_one(near, d.exponent + n);
}

Term log_of(Term x) {
  const Decomposed d = decompose(x);
  return with_log_specials(x, log_near_one({d.fraction, x.real(0.0)}, d.exponent));
}

Value log(Builder& b, Value x) { return in_double(b, x, log_of); }

Value log2(Builder& b, Value x) {
  return in_double(b, x, [](Term t) {
    return log_base(t, {t.real(kInverseLn2), t.real(kInverseLn2Low)}, {t.real(1.0), t.real(0.0)});
  });
}

Value log10(Builder& b, Value x) {
  return in_double(b, x, [](Term t) {
    return log_base(t, {t.real(kInverseLn10), t.real(kInverseLn10Low)},
                    {t.real(kLog10Of2), t.real(kLog10Of2Low)});
  });
}

Value log1p(Builder& b, Value x) {
  return in_double(b, x, [](Term t) {
    const Term zero = t.real(0.0);
    const Term y = log1p_of({t, zero}, zero);
    return select(abs(t) < 0x1p-54, t, with_log_specials(t + 1.0, y));
  });
}

Value asinh(Builder& b, Value x) {
  return in_double(b, x, [](Term t) {
    const Term a = abs(t);
    const Term large = a > 0x1p28;
    // asinh(a) = log1p(a + a^2 / (1 + sqrt(1 + a^2))), log(2a) when 1 does not count.
    const Term square = a * a;
    const Term w = square / (sqrt(square + 1.0) + 1.0);
    const Pair sum = fast_two_sum(a, w);
    const Term zero = t.real(0.0);
    const Pair less_one = fast_two_sum(a, t.real(-1.0));
    const Pair f{select(large, less_one.high, sum.high), select(large, less_one.low, sum.low)};
    const Term y = log1p_of(f, select(large, 1.0, zero));
    return select((a > 0x1p-28) & (a < kInfinity), with_sign(y, t), t);
  });
}

Value acosh(Builder& b, Value x) {
  return in_double(b, x, [](Term t) {
    const Term large = t > 0x1p28;
    // acosh(x) = log1p(u + sqrt(2u + u^2)), u = x - 1.
    const Term u = t - 1.0;
    const Pair square = two_product(u, u);
    const Pair inside = two_sum(u * 2.0, square.high);
    const Term root = sqrt(inside.high);
    const Term left = fma(-root, root, inside.high) + (inside.low + square.low);
    const Term root_low = select(root > 0.0, left / (root * 2.0), t.real(0.0));
    const Pair sum = two_sum(u, root);
    const Term zero = t.real(0.0);
    const Pair less_one = two_sum(t, t.real(-1.0));
    const Pair f{select(large, less_one.high, sum.high),
                 select(large, less_one.low, sum.low + root_low)};
    const Term y = log1p_of(f, select(large, 1.0, zero));
    return select((t >= 1.0) & (t < kInfinity), y, select(t < 1.0, kNaN, t));
  });
}

Value atanh(Builder& b, Value x) {
  return in_double(b, x, [](Term t) {
    const Term a = abs(t);
    // atanh(a) = log1p(2a / (1 - a)) / 2.
    const Term zero = t.real(0.0);
    const Pair below = fast_two_sum(t.real(1.0), -a);
    const Pair f = divide({a * 2.0, zero}, below);
    const Term y = with_sign(log1p_of(f, zero) * 0.5, t);
    const Term special =
        select(a == 1.0, with_sign(t.real(kInfinity), t), select(a > 1.0, kNaN, t));
    return select((a > 0x1p-28) & (a < 1.0), y, special);
  });
}

}  // namespace flambeau::loop::math
