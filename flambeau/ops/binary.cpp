// Comparison, logic, bits, extremes, division with rounding, powers and the like: functions of two
// or three tensors, element by element.
#include <limits>

#include "flambeau/base/error.h"
#include "flambeau/ops/typing.h"

namespace flambeau::ops {

namespace {

using Binary = Op<Tensor(const Tensor&, const Tensor&)>;
using WithNumber = Op<Tensor(const Tensor&, const Number&)>;

/// Both operands broadcast and promoted, in the type arithmetic is done in.
struct Ready {
  Tensor a, b;
  DType dtype;  // promoted
};
Ready ready(const Tensor& a, const Tensor& b, DType dtype, const char* name) {
  Sizes sizes = broadcast_sizes({a, b}, name);
  auto make = [&](const Tensor& x) {
    return to_dtype(expand_to(to_dtype(x, dtype), sizes), compute_type(dtype));
  };
  return {make(a), make(b), dtype};
}

Tensor constant_like(const Tensor& x, double v) { return prim::constant_like(x, v); }
Tensor number_like(const Tensor& x, int64_t v) {
  return prim::constant(is_float(x.dtype()) ? Scalar(static_cast<double>(v)) : Scalar(v), x.dtype(),
                        graph::sizes_of(x));
}

Tensor complex_eq(const Tensor& a, const Tensor& b) {
  if (!is_complex(a.dtype())) return prim::eq(a, b);
  return prim::bit_and(prim::eq(prim::real(a), prim::real(b)),
                       prim::eq(prim::imag(a), prim::imag(b)));
}
Tensor complex_ne(const Tensor& a, const Tensor& b) {
  return is_complex(a.dtype()) ? prim::bit_not(complex_eq(a, b)) : prim::ne(a, b);
}

Tensor ordered(const Tensor& a, const Tensor& b, DType dtype, const char* name,
               Tensor (*fn)(const Tensor&, const Tensor&)) {
  check(!is_complex(dtype), ErrorKind::runtime, name,
        ": comparison of complex numbers is not supported");
  Ready r = ready(a, b, dtype, name);
  return fn(r.a, r.b);
}

Tensor truth(const Tensor& x) {
  if (!is_complex(x.dtype())) return to_dtype(x, DType::boolean);
  return prim::bit_or(prim::cast(prim::real(x), DType::boolean),
                      prim::cast(prim::imag(x), DType::boolean));
}
Tensor logical(const Tensor& a, const Tensor& b, const char* name,
               Tensor (*fn)(const Tensor&, const Tensor&)) {
  Sizes sizes = broadcast_sizes({a, b}, name);
  return fn(expand_to(truth(a), sizes), expand_to(truth(b), sizes));
}
Tensor bits(const Tensor& a, const Tensor& b, DType dtype, const char* name,
            Tensor (*fn)(const Tensor&, const Tensor&)) {
  check(!is_inexact(dtype), ErrorKind::runtime, name, ": not implemented for ", dtype);
  Ready r = ready(a, b, dtype, name);
  return fn(r.a, r.b);
}
Tensor shift(const Tensor& a, const Tensor& b, DType dtype, const char* name,
             Tensor (*fn)(const Tensor&, const Tensor&)) {
  check(is_integer(dtype), ErrorKind::runtime, name, ": not implemented for ", dtype);
  Ready r = ready(a, b, dtype, name);
  return fn(r.a, r.b);
}
Tensor extreme(const Tensor& a, const Tensor& b, DType dtype, const char* name,
               Tensor (*fn)(const Tensor&, const Tensor&)) {
  check(!is_complex(dtype), ErrorKind::runtime, name, ": not implemented for complex tensors.");
  Ready r = ready(a, b, dtype, name);
  return to_dtype(fn(r.a, r.b), dtype);
}
/// NaN loses.
Tensor lenient(const Tensor& a, const Tensor& b, DType dtype, const char* name, bool largest) {
  check(!is_complex(dtype), ErrorKind::runtime, name, ": not implemented for complex tensors.");
  Ready r = ready(a, b, dtype, name);
  Tensor x = r.a, y = r.b;
  if (!is_float(x.dtype())) return largest ? prim::maximum(x, y) : prim::minimum(x, y);
  Tensor take_x = prim::bit_or(largest ? prim::ge(x, y) : prim::le(x, y), prim::ne(y, y));
  return to_dtype(prim::select(take_x, x, y), dtype);
}

Tensor floored_quotient(const Tensor& a, const Tensor& b) {
  if (!is_float(a.dtype())) {
    Tensor q = prim::div(a, b), r = prim::rem(a, b);
    if (a.dtype() == DType::uint8) return q;
    Tensor zero = prim::zeros_like(a);
    Tensor down = prim::bit_and(prim::ne(r, zero), prim::ne(prim::lt(r, zero), prim::lt(b, zero)));
    return prim::sub(q, prim::select(down, number_like(q, 1), zero));
  }
  // As Python's float floor division: from the exact remainder, so that rounding of a / b does not
  // matter.
  Tensor zero = prim::zeros_like(a), m = prim::rem(a, b);
  Tensor q = prim::div(prim::sub(a, m), b);
  Tensor adjust = prim::bit_and(prim::ne(m, zero), prim::ne(prim::lt(b, zero), prim::lt(m, zero)));
  q = prim::select(adjust, prim::sub(q, constant_like(q, 1)), q);
  Tensor f = prim::floor(q);
  f = prim::select(prim::gt(prim::sub(q, f), constant_like(q, 0.5)),
                   prim::add(f, constant_like(f, 1)), f);
  Tensor plain = prim::div(a, b);
  Tensor sign_zero = prim::mul(zero, plain);
  f = prim::select(prim::eq(q, zero), sign_zero, f);
  return prim::select(prim::eq(b, zero), plain, f);
}
Tensor truncated_quotient(const Tensor& a, const Tensor& b) {
  return is_float(a.dtype()) ? prim::trunc(prim::div(a, b)) : prim::div(a, b);
}
Tensor floored_remainder(const Tensor& a, const Tensor& b) {
  Tensor r = prim::rem(a, b);
  if (a.dtype() == DType::uint8) return r;
  Tensor zero = prim::zeros_like(a);
  Tensor wrong = prim::bit_and(prim::ne(r, zero), prim::ne(prim::lt(r, zero), prim::lt(b, zero)));
  return prim::select(wrong, prim::add(r, b), r);
}

Tensor arithmetic(const Tensor& a, const Tensor& b, DType dtype, const char* name,
                  Tensor (*fn)(const Tensor&, const Tensor&)) {
  check(!is_complex(dtype) && dtype != DType::boolean, ErrorKind::runtime, name,
        ": not implemented for ", dtype);
  return binary(a, b, dtype, name, fn);
}

Tensor divided(const Tensor& a, const Tensor& b, DType promoted,
               const std::optional<std::string>& mode, const char* name) {
  if (!mode) return binary(a, b, float_type(promoted), name, div);
  check(*mode == "floor" || *mode == "trunc", ErrorKind::runtime, name,
        " expected rounding_mode to be one of None, 'trunc', or 'floor' but found '", *mode, "'");
  DType dtype = promoted == DType::boolean ? float_type(promoted) : promoted;
  check(!is_complex(dtype), ErrorKind::runtime, name, ": rounding is not implemented for ", dtype);
  if (*mode == "trunc" && compute_type(dtype) != dtype) {
    // The quotient of half types is rounded to the dtype before its fraction goes.
    Tensor q = binary(a, b, dtype, name, div);
    return to_dtype(prim::trunc(to_dtype(q, compute_type(dtype))), dtype);
  }
  return binary(a, b, dtype, name, *mode == "floor" ? floored_quotient : truncated_quotient);
}

Tensor complex_log(const Tensor& z) {
  Pair p = components(z);
  Tensor m = prim::add(prim::mul(p.re, p.re), prim::mul(p.im, p.im));
  return join({prim::mul(prim::log(m), constant_like(m, 0.5)), prim::atan2(p.im, p.re)});
}
Tensor complex_power(const Tensor& a, const Tensor& b) {
  // exp(b log a); 0 to a power is 0, or 1 for exponent 0.
  Pair w = components(mul(b, complex_log(a)));
  Tensor e = prim::exp(w.re);
  Tensor r = join({prim::mul(e, prim::cos(w.im)), prim::mul(e, prim::sin(w.im))});
  Pair x = components(a), y = components(b);
  Tensor zero = prim::zeros_like(x.re), one = constant_like(x.re, 1);
  Tensor base_zero = prim::bit_and(prim::eq(x.re, zero), prim::eq(x.im, zero));
  Tensor exponent_zero = prim::bit_and(prim::eq(y.re, zero), prim::eq(y.im, zero));
  Tensor special = prim::bit_or(base_zero, exponent_zero);
  Tensor value = join({prim::select(exponent_zero, one, zero), zero});
  return prim::select(special, value, r);
}
Tensor power(const Tensor& a, const Tensor& b) {
  if (is_complex(a.dtype())) return complex_power(a, b);
  return a.dtype() == DType::boolean ? prim::bit_or(a, prim::bit_not(b)) : prim::pow(a, b);
}

}  // namespace

#define COMPARISON(symbol, schema_name, aliases, fn, text)                         \
  const Binary symbol##_tensor{                                                    \
      schema_name ".Tensor" aliases "(Tensor self, Tensor other) -> Tensor", text, \
      [](const Tensor& a, const Tensor& b) {                                       \
        return ordered(a, b, result_type({a, b}), schema_name, fn);                \
      },                                                                           \
      kElementwiseForms};                                                          \
  const WithNumber symbol##_scalar {                                               \
    schema_name                                                                    \
        ".Scalar"                                                                  \
        "(Tensor self, Scalar other) -> Tensor",                                   \
        text,                                                                      \
        [](const Tensor& a, const Number& b) {                                     \
          DType t = result_type({a}, {b});                                         \
          return ordered(a, to_tensor(b, t), t, schema_name, fn);                  \
        },                                                                         \
        kElementwiseForms                                                          \
  }
