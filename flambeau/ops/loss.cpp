// Losses. `reduction` is 'none', 'mean' or 'sum'; `size_average` and `reduce` are its older
// spelling.
#include "flambeau/ops/loss.h"

#include "flambeau/base/error.h"
#include "flambeau/ops/reduce.h"
#include "flambeau/ops/typing.h"

namespace flambeau::ops {

Reduction reduction_of(const std::string& text, std::optional<bool> size_average,
                       std::optional<bool> reduce) {
  if (size_average || reduce) {
    if (!reduce.value_or(true)) return Reduction::none;
    return size_average.value_or(true) ? Reduction::mean : Reduction::sum;
  }
  if (text == "none") return Reduction::none;
  if (text == "mean") return Reduction::mean;
  check(text == "sum", ErrorKind::value, text,
        " is not a valid value for reduction; allowed: 'none', 'mean', 'sum'");
  return Reduction::sum;
}

Tensor reduced(const Tensor& loss, Reduction reduction) {
  if (reduction == Reduction::none) return loss;
  if (reduction == Reduction::mean)
    return mean_of(loss, reduced_dims(std::nullopt, loss.dim(), ""), false);
  return sum(loss, reduced_dims(std::nullopt, loss.dim(), ""));
}

namespace {

Tensor like(const Tensor& x, double v) { return prim::constant_like(x, v); }
Tensor like(const Tensor& x, const Number& n) {
  return expand_to(to_tensor(n, x.dtype()), graph::sizes_of(x));
}

/// fn(input, target) on broadcast operands in the compute type, weighted and reduced, rounded once.
/// The mean divides by the number of elements, or by the sum of the weights if `by_weight`.
template <class Function>
Tensor pointwise_loss(const Tensor& input, const Tensor& target,
                      const std::optional<Tensor>& weight, Reduction reduction, const char* name,
                      const Function& fn, bool by_weight = false) {
  std::vector<Tensor> tensors{input, target};
  if (weight) tensors.push_back(*weight);
  DType dtype = result_type(tensors);
  check(is_inexact(dtype) && !is_complex(dtype), ErrorKind::runtime, name,
        ": expected floating-point tensors, got ", input.dtype(), " and ", target.dtype());
  Sizes sizes = broadcast_sizes(tensors, name);
  auto ready = [&](const Tensor& t) {
    return to_dtype(expand_to(to_dtype(t, dtype), sizes), compute_type(dtype));
  };
  Tensor loss = fn(ready(input), ready(target));
  if (weight) loss = prim::mul(loss, ready(*weight));
  if (weight && by_weight && reduction == Reduction::mean)
    return to_dtype(
        prim::div(reduced(loss, Reduction::sum), reduced(ready(*weight), Reduction::sum)), dtype);
  return to_dtype(reduced(loss, reduction), dtype);
}

Tensor squared(const Tensor& x) { return prim::mul(x, x); }

using Old = std::optional<bool>;
using PlainLoss = Op<Tensor(const Tensor&, const Tensor&, Old, Old, const std::string&)>;
using WeightedLoss =
    Op<Tensor(const Tensor&, const Tensor&, Old, Old, const std::string&, std::optional<Tensor>)>;

}  // namespace

const WeightedLoss mse_loss{
    "nn.functional.mse_loss(Tensor input, Tensor target, bool? size_average=None, bool? "
    "reduce=None, str reduction='mean', Tensor? weight=None) -> Tensor",
    R"((input - target)^2, reduced. Shapes: any that broadcast together. Dtypes: floats.)",
    [](const Tensor& input, const Tensor& target, Old average, Old reduce,
       const std::string& reduction, std::optional<Tensor> weight) {
      return pointwise_loss(
          input, target, weight, reduction_of(reduction, average, reduce), "mse_loss",
          [](const Tensor& x, const Tensor& t) { return squared(prim::sub(x, t)); }, true);
    },
    kFunction};
const WeightedLoss l1_loss{
    "nn.functional.l1_loss(Tensor input, Tensor target, bool? size_average=None, bool? "
    "reduce=None, str reduction='mean', Tensor? weight=None) -> Tensor",
    R"(|input - target|, reduced. Shapes: any that broadcast together. Dtypes: floats.)",
    [](const Tensor& input, const Tensor& target, Old average, Old reduce,
       const std::string& reduction, std::optional<Tensor> weight) {
      return pointwise_loss(
          input, target, weight, reduction_of(reduction, average, reduce), "l1_loss",
          [](const Tensor& x, const Tensor& t) { return prim::abs(prim::sub(x, t)); }, true);
    },
    kFunction};
const Op<Tensor(const Tensor&, const Tensor&, Old, Old, const std::string&, const Number&)>
    smooth_l1_loss{
        "nn.functional.smooth_l1_loss(Tensor input, Tensor target, bool? size_average=None, bool? "
        "reduce=None, str reduction='mean', float beta=1.0) -> Tensor",
        R"(d^2 / (2 beta) where d = |input - target| is below beta, else d - beta / 2, reduced. Source: Girshick, "Fast R-CNN", 2015.
Errors: RuntimeError for a negative beta.)",
        [](const Tensor& input, const Tensor& target, Old average, Old reduce,
           const std::string& reduction, const Number& beta) {
          return pointwise_loss(
              input, target, std::nullopt, reduction_of(reduction, average, reduce),
              "smooth_l1_loss", [&](const Tensor& x, const Tensor& t) {
                Tensor d = prim::abs(prim::sub(x, t)), b = like(d, beta);
                Tensor near = prim::lt(d, b);
                Tensor safe = prim::select(prim::gt(b, prim::zeros_like(b)), b, like(b, 1));
                return prim::select(near, prim::div(prim::mul(like(d, 0.5), squared(d)), safe),
                                    prim::sub(d, prim::mul(like(d, 0.5), b)));
              });
        },
        kFunction};
