// The exponential and hyperbolic functions. x = k ln(2) + r with ln(2) in parts of which the first
// has few bits, so that k times it is exact (Cody & Waite, Software Manual for the Elementary
// Functions, 1980); then a polynomial in r and a scaling by 2^k.
#include "flambeau/loop/math.h"
#include "flambeau/loop/math_coefficients.h"
#include "flambeau/loop/math_term.h"

namespace flambeau::loop::math {
namespace {

constexpr double kLog2E = 0x1.71547652b82fep0;
constexpr double kLn2High = 0x1.62e42fefa38p-1;  // 42 bits
constexpr double kLn2Low = 0x1.ef35793c7673p-45;

struct Remainder {
  Term r;    // exact
  Term low;  // r + low = x - k ln(2)
  Rounded k;
};

Remainder reduce(Term x) {
  const Rounded k = nearest(x * kLog2E);
  return {fma(-k.value, kLn2High, x), k.value * -kLn2Low, k};
}

// sinh and cosh of |x|, both divided by 2^k, as pairs:
//   sinh = a cosh(r) + b sinh(r), cosh = b cosh(r) + a sinh(r), a, b = (1 -+ 4^-k) / 2, or 0 and 1
// when k = 0. Nothing cancels: where k > 0, a >= 3/8.
struct Hyperbolic {
  Pair sinh, cosh;
  Term k;
};

Hyperbolic hyperbolic(Term magnitude) {
  const Term x = at_most(magnitude, 1000.0);
  const Remainder m = reduce(x);
  const Pair r = fast_two_sum(m.r, m.low);
  const Term z = r.high * r.high;
  const Term s_low = fma(r.high * z, polynomial(z, kSinh), r.low);
  const Term half_z = z * 0.5;
  const Term z_low = fma(r.high * 0.5, r.high, -half_z);
  const Term c_rest = fma(z * z, polynomial(z, kCosh), fma(r.high, r.low, z_low));
  const Term quarter_power = power_of_two(nearest(at_most(m.k.value, 500.0) * -2.0 - 1.0).bits);
  const Term a = 0.5 - quarter_power;
  const Term b = 0.5 + quarter_power;
  // cosh(r) = 1 + half_z + c_rest, sinh(r) = r + s_low.
  const auto combine = [&](Term one, Term two) -> Pair {  // one cosh(r) + two sinh(r)
    const Term sum = fma(two, r.high, one);
    const Term left = fma(two, r.high, one - sum);
    const Term c_low = one * (half_z + c_rest);
    return fast_two_sum(sum, left + fma(two, s_low, c_low));
  };
  return {combine(a, b), combine(b, a), m.k.value};
}

Term exp_double(Term x) { return exp_of({x, x.real(0.0)}).value(); }

Term exp2_double(Term x) {
  const Term bounded = at_least(at_most(x, 1100.0), -1200.0);
  const Rounded k = nearest(bounded);
  const Term r = bounded - k.value;
  const std::span<const double> c = kExp2;
  const Term rest = fma(r, polynomial(r, c.subspan(1)), kExp2FirstLow);
  const Term p = fma(r, c[0], r * rest);
  return scale(1.0 + p, k.value);
}

Term expm1_double(Term x) {
  const Term bounded = at_least(at_most(x, 1000.0), -40.0);
  const Remainder m = reduce(bounded);
  const Pair r = fast_two_sum(m.r, m.low);
  const Term p = fma(r.high * r.high, polynomial(r.high, kExp), r.low);
  // 2^k ((1 - 2^-k) + r + p); for k > 1000 the power is as good as 0.
  const Term power = power_of_two(nearest(-at_most(m.k.value, 1000.0)).bits);
  const Pair sum = fast_two_sum(1.0 - power, r.high);
  const Term y = scale(sum.high + (sum.low + p), m.k.value);
  return select(abs(x) < 0x1p-54, x, y);
}

}  // namespace

Term Exponential::value() const { return scale(mantissa.high + mantissa.low, exponent); }

Exponential exp_of(Pair x) {
  const Term bounded = at_least(at_most(x.high, 1000.0), -1000.0);
  const Remainder m = reduce(bounded);
  const Term low = select(bounded == x.high, m.low + x.low, m.low);
  const Term r = m.r + low;
  const Term r_low = low - (r - m.r);
  const Term square = r * r;
  const Pair sum = fast_two_sum(r.real(1.0), r);
  return {{sum.high, fma(square, polynomial(r, kExp), r_low) + sum.low}, m.k.value};
}

// The same in float32. 1 + r is a sum of two, so that the last addition alone rounds near an ulp.
Term exp_single(Pair x) {
  constexpr double kHigh = 0x1.62e4p-1,
                   kLow = 0x1.7f7d1cp-20;  // 17 bits, so that k times it is exact
  const Term bounded = at_least(at_most(x.high, 90.0), -110.0);
  const Rounded k = nearest(bounded * kLog2E);
  const Term first = fma(-k.value, kHigh, bounded);
  const Term second = fma(-k.value, kLow, x.low);
  const Term r = first + second;
  const Term r_low = second - (r - first);
  const Term sum = r + 1.0;
  const Term rest = fma(r * r, polynomial(r, kExpSingle), (r - (sum - 1.0)) + r_low);
  return scale(sum + rest, k.value);
}

Value exp(Builder& b, Value x) {
  if (b.type(x).scalar == Scalar::f32) {
    const Term t{&b, x};
    return exp_single({t, t.real(0.0)}).value;
  }
  return in_double(b, x, exp_double);
}
Value exp2(Builder& b, Value x) { return in_double(b, x, exp2_double); }
Value expm1(Builder& b, Value x) { return in_double(b, x, expm1_double); }

Value sinh(Builder& b, Value x) {
  return in_double(b, x, [](Term t) {
    const Hyperbolic h = hyperbolic(abs(t));
    const Term y = with_sign(scale(h.sinh.high + h.sinh.low, h.k), t);
    return select(abs(t) < 0x1p-28, t, y);
  });
}

Value cosh(Builder& b, Value x) {
  return in_double(b, x, [](Term t) {
    const Hyperbolic h = hyperbolic(abs(t));
    return scale(h.cosh.high + h.cosh.low, h.k);
  });
}

Value tanh(Builder& b, Value x) {
  return in_double(b, x, [](Term t) {
    const Hyperbolic h = hyperbolic(at_most(abs(t), 22.0));
    const Pair q = divide(h.sinh, h.cosh);
    return select(abs(t) < 0x1p-28, t, with_sign(q.high + q.low, t));
  });
}

}  // namespace flambeau::loop::math
