// Writing formulas over the builder: a Term is a value with its builder, and operators append
// instructions. A plain number beside a Term becomes a constant of the Term's type. Private to the
// vector mathematics, like the pieces below that several families share.
#pragma once

#include <cstdint>
#include <span>

#include "flambeau/loop/builder.h"

namespace flambeau::loop::math {

struct Term {
  Builder* builder;
  Value value;

  Type type() const { return builder->type(value); }
  Term real(double x) const { return {builder, builder->real(x, type())}; }
  Term integer(int64_t x) const { return {builder, builder->integer(x, type())}; }
  Term binary(Opcode op, Term other) const {
    return {builder, builder->binary(op, value, other.value)};
  }
  Term unary(Opcode op) const { return {builder, builder->unary(op, value)}; }
  Term compare(Opcode op, Term other) const {
    return {builder, builder->compare(op, value, other.value)};
  }
  Term cast(Opcode op, Scalar to) const { return {builder, builder->cast(op, value, to)}; }
  /// The bits of a float as an integer of the same width, and back.
  Term as_bits() const {
    return cast(Opcode::bitcast, type().scalar == Scalar::f32 ? Scalar::i32 : Scalar::i64);
  }
  Term as_real() const {
    return cast(Opcode::bitcast, type().scalar == Scalar::i32 ? Scalar::f32 : Scalar::f64);
  }
};

inline Term operator+(Term a, Term b) { return a.binary(Opcode::add, b); }
inline Term operator-(Term a, Term b) { return a.binary(Opcode::sub, b); }
inline Term operator*(Term a, Term b) { return a.binary(Opcode::mul, b); }
inline Term operator/(Term a, Term b) { return a.binary(Opcode::fdiv, b); }
inline Term operator&(Term a, Term b) { return a.binary(Opcode::bit_and, b); }
inline Term operator|(Term a, Term b) { return a.binary(Opcode::bit_or, b); }
inline Term operator^(Term a, Term b) { return a.binary(Opcode::bit_xor, b); }
inline Term operator-(Term a) { return a.unary(Opcode::neg); }
inline Term operator!(Term a) { return a.unary(Opcode::bit_not); }
inline Term operator<(Term a, Term b) { return a.compare(Opcode::lt, b); }
inline Term operator<=(Term a, Term b) { return a.compare(Opcode::le, b); }
inline Term operator>(Term a, Term b) { return a.compare(Opcode::gt, b); }
inline Term operator>=(Term a, Term b) { return a.compare(Opcode::ge, b); }
inline Term operator==(Term a, Term b) { return a.compare(Opcode::eq, b); }
inline Term operator!=(Term a, Term b) { return a.compare(Opcode::ne, b); }

/// `x` as a constant of the type of `like`.
inline Term constant(Term like, double x) { return like.real(x); }
inline Term constant(Term like, float x) { return like.real(static_cast<double>(x)); }
inline Term constant(Term like, int64_t x) {
  return is_float(like.type().scalar) ? like.real(static_cast<double>(x)) : like.integer(x);
}
inline Term constant(Term like, int x) { return constant(like, int64_t{x}); }

template <class N>
concept Number = std::is_arithmetic_v<N>;

template <Number N>
Term operator+(Term a, N b) {
  return a + constant(a, b);
}
template <Number N>
Term operator-(Term a, N b) {
  return a - constant(a, b);
}
template <Number N>
Term operator*(Term a, N b) {
  return a * constant(a, b);
}
template <Number N>
Term operator/(Term a, N b) {
  return a / constant(a, b);
}
template <Number N>
Term operator+(N a, Term b) {
  return constant(b, a) + b;
}
template <Number N>
Term operator-(N a, Term b) {
  return constant(b, a) - b;
}
template <Number N>
Term operator*(N a, Term b) {
  return constant(b, a) * b;
}
template <Number N>
Term operator/(N a, Term b) {
  return constant(b, a) / b;
}
template <Number N>
Term operator&(Term a, N b) {
  return a & constant(a, b);
}
template <Number N>
Term operator|(Term a, N b) {
  return a | constant(a, b);
}
template <Number N>
Term operator<(Term a, N b) {
  return a < constant(a, b);
}
template <Number N>
Term operator<=(Term a, N b) {
  return a <= constant(a, b);
}
template <Number N>
Term operator>(Term a, N b) {
  return a > constant(a, b);
}
template <Number N>
Term operator>=(Term a, N b) {
  return a >= constant(a, b);
}
template <Number N>
Term operator==(Term a, N b) {
  return a == constant(a, b);
}
template <Number N>
Term operator!=(Term a, N b) {
  return a != constant(a, b);
}
inline Term operator<<(Term a, int n) { return a.binary(Opcode::shl, a.integer(n)); }
inline Term operator>>(Term a, int n) { return a.binary(Opcode::lshr, a.integer(n)); }

inline Term fma(Term a, Term b, Term c) {
  return {a.builder, a.builder->fma(a.value, b.value, c.value)};
}
template <Number N>
Term fma(Term a, N b, Term c) {
  return fma(a, constant(a, b), c);
}
template <Number N>
Term fma(Term a, Term b, N c) {
  return fma(a, b, constant(a, c));
}
template <Number N, Number M>
Term fma(Term a, N b, M c) {
  return fma(a, constant(a, b), constant(a, c));
}
inline Term select(Term condition, Term a, Term b) {
  return {a.builder, a.builder->select(condition.value, a.value, b.value)};
}
template <Number N>
Term select(Term condition, N a, Term b) {
  return select(condition, constant(b, a), b);
}
template <Number N>
Term select(Term condition, Term a, N b) {
  return select(condition, a, constant(a, b));
}
inline Term abs(Term a) { return a.unary(Opcode::abs); }
inline Term sqrt(Term a) { return a.unary(Opcode::sqrt); }
inline Term round_even(Term a) { return a.unary(Opcode::round_even); }
/// The value with the larger or smaller number; a NaN in `a` stays.
template <class N>
Term at_least(Term a, N low) {
  return select(a < low, low, a);
}
template <class N>
Term at_most(Term a, N high) {
  return select(a > high, high, a);
}

/// The sign bit of a float, as bits.
Term sign_bit(Term x);
/// `magnitude` (not negative) with the sign of `sign`.
Term with_sign(Term magnitude, Term sign);

/// c[0] + c[1] x + ... in fused steps; long polynomials as even and odd halves, which overlap.
Term polynomial(Term x, std::span<const double> c);
Term polynomial(Term x, std::span<const float> c);

/// An unevaluated sum: `low` is below half an ulp of `high`, or little more.
struct Pair {
  Term high, low;
};
/// a + b exactly (Knuth); a + b exactly when |a| >= |b| or a is 0 (Dekker 1971).
Pair two_sum(Term a, Term b);
Pair fast_two_sum(Term a, Term b);
/// a * b exactly, by one fused operation.
Pair two_product(Term a, Term b);
/// Products and quotients to about 2^-100.
Pair operator*(Pair a, Pair b);
Pair divide(Pair a, Pair b);

struct Rounded {
  Term value;  ///< the nearest integer as a float
  Term bits;   ///< the same in the low bits of an integer, other bits are arbitrary
};
/// The nearest integer, ties to even; |x| must be below 2^51 (float64) or 2^22 (float32).
Rounded nearest(Term x);
/// 2^n with the low bits of `bits` as n, which must be a normal exponent.
Term power_of_two(Term bits);
/// x * 2^n for |n| <= 2000 (float64) or 250 (float32), one rounding even when the result is
/// denormal. n is given as the float.
Term scale(Term x, Term n);

/// exp(x.high + x.low) in float32 arithmetic, to less than one ulp; infinities and NaN as they
/// should be.
Term exp_single(Pair x);

/// Computes in float64 what `f` says; float32 operands are widened and the result rounded.
template <class F>
Value in_double(Builder& b, Value x, F f) {
  Term t{&b, x};
  if (t.type().scalar == Scalar::f64) return f(t).value;
  return f(t.cast(Opcode::fpext, Scalar::f64)).cast(Opcode::fptrunc, Scalar::f32).value;
}
template <class F>
Value in_double(Builder& b, Value x, Value y, F f) {
  Term s{&b, x}, t{&b, y};
  if (t.type().scalar == Scalar::f64) return f(s, t).value;
  return f(s.cast(Opcode::fpext, Scalar::f64), t.cast(Opcode::fpext, Scalar::f64))
      .cast(Opcode::fptrunc, Scalar::f32)
      .value;
}

// Shared between families; float64 unless said otherwise.

/// exp(x) = (mantissa.high + mantissa.low) 2^exponent, x = high + low. Beyond +-1000, infinities
/// too, the exponent is out of range, so that `value` overflows or underflows; NaN stays.
struct Exponential {
  Pair mantissa;
  Term exponent;
  Term value() const;
};
Exponential exp_of(Pair x);

/// x = 2^exponent (1 + fraction) for x > 0, also denormal, sqrt(1/2) <= 1 + fraction < sqrt(2);
/// anything finite for other x. Both formats.
struct Decomposed {
  Term fraction, exponent;
};
Decomposed decompose(Term x);
/// log(1 + f) + n log(2) for |f| up to sqrt(2) - 1, f = high + low.
Term log_near_one(Pair f, Term n);
/// log(1 + f) + n log(2) for 1 + f.high + f.low > 0, finite.
Term log1p_of(Pair f, Term n);
/// log(x) for x > 0 and finite; with all special values.
Term log_of(Term x);
/// `y` where 0 < x < inf, otherwise what a logarithm has: -inf at 0, NaN below, inf and NaN kept.
Term with_log_specials(Term x, Term y);

/// x = n pi/2 + r with |r| <= pi/4 (1 + 2^-20). Infinities and NaN give NaN.
struct Reduced {
  Pair r;
  Term quadrant;  ///< n in the two low bits
};
Reduced reduce_angle(Term x);
/// sin and cos of a reduced argument, as sums of two.
Pair sin_of(Pair r);
Pair cos_of(Pair r);

}  // namespace flambeau::loop::math