namespace {

const Op<Tensor(const Tensor&, const Tensor&, const std::string&, const Number&,
                std::optional<Tensor>)>
    huber_step{
        "_huber_loss(Tensor input, Tensor target, str reduction='mean', float delta=1.0, Tensor? "
        "weight=None) -> Tensor",
        R"(huber_loss with a positive delta: d^2 / 2 where d = |input - target| is at most delta, else delta (d - delta / 2), reduced. Source: Huber, 1964.)",
        [](const Tensor& input, const Tensor& target, const std::string& reduction,
           const Number& delta, std::optional<Tensor> weight) {
          return pointwise_loss(
              input, target, weight, reduction_of(reduction, std::nullopt, std::nullopt),
              "huber_loss", [&](const Tensor& x, const Tensor& t) {
                Tensor d = prim::abs(prim::sub(x, t)), limit = like(d, delta), half = like(d, 0.5);
                return prim::select(prim::le(d, limit), prim::mul(half, squared(d)),
                                    prim::mul(limit, prim::sub(d, prim::mul(half, limit))));
              });
        },
        0};

}  // namespace

const Op<Tensor(const Tensor&, const Tensor&, const std::string&, const Number&,
                std::optional<Tensor>)>
    huber_loss{
        "nn.functional.huber_loss(Tensor input, Tensor target, str reduction='mean', float "
        "delta=1.0, Tensor? weight=None) -> Tensor",
        R"(d^2 / 2 where d = |input - target| is at most delta, else delta (d - delta / 2), reduced. Source: Huber, 1964. Errors:
RuntimeError for a delta that is not positive.)",
        [](const Tensor& input, const Tensor& target, const std::string& reduction,
           const Number& delta, std::optional<Tensor> weight) {
          check(delta.scalar().real() > 0, ErrorKind::runtime,
                "huber_loss does not support non-positive values for delta, got ", delta);
          return huber_step(input, target, reduction, delta, weight);
        },
        kFunction, BodyKind::direct};
const Op<Tensor(const Tensor&, const Tensor&, std::optional<Tensor>, Old, Old, const std::string&)>
    binary_cross_entropy{
        "nn.functional.binary_cross_entropy(Tensor input, Tensor target, Tensor? weight=None, "
        "bool? size_average=None, bool? reduce=None, str reduction='mean') -> Tensor",
        R"(-(t log(p) + (1 - t) log(1 - p)) of probabilities `input`, reduced; each logarithm is limited to -100 from below.
Shapes: input and target equal; ValueError otherwise.)",
        [](const Tensor& input, const Tensor& target, std::optional<Tensor> weight, Old average,
           Old reduce, const std::string& reduction) {
          check(input.sizes() == target.sizes(), ErrorKind::value, "Using a target size (",
                target.sizes(), ") that is different to the input size (", input.sizes(),
                ") is deprecated. Please ensure they have the same size.");
          return pointwise_loss(
              input, target, weight, reduction_of(reduction, average, reduce),
              "binary_cross_entropy", [](const Tensor& p, const Tensor& t) {
                Tensor one = like(p, 1), low = like(p, -100);
                auto limited =
                    [&](const Tensor& x,
                        const Tensor& q) {  // log(q), whose slope is kept finite: 1 / max(q, 1e-12)
                      Tensor value = prim::maximum(prim::log(q), low);
                      return prim::select(prim::gt(prim::barrier(value), low),
                                          prim::log(prim::maximum(q, like(x, 1e-12))), low);
                    };
                Tensor a = prim::mul(t, limited(p, p)),
                       b = prim::mul(prim::sub(one, t), limited(p, prim::sub(one, p)));
                return prim::neg(prim::add(a, b));
              });
        },
        kFunction};
