// Error-free transformations, polynomials and scaling by powers of two.
#include "flambeau/loop/math_term.h"

namespace flambeau::loop::math {
namespace {

template <class C>
Term evaluate(Term x, std::span<const C> c) {
  const size_t n = c.size();
  const auto horner = [&](Term at, size_t first, size_t step) {
    size_t i = first + (n - 1 - first) / step * step;
    Term sum = constant(at, c[i]);
    while (i > first) {
      i -= step;
      sum = fma(sum, at, c[i]);
    }
    return sum;
  };
  if (n <= 6) return horner(x, 0, 1);
  const Term square = x * x;
  const Term even = horner(square, 0, 2);
  const Term odd = horner(square, 1, 2);
  return fma(odd, x, even);
}

bool is_single(Term x) { return x.type().scalar == Scalar::f32 || x.type().scalar == Scalar::i32; }

}  // namespace

Term polynomial(Term x, std::span<const double> c) { return evaluate(x, c); }
Term polynomial(Term x, std::span<const float> c) { return evaluate(x, c); }

Term sign_bit(Term x) {
  const Term bits = x.as_bits();
  return bits & (is_single(x) ? int64_t{INT32_MIN} : INT64_MIN);
}

Term with_sign(Term magnitude, Term sign) {
  return (magnitude.as_bits() | sign_bit(sign)).as_real();
}

Pair two_sum(Term a, Term b) {
  const Term s = a + b;
  const Term t = s - a;
  const Term u = s - t;
  const Term v = b - t;
  return {s, (a - u) + v};
}

Pair fast_two_sum(Term a, Term b) {
  const Term s = a + b;
  const Term t = s - a;
  return {s, b - t};
}

Pair two_product(Term a, Term b) {
  const Term p = a * b;
  return {p, fma(a, b, -p)};
}

Pair operator*(Pair a, Pair b) {
  const Pair p = two_product(a.high, b.high);
  const Term cross = fma(a.high, b.low, a.low * b.high);
  return fast_two_sum(p.high, p.low + cross);
}

Pair divide(Pair a, Pair b) {
  const Term inverse = 1.0 / b.high;
  const Term q = a.high * inverse;
  const Term left = fma(-q, b.high, a.high) + fma(-q, b.low, a.low);
  return fast_two_sum(q, left * inverse);
}

Rounded nearest(Term x) {
  const double magic = is_single(x) ? 0x1.8p23 : 0x1.8p52;
  const Term shifted = x + magic;
  return {shifted - magic, shifted.as_bits()};
}

Term power_of_two(Term bits) {
  return is_single(bits) ? ((bits + 127) << 23).as_real() : ((bits + 1023) << 52).as_real();
}

Term scale(Term x, Term n) {
  const Rounded half = nearest(n * 0.5);
  const Rounded rest = nearest(n - half.value);
  return x * power_of_two(half.bits) * power_of_two(rest.bits);
}

}  // namespace flambeau::loop::math