COMPARISON(lt, "lt", "|less.Tensor", prim::lt,
           R"(self < other, bool. Errors: RuntimeError for complex numbers.)");
COMPARISON(le, "le", "|less_equal.Tensor", prim::le,
           R"(self <= other, bool. Errors: RuntimeError for complex numbers.)");
COMPARISON(gt, "gt", "|greater.Tensor", prim::gt,
           R"(self > other, bool. Errors: RuntimeError for complex numbers.)");
COMPARISON(ge, "ge", "|greater_equal.Tensor", prim::ge,
           R"(self >= other, bool. Errors: RuntimeError for complex numbers.)");
#undef COMPARISON

const Binary eq_tensor{"eq.Tensor(Tensor self, Tensor other) -> Tensor",
                       R"(self == other, bool; NaN differs from everything.)",
                       [](const Tensor& a, const Tensor& b) {
                         Ready r = ready(a, b, result_type({a, b}), "eq");
                         return complex_eq(r.a, r.b);
                       },
                       kElementwiseForms};
const WithNumber eq_scalar{"eq.Scalar(Tensor self, Scalar other) -> Tensor",
                           R"(self == other with a number.)",
                           [](const Tensor& a, const Number& b) {
                             DType t = result_type({a}, {b});
                             Ready r = ready(a, to_tensor(b, t), t, "eq");
                             return complex_eq(r.a, r.b);
                           },
                           kElementwiseForms};
