// Activations: functions of one tensor, element by element, that networks put between products.
// Each is one kernel in either direction; half types are computed in float32 and rounded once.
#include "flambeau/ops/activation.h"

#include <cmath>
#include <numbers>

#include "flambeau/base/error.h"
#include "flambeau/ops/typing.h"

namespace flambeau::ops {

namespace {

using Unary = Op<Tensor(const Tensor&)>;

Tensor like(const Tensor& x, double v) { return prim::constant_like(x, v); }
Tensor like(const Tensor& x, const Number& n) {
  return expand_to(to_tensor(n, x.dtype()), graph::sizes_of(x));
}
Tensor times(const Tensor& x, double v) { return prim::mul(x, like(x, v)); }

void check_float(const Tensor& x, const char* name) {
  check(is_float(x.dtype()), ErrorKind::runtime, name, ": expected a floating-point tensor, got ",
        x.dtype());
}

/// fn in float32 or float64, rounded once to the dtype of x.
template <class Function>
Tensor rounded(const Tensor& x, const char* name, const Function& fn) {
  check_float(x, name);
  return to_dtype(fn(to_dtype(x, compute_type(x.dtype()))), x.dtype());
}

/// The same; integers are converted to the default float type first.
template <class Function>
Tensor rounded_float(const Tensor& x, const char* name, const Function& fn) {
  return rounded(is_complex(x.dtype()) ? x : to_dtype(x, float_type(x.dtype())), name, fn);
}

void check_real(const Tensor& x, const char* name) {
  check(!is_complex(x.dtype()), ErrorKind::runtime, name, ": not implemented for ", x.dtype());
}

Tensor logistic(const Tensor& x) {
  Tensor one = like(x, 1);
  return prim::div(one, prim::add(one, prim::exp(prim::neg(x))));
}

/// log(1 + exp(x)) without overflow.
Tensor log_one_plus_exp(const Tensor& x) {
  Tensor zero = prim::zeros_like(x);
  return prim::add(prim::maximum(x, zero), prim::log1p(prim::exp(prim::neg(prim::abs(x)))));
}

/// x where it is positive, else `otherwise(min(x, 0))`: what is not chosen stays finite, so that
/// its derivative is a plain zero.
template <class Function>
Tensor positive_or(const Tensor& x, const Function& otherwise) {
  Tensor zero = prim::zeros_like(x);
  Tensor positive = prim::gt(x, zero);
  return prim::select(positive, x, otherwise(prim::select(positive, zero, x)));
}

Tensor clipped(const Tensor& x, const Tensor& low, const Tensor& high) {
  return prim::select(prim::le(x, low), low, prim::select(prim::ge(x, high), high, x));
}

/// Tensors of any real dtype, in the dtype's own arithmetic (float32 for half types).
template <class Function>
Tensor in_own_type(const Tensor& x, const char* name, const Function& fn) {
  check_real(x, name);
  check(x.dtype() != DType::boolean, ErrorKind::runtime, name, ": Boolean inputs not supported");
  return to_dtype(fn(to_dtype(x, compute_type(x.dtype()))), x.dtype());
}

constexpr double kSeluScale = 1.0507009873554804934193349852946,
                 kSeluAlpha = 1.6732632423543772848170429916717;

}  // namespace

const Unary relu{"relu|nn.functional.relu(Tensor self) -> Tensor",
                 R"(max(x, 0), element by element; NaN stays NaN. Its derivative at 0 is 0.

Shapes: any, kept. Dtypes: integers and floats, kept. Errors: RuntimeError for bool and complex tensors.)",
                 [](const Tensor& self) {
                   return in_own_type(self, "relu", [](const Tensor& x) {
                     Tensor zero = prim::zeros_like(x);
                     return prim::select(prim::le(x, zero), zero, x);
                   });
                 },
                 kElementwiseForms};
const Unary relu6{"nn.functional.relu6(Tensor input) -> Tensor", R"(min(max(x, 0), 6).)",
                  [](const Tensor& input) {
                    return in_own_type(input, "relu6", [](const Tensor& x) {
                      return clipped(x, like(x, 0), like(x, 6));
                    });
                  }};
