// Normalizations over the last dims.
#include "flambeau/base/error.h"
#include "flambeau/ops/reduce.h"
#include "flambeau/ops/typing.h"

namespace flambeau::ops {

namespace {

/// The dims that `normalized_shape` stands for: the last ones.
std::vector<int64_t> normalized_dims(const Tensor& input, const Sizes& normalized_shape,
                                     const char* name) {
  auto count = static_cast<int64_t>(normalized_shape.size());
  check(count > 0, ErrorKind::runtime, name,
        ": Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
        "element, but got []");
  Sizes sizes = graph::sizes_of(input);
  bool fits = input.dim() >= count;
  std::vector<int64_t> dims;
  for (int64_t i = 0; fits && i < count; ++i) {
    int64_t d = input.dim() - count + i;
    dims.push_back(d);
    fits = graph::Trace::current()->require_equal(sizes[static_cast<size_t>(d)],
                                                  normalized_shape[static_cast<size_t>(i)],
                                                  "normalized_shape must be that of the last dims");
  }
  check(fits, ErrorKind::runtime, name, ": Given normalized_shape=", values(normalized_shape),
        ", expected input with shape [*, ", values(normalized_shape), "], but got input of size",
        input.sizes());
  return dims;
}

Tensor parameter(const Tensor& p, const Sizes& normalized_shape, const Sizes& full, DType compute,
                 const char* name, const char* what) {
  bool fits = p.dim() == static_cast<int64_t>(normalized_shape.size());
  for (size_t d = 0; fits && d < normalized_shape.size(); ++d) {
    fits = graph::Trace::current()->require_equal(graph::size_of(p, static_cast<int64_t>(d)),
                                                  normalized_shape[d],
                                                  "weight and bias must have normalized_shape");
  }
  check(fits, ErrorKind::runtime, name, ": Expected ", what,
        " to be of same shape as normalized_shape, but got ", what, " of shape ", p.sizes(),
        " and normalized_shape = ", values(normalized_shape));
  return expand_to(to_dtype(p, compute), full);
}

Tensor reciprocal_root(const Tensor& x) {
  return prim::div(prim::constant_like(x, 1), prim::sqrt(x));
}

}  // namespace

const Op<Tensor(const Tensor&, const Sizes&, std::optional<Tensor>, std::optional<Tensor>,
                const Number&)>
    layer_norm{
        "layer_norm|nn.functional.layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? "
        "weight=None, Tensor? bias=None, float eps=1e-05) -> Tensor",
        R"((x - mean) / sqrt(variance + eps) * weight + bias, mean and variance over the last dims. Source: Ba, Kiros and Hinton,
"Layer normalization", 2016.

Shapes: input [..., *normalized_shape], weight and bias `normalized_shape`; the result has the input's. Dtypes: floats; half
types are computed in float32. Errors: RuntimeError where the shapes do not fit.)",
        [](const Tensor& input, const Sizes& normalized_shape, std::optional<Tensor> weight,
           std::optional<Tensor> bias, const Number& eps) {
          check(is_float(input.dtype()), ErrorKind::runtime,
                "layer_norm: expected a floating-point input, got ", input.dtype());
          auto dims = normalized_dims(input, normalized_shape, "layer_norm");
          Tensor x = to_dtype(input, compute_type(input.dtype()));
          Sizes full = graph::sizes_of(x);
          Tensor centered = prim::sub(x, expand_to(mean_of(x, dims, true), full));
          Tensor variance = mean_of(prim::mul(centered, centered), dims, true);
          Tensor scale = reciprocal_root(
              prim::add(variance, expand_to(to_tensor(eps, x.dtype()), graph::sizes_of(variance))));
          Tensor y = prim::mul(centered, expand_to(scale, full));
          if (weight)
            y = prim::mul(
                y, parameter(*weight, normalized_shape, full, x.dtype(), "layer_norm", "weight"));
          if (bias)
            y = prim::add(
                y, parameter(*bias, normalized_shape, full, x.dtype(), "layer_norm", "bias"));
          return to_dtype(y, input.dtype());
        },
        kFunction};

const Op<Tensor(const Tensor&, const Sizes&, std::optional<Tensor>, std::optional<Number>)> rms_norm{
    "rms_norm|nn.functional.rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, "
    "float? eps=None) -> Tensor",
    R"(x / sqrt(mean(x^2) + eps) * weight, the mean over the last dims; eps is the dtype's epsilon where it is not given. Source:
Zhang and Sennrich, "Root mean square layer normalization", 2019. Shapes, dtypes, errors: see layer_norm.)",
    [](const Tensor& input, const Sizes& normalized_shape, std::optional<Tensor> weight,
       std::optional<Number> eps) {
      check(is_float(input.dtype()), ErrorKind::runtime,
            "rms_norm: expected a floating-point input, got ", input.dtype());
      auto dims = normalized_dims(input, normalized_shape, "rms_norm");
      Tensor x = to_dtype(input, compute_type(input.dtype()));
      Sizes full = graph::sizes_of(x);
      Tensor mean = mean_of(prim::mul(x, x), dims, true);
      double epsilon = x.dtype() == DType::float64 ? 2.220446049250313e-16 : 1.1920928955078125e-07;
      Tensor e = expand_to(eps ? to_tensor(*eps, x.dtype()) : prim::constant(epsilon, x.dtype()),
                           graph::sizes_of(mean));
      Tensor y = prim::mul(x, expand_to(reciprocal_root(prim::add(mean, e)), full));
      if (weight)
        y = prim::mul(y,
                      parameter(*weight, normalized_shape, full, x.dtype(), "rms_norm", "weight"));
      return to_dtype(y, input.dtype());
    },
    kFunction};

}  // namespace flambeau::ops