const Binary ne_tensor{"ne.Tensor|not_equal.Tensor(Tensor self, Tensor other) -> Tensor",
                       R"(self != other, bool; NaN differs from everything.)",
                       [](const Tensor& a, const Tensor& b) {
                         Ready r = ready(a, b, result_type({a, b}), "ne");
                         return complex_ne(r.a, r.b);
                       },
                       kElementwiseForms};
const WithNumber ne_scalar{"ne.Scalar|not_equal.Scalar(Tensor self, Scalar other) -> Tensor",
                           R"(self != other with a number.)",
                           [](const Tensor& a, const Number& b) {
                             DType t = result_type({a}, {b});
                             Ready r = ready(a, to_tensor(b, t), t, "ne");
                             return complex_ne(r.a, r.b);
                           },
                           kElementwiseForms};

const Binary logical_and{
    "logical_and(Tensor self, Tensor other) -> Tensor", R"(Whether both are not 0; bool.)",
    [](const Tensor& a, const Tensor& b) { return logical(a, b, "logical_and", prim::bit_and); },
    kElementwiseForms};
const Binary logical_or{
    "logical_or(Tensor self, Tensor other) -> Tensor", R"(Whether one of them is not 0; bool.)",
    [](const Tensor& a, const Tensor& b) { return logical(a, b, "logical_or", prim::bit_or); },
    kElementwiseForms};
const Binary logical_xor{
    "logical_xor(Tensor self, Tensor other) -> Tensor",
    R"(Whether exactly one of them is not 0; bool.)",
    [](const Tensor& a, const Tensor& b) { return logical(a, b, "logical_xor", prim::bit_xor); },
    kElementwiseForms};

#define BITS(symbol, schema_name, aliases_tensor, aliases_scalar, helper, fn, text)       \
  const Binary symbol##_tensor{                                                           \
      schema_name ".Tensor" aliases_tensor "(Tensor self, Tensor other) -> Tensor", text, \
      [](const Tensor& a, const Tensor& b) {                                              \
        return helper(a, b, result_type({a, b}), schema_name, fn);                        \
      },                                                                                  \
      kElementwiseForms};                                                                 \
  const WithNumber symbol##_scalar {                                                      \
    schema_name aliases_scalar "(Tensor self, Scalar other) -> Tensor", text,             \
        [](const Tensor& a, const Number& b) {                                            \
          DType t = result_type({a}, {b});                                                \
          return helper(a, to_tensor(b, t), t, schema_name, fn);                          \
        },                                                                                \
        kElementwiseForms                                                                 \
  }
BITS(bitwise_and, "bitwise_and", "|__and__.Tensor", ".Scalar", bits, prim::bit_and,
     R"(Bits set in both; the logical and of bool. Errors: RuntimeError for floats.)");
