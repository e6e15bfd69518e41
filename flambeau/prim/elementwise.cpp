// Elementwise primitives: for each the kernel code and the derivative. The tangent of a result is
// the sum over operands of (derivative * tangent), and since every derivative is a real factor per
// element the jvp is the vjp applied to the tangent, operand by operand.
#include "flambeau/base/error.h"
#include "flambeau/graph/trace.h"
#include "flambeau/loop/math.h"
#include "flambeau/prim/lowering.h"
#include "flambeau/prim/prim.h"

namespace flambeau::prim {

using graph::Application;
using graph::Attributes;
using graph::Graph;
using graph::Primitive;
using graph::ResultTypes;
using graph::ValueId;
using loop::Opcode;
using loop::Value;
namespace math = loop::math;
using Cotangents = std::vector<Tensor>;
using graph::apply_one;

loop::Scalar scalar_of(DType t) {
  using loop::Scalar;
  switch (t) {
    case DType::boolean:
      return Scalar::i1;
    case DType::uint8:
    case DType::int8:
      return Scalar::i8;
    case DType::int16:
      return Scalar::i16;
    case DType::int32:
      return Scalar::i32;
    case DType::int64:
      return Scalar::i64;
    case DType::float16:
      return Scalar::f16;
    case DType::bfloat16:
      return Scalar::bf16;
    case DType::float32:
      return Scalar::f32;
    case DType::float64:
      return Scalar::f64;
    default:
      fail(ErrorKind::internal, text("no kernel scalar for ", t));
  }
}

loop::Scalar memory_scalar_of(DType t) {
  return t == DType::boolean ? loop::Scalar::i8 : scalar_of(t);
}

loop::Type Lowering::type(DType t) const { return {scalar_of(t), lanes}; }

namespace {

enum Accepts : int {
  kFloats = 1,
  kIntegers = 2,
  kBool = 4,
  kNumbers = kFloats | kIntegers,
  kBits = kIntegers | kBool,
  kAny = 7
};

bool accepts(int set, DType t) {
  if (t == DType::float32 || t == DType::float64) return set & kFloats;
  if (is_integer(t)) return set & kIntegers;
  return t == DType::boolean && (set & kBool);
}

template <int set, int arity, bool to_bool>
ResultTypes infer(Graph& g, const Primitive& p, const std::vector<ValueId>& x, const Attributes&) {
  internal_check(static_cast<int>(x.size()) == arity, p.name, ": expects ", arity,
                 " operands, got ", x.size());
  DType t = g.value(x[0]).dtype;
  internal_check(accepts(set, t), p.name, ": does not take ", t);
  for (ValueId v : x) {
    internal_check(g.value(v).dtype == t, p.name, ": dtypes differ: ", t, " and ",
                   g.value(v).dtype);
    internal_check(g.value(v).shape.size() == g.value(x[0]).shape.size(), p.name, ": ranks differ");
  }
  return {{to_bool ? DType::boolean : t, g.value(x[0]).shape}};
}

std::vector<graph::Factor> elementwise_factors(const Graph& g, const graph::Node& n) {
  std::vector<graph::Factor> factors;
  for (size_t d = 0; d < g.value(n.outputs[0]).shape.size(); ++d) {
    factors.push_back({graph::Factor::Kind::mapped,
                       std::vector<int32_t>(n.inputs.size(), static_cast<int32_t>(d)),
                       std::vector<int32_t>(n.outputs.size(), static_cast<int32_t>(d))});
  }
  return factors;
}

std::vector<Tensor> elementwise_jvp(const Application& a, const std::vector<Tensor>& tangents) {
  Tensor sum;
  for (size_t i = 0; i < tangents.size(); ++i) {
    if (!tangents[i].defined()) continue;
    // select's condition carries no tangent; every other rule is diagonal in its operand.
    Tensor term = a.primitive->vjp(a, {tangents[i]})[i];
    if (!term.defined()) continue;
    sum = !sum.defined() ? term
          : is_complex(sum.dtype())
              ? make_complex(add(real(sum), real(term)), add(imag(sum), imag(term)))
              : add(sum, term);
  }
  return {sum};
}

Cotangents no_vjp(const Application& a, const Cotangents&) { return Cotangents(a.inputs.size()); }

graph::Definition elementwise(const char* name, decltype(graph::Definition::infer) infer,
                              Value (*lower)(Lowering&),
                              Cotangents (*vjp)(const Application&, const Cotangents&) = no_vjp) {
  return {.name = name,
          .kind = Primitive::Kind::elementwise,
          .infer = infer,
          .vjp = vjp,
          .jvp = elementwise_jvp,
          .factors = elementwise_factors,
          .lower = lower};
}

// Short forms for the rules below: x and y are the operands, r the result, g the cotangent.
#define RULE [](const Application& app, const Cotangents& ct) -> Cotangents
#define X app.inputs[0]
#define Y app.inputs[1]
#define R app.outputs[0]
#define G ct[0]
#define LOWER [](Lowering & l) -> Value

Tensor square(const Tensor& x) { return mul(x, x); }
Tensor scaled(const Tensor& x, double c) { return mul(x, constant_like(x, c)); }
Tensor zero_where(const Tensor& condition, const Tensor& x) {
  return select(condition, zeros_like(x), x);
}

Value min_max(Lowering& l, Opcode op) {
  Value a = l.x[0], b = l.x[1];
  if (l.operand_dtype == DType::boolean)
    return op == Opcode::lt ? l.b.bit_and(a, b) : l.b.bit_or(a, b);
  if (l.operand_dtype == DType::uint8) {
    Value a_first =
        op == Opcode::lt ? l.b.compare(Opcode::ule, a, b) : l.b.compare(Opcode::ule, b, a);
    return l.b.select(a_first, a, b);
  }
  // b replaces a only when it is strictly beyond it, or when it is the first NaN.
  Value beyond = l.b.compare(op, b, a);
  Value result = l.b.select(beyond, b, a);
  if (!loop::is_float(l.b.type(a).scalar)) return result;
  Value b_nan = l.b.compare(Opcode::ne, b, b), a_nan = l.b.compare(Opcode::ne, a, a);
  return l.b.select(a_nan, a, l.b.select(b_nan, b, result));
}

Value compare(Lowering& l, Opcode op, bool swap) {
  Value a = swap ? l.x[1] : l.x[0], b = swap ? l.x[0] : l.x[1];
  auto& k = l.b;
  if (l.operand_dtype == DType::boolean) {
    // false < true
    if (op == Opcode::eq || op == Opcode::ne) {
      Value differ = k.bit_xor(a, b);
      return op == Opcode::ne ? differ : k.unary(Opcode::bit_not, differ);
    }
    Value less = k.bit_and(k.unary(Opcode::bit_not, a), b);
    if (op == Opcode::lt) return less;
    return k.bit_or(k.unary(Opcode::bit_not, a), b);
  }
  if (l.operand_dtype == DType::uint8) {
    if (op == Opcode::lt) op = Opcode::ult;
    if (op == Opcode::le) op = Opcode::ule;
  }
  return k.compare(op, a, b);
}

/// Signed or unsigned integer division that no lane can trap in: (quotient, remainder).
std::pair<Value, Value> divide_integers(Lowering& l) {
  auto& k = l.b;
  Value a = l.x[0], b = l.x[1];
  Value zero = l.integer(0), one = l.integer(1);
  Value by_zero = k.compare(Opcode::eq, b, zero);
  l.raise(by_zero, KernelError::division_by_zero);
  if (l.operand_dtype == DType::uint8) {
    b = k.select(by_zero, one, b);
    return {k.binary(Opcode::udiv, a, b), k.binary(Opcode::urem, a, b)};
  }
  // INT_MIN / -1 overflows: division by -1 is negation, which wraps, with remainder 0.
  Value by_minus_one = k.compare(Opcode::eq, b, l.integer(-1));
  Value safe = k.select(k.bit_or(by_zero, by_minus_one), one, b);
  Value q = k.binary(Opcode::sdiv, a, safe);
  return {k.select(by_minus_one, k.sub(zero, a), q),
          k.select(by_minus_one, zero, k.binary(Opcode::srem, a, safe))};
}

Value integer_power(Lowering& l) {
  auto& k = l.b;
  Value base = l.x[0], exponent = l.x[1];
  Value zero = l.integer(0), one = l.integer(1);
  bool is_signed = l.operand_dtype != DType::uint8;
  // Square and multiply over all bits of the exponent.
  auto powers = k.loop(
      k.integer(0), k.integer(loop::bits(k.type(base).scalar)), 1, {one, base, exponent},
      [&](Value, const std::vector<Value>& c) -> std::vector<Value> {
        Value odd = k.compare(Opcode::ne, k.bit_and(c[2], one), zero);
        return {k.select(odd, k.mul(c[0], c[1]), c[0]), k.mul(c[1], c[1]), k.lshr(c[2], one)};
      });
  if (!is_signed) return powers[0];
  Value odd = k.compare(Opcode::ne, k.bit_and(exponent, one), zero);
  Value minus_one = l.integer(-1);
  Value inverse = k.select(
      k.compare(Opcode::eq, base, one), one,
      k.select(k.compare(Opcode::eq, base, minus_one), k.select(odd, minus_one, one), zero));
  return k.select(k.compare(Opcode::lt, exponent, zero), inverse, powers[0]);
}

}  // namespace

// Arithmetic.

const Primitive kNeg(elementwise(
    "neg", infer<kNumbers, 1, false>, LOWER { return l.b.unary(Opcode::neg, l.x[0]); },
    RULE { return {neg(G)}; }));
const Primitive kAbs(elementwise(
    "abs", infer<kNumbers, 1, false>,
    LOWER {
      if (is_float(l.operand_dtype)) return l.b.unary(Opcode::abs, l.x[0]);
      if (l.operand_dtype == DType::uint8) return l.x[0];
      return l.b.select(l.b.compare(Opcode::lt, l.x[0], l.integer(0)),
                        l.b.unary(Opcode::neg, l.x[0]), l.x[0]);
    },
    RULE {
      Tensor zero = zeros_like(X);
      return {select(gt(X, zero), G, select(lt(X, zero), neg(G), zero))};
    }));
const Primitive kAdd(elementwise(
    "add", infer<kNumbers, 2, false>, LOWER { return l.b.add(l.x[0], l.x[1]); },
    RULE { return {G, G}; }));
const Primitive kSub(elementwise(
    "sub", infer<kNumbers, 2, false>, LOWER { return l.b.sub(l.x[0], l.x[1]); },
    RULE { return {G, neg(G)}; }));
const Primitive kMul(elementwise(
    "mul", infer<kNumbers, 2, false>, LOWER { return l.b.mul(l.x[0], l.x[1]); },
    RULE { return {mul(G, Y), mul(G, X)}; }));
const Primitive kDiv(elementwise(
    "div", infer<kNumbers, 2, false>,
    LOWER {
      return is_float(l.operand_dtype) ? l.b.fdiv(l.x[0], l.x[1]) : divide_integers(l).first;
    },
    RULE {
      Tensor gx = div(G, Y);
      return {gx, neg(mul(gx, div(X, Y)))};
    }));
const Primitive kRem(elementwise(
    "rem", infer<kNumbers, 2, false>,
    LOWER {
      return is_float(l.operand_dtype) ? l.b.binary(Opcode::frem, l.x[0], l.x[1])
                                       : divide_integers(l).second;
    },
    RULE { return {G, neg(mul(G, trunc(div(X, Y))))}; }));
const Primitive kPow(elementwise(
    "pow", infer<kNumbers, 2, false>,
    LOWER { return is_float(l.operand_dtype) ? math::pow(l.b, l.x[0], l.x[1]) : integer_power(l); },
    RULE {
      // d/dx = y x^(y-1), 0 for y = 0; d/dy = x^y log x, 0 where x = 0 and y >= 0.
      Tensor zero = zeros_like(X), one = constant_like(X, 1);
      Tensor gx = zero_where(eq(Y, zero), mul(G, mul(Y, pow(X, sub(Y, one)))));
      Tensor gy = mul(G, mul(R, log(X)));
      return {gx, zero_where(bit_and(eq(X, zero), ge(Y, zero)), gy)};
    }));
const Primitive kAtan2(elementwise(
    "atan2", infer<kFloats, 2, false>, LOWER { return math::atan2(l.b, l.x[0], l.x[1]); },
    RULE {
      Tensor scale = div(G, add(square(X), square(Y)));
      return {mul(scale, Y), neg(mul(scale, X))};
    }));
const Primitive kMaximum(elementwise(
    "maximum", infer<kAny, 2, false>, LOWER { return min_max(l, Opcode::gt); },
    RULE {
      Tensor zero = zeros_like(G), half = scaled(G, 0.5), tie = eq(X, Y);
      Tensor left = bit_or(gt(X, Y), ne(X, X));
      return {select(tie, half, select(left, G, zero)), select(tie, half, select(left, zero, G))};
    }));
const Primitive kMinimum(elementwise(
    "minimum", infer<kAny, 2, false>, LOWER { return min_max(l, Opcode::lt); },
    RULE {
      Tensor zero = zeros_like(G), half = scaled(G, 0.5), tie = eq(X, Y);
      Tensor left = bit_or(lt(X, Y), ne(X, X));
      return {select(tie, half, select(left, G, zero)), select(tie, half, select(left, zero, G))};
    }));
const Primitive kFloor(elementwise(
    "floor", infer<kFloats, 1, false>, LOWER { return l.b.unary(Opcode::floor, l.x[0]); },
    RULE { return {zeros_like(G)}; }));
const Primitive kCeil(elementwise(
    "ceil", infer<kFloats, 1, false>, LOWER { return l.b.unary(Opcode::ceil, l.x[0]); },
    RULE { return {zeros_like(G)}; }));
const Primitive kTrunc(elementwise(
    "trunc", infer<kFloats, 1, false>, LOWER { return l.b.unary(Opcode::trunc, l.x[0]); },
    RULE { return {zeros_like(G)}; }));
const Primitive kRound(elementwise(
    "round", infer<kFloats, 1, false>, LOWER { return l.b.unary(Opcode::round_even, l.x[0]); },
    RULE { return {zeros_like(G)}; }));
const Primitive kSqrt(elementwise(
    "sqrt", infer<kFloats, 1, false>, LOWER { return l.b.unary(Opcode::sqrt, l.x[0]); },
    RULE { return {div(G, scaled(R, 2))}; }));

namespace {

/// The derivative of digamma: eight steps of its recurrence to where the asymptotic series serves,
/// and the reflection formula below 1/2 (Abramowitz and Stegun, 6.4).
Tensor trigamma(const Tensor& x) {
  Tensor one = constant_like(x, 1), mirrored = lt(x, constant_like(x, 0.5));
  Tensor y = select(mirrored, sub(one, x), x), total = zeros_like(x);
  for (int i = 0; i < 8; ++i) {
    total = add(total, div(one, square(y)));
    y = add(y, one);
  }
  Tensor u = div(one, y), v = square(u);
  Tensor series = constant_like(x, -1.0 / 30);
  for (double c : {1.0 / 42, -1.0 / 30, 1.0 / 6}) series = add(mul(series, v), constant_like(x, c));
  Tensor tail = add(u, add(scaled(v, 0.5), mul(mul(u, v), series)));
  total = add(total, tail);
  Tensor sine = sin(scaled(x, 3.14159265358979323846));
  Tensor reflected = sub(div(constant_like(x, 9.86960440108935861883), square(sine)), total);
  return select(mirrored, reflected, total);
}

}  // namespace

// Exponentials, logarithms, trigonometry, error and gamma functions.

const Primitive kExp(elementwise(
    "exp", infer<kFloats, 1, false>, LOWER { return math::exp(l.b, l.x[0]); },
    RULE { return {mul(G, R)}; }));
const Primitive kExp2(elementwise(
    "exp2", infer<kFloats, 1, false>, LOWER { return math::exp2(l.b, l.x[0]); },
    RULE { return {mul(G, scaled(R, 0.69314718055994530942))}; }));
const Primitive kExpm1(elementwise(
    "expm1", infer<kFloats, 1, false>, LOWER { return math::expm1(l.b, l.x[0]); },
    RULE { return {mul(G, add(R, constant_like(R, 1)))}; }));
const Primitive kLog(elementwise(
    "log", infer<kFloats, 1, false>, LOWER { return math::log(l.b, l.x[0]); },
    RULE { return {div(G, X)}; }));
const Primitive kLog2(elementwise(
    "log2", infer<kFloats, 1, false>, LOWER { return math::log2(l.b, l.x[0]); },
    RULE { return {div(G, scaled(X, 0.69314718055994530942))}; }));
const Primitive kLog10(elementwise(
    "log10", infer<kFloats, 1, false>, LOWER { return math::log10(l.b, l.x[0]); },
    RULE { return {div(G, scaled(X, 2.30258509299404568402))}; }));
const Primitive kLog1p(elementwise(
    "log1p", infer<kFloats, 1, false>, LOWER { return math::log1p(l.b, l.x[0]); },
    RULE { return {div(G, add(X, constant_like(X, 1)))}; }));
const Primitive kSin(elementwise(
    "sin", infer<kFloats, 1, false>, LOWER { return math::sin(l.b, l.x[0]); },
    RULE { return {mul(G, cos(X))}; }));
const Primitive kCos(elementwise(
    "cos", infer<kFloats, 1, false>, LOWER { return math::cos(l.b, l.x[0]); },
    RULE { return {neg(mul(G, sin(X)))}; }));
const Primitive kTan(elementwise(
    "tan", infer<kFloats, 1, false>, LOWER { return math::tan(l.b, l.x[0]); },
    RULE { return {mul(G, add(constant_like(R, 1), square(R)))}; }));
const Primitive kAsin(elementwise(
    "asin", infer<kFloats, 1, false>, LOWER { return math::asin(l.b, l.x[0]); },
    RULE { return {div(G, sqrt(sub(constant_like(X, 1), square(X))))}; }));
const Primitive kAcos(elementwise(
    "acos", infer<kFloats, 1, false>, LOWER { return math::acos(l.b, l.x[0]); },
    RULE { return {neg(div(G, sqrt(sub(constant_like(X, 1), square(X)))))}; }));
const Primitive kAtan(elementwise(
    "atan", infer<kFloats, 1, false>, LOWER { return math::atan(l.b, l.x[0]); },
    RULE { return {div(G, add(constant_like(X, 1), square(X)))}; }));
const Primitive kSinh(elementwise(
    "sinh", infer<kFloats, 1, false>, LOWER { return math::sinh(l.b, l.x[0]); },
    RULE { return {mul(G, cosh(X))}; }));
const Primitive kCosh(elementwise(
    "cosh", infer<kFloats, 1, false>, LOWER { return math::cosh(l.b, l.x[0]); },
    RULE { return {mul(G, sinh(X))}; }));
const Primitive kTanh(elementwise(
    "tanh", infer<kFloats, 1, false>, LOWER { return math::tanh(l.b, l.x[0]); },
    RULE { return {mul(G, sub(constant_like(R, 1), square(R)))}; }));
const Primitive kAsinh(elementwise(
    "asinh", infer<kFloats, 1, false>, LOWER { return math::asinh(l.b, l.x[0]); },
    RULE { return {div(G, sqrt(add(square(X), constant_like(X, 1))))}; }));
const Primitive kAcosh(elementwise(
    "acosh", infer<kFloats, 1, false>, LOWER { return math::acosh(l.b, l.x[0]); },
    RULE { return {div(G, sqrt(sub(square(X), constant_like(X, 1))))}; }));
const Primitive kAtanh(elementwise(
    "atanh", infer<kFloats, 1, false>, LOWER { return math::atanh(l.b, l.x[0]); },
    RULE { return {div(G, sub(constant_like(X, 1), square(X)))}; }));
// 2 / sqrt(pi) = 1.1283791670955126
const Primitive kErf(elementwise(
    "erf", infer<kFloats, 1, false>, LOWER { return math::erf(l.b, l.x[0]); },
    RULE { return {mul(G, scaled(exp(neg(square(X))), 1.1283791670955126))}; }));
const Primitive kErfc(elementwise(
    "erfc", infer<kFloats, 1, false>, LOWER { return math::erfc(l.b, l.x[0]); },
    RULE { return {mul(G, scaled(exp(neg(square(X))), -1.1283791670955126))}; }));
const Primitive kErfinv(elementwise(
    "erfinv", infer<kFloats, 1, false>, LOWER { return math::erfinv(l.b, l.x[0]); },
    RULE { return {mul(G, scaled(exp(square(R)), 0.88622692545275801))}; }));
const Primitive kLgamma(elementwise(
    "lgamma", infer<kFloats, 1, false>, LOWER { return math::lgamma(l.b, l.x[0]); },
    RULE { return {mul(G, digamma(X))}; }));
const Primitive kDigamma(elementwise(
    "digamma", infer<kFloats, 1, false>, LOWER { return math::digamma(l.b, l.x[0]); },
    RULE { return {mul(G, trigamma(X))}; }));

// Bits and comparisons.

const Primitive kBitNot(elementwise(
    "bit_not", infer<kBits, 1, false>, LOWER { return l.b.unary(Opcode::bit_not, l.x[0]); }));
const Primitive kBitAnd(
    elementwise("bit_and", infer<kBits, 2, false>, LOWER { return l.b.bit_and(l.x[0], l.x[1]); }));
const Primitive kBitOr(
    elementwise("bit_or", infer<kBits, 2, false>, LOWER { return l.b.bit_or(l.x[0], l.x[1]); }));
const Primitive kBitXor(
    elementwise("bit_xor", infer<kBits, 2, false>, LOWER { return l.b.bit_xor(l.x[0], l.x[1]); }));
const Primitive kShiftLeft(elementwise(
    "shift_left", infer<kIntegers, 2, false>, LOWER {
      Value width = l.integer(loop::bits(l.b.type(l.x[0]).scalar));
      Value inside = l.b.compare(Opcode::ult, l.x[1], width);
      Value amount = l.b.select(inside, l.x[1], l.integer(0));
      return l.b.select(inside, l.b.shl(l.x[0], amount), l.integer(0));
    }));
const Primitive kShiftRight(elementwise(
    "shift_right", infer<kIntegers, 2, false>, LOWER {
      int bits = loop::bits(l.b.type(l.x[0]).scalar);
      Value inside = l.b.compare(Opcode::ult, l.x[1], l.integer(bits));
      if (l.operand_dtype == DType::uint8) {
        return l.b.select(inside, l.b.lshr(l.x[0], l.b.select(inside, l.x[1], l.integer(0))),
                          l.integer(0));
      }
      return l.b.ashr(l.x[0], l.b.select(inside, l.x[1], l.integer(bits - 1)));
    }));
const Primitive kEq(
    elementwise("eq", infer<kAny, 2, true>, LOWER { return compare(l, Opcode::eq, false); }));
const Primitive kNe(
    elementwise("ne", infer<kAny, 2, true>, LOWER { return compare(l, Opcode::ne, false); }));
const Primitive kLt(
    elementwise("lt", infer<kAny, 2, true>, LOWER { return compare(l, Opcode::lt, false); }));
const Primitive kLe(
    elementwise("le", infer<kAny, 2, true>, LOWER { return compare(l, Opcode::le, false); }));
const Primitive kGt(
    elementwise("gt", infer<kAny, 2, true>, LOWER { return compare(l, Opcode::lt, true); }));
const Primitive kGe(
    elementwise("ge", infer<kAny, 2, true>, LOWER { return compare(l, Opcode::le, true); }));

// Choice, types, complex numbers.

namespace {

ResultTypes infer_select(Graph& g, const Primitive&, const std::vector<ValueId>& x,
                         const Attributes&) {
  internal_check(x.size() == 3 && g.value(x[0]).dtype == DType::boolean,
                 "select: the condition must be bool");
  internal_check(g.value(x[1]).dtype == g.value(x[2]).dtype,
                 "select: dtypes differ: ", g.value(x[1]).dtype, " and ", g.value(x[2]).dtype);
  return {{g.value(x[1]).dtype, g.value(x[1]).shape}};
}
ResultTypes infer_cast(Graph& g, const Primitive&, const std::vector<ValueId>& x,
                       const Attributes& a) {
  internal_check(!is_complex(a.dtype) && !is_complex(g.value(x[0]).dtype),
                 "cast: complex numbers are split before");
  return {{a.dtype, g.value(x[0]).shape}};
}
ResultTypes infer_bitcast(Graph& g, const Primitive&, const std::vector<ValueId>& x,
                          const Attributes& a) {
  internal_check(itemsize(g.value(x[0]).dtype) == itemsize(a.dtype) && a.dtype != DType::boolean,
                 "bitcast: sizes differ");
  return {{a.dtype, g.value(x[0]).shape}};
}
ResultTypes infer_make_complex(Graph& g, const Primitive&, const std::vector<ValueId>& x,
                               const Attributes&) {
  DType t = g.value(x[0]).dtype;
  internal_check(x.size() == 2 && t == g.value(x[1]).dtype && accepts(kFloats, t),
                 "make_complex: takes two float32 or two float64");
  return {{complex_type(t), g.value(x[0]).shape}};
}
ResultTypes infer_component(Graph& g, const Primitive& p, const std::vector<ValueId>& x,
                            const Attributes&) {
  internal_check(is_complex(g.value(x[0]).dtype), p.name, ": takes a complex tensor");
  return {{real_type(g.value(x[0]).dtype), g.value(x[0]).shape}};
}

/// From any real dtype to any other. Half types convert through float32; to bool: not equal to
/// zero.
Value convert(Lowering& l, Value x, DType from, DType to) {
  auto& k = l.b;
  if (from == to) return x;
  if (from == DType::float16 || from == DType::bfloat16) {
    return convert(l, k.cast(Opcode::fpext, x, loop::Scalar::f32), DType::float32, to);
  }
  if (to == DType::float16 || to == DType::bfloat16) {
    return k.cast(Opcode::fptrunc, convert(l, x, from, DType::float32), scalar_of(to));
  }
  loop::Type from_type = l.type(from), to_type = l.type(to);
  if (to == DType::boolean) {
    Value zero = is_float(from) ? k.real(0, from_type) : k.integer(0, from_type);
    return k.compare(Opcode::ne, x, zero);
  }
  if (is_float(from) && is_float(to)) {
    return k.cast(
        loop::bits(to_type.scalar) > loop::bits(from_type.scalar) ? Opcode::fpext : Opcode::fptrunc,
        x, to_type.scalar);
  }
  if (is_float(from)) {
    // Narrow integers take the low bits of the 64-bit value, as the field's CPUs do.
    Value wide = k.cast(Opcode::fptosi, x, loop::Scalar::i64);
    return to_type.scalar == loop::Scalar::i64 ? wide
                                               : k.cast(Opcode::itrunc, wide, to_type.scalar);
  }
  bool is_unsigned = from == DType::uint8 || from == DType::boolean;
  if (is_float(to)) {
    if (from == DType::boolean) return k.select(x, k.real(1, to_type), k.real(0, to_type));
    Value wide = x;
    if (from_type.scalar == loop::Scalar::i8 || from_type.scalar == loop::Scalar::i16) {
      wide = k.cast(is_unsigned ? Opcode::zext : Opcode::sext, x, loop::Scalar::i32);
    }
    return k.cast(Opcode::sitofp, wide, to_type.scalar);
  }
  int from_bits = loop::bits(from_type.scalar), to_bits = loop::bits(to_type.scalar);
  if (from_bits == to_bits) return x;
  return k.cast(to_bits < from_bits ? Opcode::itrunc
                : is_unsigned       ? Opcode::zext
                                    : Opcode::sext,
                x, to_type.scalar);
}

Value no_lower(Lowering&) {
  fail(ErrorKind::internal, "complex components are handled by the kernel builder");
}

}  // namespace

graph::Definition componentwise(graph::Definition d) {
  d.componentwise = true;
  return d;
}

const Primitive kSelect(componentwise(elementwise(
    "select", infer_select, LOWER { return l.b.select(l.x[0], l.x[1], l.x[2]); },
    RULE {
      Tensor zero = zeros_like(G);
      return {Tensor(), select(X, G, zero), select(X, zero, G)};
    })));
const Primitive kCast(elementwise(
    "cast", infer_cast, LOWER { return convert(l, l.x[0], l.operand_dtype, l.result_dtype); },
    RULE {
      if (!is_float(X.dtype()) || !is_float(app.attributes.dtype)) return {Tensor()};
      return {cast(G, X.dtype())};
    }));
const Primitive kBitcast(elementwise(
    "bitcast", infer_bitcast, LOWER {
      loop::Scalar to = scalar_of(l.result_dtype);
      return l.b.type(l.x[0]).scalar == to ? l.x[0] : l.b.bitcast(l.x[0], to);
    }));
const Primitive kMakeComplex(
    elementwise("make_complex", infer_make_complex, no_lower, RULE { return {real(G), imag(G)}; }));
const Primitive kReal(elementwise(
    "real", infer_component, no_lower, RULE { return {make_complex(G, zeros_like(G))}; }));
const Primitive kImag(elementwise(
    "imag", infer_component, no_lower, RULE { return {make_complex(zeros_like(G), G)}; }));
const Primitive kBarrier({.name = "barrier",
                          .kind = Primitive::Kind::barrier,
                          .infer = [](Graph& g, const Primitive&, const std::vector<ValueId>& x,
                                      const Attributes&) -> ResultTypes {
                            return {{g.value(x[0]).dtype, g.value(x[0]).shape}};
                          },
                          .vjp = no_vjp,
                          .jvp = [](const Application&,
                                    const Cotangents&) { return Cotangents(1); },
                          .factors = elementwise_factors});

#undef RULE
#undef X
#undef Y
#undef R
#undef G
#undef LOWER

// The functions of prim.h.

Tensor neg(const Tensor& x) { return apply_one(kNeg, {x}); }
Tensor abs(const Tensor& x) { return apply_one(kAbs, {x}); }
Tensor floor(const Tensor& x) { return apply_one(kFloor, {x}); }
Tensor ceil(const Tensor& x) { return apply_one(kCeil, {x}); }
Tensor trunc(const Tensor& x) { return apply_one(kTrunc, {x}); }
Tensor round(const Tensor& x) { return apply_one(kRound, {x}); }
Tensor sqrt(const Tensor& x) { return apply_one(kSqrt, {x}); }
Tensor exp(const Tensor& x) { return apply_one(kExp, {x}); }
Tensor exp2(const Tensor& x) { return apply_one(kExp2, {x}); }
Tensor expm1(const Tensor& x) { return apply_one(kExpm1, {x}); }
Tensor log(const Tensor& x) { return apply_one(kLog, {x}); }
Tensor log2(const Tensor& x) { return apply_one(kLog2, {x}); }
Tensor log10(const Tensor& x) { return apply_one(kLog10, {x}); }
Tensor log1p(const Tensor& x) { return apply_one(kLog1p, {x}); }
Tensor sin(const Tensor& x) { return apply_one(kSin, {x}); }
Tensor cos(const Tensor& x) { return apply_one(kCos, {x}); }
Tensor tan(const Tensor& x) { return apply_one(kTan, {x}); }
Tensor asin(const Tensor& x) { return apply_one(kAsin, {x}); }
Tensor acos(const Tensor& x) { return apply_one(kAcos, {x}); }
Tensor atan(const Tensor& x) { return apply_one(kAtan, {x}); }
Tensor sinh(const Tensor& x) { return apply_one(kSinh, {x}); }
Tensor cosh(const Tensor& x) { return apply_one(kCosh, {x}); }
Tensor tanh(const Tensor& x) { return apply_one(kTanh, {x}); }
Tensor asinh(const Tensor& x) { return apply_one(kAsinh, {x}); }
Tensor acosh(const Tensor& x) { return apply_one(kAcosh, {x}); }
Tensor atanh(const Tensor& x) { return apply_one(kAtanh, {x}); }
Tensor erf(const Tensor& x) { return apply_one(kErf, {x}); }
Tensor erfc(const Tensor& x) { return apply_one(kErfc, {x}); }
Tensor erfinv(const Tensor& x) { return apply_one(kErfinv, {x}); }
Tensor lgamma(const Tensor& x) { return apply_one(kLgamma, {x}); }
Tensor digamma(const Tensor& x) { return apply_one(kDigamma, {x}); }
Tensor bit_not(const Tensor& x) { return apply_one(kBitNot, {x}); }
Tensor barrier(const Tensor& x) { return apply_one(kBarrier, {x}); }
Tensor real(const Tensor& x) { return apply_one(kReal, {x}); }
Tensor imag(const Tensor& x) { return apply_one(kImag, {x}); }
Tensor add(const Tensor& a, const Tensor& b) { return apply_one(kAdd, {a, b}); }
Tensor sub(const Tensor& a, const Tensor& b) { return apply_one(kSub, {a, b}); }
Tensor mul(const Tensor& a, const Tensor& b) { return apply_one(kMul, {a, b}); }
Tensor div(const Tensor& a, const Tensor& b) { return apply_one(kDiv, {a, b}); }
Tensor rem(const Tensor& a, const Tensor& b) { return apply_one(kRem, {a, b}); }
Tensor pow(const Tensor& a, const Tensor& b) { return apply_one(kPow, {a, b}); }
Tensor atan2(const Tensor& a, const Tensor& b) { return apply_one(kAtan2, {a, b}); }
Tensor maximum(const Tensor& a, const Tensor& b) { return apply_one(kMaximum, {a, b}); }
Tensor minimum(const Tensor& a, const Tensor& b) { return apply_one(kMinimum, {a, b}); }
Tensor bit_and(const Tensor& a, const Tensor& b) { return apply_one(kBitAnd, {a, b}); }
Tensor bit_or(const Tensor& a, const Tensor& b) { return apply_one(kBitOr, {a, b}); }
Tensor bit_xor(const Tensor& a, const Tensor& b) { return apply_one(kBitXor, {a, b}); }
Tensor shift_left(const Tensor& a, const Tensor& b) { return apply_one(kShiftLeft, {a, b}); }
Tensor shift_right(const Tensor& a, const Tensor& b) { return apply_one(kShiftRight, {a, b}); }
Tensor eq(const Tensor& a, const Tensor& b) { return apply_one(kEq, {a, b}); }
Tensor ne(const Tensor& a, const Tensor& b) { return apply_one(kNe, {a, b}); }
Tensor lt(const Tensor& a, const Tensor& b) { return apply_one(kLt, {a, b}); }
Tensor le(const Tensor& a, const Tensor& b) { return apply_one(kLe, {a, b}); }
Tensor gt(const Tensor& a, const Tensor& b) { return apply_one(kGt, {a, b}); }
Tensor ge(const Tensor& a, const Tensor& b) { return apply_one(kGe, {a, b}); }
Tensor select(const Tensor& condition, const Tensor& a, const Tensor& b) {
  return apply_one(kSelect, {condition, a, b});
}
Tensor make_complex(const Tensor& re, const Tensor& im) {
  return apply_one(kMakeComplex, {re, im});
}
Tensor cast(const Tensor& x, DType to) {
  return x.dtype() == to ? x : apply_one(kCast, {x}, {.dtype = to});
}
Tensor bitcast(const Tensor& x, DType to) {
  return x.dtype() == to ? x : apply_one(kBitcast, {x}, {.dtype = to});
}

}  // namespace flambeau::prim
