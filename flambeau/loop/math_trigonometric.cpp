// Trigonometric functions of reduced angles and their inverses.
#include <algorithm>
#include <limits>

#include "flambeau/loop/math.h"
#include "flambeau/loop/math_coefficients.h"
#include "flambeau/loop/math_term.h"

namespace flambeau::loop::math {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kPi = 2 * kHalfPi;
constexpr double kPiLow = 2 * kHalfPiLow;

// Below this sin(x) = tan(x) = x, and the reduction would lose the sign of zero.
constexpr double kTiny = 0x1p-28;

Term odd_quadrant(Term quadrant) { return (quadrant & 1) != 0; }

// sin(x + turns pi/2).
Term sin_shifted(Term x, int turns) {
  const Reduced m = reduce_angle(x);
  const Term quadrant = m.quadrant + turns;
  const Pair s = sin_of(m.r);
  const Pair c = cos_of(m.r);
  const Term y = select(odd_quadrant(quadrant), c.high + c.low, s.high + s.low);
  const Term sign = (quadrant << 62) & INT64_MIN;
  return (y.as_bits() ^ sign).as_real();
}

Term tan_double(Term x) {
  const Reduced m = reduce_angle(x);
  const Pair s = sin_of(m.r);
  const Pair c = cos_of(m.r);
  const Term odd = odd_quadrant(m.quadrant);
  // tan(r + pi/2) = -cos(r) / sin(r).
  const Pair top{select(odd, -c.high, s.high), select(odd, -c.low, s.low)};
  const Pair bottom{select(odd, s.high, c.high), select(odd, s.low, c.low)};
  const Pair q = divide(top, bottom);
  return select(abs(x) < kTiny, x, q.high + q.low);
}

// asin of 1 - 2z = 1 - x, x > 1/2, goes through 2 asin(sqrt(z)), the root as a sum of two.
struct Arcsine {
  Term small;  // |x| < 1/2
  Pair root;   // of what asin is taken: |x| itself, or sqrt((1 - |x|) / 2)
  Term rest;   // asin(root) = root.high + (root.low + rest)
};

Arcsine arcsine(Term x) {
  const Term a = abs(x);
  const Term small = a < 0.5;
  const Term half = 0.5 - a * 0.5;
  const Term root = sqrt(half);
  const Term zero = x.real(0.0);
  const Term root_low = select(root > 0.0, fma(-root, root, half) / (root * 2.0), zero);
  const Term z = select(small, a * a, half);
  const Pair base{select(small, a, root), select(small, zero, root_low)};
  return {small, base, base.high * z * polynomial(z, kAsin)};
}

Term asin_double(Term x) {
  const Arcsine m = arcsine(x);
  const Term low = m.root.low + m.rest;
  const Term from_right = kHalfPi - (m.root.high * 2.0 + fma(low, 2.0, -kHalfPiLow));
  const Term y = select(m.small, m.root.high + low, from_right);
  return with_sign(y, x);
}

Term acos_double(Term x) {
  const Arcsine m = arcsine(x);
  const Term low = m.root.low + m.rest;
  // pi/2 - asin(x), 2 asin(root) or pi - 2 asin(root).
  const Term sign = sign_bit(x);
  const auto signed_like_x = [&](Term t) { return (t.as_bits() ^ sign).as_real(); };
  const Pair middle = fast_two_sum(x.real(kHalfPi), -signed_like_x(m.root.high));
  const Term near_zero = middle.high + (middle.low + (kHalfPiLow - signed_like_x(low)));
  const Pair left = fast_two_sum(x.real(kPi), m.root.high * -2.0);
  const Term near_minus_one = left.high + (left.low + fma(low, -2.0, kPiLow));
  const Term near_one = (m.root.high + low) * 2.0;
  return select(m.small, near_zero, select(x < 0.0, near_minus_one, near_one));
}

// atan(y / x) for x, y >= 0, not both 0 or infinite, without overflow in x + 1.5 y. The argument
// goes to one of five points: atan(v) = atan(c) + atan((v - c) / (1 + c v)).
Pair atan_of_quotient(Term y, Term x) {
  struct Point {
    double below;  // y / x
    double c, high, low;
  };
  static constexpr Point kPoints[] = {
      {0.6875, 0.5, 0x1.dac670561bb4fp-2, 0x1.a2b7f222f65e2p-56},
      {1.1875, 1.0, 0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55},
      {2.4375, 1.5, 0x1.f730bd281f69bp-1, 0x1.007887af0cbbdp-56},
  };
  Term top = -x;
  Term bottom = y;
  Term high = x.real(kHalfPi);
  Term low = x.real(kHalfPiLow);
  for (size_t i = std::size(kPoints); i-- > 0;) {
    const Point& p = kPoints[i];
    const Term below = y < x * p.below;
    top = select(below, fma(-x, p.c, y), top);
    bottom = select(below, fma(y, p.c, x), bottom);
    high = select(below, p.high, high);
    low = select(below, p.low, low);
  }
  const Term below = y < x * 0.4375;
  const Term zero = x.real(0.0);
  top = select(below, y, top);
  bottom = select(below, x, bottom);
  high = select(below, zero, high);
  low = select(below, zero, low);
  const Term t = top / bottom;
  const Term z = t * t;
  const Term rest = fma(t * z, polynomial(z, kAtan), low);
  const Pair sum = fast_two_sum(high, t);
  return {select(below, t, sum.high), select(below, rest, sum.low + rest)};
}

Term atan_double(Term x) {
  const Pair y = atan_of_quotient(abs(x), x.real(1.0));
  return with_sign(y.high + y.low, x);
}

Term atan2_double(Term y, Term x) {
  Term ay = abs(y);
  Term ax = abs(x);
  const Term both_infinite = (ay == kInfinity) & (ax == kInfinity);
  const Term both_zero = (ay == 0.0) & (ax == 0.0);
  ay = select(both_infinite, 1.0, ay);
  ax = select(both_infinite | both_zero, 1.0, ax);
  const Term larger = select(ay > ax, ay, ax);
  const Term factor =
      select(larger > 0x1p1000, 0x1p-100, select(larger < 0x1p-900, 0x1p120, x.real(1.0)));
  const Pair r = atan_of_quotient(ay * factor, ax * factor);
  const Pair left = two_sum(x.real(kPi), -r.high);
  const Term x_negative = sign_bit(x) != 0;
  const Term angle = select(x_negative, left.high + (left.low + (kPiLow - r.low)), r.high + r.low);
  return with_sign(angle, y);
}

}  // namespace