BITS(bitwise_or, "bitwise_or", "|__or__.Tensor", ".Scalar", bits, prim::bit_or,
     R"(Bits set in one of them; the logical or of bool. Errors: RuntimeError for floats.)");
BITS(bitwise_xor, "bitwise_xor", "|__xor__.Tensor", ".Scalar", bits, prim::bit_xor,
     R"(Bits set in exactly one of them. Errors: RuntimeError for floats.)");
BITS(bitwise_left_shift, "bitwise_left_shift", "", ".Tensor_Scalar", shift, prim::shift_left,
     R"(self * 2 ** other for integers; 0 when other is outside the width.)");
BITS(bitwise_right_shift, "bitwise_right_shift", "", ".Tensor_Scalar", shift, prim::shift_right,
     R"(self / 2 ** other rounded down for integers.)");
#undef BITS

const Binary maximum{"maximum|max.other(Tensor self, Tensor other) -> Tensor",
                     R"(The larger of both; NaN wins.)",
                     [](const Tensor& a, const Tensor& b) {
                       return extreme(a, b, result_type({a, b}), "maximum", prim::maximum);
                     },
                     kDefaultForms};
const Binary minimum{"minimum|min.other(Tensor self, Tensor other) -> Tensor",
                     R"(The smaller of both; NaN wins.)",
                     [](const Tensor& a, const Tensor& b) {
                       return extreme(a, b, result_type({a, b}), "minimum", prim::minimum);
                     },
                     kDefaultForms};
const Binary fmax{"fmax(Tensor self, Tensor other) -> Tensor",
                  R"(The larger of both; a number wins over NaN.)",
                  [](const Tensor& a, const Tensor& b) {
                    return lenient(a, b, result_type({a, b}), "fmax", true);
                  },
                  kDefaultForms};
const Binary fmin{"fmin(Tensor self, Tensor other) -> Tensor",
                  R"(The smaller of both; a number wins over NaN.)",
                  [](const Tensor& a, const Tensor& b) {
                    return lenient(a, b, result_type({a, b}), "fmin", false);
                  },
                  kDefaultForms};

// Clamping. The cotangent of a value on the bound stays with the value.

namespace {

Tensor clamped(const Tensor& self, const Tensor* low, const Tensor* high, DType dtype,
               const char* name) {
  check(!is_complex(dtype), ErrorKind::runtime, name, " is not supported for complex types");
  std::vector<Tensor> all{self};
  if (low) all.push_back(*low);
  if (high) all.push_back(*high);
  Sizes sizes = broadcast_sizes(all, name);
  auto make = [&](const Tensor& t) {
    return to_dtype(expand_to(to_dtype(t, dtype), sizes), compute_type(dtype));
  };
  Tensor x = make(self);
  auto nan = [](const Tensor& t) { return prim::ne(t, t); };
  if (low) {
    Tensor l = make(*low);
    x = prim::select(prim::bit_or(prim::lt(x, l), prim::bit_and(nan(l), prim::bit_not(nan(x)))), l,
                     x);
  }
  if (high) {
    Tensor h = make(*high);
    x = prim::select(prim::bit_or(prim::gt(x, h), prim::bit_and(nan(h), prim::bit_not(nan(x)))), h,
                     x);
  }
  return to_dtype(x, dtype);
}

}  // namespace

const Op<Tensor(const Tensor&, std::optional<Number>, std::optional<Number>)> clamp{
    "clamp|clip(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor",
    R"(Values below `min` become min, values above `max` become max; NaN stays. Errors: RuntimeError without any bound.)",
    [](const Tensor& self, std::optional<Number> low, std::optional<Number> high) {
      check(low || high, ErrorKind::runtime,
            "torch.clamp: At least one of 'min' or 'max' must not be None");
      std::vector<Number> numbers;
      if (low) numbers.push_back(*low);
      if (high) numbers.push_back(*high);
      DType dtype = result_type({self}, numbers);
      Tensor l = low ? to_tensor(*low, dtype) : Tensor(),
             h = high ? to_tensor(*high, dtype) : Tensor();
      return clamped(self, low ? &l : nullptr, high ? &h : nullptr, dtype, "clamp");
    },
    kElementwiseForms};
const Op<Tensor(const Tensor&, std::optional<Tensor>, std::optional<Tensor>)> clamp_tensor{
    "clamp.Tensor|clip.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor",
    R"(clamp with tensors that broadcast.)",
    [](const Tensor& self, std::optional<Tensor> low, std::optional<Tensor> high) {
      check(low || high, ErrorKind::runtime,
            "torch.clamp: At least one of 'min' or 'max' must not be None");
      DType dtype = result_type({self, low.value_or(Tensor()), high.value_or(Tensor())});
      return clamped(self, low ? &*low : nullptr, high ? &*high : nullptr, dtype, "clamp");
    },
    kElementwiseForms};