const Op<Tensor(const Tensor&, const Number&, const Number&)> hardtanh{
    "nn.functional.hardtanh(Tensor input, Scalar min_val=-1, Scalar max_val=1) -> Tensor",
    R"(x limited to [min_val, max_val]; the derivative is 0 at the borders.)",
    [](const Tensor& input, const Number& low, const Number& high) {
      return in_own_type(input, "hardtanh",
                         [&](const Tensor& x) { return clipped(x, like(x, low), like(x, high)); });
    },
    kFunction | kInplace | kOut};
const Op<Tensor(const Tensor&, const Number&)> leaky_relu{
    "nn.functional.leaky_relu(Tensor input, Scalar negative_slope=0.01) -> Tensor",
    R"(x where it is positive, else negative_slope * x.)",
    [](const Tensor& input, const Number& slope) {
      return rounded(input, "leaky_relu", [&](const Tensor& x) {
        return prim::select(prim::gt(x, prim::zeros_like(x)), x, prim::mul(x, like(x, slope)));
      });
    },
    kFunction | kInplace | kOut};
const Op<Tensor(const Tensor&, const Number&)> elu{
    "nn.functional.elu(Tensor input, Scalar alpha=1.0) -> Tensor",
    R"(x where it is positive, else alpha * (exp(x) - 1). Source: Clevert et al., "Fast and accurate deep network learning by
exponential linear units", 2015.)",
    [](const Tensor& input, const Number& alpha) {
      return rounded(input, "elu", [&](const Tensor& x) {
        return positive_or(
            x, [&](const Tensor& y) { return prim::mul(prim::expm1(y), like(y, alpha)); });
      });
    },
    kFunction | kInplace | kOut};
const Op<Tensor(const Tensor&, const Number&)> celu{
    "celu|nn.functional.celu(Tensor self, Scalar alpha=1.0) -> Tensor",
    R"(x where it is positive, else alpha * (exp(x / alpha) - 1). Source: Barron, "Continuously differentiable exponential
linear units", 2017.)",
    [](const Tensor& self, const Number& alpha) {
      return rounded(self, "celu", [&](const Tensor& x) {
        Tensor a = like(x, alpha);
        return positive_or(
            x, [&](const Tensor& y) { return prim::mul(a, prim::expm1(prim::div(y, a))); });
      });
    },
    kFunction | kInplace | kOut};
const Unary selu{
    "selu|nn.functional.selu(Tensor self) -> Tensor",
    R"(scale * (x where it is positive, else alpha * (exp(x) - 1)) with the constants of Klambauer et al.,
"Self-normalizing neural networks", 2017.)",
    [](const Tensor& self) {
      return rounded(self, "selu", [](const Tensor& x) {
        return times(
            positive_or(x, [](const Tensor& y) { return times(prim::expm1(y), kSeluAlpha); }),
            kSeluScale);
      });
    },
    kFunction | kInplace | kOut};

const Op<Tensor(const Tensor&, const std::string&)> gelu{
    "nn.functional.gelu(Tensor input, *, str approximate='none') -> Tensor",
    R"(x * Phi(x), Phi the distribution function of the normal distribution; with approximate='tanh' the approximation of
Hendrycks and Gimpel, "Gaussian error linear units", 2016.

Shapes: any, kept. Dtypes: floats. Errors: RuntimeError for other values of `approximate`.)",
    [](const Tensor& input, const std::string& approximate) {
      check(approximate == "none" || approximate == "tanh", ErrorKind::runtime,
            "gelu: approximate argument must be either none or tanh, got '", approximate, "'");
      return rounded(input, "gelu", [&](const Tensor& x) {
        Tensor one = like(x, 1);
        if (approximate == "none")
          return prim::mul(times(x, 0.5),
                           prim::add(one, prim::erf(times(x, std::numbers::sqrt2 / 2))));
        Tensor cubic = prim::mul(prim::mul(x, x), x);
        Tensor inner = times(prim::add(x, times(cubic, 0.044715)),
                             std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
        return prim::mul(times(x, 0.5), prim::add(one, prim::tanh(inner)));
      });
    },
    kFunction | kOut};
