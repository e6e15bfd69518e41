// Functions of one tensor, element by element.
#include <cmath>
#include <limits>

#include "flambeau/base/error.h"
#include "flambeau/ops/typing.h"

namespace flambeau::ops {

namespace {

using Unary = Op<Tensor(const Tensor&)>;

Tensor constant_like(const Tensor& x, double v) { return prim::constant_like(x, v); }
Tensor times(const Tensor& x, double v) { return prim::mul(x, constant_like(x, v)); }

// Complex functions by their parts, z = x + iy.

Tensor modulus(const Tensor& z) {
  // Scaled by the larger part, so that squares neither overflow nor vanish.
  Pair p = components(z);
  Tensor a = prim::abs(p.re), b = prim::abs(p.im);
  Tensor big = prim::maximum(a, b), small = prim::minimum(a, b);
  Tensor one = constant_like(big, 1);
  Tensor zero = prim::eq(big, prim::zeros_like(big));
  Tensor ratio = prim::div(small, prim::select(zero, one, big));
  Tensor infinite = prim::eq(big, constant_like(big, std::numeric_limits<double>::infinity()));
  Tensor r = prim::mul(big, prim::sqrt(prim::add(one, prim::mul(ratio, ratio))));
  return prim::select(infinite, big, r);
}
Tensor phase(const Tensor& z) {
  Pair p = components(z);
  return prim::atan2(p.im, p.re);
}
Tensor complex_exp(const Tensor& z) {
  Pair p = components(z);
  Tensor e = prim::exp(p.re);
  return join({prim::mul(e, prim::cos(p.im)), prim::mul(e, prim::sin(p.im))});
}
Tensor complex_log(const Tensor& z) { return join({prim::log(modulus(z)), phase(z)}); }
Tensor scaled_log(const Tensor& z, double factor) {
  return join({times(prim::log(modulus(z)), factor), times(phase(z), factor)});
}
Tensor complex_log2(const Tensor& z) { return scaled_log(z, 1.4426950408889634074); }
Tensor complex_log10(const Tensor& z) { return scaled_log(z, 0.43429448190325182765); }
Tensor complex_one(const Tensor& z) {
  Tensor re = prim::real(z);
  return join({constant_like(re, 1), prim::zeros_like(re)});
}
Tensor complex_log1p(const Tensor& z) { return complex_log(add(z, complex_one(z))); }
Tensor complex_expm1(const Tensor& z) { return sub(complex_exp(z), complex_one(z)); }
Tensor complex_exp2(const Tensor& z) {
  Pair p = components(z);
  return complex_exp(
      join({times(p.re, 0.69314718055994530942), times(p.im, 0.69314718055994530942)}));
}
Tensor complex_sqrt(const Tensor& z) {
  // Principal root from the half sums: the larger part first, the other by division.
  Pair p = components(z);
  Tensor m = modulus(z), zero = prim::zeros_like(m);
  Tensor t = prim::sqrt(times(prim::add(m, prim::abs(p.re)), 0.5));
  Tensor none = prim::eq(t, zero);
  Tensor other = prim::select(
      none, zero, prim::div(prim::abs(p.im), prim::select(none, constant_like(t, 1), times(t, 2))));
  Tensor right = prim::ge(p.re, zero);
  Tensor im = prim::select(right, other, t);
  return join(
      {prim::select(right, t, other), prim::select(prim::lt(p.im, zero), prim::neg(im), im)});
}
Tensor complex_reciprocal(const Tensor& z) { return div(complex_one(z), z); }
Tensor complex_rsqrt(const Tensor& z) { return complex_reciprocal(complex_sqrt(z)); }
Tensor complex_sin(const Tensor& z) {
  Pair p = components(z);
  return join(
      {prim::mul(prim::sin(p.re), prim::cosh(p.im)), prim::mul(prim::cos(p.re), prim::sinh(p.im))});
}
Tensor complex_cos(const Tensor& z) {
  Pair p = components(z);
  return join({prim::mul(prim::cos(p.re), prim::cosh(p.im)),
               prim::neg(prim::mul(prim::sin(p.re), prim::sinh(p.im)))});
}
Tensor complex_sinh(const Tensor& z) {
  Pair p = components(z);
  return join(
      {prim::mul(prim::sinh(p.re), prim::cos(p.im)), prim::mul(prim::cosh(p.re), prim::sin(p.im))});
}
Tensor complex_cosh(const Tensor& z) {
  Pair p = components(z);
  return join(
      {prim::mul(prim::cosh(p.re), prim::cos(p.im)), prim::mul(prim::sinh(p.re), prim::sin(p.im))});
}
Tensor complex_tanh(const Tensor& z) { return div(complex_sinh(z), complex_cosh(z)); }
Tensor complex_tan(const Tensor& z) { return div(complex_sin(z), complex_cos(z)); }
Tensor times_i(const Tensor& z) { return join({prim::neg(prim::imag(z)), prim::real(z)}); }
Tensor times_minus_i(const Tensor& z) { return join({prim::imag(z), prim::neg(prim::real(z))}); }
Tensor complex_asinh(const Tensor& z) {
  // log(z + sqrt(z^2 + 1)) on the right half plane, odd elsewhere.
  Pair p = components(z);
  Tensor left = prim::lt(p.re, prim::zeros_like(p.re));
  auto flip = [&](const Tensor& w) {
    Pair q = components(w);
    return join(
        {prim::select(left, prim::neg(q.re), q.re), prim::select(left, prim::neg(q.im), q.im)});
  };
  Tensor w = flip(z);
  return flip(complex_log(add(w, complex_sqrt(add(mul(w, w), complex_one(w))))));
}
Tensor complex_asin(const Tensor& z) { return times_minus_i(complex_asinh(times_i(z))); }
Tensor complex_acos(const Tensor& z) {
  Pair p = components(complex_asin(z));
  return join({prim::sub(constant_like(p.re, 1.57079632679489661923), p.re), prim::neg(p.im)});
}
Tensor complex_acosh(const Tensor& z) {
  // log(z + sqrt(z + 1) sqrt(z - 1))
  Tensor one = complex_one(z);
  return complex_log(add(z, mul(complex_sqrt(add(z, one)), complex_sqrt(sub(z, one)))));
}
Tensor complex_atanh(const Tensor& z) {
  Tensor one = complex_one(z);
  Pair p = components(sub(complex_log(add(one, z)), complex_log(sub(one, z))));
  return join({times(p.re, 0.5), times(p.im, 0.5)});
}
Tensor complex_atan(const Tensor& z) { return times_minus_i(complex_atanh(times_i(z))); }

Tensor logistic(const Tensor& x) {
  // 1 / (1 + exp(-x)): an overflow of exp gives the right 0.
  Tensor one = constant_like(x, 1);
  return prim::div(one, prim::add(one, prim::exp(prim::neg(x))));
}
Tensor complex_logistic(const Tensor& z) {
  return complex_reciprocal(add(complex_one(z), complex_exp(neg(z))));
}
Tensor real_reciprocal(const Tensor& x) { return prim::div(constant_like(x, 1), x); }
Tensor real_rsqrt(const Tensor& x) { return real_reciprocal(prim::sqrt(x)); }

/// Floats through fn, integers unchanged.
Tensor rounded(const Tensor& x, Tensor (*fn)(const Tensor&), const char* name) {
  check(!is_complex(x.dtype()), ErrorKind::runtime, name, ": not implemented for ", x.dtype());
  check(x.dtype() != DType::boolean, ErrorKind::runtime, name, ": not implemented for 'Bool'");
  if (!is_float(x.dtype())) return x;
  return to_dtype(fn(to_dtype(x, compute_type(x.dtype()))), x.dtype());
}

Tensor is_nan(const Tensor& x) { return prim::ne(x, x); }
Tensor is_infinite(const Tensor& x) {
  return prim::eq(prim::abs(x), constant_like(x, std::numeric_limits<double>::infinity()));
}

Tensor all_equal_to(const Tensor& x, bool value) {
  return prim::constant(value, DType::boolean, graph::sizes_of(x));
}

/// A question about floats; integers have one answer.
Tensor ask(const Tensor& x, Tensor (*question)(const Tensor&), bool of_integers, bool either_part) {
  if (is_complex(x.dtype())) {
    Pair p = components(x);
    Tensor a = question(p.re), b = question(p.im);
    return either_part ? prim::bit_or(a, b) : prim::bit_and(a, b);
  }
  if (!is_float(x.dtype())) return all_equal_to(x, of_integers);
  return question(to_dtype(x, compute_type(x.dtype())));
}

Tensor truth(const Tensor& x) {
  if (is_complex(x.dtype())) {
    Pair p = components(x);
    return prim::bit_or(prim::cast(p.re, DType::boolean), prim::cast(p.im, DType::boolean));
  }
  return to_dtype(x, DType::boolean);
}

Tensor output_rule_half(const Tensor& g, const Tensor& factor, DType dtype) {
  return to_dtype(prim::mul(g, factor), dtype);
}

/// Cotangent times a factor that is computed from the result, in the compute type.
std::vector<Tensor> from_result(const std::vector<Tensor>& results,
                                const std::vector<Tensor>& cotangents,
                                const std::vector<Argument>& arguments,
                                Tensor (*factor)(const Tensor& result)) {
  DType compute = compute_type(results[0].dtype());
  Tensor r = to_dtype(results[0], compute), g = to_dtype(cotangents[0], compute);
  const Tensor& x = std::get<Tensor>(arguments[0]);
  if (!is_inexact(x.dtype())) return {Tensor()};
  if (is_complex(x.dtype())) return {mul(g, conj(factor(r)))};
  return {output_rule_half(g, factor(r), x.dtype())};
}

Tensor ones(const Tensor& r) {
  return is_complex(r.dtype()) ? complex_one(r) : constant_like(r, 1);
}

}  // namespace

#define UNARY_FLOAT(symbol, schema, text, real_fn, complex_fn)                              \
  const Unary symbol {                                                                      \
    schema, text,                                                                           \
        [](const Tensor& self) { return unary_float(self, real_fn, complex_fn, #symbol); }, \
        kElementwiseForms                                                                   \
  }

UNARY_FLOAT(exp, "exp(Tensor self) -> Tensor",
            R"(e to the power of each element. Integers give the default float type.)", prim::exp,
            complex_exp);
UNARY_FLOAT(exp2, "exp2|special.exp2(Tensor self) -> Tensor",
            R"(2 to the power of each element. Integers give the default float type.)", prim::exp2,
            complex_exp2);
UNARY_FLOAT(expm1, "expm1|special.expm1(Tensor self) -> Tensor",
            R"(exp(x) - 1 without cancellation near 0.)", prim::expm1, complex_expm1);
UNARY_FLOAT(log, "log(Tensor self) -> Tensor",
            R"(Natural logarithm; NaN for negative numbers, -inf for 0.)", prim::log, complex_log);
UNARY_FLOAT(log2, "log2(Tensor self) -> Tensor", R"(Logarithm to base 2.)", prim::log2,
            complex_log2);
UNARY_FLOAT(log10, "log10(Tensor self) -> Tensor", R"(Logarithm to base 10.)", prim::log10,
            complex_log10);
UNARY_FLOAT(log1p, "log1p|special.log1p(Tensor self) -> Tensor",
            R"(log(1 + x) without cancellation near 0.)", prim::log1p, complex_log1p);
UNARY_FLOAT(sin, "sin(Tensor self) -> Tensor", R"(Sine of radians.)", prim::sin, complex_sin);
UNARY_FLOAT(cos, "cos(Tensor self) -> Tensor", R"(Cosine of radians.)", prim::cos, complex_cos);
UNARY_FLOAT(tan, "tan(Tensor self) -> Tensor", R"(Tangent of radians.)", prim::tan, complex_tan);
UNARY_FLOAT(asin, "asin|arcsin(Tensor self) -> Tensor",
            R"(Inverse sine in radians; NaN outside [-1, 1].)", prim::asin, complex_asin);
UNARY_FLOAT(acos, "acos|arccos(Tensor self) -> Tensor",
            R"(Inverse cosine in radians; NaN outside [-1, 1].)", prim::acos, complex_acos);
UNARY_FLOAT(atan, "atan|arctan(Tensor self) -> Tensor", R"(Inverse tangent in radians.)",
            prim::atan, complex_atan);
UNARY_FLOAT(sinh, "sinh(Tensor self) -> Tensor", R"(Hyperbolic sine.)", prim::sinh, complex_sinh);
UNARY_FLOAT(cosh, "cosh(Tensor self) -> Tensor", R"(Hyperbolic cosine.)", prim::cosh, complex_cosh);
UNARY_FLOAT(asinh, "asinh|arcsinh(Tensor self) -> Tensor", R"(Inverse hyperbolic sine.)",
            prim::asinh, complex_asinh);
UNARY_FLOAT(acosh, "acosh|arccosh(Tensor self) -> Tensor",
            R"(Inverse hyperbolic cosine; NaN below 1.)", prim::acosh, complex_acosh);
UNARY_FLOAT(atanh, "atanh|arctanh(Tensor self) -> Tensor",
            R"(Inverse hyperbolic tangent; NaN outside [-1, 1].)", prim::atanh, complex_atanh);
UNARY_FLOAT(erf, "erf|special.erf(Tensor self) -> Tensor",
            R"(Error function, 2/sqrt(pi) times the integral of exp(-t^2) from 0 to x.)", prim::erf,
            nullptr);
UNARY_FLOAT(erfc, "erfc|special.erfc(Tensor self) -> Tensor", R"(1 - erf(x) without cancellation.)",
            prim::erfc, nullptr);
UNARY_FLOAT(erfinv, "erfinv|special.erfinv(Tensor self) -> Tensor", R"(Inverse of erf on (-1, 1).)",
            prim::erfinv, nullptr);
UNARY_FLOAT(lgamma, "lgamma|special.gammaln(Tensor self) -> Tensor",
            R"(Logarithm of the absolute value of the gamma function.)", prim::lgamma, nullptr);
UNARY_FLOAT(digamma, "digamma|special.digamma|special.psi(Tensor self) -> Tensor",
            R"(Derivative of lgamma.)", prim::digamma, nullptr);
#undef UNARY_FLOAT

const Unary sqrt{
    "sqrt(Tensor self) -> Tensor", R"(Square root; NaN for negative numbers.)",
    [](const Tensor& self) { return unary_float(self, prim::sqrt, complex_sqrt, "sqrt"); },
    kElementwiseForms};
const Unary rsqrt{
    "rsqrt(Tensor self) -> Tensor", R"(1 / sqrt(x), both operations correctly rounded.)",
    [](const Tensor& self) { return unary_float(self, real_rsqrt, complex_rsqrt, "rsqrt"); },
    kElementwiseForms};
const Unary reciprocal{
    "reciprocal(Tensor self) -> Tensor",
    R"(1 / x.)",
    [](const Tensor& self) {
      return unary_float(self, real_reciprocal, complex_reciprocal, "reciprocal");
    },
    kElementwiseForms,
    BodyKind::composite,
    [](const std::vector<Argument>& a, const std::vector<Tensor>& r, const std::vector<Tensor>& g) {
      return from_result(r, g, a, [](const Tensor& y) { return neg(mul(y, y)); });
    }};
const Unary tanh{
    "tanh|nn.functional.tanh(Tensor self) -> Tensor",
    R"(Hyperbolic tangent.)",
    [](const Tensor& self) { return unary_float(self, prim::tanh, complex_tanh, "tanh"); },
    kElementwiseForms,
    BodyKind::composite,
    [](const std::vector<Argument>& a, const std::vector<Tensor>& r, const std::vector<Tensor>& g) {
      return from_result(r, g, a, [](const Tensor& y) { return sub(ones(y), mul(y, y)); });
    }};
const Unary sigmoid{
    "sigmoid|special.expit|nn.functional.sigmoid(Tensor self) -> Tensor",
    R"(1 / (1 + exp(-x)).)",
    [](const Tensor& self) { return unary_float(self, logistic, complex_logistic, "sigmoid"); },
    kElementwiseForms,
    BodyKind::composite,
    [](const std::vector<Argument>& a, const std::vector<Tensor>& r, const std::vector<Tensor>& g) {
      return from_result(r, g, a, [](const Tensor& y) { return mul(y, sub(ones(y), y)); });
    }};

const Unary neg_op{
    "neg|negative(Tensor self) -> Tensor", R"(-x. Errors: RuntimeError for bool.)",
    [](const Tensor& self) {
      check(self.dtype() != DType::boolean, ErrorKind::runtime,
            "neg: Negation, the `-` operator, on a bool tensor is not supported. If you are trying "
            "to invert a mask, use the `~` or `logical_not()` operator instead.");
      return to_dtype(neg(to_dtype(self, compute_type(self.dtype()))), self.dtype());
    },
    kElementwiseForms};
const Unary abs_op{
    "abs|absolute(Tensor self) -> Tensor",
    R"(Absolute value; the modulus of complex numbers, which is real.)",
    [](const Tensor& self) {
      if (is_complex(self.dtype())) return modulus(self);
      if (self.dtype() == DType::boolean) return self;
      return to_dtype(prim::abs(to_dtype(self, compute_type(self.dtype()))), self.dtype());
    },
    kElementwiseForms,
    BodyKind::composite,
    [](const std::vector<Argument>& a, const std::vector<Tensor>& r,
       const std::vector<Tensor>& ct) -> std::vector<Tensor> {
      const Tensor& x = std::get<Tensor>(a[0]);
      if (!is_inexact(x.dtype())) return {Tensor()};
      DType compute = compute_type(r[0].dtype());
      Tensor g = to_dtype(ct[0], compute), zero = prim::zeros_like(g);
      if (is_complex(x.dtype())) {
        // g * z / |z|, 0 at 0.
        Pair p = components(x);
        Tensor none = prim::eq(r[0], prim::zeros_like(r[0]));
        Tensor scale =
            prim::select(none, zero, prim::div(g, prim::select(none, constant_like(g, 1), r[0])));
        return {join({prim::mul(scale, p.re), prim::mul(scale, p.im)})};
      }
      Tensor y = to_dtype(x, compute);
      Tensor out =
          prim::select(prim::gt(y, zero), g, prim::select(prim::lt(y, zero), prim::neg(g), zero));
      return {to_dtype(out, x.dtype())};
    }};
const Unary square{"square(Tensor self) -> Tensor", R"(x * x.)",
                   [](const Tensor& self) {
                     DType dtype = self.dtype() == DType::boolean ? DType::int64 : self.dtype();
                     Tensor x = to_dtype(self, compute_type(dtype));
                     return to_dtype(mul(x, x), dtype);
                   },
                   kElementwiseForms};
const Unary positive{"positive(Tensor self) -> Tensor",
                     R"(x itself. Errors: RuntimeError for bool.)",
                     [](const Tensor& self) {
                       check(self.dtype() != DType::boolean, ErrorKind::runtime,
                             "The `+` operator, on a bool tensor is not supported.");
                       return self;
                     },
                     kFunction | kMethod, BodyKind::direct};
const Unary floor{"floor(Tensor self) -> Tensor", R"(Largest integer not above x. Integers stay.)",
                  [](const Tensor& self) { return rounded(self, prim::floor, "floor"); },
                  kElementwiseForms};
const Unary ceil{"ceil(Tensor self) -> Tensor", R"(Smallest integer not below x. Integers stay.)",
                 [](const Tensor& self) { return rounded(self, prim::ceil, "ceil"); },
                 kElementwiseForms};
const Unary trunc{"trunc|fix(Tensor self) -> Tensor", R"(x without its fraction. Integers stay.)",
                  [](const Tensor& self) { return rounded(self, prim::trunc, "trunc"); },
                  kElementwiseForms};
const Unary round{"round|special.round(Tensor self) -> Tensor",
                  R"(Nearest integer, halves to even. Integers stay.)",
                  [](const Tensor& self) { return rounded(self, prim::round, "round"); },
                  kElementwiseForms};
const Op<Tensor(const Tensor&, Dim)> round_decimals{
    "round.decimals|special.round.decimals(Tensor self, *, int decimals) -> Tensor",
    R"(Nearest multiple of 10^-decimals, halves to even; the scaling is in the tensor's type. Integers stay for decimals >= 0.)",
    [](const Tensor& self, Dim decimals) {
      if (decimals == 0) return rounded(self, prim::round, "round");
      check(is_float(self.dtype()), ErrorKind::runtime, "round: decimals=", decimals.value,
            " is not implemented for ", self.dtype());
      Tensor x = to_dtype(self, compute_type(self.dtype()));
      Tensor scale = constant_like(x, std::pow(10.0, std::abs(decimals.value)));
      Tensor scaled = decimals > 0 ? prim::mul(x, scale) : prim::div(x, scale);
      Tensor whole = prim::round(scaled);
      return to_dtype(decimals > 0 ? prim::div(whole, scale) : prim::mul(whole, scale),
                      self.dtype());
    },
    kElementwiseForms};
const Unary frac{
    "frac(Tensor self) -> Tensor", R"(x - trunc(x). Errors: RuntimeError for integers.)",
    [](const Tensor& self) {
      check(is_float(self.dtype()), ErrorKind::runtime, "frac: not implemented for ", self.dtype());
      Tensor x = to_dtype(self, compute_type(self.dtype()));
      return to_dtype(prim::sub(x, prim::trunc(x)), self.dtype());
    },
    kElementwiseForms};
const Unary deg2rad{"deg2rad(Tensor self) -> Tensor", R"(x * pi / 180.)",
                    [](const Tensor& self) {
                      check(!is_complex(self.dtype()), ErrorKind::runtime,
                            "deg2rad is not supported for complex tensors.");
                      return unary_float(
                          self, [](const Tensor& x) { return times(x, 0.017453292519943295769); },
                          nullptr, "deg2rad");
                    },
                    kElementwiseForms};
const Unary rad2deg{"rad2deg(Tensor self) -> Tensor", R"(x * 180 / pi.)",
                    [](const Tensor& self) {
                      check(!is_complex(self.dtype()), ErrorKind::runtime,
                            "rad2deg is not supported for complex tensors.");
                      return unary_float(
                          self, [](const Tensor& x) { return times(x, 57.295779513082320877); },
                          nullptr, "rad2deg");
                    },
                    kElementwiseForms};
const Unary sinc{
    "sinc|special.sinc(Tensor self) -> Tensor", R"(sin(pi x) / (pi x), 1 at 0.)",
    [](const Tensor& self) {
      return unary_float(
          self,
          [](const Tensor& x) {
            Tensor y = times(x, 3.14159265358979323846), zero = prim::zeros_like(x),
                   none = prim::eq(y, zero);
            Tensor one = constant_like(x, 1), safe = prim::select(none, one, y);
            return prim::select(none, one, prim::div(prim::sin(safe), safe));
          },
          [](const Tensor& z) {
            Pair p = components(z);
            Pair y{times(p.re, 3.14159265358979323846), times(p.im, 3.14159265358979323846)};
            Tensor zero = prim::zeros_like(p.re);
            Tensor none = prim::bit_and(prim::eq(y.re, zero), prim::eq(y.im, zero));
            Tensor safe = join({prim::select(none, constant_like(p.re, 1), y.re), y.im});
            return prim::select(none, complex_one(z), div(complex_sin(safe), safe));
          },
          "sinc");
    },
    kElementwiseForms};
const Unary sign{
    "sign(Tensor self) -> Tensor",
    R"(-1, 0 or 1 by the sign of x; NaN gives 0. Errors: RuntimeError for complex numbers.)",
    [](const Tensor& self) {
      check(!is_complex(self.dtype()), ErrorKind::runtime,
            "Unlike NumPy, torch.sign doesn't return sgn for complex; use torch.sgn.");
      if (self.dtype() == DType::boolean) return self;
      Tensor x = to_dtype(self, compute_type(self.dtype())), zero = prim::zeros_like(x);
      Tensor one = prim::constant(1, x.dtype(), graph::sizes_of(x));
      Tensor minus = self.dtype() == DType::uint8 ? one : prim::neg(one);
      return to_dtype(
          prim::select(prim::gt(x, zero), one, prim::select(prim::lt(x, zero), minus, zero)),
          self.dtype());
    },
    kElementwiseForms};
const Unary sgn{"sgn(Tensor self) -> Tensor",
                R"(sign for real numbers, z / |z| (0 at 0) for complex ones.)",
                [](const Tensor& self) {
                  if (is_complex(self.dtype())) {
                    Pair p = components(self);
                    Tensor m = modulus(self), zero = prim::zeros_like(m), none = prim::eq(m, zero),
                           safe = prim::select(none, constant_like(m, 1), m);
                    return join({prim::select(none, zero, prim::div(p.re, safe)),
                                 prim::select(none, zero, prim::div(p.im, safe))});
                  }
                  return sign(self);
                },
                kElementwiseForms};
const Unary signbit{"signbit(Tensor self) -> Tensor", R"(Whether the sign is set, also for -0.)",
                    [](const Tensor& self) {
                      check(!is_complex(self.dtype()), ErrorKind::runtime,
                            "signbit is not implemented for complex tensors.");
                      if (self.dtype() == DType::boolean || self.dtype() == DType::uint8)
                        return all_equal_to(self, false);
                      Tensor x = to_dtype(self, compute_type(self.dtype()));
                      if (is_float(x.dtype()))
                        x = prim::bitcast(
                            x, x.dtype() == DType::float64 ? DType::int64 : DType::int32);
                      return prim::lt(x, prim::zeros_like(x));
                    },
                    kDefaultForms};
const Unary isnan_op{"isnan(Tensor self) -> Tensor", R"(Whether each element is NaN.)",
                     [](const Tensor& self) { return ask(self, is_nan, false, true); },
                     kFunction | kMethod};
const Unary isinf_op{"isinf(Tensor self) -> Tensor", R"(Whether each element is an infinity.)",
                     [](const Tensor& self) { return ask(self, is_infinite, false, true); },
                     kFunction | kMethod};
const Unary isfinite_op{
    "isfinite(Tensor self) -> Tensor", R"(Whether each element is neither NaN nor an infinity.)",
    [](const Tensor& self) {
      return ask(
          self,
          [](const Tensor& x) {
            return prim::lt(prim::abs(x),
                            constant_like(x, std::numeric_limits<double>::infinity()));
          },
          true, false);
    },
    kFunction | kMethod};
const Unary isposinf{"isposinf(Tensor self) -> Tensor",
                     R"(Whether each element is +inf. Errors: RuntimeError for complex numbers.)",
                     [](const Tensor& self) {
                       check(!is_complex(self.dtype()), ErrorKind::runtime,
                             "isposinf does not support complex inputs.");
                       return ask(
                           self,
                           [](const Tensor& x) {
                             return prim::eq(
                                 x, constant_like(x, std::numeric_limits<double>::infinity()));
                           },
                           false, true);
                     },
                     kDefaultForms};
const Unary isneginf{"isneginf(Tensor self) -> Tensor",
                     R"(Whether each element is -inf. Errors: RuntimeError for complex numbers.)",
                     [](const Tensor& self) {
                       check(!is_complex(self.dtype()), ErrorKind::runtime,
                             "isneginf does not support complex inputs.");
                       return ask(
                           self,
                           [](const Tensor& x) {
                             return prim::eq(
                                 x, constant_like(x, -std::numeric_limits<double>::infinity()));
                           },
                           false, true);
                     },
                     kDefaultForms};
const Unary isreal{"isreal(Tensor self) -> Tensor",
                   R"(Whether the imaginary part of each element is 0.)",
                   [](const Tensor& self) {
                     if (!is_complex(self.dtype())) return all_equal_to(self, true);
                     Tensor im = prim::imag(self);
                     return prim::eq(im, prim::zeros_like(im));
                   },
                   kFunction | kMethod};
const Unary logical_not{"logical_not(Tensor self) -> Tensor", R"(Whether each element is 0; bool.)",
                        [](const Tensor& self) { return prim::bit_not(truth(self)); },
                        kElementwiseForms};
const Unary bitwise_not{
    "bitwise_not(Tensor self) -> Tensor",
    R"(All bits flipped; the logical not of bool. Errors: RuntimeError for floats.)",
    [](const Tensor& self) {
      check(!is_inexact(self.dtype()), ErrorKind::runtime, "bitwise_not: not implemented for ",
            self.dtype());
      return prim::bit_not(self);
    },
    kElementwiseForms};
const Unary conj_physical{"conj_physical(Tensor self) -> Tensor",
                          R"(Complex conjugate; real numbers stay.)",
                          [](const Tensor& self) { return conj(self); }, kElementwiseForms};
const Unary conj_op{
    "conj(Tensor self) -> Tensor", R"(Complex conjugate; a real tensor is returned itself.)",
    [](const Tensor& self) { return is_complex(self.dtype()) ? conj_physical(self) : self; },
    kFunction | kMethod, BodyKind::direct};
const Unary resolve_conj{
    "resolve_conj(Tensor self) -> Tensor", R"(The tensor itself: conjugation is never pending.)",
    [](const Tensor& self) { return self; }, kFunction | kMethod, BodyKind::direct};
const Unary resolve_neg{
    "resolve_neg(Tensor self) -> Tensor", R"(The tensor itself: negation is never pending.)",
    [](const Tensor& self) { return self; }, kFunction | kMethod, BodyKind::direct};
const Unary angle{
    "angle(Tensor self) -> Tensor",
    R"(Angle of complex numbers in radians; 0 or pi by the sign of real ones, NaN for NaN.)",
    [](const Tensor& self) {
      if (is_complex(self.dtype())) return phase(self);
      return unary_float(
          self,
          [](const Tensor& x) {
            Tensor zero = prim::zeros_like(x);
            return prim::select(
                prim::ne(x, x), x,
                prim::select(prim::lt(x, zero), constant_like(x, 3.14159265358979323846), zero));
          },
          nullptr, "angle");
    },
    kDefaultForms};
const Op<Tensor(const Tensor&, std::optional<Number>, std::optional<Number>, std::optional<Number>)>
    nan_to_num{
        "nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> "
        "Tensor",
        R"(NaN replaced by `nan` (0), infinities by `posinf` and `neginf` (the largest and smallest finite numbers). Integers stay.)",
        [](const Tensor& self, std::optional<Number> nan, std::optional<Number> posinf,
           std::optional<Number> neginf) {
          if (!is_inexact(self.dtype())) return self;
          DType dtype = real_type(self.dtype()), compute = compute_type(dtype);
          double largest = dtype == DType::float64 ? std::numeric_limits<double>::max()
                           : dtype == DType::float32
                               ? static_cast<double>(std::numeric_limits<float>::max())
                           : dtype == DType::float16 ? 65504.0
                                                     : 3.3895313892515355e38;
          auto value = [&](const std::optional<Number>& n, double otherwise, const Tensor& like) {
            return expand_to(n ? to_tensor(*n, compute) : prim::constant(otherwise, compute),
                             graph::sizes_of(like));
          };
          auto replaced = [&](const Tensor& part) {
            Tensor x = to_dtype(part, compute);
            double inf = std::numeric_limits<double>::infinity();
            Tensor y = prim::select(prim::ne(x, x), value(nan, 0, x), x);
            y = prim::select(prim::eq(x, constant_like(x, inf)), value(posinf, largest, x), y);
            return to_dtype(
                prim::select(prim::eq(x, constant_like(x, -inf)), value(neginf, -largest, x), y),
                dtype);
          };
          if (!is_complex(self.dtype())) return replaced(self);
          Pair p = components(self);
          return join({replaced(p.re), replaced(p.im)});
        },
        kElementwiseForms};

}  // namespace flambeau::ops