const WithNumber clamp_min{"clamp_min(Tensor self, Scalar min) -> Tensor",
                           R"(clamp with a lower bound.)",
                           [](const Tensor& self, const Number& low) {
                             DType t = result_type({self}, {low});
                             Tensor l = to_tensor(low, t);
                             return clamped(self, &l, nullptr, t, "clamp_min");
                           },
                           kElementwiseForms};
const Binary clamp_min_tensor{
    "clamp_min.Tensor(Tensor self, Tensor min) -> Tensor", R"(clamp with a lower bound.)",
    [](const Tensor& self, const Tensor& low) {
      return clamped(self, &low, nullptr, result_type({self, low}), "clamp_min");
    },
    kElementwiseForms};
const WithNumber clamp_max{"clamp_max(Tensor self, Scalar max) -> Tensor",
                           R"(clamp with an upper bound.)",
                           [](const Tensor& self, const Number& high) {
                             DType t = result_type({self}, {high});
                             Tensor h = to_tensor(high, t);
                             return clamped(self, nullptr, &h, t, "clamp_max");
                           },
                           kElementwiseForms};
const Binary clamp_max_tensor{
    "clamp_max.Tensor(Tensor self, Tensor max) -> Tensor", R"(clamp with an upper bound.)",
    [](const Tensor& self, const Tensor& high) {
      return clamped(self, nullptr, &high, result_type({self, high}), "clamp_max");
    },
    kElementwiseForms};

// Division with rounding, remainders, powers.

const Op<Tensor(const Tensor&, const Tensor&, std::optional<std::string>)> div_mode_tensor{
    "div.Tensor_mode|divide.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> "
    "Tensor",
    R"(self / other, rounded towards zero for 'trunc', down for 'floor'. Errors: RuntimeError for another mode and for an integer divisor of 0.)",
    [](const Tensor& a, const Tensor& b, std::optional<std::string> mode) {
      return divided(a, b, result_type({a, b}), mode, "div");
    },
    kElementwiseForms};
const Op<Tensor(const Tensor&, const Number&, std::optional<std::string>)> div_mode_scalar{
    "div.Scalar_mode|divide.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> "
    "Tensor",
    R"(div.Tensor_mode with a number.)",
    [](const Tensor& a, const Number& b, std::optional<std::string> mode) {
      DType t = result_type({a}, {b});
      return divided(a, to_tensor(b, t), t, mode, "div");
    },
    kElementwiseForms};

#define ARITHMETIC(symbol, schema_name, fn, text)                                                \
  const Binary symbol##_tensor{schema_name ".Tensor(Tensor self, Tensor other) -> Tensor", text, \
                               [](const Tensor& a, const Tensor& b) {                            \
                                 return arithmetic(a, b, result_type({a, b}), schema_name, fn);  \
                               },                                                                \
                               kElementwiseForms};                                               \
  const WithNumber symbol##_scalar {                                                             \
    schema_name ".Scalar(Tensor self, Scalar other) -> Tensor", text,                            \
        [](const Tensor& a, const Number& b) {                                                   \
          DType t = result_type({a}, {b});                                                       \
          return arithmetic(a, to_tensor(b, t), t, schema_name, fn);                             \
        },                                                                                       \
        kElementwiseForms                                                                        \
  }
ARITHMETIC(floor_divide, "floor_divide", floored_quotient,
           R"(self / other rounded down. Errors: RuntimeError for an integer divisor of 0.)");
ARITHMETIC(
    remainder, "remainder", floored_remainder,
    R"(self - other * floor(self / other): the sign of other. Errors: RuntimeError for an integer divisor of 0.)");
ARITHMETIC(
    fmod, "fmod", prim::rem,
    R"(self - other * trunc(self / other): the sign of self. Errors: RuntimeError for an integer divisor of 0.)");
#undef ARITHMETIC
const Op<Tensor(const Number&, const Tensor&)> remainder_number{
    "remainder.Scalar_Tensor(Scalar self, Tensor other) -> Tensor",
    R"(remainder of a number by a tensor.)",
    [](const Number& a, const Tensor& b) {
      DType t = result_type({b}, {a});
      return arithmetic(to_tensor(a, t), b, t, "remainder", floored_remainder);
    },
    kFunction};

const Binary pow_tensor{
    "pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor",
    R"(self to the power of exponent. A negative exponent of integers gives 0 except for bases 1 and -1.)",
    [](const Tensor& a, const Tensor& b) {
      return binary(a, b, result_type({a, b}), "pow", power);
    },
    kFunction | kMethod | kOut | kInplace};