const Unary silu{"nn.functional.silu(Tensor input) -> Tensor",
                 R"(x / (1 + exp(-x)).)",
                 [](const Tensor& input) {
                   return rounded(input, "silu", [](const Tensor& x) {
                     return prim::div(x, prim::add(like(x, 1), prim::exp(prim::neg(x))));
                   });
                 },
                 kFunction,
                 BodyKind::composite,
                 [](const std::vector<Argument>& arguments, const std::vector<Tensor>&,
                    const std::vector<Tensor>& cotangents) {
                   // s (1 + x (1 - s)): stays finite where exp(-x) overflows.
                   const Tensor& input = std::get<Tensor>(arguments[0]);
                   Tensor x = to_dtype(input, compute_type(input.dtype())),
                          c = to_dtype(cotangents[0], x.dtype());
                   Tensor s = logistic(x), one = like(x, 1);
                   Tensor slope = prim::mul(s, prim::add(one, prim::mul(x, prim::sub(one, s))));
                   return std::vector<Tensor>{to_dtype(prim::mul(c, slope), input.dtype())};
                 }};
const Unary mish{"nn.functional.mish(Tensor input) -> Tensor",
                 R"(x * tanh(log(1 + exp(x))). Source: Misra, "Mish", 2019.)",
                 [](const Tensor& input) {
                   return rounded(input, "mish", [](const Tensor& x) {
                     return prim::mul(x, prim::tanh(log_one_plus_exp(x)));
                   });
                 },
                 kFunction | kOut};
const Op<Tensor(const Tensor&, const Number&, const Number&)> softplus{
    "nn.functional.softplus(Tensor input, Scalar beta=1, Scalar threshold=20) -> Tensor",
    R"(log(1 + exp(beta * x)) / beta, and x itself where beta * x is above the threshold.)",
    [](const Tensor& input, const Number& beta, const Number& threshold) {
      return rounded(input, "softplus", [&](const Tensor& x) {
        Tensor b = like(x, beta), z = prim::mul(x, b);
        Tensor linear = prim::gt(z, like(x, threshold));
        Tensor safe = prim::select(linear, prim::zeros_like(z), z);
        return prim::select(linear, x, prim::div(prim::log1p(prim::exp(safe)), b));
      });
    },
    kFunction | kOut};
const Unary log_sigmoid{"nn.functional.logsigmoid(Tensor input) -> Tensor",
                        R"(log(1 / (1 + exp(-x))), without overflow.)",
                        [](const Tensor& input) {
                          return rounded(input, "logsigmoid", [](const Tensor& x) {
                            return prim::sub(prim::minimum(x, prim::zeros_like(x)),
                                             prim::log1p(prim::exp(prim::neg(prim::abs(x)))));
                          });
                        },
                        kFunction | kOut};
const Unary hardsigmoid{"nn.functional.hardsigmoid(Tensor input) -> Tensor",
                        R"(min(max(x + 3, 0), 6) / 6.)",
                        [](const Tensor& input) {
                          return rounded(input, "hardsigmoid", [](const Tensor& x) {
                            Tensor shifted = prim::add(x, like(x, 3));
                            return prim::div(clipped(shifted, like(x, 0), like(x, 6)), like(x, 6));
                          });
                        },
                        kFunction | kOut};
const Unary hardswish{"nn.functional.hardswish(Tensor input) -> Tensor",
                      R"(0 up to -3, x from 3 on, x (x + 3) / 6 between. Source: Howard et al.,
"Searching for MobileNetV3", 2019.)",
                      [](const Tensor& input) {
                        return rounded(input, "hardswish", [](const Tensor& x) {
                          Tensor middle =
                              prim::div(prim::mul(x, prim::add(x, like(x, 3))), like(x, 6));
                          return prim::select(prim::le(x, like(x, -3)), prim::zeros_like(x),
                                              prim::select(prim::ge(x, like(x, 3)), x, middle));
                        });
                      },
                      kFunction | kOut};
const Unary softsign{"nn.functional.softsign(Tensor input) -> Tensor", R"(x / (1 + |x|).)",
                     [](const Tensor& input) {
                       return rounded_float(input, "softsign", [](const Tensor& x) {
                         return prim::div(x, prim::add(like(x, 1), prim::abs(x)));
                       });
                     },
                     kFunction | kOut};
const Unary tanhshrink{"nn.functional.tanhshrink(Tensor input) -> Tensor", R"(x - tanh(x).)",
                       [](const Tensor& input) {
                         return rounded_float(input, "tanhshrink", [](const Tensor& x) {
                           return prim::sub(x, prim::tanh(x));
                         });
                       },
                       kFunction | kOut};
