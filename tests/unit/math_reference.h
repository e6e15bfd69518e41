// What the vector mathematics is measured against: the long double functions of the C library, and
// for float32 arguments the double ones, which are fast enough for all of them. Included by the
// unit test and by tools/check_math.cpp.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>

#include "flambeau/emit/code.h"
#include "flambeau/loop/builder.h"
#include "flambeau/loop/math.h"

namespace flambeau::loop::math {

struct Unary {
  std::string_view name;
  Value (*build)(Builder&, Value);
  long double (*exact)(long double);
  double (*quick)(double);
  double single_bound;  // ulp, float32
  double double_bound;  // ulp, float64
  double absolute = 0;  // forgiven beside that in float64, near zeros of the function
};

template <class T>
T reference_erfinv(T x) {
  if (!(std::fabs(x) < 1)) {
    return std::fabs(x) == 1 ? x * std::numeric_limits<T>::infinity()
                             : std::numeric_limits<T>::quiet_NaN();
  }
  if (std::fabs(x) < T(1e-12)) return x * T(0.886226925452758013649083741670572591L);
  const T a = std::fabs(x);
  const T tail = 1 - a;
  const T l = std::log(tail * (1 + a));
  const T p = 2 / (T(M_PI) * T(0.147)) + l / 2;
  T y = std::sqrt(std::sqrt(p * p - l / T(0.147)) - p);
  // Halley's method on erf, or on log(erfc) in the tail, where it is well conditioned.
  const T scale = T(1.12837916709551257389615890312154517L);
  for (int i = 0; i < (sizeof(T) > 8 ? 4 : 3); ++i) {
    T step;
    if (a < T(0.7)) {
      step = (std::erf(y) - a) / (scale * std::exp(-y * y));
      step /= 1 + y * step;
    } else {
      const T c = std::erfc(y);
      step = std::log(tail / c) * c / (scale * std::exp(-y * y));
    }
    y -= step;
  }
  return std::copysign(y, x);
}

template <class T>
T reference_digamma(T x) {
  if (x == 0) return std::copysign(std::numeric_limits<T>::infinity(), -x);
  if (std::isinf(x)) return x > 0 ? x : std::numeric_limits<T>::quiet_NaN();
  if (x < 0) {
    const T r = x - std::nearbyint(x);
    if (r == 0) return std::numeric_limits<T>::quiet_NaN();
    const T pi = T(3.14159265358979323846264338327950288L);
    const T cot = std::fabs(r) > T(0.25) ? std::copysign(std::tan(pi * (T(0.5) - std::fabs(r))), r)
                                         : 1 / std::tan(pi * r);
    return reference_digamma(1 - x) - pi * cot;
  }
  T shift = 0;
  while (x < 24) {
    shift += 1 / x;
    x += 1;
  }
  const T u = 1 / (x * x);
  // Bernoulli numbers over 2k.
  const T series =
      u * (T(1) / 12 -
           u * (T(1) / 120 -
                u * (T(1) / 252 -
                     u * (T(1) / 240 -
                          u * (T(1) / 132 -
                               u * (T(691) / 32760 - u * (T(1) / 12 - u * T(3617) / 8160)))))));
  return std::log(x) - 1 / (2 * x) - series - shift;
}

inline long double reference_lgamma(long double x) {
  int sign;
  return ::lgammal_r(x, &sign);
}

#define FLAMBEAU_UNARY(function, ...)                                                  \
  {#function, function, [](long double x) -> long double { return std::function(x); }, \
   [](double x) -> double { return std::function(x); }, __VA_ARGS__}
inline const Unary kUnary[] = {
    FLAMBEAU_UNARY(exp, 1, 2),
    FLAMBEAU_UNARY(exp2, 1, 2),
    FLAMBEAU_UNARY(expm1, 1, 2),
    FLAMBEAU_UNARY(sinh, 1, 2),
    FLAMBEAU_UNARY(cosh, 1, 2),
    FLAMBEAU_UNARY(tanh, 1, 2),
    FLAMBEAU_UNARY(log, 1, 2),
    FLAMBEAU_UNARY(log2, 1, 2),
    FLAMBEAU_UNARY(log10, 1, 2),
    FLAMBEAU_UNARY(log1p, 1, 2),
    FLAMBEAU_UNARY(asinh, 1, 2),
    FLAMBEAU_UNARY(acosh, 1, 2),
    FLAMBEAU_UNARY(atanh, 1, 2),
    FLAMBEAU_UNARY(sin, 1, 2),
    FLAMBEAU_UNARY(cos, 1, 2),
    FLAMBEAU_UNARY(tan, 1, 2),
    FLAMBEAU_UNARY(asin, 1, 2),
    FLAMBEAU_UNARY(acos, 1, 2),
    FLAMBEAU_UNARY(atan, 1, 2),
    FLAMBEAU_UNARY(erf, 1, 2),
    FLAMBEAU_UNARY(erfc, 1, 2),
    {"rsqrt", rsqrt, [](long double x) { return 1 / std::sqrt(x); },
     [](double x) { return 1 / std::sqrt(x); }, 1, 2},
    {"erfinv", erfinv, reference_erfinv<long double>, reference_erfinv<double>, 1, 4},
    {"lgamma", lgamma, reference_lgamma,
     [](double x) { return static_cast<double>(reference_lgamma(x)); }, 1, 4, 4e-16},
    {"digamma", digamma, reference_digamma<long double>,
     [](double x) { return static_cast<double>(reference_digamma<long double>(x)); }, 1, 4, 4e-16},
};
#undef FLAMBEAU_UNARY

/// Distance of `got` from `exact` in units of the last place of T at `exact`; infinite for a wrong
/// NaN, infinity or sign of zero. Overflow counts from the number after the largest.
template <class T, class E>
double ulps(T got, E exact, double absolute = 0) {
  constexpr int kDigits = std::numeric_limits<T>::digits;
  constexpr int kLeast = std::numeric_limits<T>::min_exponent;
  const E over = std::ldexp(E(1), std::numeric_limits<T>::max_exponent - 1) * 2;
  if (std::isnan(got) || std::isnan(exact)) {
    return std::isnan(got) == std::isnan(exact) ? 0 : std::numeric_limits<double>::infinity();
  }
  if (exact == 0 && got == 0 && std::signbit(got) != std::signbit(exact)) {
    return std::numeric_limits<double>::infinity();
  }
  if (std::isinf(got) && (std::isinf(exact) || std::fabs(exact) >= over)) {
    return (got > 0) == (exact > 0) ? 0 : std::numeric_limits<double>::infinity();
  }
  if (std::isinf(exact)) return std::numeric_limits<double>::infinity();
  int exponent = exact == 0 ? kLeast : std::ilogb(exact) + 1;
  exponent = std::min(std::max(exponent, kLeast), std::numeric_limits<T>::max_exponent);
  const E value = std::isinf(got) ? std::copysign(over, static_cast<E>(got)) : static_cast<E>(got);
  const E error = std::fabs(value - exact) - static_cast<E>(absolute);
  return error <= 0 ? 0 : static_cast<double>(std::ldexp(error, kDigits - exponent));
}

/// A module whose function computes out[i] = f(in[i]) (slots 0 and 1) or f(in[i], second[i]) for
/// i in [begin, end), a multiple of `lanes` elements.
template <class Body>
Module elementwise(Scalar scalar, int lanes, int operands, Body body) {
  Builder b("evaluate");
  const Value out = b.slot(0, Scalar::ptr);
  const Type type{scalar, lanes};
  b.loop(b.begin(), b.end(), lanes, {}, [&](Value i, const std::vector<Value>&) {
    std::vector<Value> x;
    for (int k = 0; k < operands; ++k) x.push_back(b.load(b.slot(k + 1, Scalar::ptr), i, type));
    b.store(out, i, body(b, x));
    return std::vector<Value>{};
  });
  return {{b.finish()}};
}

/// Compiled `elementwise` code for values of type T.
template <class T>
class Evaluator {
 public:
  Evaluator(const Unary& f, int lanes)
      : code_(emit::compile(elementwise(
            kScalar, lanes, 1, [&](Builder& b, std::span<Value> x) { return f.build(b, x[0]); }))) {
  }
  Evaluator(Value (*build)(Builder&, Value, Value), int lanes)
      : code_(emit::compile(elementwise(kScalar, lanes, 2, [&](Builder& b, std::span<Value> x) {
          return build(b, x[0], x[1]);
        }))) {}
  void operator()(std::span<const T> x, std::span<T> out) const { run(x.data(), nullptr, out); }
  void operator()(std::span<const T> x, std::span<const T> y, std::span<T> out) const {
    run(x.data(), y.data(), out);
  }

 private:
  static constexpr Scalar kScalar = std::is_same_v<T, float> ? Scalar::f32 : Scalar::f64;
  void run(const T* x, const T* y, std::span<T> out) const {
    const int64_t slots[] = {std::bit_cast<int64_t>(out.data()), std::bit_cast<int64_t>(x),
                             std::bit_cast<int64_t>(y)};
    code_->entries()[0](slots, 0, static_cast<int64_t>(out.size()), 0);
  }
  std::shared_ptr<const emit::Code> code_;
};

}  // namespace flambeau::loop::math