const WithNumber pow_scalar{
    "pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor",
    R"(self to the power of a number. Errors: RuntimeError for integers to a negative integer power.)",
    [](const Tensor& a, const Number& b) {
      DType t = result_type({a}, {b});
      bool negative =
          b.kind() == Scalar::Kind::integer && !is_inexact(t) && b.scalar().integer() < 0;
      check(!negative, ErrorKind::runtime, "Integers to negative integer powers are not allowed.");
      return binary(a, to_tensor(b, t), t, "pow", power);
    },
    kElementwiseForms};
const Op<Tensor(const Number&, const Tensor&)> pow_number{
    "pow.Scalar(Scalar self, Tensor exponent) -> Tensor", R"(A number to the power of a tensor.)",
    [](const Number& a, const Tensor& b) {
      DType t = result_type({b}, {a});
      return binary(to_tensor(a, t), b, t, "pow", power);
    },
    kFunction | kOut};
const Op<Tensor(const Tensor&, const Tensor&, const Number&)> rsub{
    "rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    R"(other - alpha * self.)",
    [](const Tensor& a, const Tensor& b, const Number& alpha) {
      DType t = result_type({a, b});
      check(a.dtype() != DType::boolean && b.dtype() != DType::boolean, ErrorKind::runtime,
            "rsub: Subtraction, the `-` operator, with a bool tensor is not supported.");
      Ready r = ready(b, a, t, "rsub");
      Tensor s = mul(r.b, expand_to(to_tensor(alpha, r.b.dtype()), graph::sizes_of(r.b)));
      return to_dtype(sub(r.a, s), t);
    },
    kFunction};
const Op<Tensor(const Tensor&, const Number&, const Number&)> rsub_scalar{
    "rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
    R"(other - alpha * self with a number.)",
    [](const Tensor& a, const Number& b, const Number& alpha) {
      DType t = result_type({a}, {b});
      check(a.dtype() != DType::boolean, ErrorKind::runtime,
            "rsub: Subtraction, the `-` operator, with a bool tensor is not supported.");
      Ready r = ready(to_tensor(b, t), a, t, "rsub");
      Tensor s = mul(r.b, expand_to(to_tensor(alpha, r.b.dtype()), graph::sizes_of(r.b)));
      return to_dtype(sub(r.a, s), t);
    },
    kFunction};

const Binary atan2{"atan2|arctan2(Tensor self, Tensor other) -> Tensor",
                   R"(Angle of the point (other, self) in radians, in (-pi, pi].)",
                   [](const Tensor& a, const Tensor& b) {
                     return binary(a, b, float_type(result_type({a, b})), "atan2", prim::atan2);
                   },
                   kElementwiseForms};
const Binary hypot{
    "hypot(Tensor self, Tensor other) -> Tensor",
    R"(sqrt(self^2 + other^2), scaled against overflow.)",
    [](const Tensor& a, const Tensor& b) {
      DType t = result_type({a, b});
      check(is_float(t), ErrorKind::runtime, "hypot: not implemented for ", t);
      return binary(a, b, t, "hypot", [](const Tensor& x, const Tensor& y) {
        Tensor u = prim::abs(x), v = prim::abs(y), big = prim::maximum(u, v),
               small = prim::minimum(u, v);
        Tensor none = prim::eq(big, prim::zeros_like(big)), one = constant_like(big, 1);
        Tensor ratio = prim::div(small, prim::select(none, one, big));
        Tensor infinite =
            prim::eq(big, constant_like(big, std::numeric_limits<double>::infinity()));
        return prim::select(infinite, big,
                            prim::mul(big, prim::sqrt(prim::add(one, prim::mul(ratio, ratio)))));
      });
    },
    kElementwiseForms};
const Binary copysign{
    "copysign.Tensor(Tensor self, Tensor other) -> Tensor",
    R"(The magnitude of self with the sign of other.)",
    [](const Tensor& a, const Tensor& b) {
      return binary(a, b, float_type(result_type({a, b})), "copysign",
                    [](const Tensor& x, const Tensor& y) {
                      DType i = x.dtype() == DType::float64 ? DType::int64 : DType::int32;
                      Tensor negative =
                          prim::lt(prim::bitcast(y, i), prim::constant(0, i, graph::sizes_of(y)));
                      Tensor u = prim::abs(x);
                      return prim::select(negative, prim::neg(u), u);
                    });
    },
    kElementwiseForms};
const WithNumber copysign_scalar{
    "copysign.Scalar(Tensor self, Scalar other) -> Tensor", R"(copysign with a number.)",
    [](const Tensor& self, const Number& other) {
      return copysign(self, to_tensor(other, float_type(result_type({self}, {other}))));
    },
    kElementwiseForms};