const Op<Tensor(const Tensor&, const Number&)> hardshrink{
    "hardshrink|nn.functional.hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
    R"(x where |x| > lambd, else 0.)",
    [](const Tensor& self, const Number& lambd) {
      return rounded(self, "hardshrink", [&](const Tensor& x) {
        Tensor limit = like(x, lambd);
        Tensor inside = prim::bit_and(prim::ge(x, prim::neg(limit)), prim::le(x, limit));
        return prim::select(inside, prim::zeros_like(x), x);
      });
    },
    kFunction | kMethod | kOut};
const Op<Tensor(const Tensor&, const Number&)> softshrink{
    "nn.functional.softshrink(Tensor input, Scalar lambd=0.5) -> Tensor",
    R"(x moved towards 0 by lambd, 0 where |x| <= lambd.)",
    [](const Tensor& input, const Number& lambd) {
      return rounded(input, "softshrink", [&](const Tensor& x) {
        Tensor limit = like(x, lambd);
        Tensor below = prim::lt(x, prim::neg(limit)), above = prim::gt(x, limit);
        Tensor inside = prim::mul(x, prim::zeros_like(x));  // NaN stays NaN
        return prim::select(above, prim::sub(x, limit),
                            prim::select(below, prim::add(x, limit), inside));
      });
    },
    kFunction | kOut};
const Op<Tensor(const Tensor&, const Number&, const Number&)> threshold{
    "threshold|nn.functional.threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor",
    R"(x where it is above the threshold, else the value.)",
    [](const Tensor& self, const Number& limit, const Number& value) {
      return in_own_type(self, "threshold", [&](const Tensor& x) {
        return prim::select(prim::le(x, like(x, limit)), like(x, value), x);
      });
    },
    kFunction | kInplace | kOut};
const Op<Tensor(const Tensor&, const Tensor&)> prelu{
    "prelu|nn.functional.prelu(Tensor self, Tensor weight) -> Tensor",
    R"(x where it is positive, else weight * x: one weight for all, or one a channel (dim 1). Errors: RuntimeError where the
number of weights is neither 1 nor that of the channels.)",
    [](const Tensor& self, const Tensor& weight) {
      check(weight.dtype() == self.dtype(), ErrorKind::runtime,
            "prelu: Type promoting not supported. Got ", self.dtype(), " and ", weight.dtype());
      return rounded(self, "prelu", [&](const Tensor& x) {
        Tensor w = to_dtype(weight, x.dtype());
        Sizes sizes = graph::sizes_of(x), shape(static_cast<size_t>(x.dim()), Size(1));
        Size count = w.dim() == 0 ? Size(1) : graph::size_of(w, 0);
        check(w.dim() <= 1, ErrorKind::runtime,
              "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = ", w.dim());
        if (count != Size(1)) {
          Size channels = x.dim() > 1 ? sizes[1] : Size(1);
          check(x.dim() > 0, ErrorKind::runtime, "prelu: Not allow zero-dim input tensor.");
          check(count == channels, ErrorKind::runtime,
                "prelu: Mismatch of parameter numbers and input channel size. Found parameter "
                "numbers = ",
                count, " and channel size = ", channels, ".");
          shape[1] = count;
        }
        w = expand_to(prim::reshape(w, shape), sizes);
        return prim::select(prim::gt(x, prim::zeros_like(x)), x, prim::mul(w, x));
      });
    },
    kFunction | kMethod | kOut};
const Op<Tensor(const Tensor&, Dim)> glu{
    "nn.functional.glu(Tensor input, int dim=-1) -> Tensor",
    R"(The first half along dim times the logistic function of the second half.
Errors: RuntimeError where the dim has an odd size.)",
    [](const Tensor& input, Dim dim) {
      check(input.dim() > 0, ErrorKind::runtime, "glu: glu does not support 0-dimensional tensors");
      int64_t d = wrap_dim(dim, input.dim(), "glu");
      Size n = graph::size_of(input, d);
      check(n % Size(2) == Size(0), ErrorKind::runtime,
            "glu: Halving dimension must be even, but dimension ", d, " is size ", n);
      return rounded(input, "glu", [&](const Tensor& x) {
        return prim::mul(prim::slice(x, d, 0, n / Size(2), 1),
                         logistic(prim::slice(x, d, n / Size(2), n / Size(2), 1)));
      });
    },
    kFunction | kOut};

}  // namespace flambeau::ops