const Op<Tensor(const Tensor&, const Tensor&, std::optional<Tensor>, Old, Old, const std::string&,
                std::optional<Tensor>)>
    binary_cross_entropy_with_logits{
        "nn.functional.binary_cross_entropy_with_logits(Tensor input, Tensor target, Tensor? "
        "weight=None, bool? size_average=None, bool? reduce=None, str reduction='mean', Tensor? "
        "pos_weight=None) -> Tensor",
        R"(binary_cross_entropy of the logistic function of `input`, without overflow; `pos_weight` scales the loss of positive
targets. Shapes: input and target equal; ValueError otherwise.)",
        [](const Tensor& input, const Tensor& target, std::optional<Tensor> weight, Old average,
           Old reduce, const std::string& reduction, std::optional<Tensor> pos_weight) {
          check(input.sizes() == target.sizes(), ErrorKind::value, "Target size (", target.sizes(),
                ") must be the same as input size (", input.sizes(), ")");
          return pointwise_loss(
              input, target, weight, reduction_of(reduction, average, reduce),
              "binary_cross_entropy_with_logits", [&](const Tensor& x, const Tensor& t) {
                // log(1 + exp(-x)) = max(-x, 0) + log1p(exp(-|x|)), whose derivative needs no case
                // at 0.
                Tensor zero = prim::zeros_like(x);
                Tensor soft = prim::add(prim::maximum(prim::neg(x), zero),
                                        prim::log1p(prim::exp(prim::neg(prim::abs(x)))));
                Tensor negative = prim::mul(prim::sub(like(x, 1), t), x);
                if (!pos_weight) return prim::add(negative, soft);
                Tensor w = expand_to(to_dtype(*pos_weight, x.dtype()), graph::sizes_of(x));
                Tensor scale = prim::add(like(x, 1), prim::mul(prim::sub(w, like(x, 1)), t));
                return prim::add(negative, prim::mul(scale, soft));
              });
        },
        kFunction, BodyKind::composite};
const Op<Tensor(const Tensor&, const Tensor&, Old, Old, const std::string&, bool)> kl_div{
    "nn.functional.kl_div(Tensor input, Tensor target, bool? size_average=None, bool? reduce=None, "
    "str reduction='mean', bool log_target=False) -> Tensor",
    R"(target (log(target) - input), or exp(target) (target - input) for `log_target`, reduced; reduction 'batchmean' divides
the sum by the size of dim 0. Source: Kullback and Leibler, 1951.)",
    [](const Tensor& input, const Tensor& target, Old average, Old reduce,
       const std::string& reduction, bool log_target) {
      bool batch = reduction == "batchmean" && !average && !reduce;
      auto fn = [&](const Tensor& x, const Tensor& t) {
        if (log_target) return prim::mul(prim::exp(t), prim::sub(t, x));
        Tensor zero = prim::zeros_like(t);
        Tensor positive = prim::gt(t, zero);
        Tensor entropy =
            prim::select(prim::eq(t, zero), zero,
                         prim::mul(t, prim::log(prim::select(positive, t, like(t, 1)))));
        return prim::sub(prim::select(prim::lt(t, zero), prim::mul(t, prim::log(t)), entropy),
                         prim::mul(t, x));
      };
      Tensor loss = pointwise_loss(
          input, target, std::nullopt,
          batch ? Reduction::sum : reduction_of(reduction, average, reduce), "kl_div", fn);
      if (!batch || input.dim() == 0) return loss;
      return to_dtype(prim::div(to_dtype(loss, compute_type(loss.dtype())),
                                count_of(input, {0}, compute_type(loss.dtype()))),
                      loss.dtype());
    },
    kFunction};

}  // namespace flambeau::ops