const Binary xlogy{"xlogy.Tensor|special.xlogy(Tensor self, Tensor other) -> Tensor",
                   R"(self * log(other), 0 where self is 0, NaN where other is NaN.)",
                   [](const Tensor& a, const Tensor& b) {
                     return binary(a, b, float_type(result_type({a, b})), "xlogy",
                                   [](const Tensor& x, const Tensor& y) {
                                     Tensor zero = prim::zeros_like(x), none = prim::eq(x, zero);
                                     return prim::select(
                                         prim::ne(y, y), y,
                                         prim::select(none, zero, prim::mul(x, prim::log(y))));
                                   });
                   },
                   kElementwiseForms};
const Binary logaddexp{
    "logaddexp(Tensor self, Tensor other) -> Tensor",
    R"(log(exp(self) + exp(other)) from the larger one.)",
    [](const Tensor& a, const Tensor& b) {
      DType t = result_type({a, b});
      check(is_float(t), ErrorKind::runtime, "logaddexp: not implemented for ", t);
      return binary(a, b, t, "logaddexp", [](const Tensor& x, const Tensor& y) {
        Tensor same = prim::bit_and(
            prim::eq(x, y),
            prim::eq(prim::abs(x), constant_like(x, std::numeric_limits<double>::infinity())));
        Tensor m = prim::maximum(x, y), d = prim::neg(prim::abs(prim::sub(x, y)));
        return prim::select(same, x, prim::add(m, prim::log1p(prim::exp(d))));
      });
    },
    kDefaultForms};

// Three tensors.

namespace {

Tensor fused_product(const Tensor& self, const Tensor& a, const Tensor& b, const Number& value,
                     const char* name, Tensor (*fn)(const Tensor&, const Tensor&)) {
  DType t = result_type({self, a, b});
  Sizes sizes = broadcast_sizes({self, a, b}, name);
  DType compute = compute_type(t);
  auto make = [&](const Tensor& x) { return to_dtype(expand_to(to_dtype(x, t), sizes), compute); };
  Tensor x = make(a);
  Tensor scale = expand_to(to_tensor(value, compute), sizes);
  return to_dtype(add(make(self), mul(scale, fn(x, make(b)))), t);
}

}  // namespace

const Op<Tensor(const Tensor&, const Tensor&, const Tensor&, const Number&)> addcmul{
    "addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    R"(self + value * tensor1 * tensor2.)",
    [](const Tensor& self, const Tensor& a, const Tensor& b, const Number& value) {
      return fused_product(self, a, b, value, "addcmul", mul);
    },
    kElementwiseForms};
const Op<Tensor(const Tensor&, const Tensor&, const Tensor&, const Number&)> addcdiv{
    "addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    R"(self + value * tensor1 / tensor2. Errors: RuntimeError for integers.)",
    [](const Tensor& self, const Tensor& a, const Tensor& b, const Number& value) {
      check(is_inexact(a.dtype()) || is_inexact(b.dtype()), ErrorKind::runtime,
            "Integer division with addcdiv is no longer supported");
      return fused_product(self, a, b, value, "addcdiv", div);
    },
    kElementwiseForms};

namespace {

Tensor interpolated(const Tensor& start, const Tensor& end, const Tensor& weight,
                    const char* name) {
  check(start.dtype() == end.dtype(), ErrorKind::runtime, name, ": expected dtype ", start.dtype(),
        " for `end` but got dtype ", end.dtype());
  DType t = start.dtype(), compute = compute_type(t);
  check(is_inexact(t), ErrorKind::runtime, name, ": not implemented for ", t);
  Sizes sizes = broadcast_sizes({start, end, weight}, name);
  auto make = [&](const Tensor& x) { return expand_to(to_dtype(x, compute), sizes); };
  Tensor a = make(start), b = make(end), w = make(weight), d = sub(b, a);
  // From the nearer end, so that weight 1 gives `end` exactly.
  auto half = [](const Tensor& r) { return constant_like(r, 0.5); };
  Tensor near = is_complex(compute) ? prim::lt(prim::add(prim::mul(prim::real(w), prim::real(w)),
                                                         prim::mul(prim::imag(w), prim::imag(w))),
                                               constant_like(prim::real(w), 0.25))
                                    : prim::lt(prim::abs(w), half(w));
  Tensor one = is_complex(compute)
                   ? join({constant_like(prim::real(w), 1), prim::zeros_like(prim::real(w))})
                   : constant_like(w, 1);
  return to_dtype(prim::select(near, add(a, mul(w, d)), sub(b, mul(d, sub(one, w)))), t);
}

}  // namespace

const Op<Tensor(const Tensor&, const Tensor&, const Number&)> lerp_scalar{
    "lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor",
    R"(self + weight * (end - self).)",
    [](const Tensor& self, const Tensor& end, const Number& weight) {
      return interpolated(self, end, to_tensor(weight, compute_type(self.dtype())), "lerp");
    },
    kElementwiseForms};