Pair sin_of(Pair r) {
  const Term z = r.high * r.high;
  const Term low = r.low * fma(z, -0.5, 1.0);
  return fast_two_sum(r.high, fma(r.high * z, polynomial(z, kSin), low));
}

Pair cos_of(Pair r) {
  const Term z = r.high * r.high;
  const Pair head = fast_two_sum(z.real(1.0), z * -0.5);
  // What rounding left of z / 2, and the slope at r.
  const Term z_low = fma(r.high, r.high, -z) * -0.5;
  const Term rest = fma(z * z, polynomial(z, kCos), fma(-r.high, r.low, z_low));
  return fast_two_sum(head.high, head.low + rest);
}

Value sin(Builder& b, Value x) {
  return in_double(b, x, [](Term t) { return select(abs(t) < kTiny, t, sin_shifted(t, 0)); });
}
Value cos(Builder& b, Value x) {
  return in_double(b, x, [](Term t) { return sin_shifted(t, 1); });
}
Value tan(Builder& b, Value x) { return in_double(b, x, tan_double); }
Value asin(Builder& b, Value x) { return in_double(b, x, asin_double); }
Value acos(Builder& b, Value x) { return in_double(b, x, acos_double); }
Value atan(Builder& b, Value x) { return in_double(b, x, atan_double); }
Value atan2(Builder& b, Value y, Value x) { return in_double(b, y, x, atan2_double); }

}  // namespace flambeau::loop::math