const Op<Tensor(const Tensor&, const Tensor&, const Tensor&)> lerp_tensor{
    "lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor",
    R"(self + weight * (end - self).)",
    [](const Tensor& self, const Tensor& end, const Tensor& weight) {
      return interpolated(self, end, weight, "lerp");
    },
    kElementwiseForms};

// Choice.

namespace {

Tensor chosen(const Tensor& condition, const Tensor& a, const Tensor& b, DType t) {
  check(condition.dtype() == DType::boolean || condition.dtype() == DType::uint8,
        ErrorKind::runtime,
        "where expected condition to be a boolean tensor, but got a tensor with dtype ",
        condition.dtype());
  Sizes sizes = broadcast_sizes({condition, a, b}, "where");
  return prim::select(expand_to(to_dtype(condition, DType::boolean), sizes),
                      expand_to(to_dtype(a, t), sizes), expand_to(to_dtype(b, t), sizes));
}

}  // namespace

const Op<Tensor(const Tensor&, const Tensor&, const Tensor&)> where_tensor{
    "where.self(Tensor condition, Tensor self, Tensor other) -> Tensor",
    R"(self where condition holds, else other, after broadcasting and promotion. Errors: RuntimeError unless the condition is bool.)",
    [](const Tensor& c, const Tensor& a, const Tensor& b) {
      return chosen(c, a, b, result_type({a, b}));
    },
    kFunction | kOut};
const Op<Tensor(const Tensor&, const Number&, const Tensor&)> where_scalar_self{
    "where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor",
    R"(where with a number for self.)",
    [](const Tensor& c, const Number& a, const Tensor& b) {
      DType t = result_type({b}, {a});
      return chosen(c, to_tensor(a, t), b, t);
    },
    kFunction};
const Op<Tensor(const Tensor&, const Tensor&, const Number&)> where_scalar_other{
    "where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor",
    R"(where with a number for other.)",
    [](const Tensor& c, const Tensor& a, const Number& b) {
      DType t = result_type({a}, {b});
      return chosen(c, a, to_tensor(b, t), t);
    },
    kFunction};
const Op<Tensor(const Tensor&, const Number&, const Number&)> where_scalars{
    "where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor", R"(where with numbers.)",
    [](const Tensor& c, const Number& a, const Number& b) {
      DType t = promote(a.dtype(), b.dtype());
      return chosen(c, to_tensor(a, t), to_tensor(b, t), t);
    },
    kFunction};
const Op<Tensor(const Tensor&, const Tensor&, const Tensor&)> where_method{
    "where.method(Tensor self, Tensor condition, Tensor other) -> Tensor",
    R"(self where condition holds, else other.)",
    [](const Tensor& a, const Tensor& c, const Tensor& b) { return where_tensor(c, a, b); },
    kMethod, BodyKind::direct};
const Op<Tensor(const Tensor&, const Tensor&, const Number&)> masked_fill_scalar{
    "masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor",
    R"(`value` where mask holds, else self. Errors: RuntimeError unless the mask is bool.)",
    [](const Tensor& self, const Tensor& mask, const Number& value) {
      check(mask.dtype() == DType::boolean, ErrorKind::runtime,
            "masked_fill_ only supports boolean masks, but got mask with dtype ", mask.dtype());
      check(category(value.dtype()) <= category(self.dtype()) || is_inexact(self.dtype()) ||
                (self.dtype() == DType::boolean && category(value.dtype()) <= 1),
            ErrorKind::runtime, "value cannot be converted to type ", self.dtype(),
            " without overflow");
      Sizes sizes = broadcast_sizes({self, mask}, "masked_fill");
      return prim::select(expand_to(mask, sizes), expand_to(to_tensor(value, self.dtype()), sizes),
                          expand_to(self, sizes));
    },
    kFunction | kMethod | kInplace};
const Op<Tensor(const Tensor&, const Tensor&, const Tensor&)> masked_fill_tensor{
    "masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor",
    R"(masked_fill with a 0-d tensor.)",
    [](const Tensor& self, const Tensor& mask, const Tensor& value) {
      check(mask.dtype() == DType::boolean, ErrorKind::runtime,
            "masked_fill_ only supports boolean masks, but got mask with dtype ", mask.dtype());
      check(value.dim() == 0, ErrorKind::runtime,
            "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
            value.dim(), " dimension(s).");
      Sizes sizes = broadcast_sizes({self, mask}, "masked_fill");
      return prim::select(expand_to(mask, sizes), expand_to(to_dtype(value, self.dtype()), sizes),
                          expand_to(self, sizes));
    },
    kFunction | kMethod | kInplace};

}  // namespace flambeau::ops
