// Normalizations with statistics of each channel (batch, instance) or group of channels.
#include <optional>
#include <tuple>

#include "flambeau/base/error.h"
#include "flambeau/ops/copy.h"
#include "flambeau/ops/reduce.h"
#include "flambeau/ops/typing.h"

namespace flambeau::ops {

namespace {

using prim::Monoid;
using Ints = std::vector<int64_t>;

/// Of [n, c, s...]: all dims but that of the channels.
Ints statistics_dims(const Tensor& x) {
  Ints dims{0};
  for (int64_t d = 2; d < x.dim(); ++d) dims.push_back(d);
  return dims;
}

/// [c] over [n, c, s...].
Tensor by_channel(const Tensor& t, const Sizes& full) {
  Ints from(full.size(), -1);
  from[1] = 0;
  return prim::broadcast(t, full, from);
}

Tensor channel_parameter(const Tensor& p, const Tensor& input, DType compute, const char* name,
                         const char* what) {
  Size channels = graph::size_of(input, 1);
  check(p.dim() == 1 &&
            graph::Trace::current()->require_equal(graph::size_of(p, 0), channels,
                                                   "{a} elements in a parameter for {b} channels"),
        ErrorKind::runtime, name, ": ", what, " should contain ", channels, " elements not ",
        p.sizes());
  return to_dtype(p, compute);
}

/// Several outputs share this: x less its mean, times the reciprocal root of its variance.
struct Normalized {
  Tensor x, mean, variance, unbiased, scale;
};

Tensor reciprocal_root(const Tensor& variance, const Tensor& eps) {
  Tensor root = prim::sqrt(prim::add(variance, expand_to(eps, graph::sizes_of(variance))));
  return prim::div(prim::constant_like(root, 1), root);
}

Normalized normalized(const Tensor& input, const Number& eps) {
  Normalized n;
  Tensor x = to_dtype(input, compute_type(input.dtype()));
  Ints dims = statistics_dims(x);
  Sizes full = graph::sizes_of(x);
  n.mean = mean_of(x, dims, false);
  Tensor centered = prim::sub(x, by_channel(n.mean, full));
  Tensor total = reduce_keep(prim::mul(centered, centered), dims, Monoid::sum, false);
  Tensor count = expand_to(count_of(x, dims, x.dtype()), graph::sizes_of(total));
  n.variance = prim::div(total, count);
  n.unbiased = prim::div(total, prim::sub(count, prim::constant_like(count, 1)));
  n.scale = reciprocal_root(n.variance, to_tensor(eps, x.dtype()));
  n.x = prim::mul(centered, by_channel(n.scale, full));
  return n;
}

Tensor scaled(const Tensor& x, const Tensor& input, const std::optional<Tensor>& weight,
              const std::optional<Tensor>& bias, const char* name) {
  Sizes full = graph::sizes_of(x);
  Tensor y = x;
  if (weight)
    y = prim::mul(y,
                  by_channel(channel_parameter(*weight, input, x.dtype(), name, "weight"), full));
  if (bias)
    y = prim::add(y, by_channel(channel_parameter(*bias, input, x.dtype(), name, "bias"), full));
  return y;
}

void check_input(const Tensor& input, const char* name) {
  check(is_float(input.dtype()), ErrorKind::runtime, name, ": not implemented for ", input.dtype());
  check(input.dim() >= 2, ErrorKind::runtime, name,
        ": expected an input of at least 2 dims [n, c, ...], got ", input.sizes());
}

/// With m and s the mean and the scale, x^ = (x - m) s and c the cotangent of x^:
/// s (c - mean(c) - x^ mean(c x^)). Source: Ioffe and Szegedy, "Batch normalization", 2015.
std::vector<Tensor> batch_rule(const std::vector<Argument>& arguments,
                               const std::vector<Tensor>& results,
                               const std::vector<Tensor>& cotangents) {
  const Tensor& input = std::get<Tensor>(arguments[0]);
  const auto *weight = std::get_if<Tensor>(&arguments[1]),
             *bias = std::get_if<Tensor>(&arguments[2]);
  Tensor x = to_dtype(input, compute_type(input.dtype()));
  Tensor c = to_dtype(cotangents[0], x.dtype());
  const Tensor &mean = results[1], &scale = results[2];
  Ints dims = statistics_dims(x);
  Sizes full = graph::sizes_of(x);
  Tensor unit = prim::mul(prim::sub(x, by_channel(mean, full)), by_channel(scale, full));
  Tensor sum = reduce_keep(c, dims, Monoid::sum, false);
  Tensor product = reduce_keep(prim::mul(c, unit), dims, Monoid::sum, false);
  Tensor count = expand_to(count_of(x, dims, x.dtype()), graph::sizes_of(sum));
  Tensor factor = scale;
  if (weight) factor = prim::mul(factor, to_dtype(*weight, x.dtype()));
  Tensor inner = prim::sub(prim::sub(c, by_channel(prim::div(sum, count), full)),
                           prim::mul(unit, by_channel(prim::div(product, count), full)));
  std::vector<Tensor> result{to_dtype(prim::mul(inner, by_channel(factor, full)), input.dtype())};
  // Where the statistics themselves have cotangents (second derivatives), they count as well.
  if (weight) result.push_back(to_dtype(product, weight->dtype()));
  if (bias) result.push_back(to_dtype(sum, bias->dtype()));
  return result;
}

const Op<std::tuple<Tensor, Tensor, Tensor, Tensor>(const Tensor&, std::optional<Tensor>,
                                                    std::optional<Tensor>, const Number&)>
    batch_norm_training{
        "_batch_norm_training(Tensor input, Tensor? weight, Tensor? bias, float eps) -> (Tensor "
        "result, Tensor mean, Tensor scale, Tensor unbiased)",
        R"(batch_norm with the statistics of the batch, and those: the mean, 1 / sqrt(variance + eps), the unbiased
variance.)",
        [](const Tensor& input, std::optional<Tensor> weight, std::optional<Tensor> bias,
           const Number& eps) {
          check_input(input, "batch_norm");
          Normalized n = normalized(input, eps);
          Tensor y = scaled(n.x, input, weight, bias, "batch_norm");
          return std::tuple{to_dtype(y, input.dtype()), prim::barrier(n.mean),
                            prim::barrier(n.scale), prim::barrier(n.unbiased)};
        },
        0,
        BodyKind::composite,
        batch_rule};

const Op<Tensor(const Tensor&, const Tensor&, const Tensor&, std::optional<Tensor>,
                std::optional<Tensor>, const Number&)>
    batch_norm_inference{
        "_batch_norm_inference(Tensor input, Tensor running_mean, Tensor running_var, Tensor? "
        "weight, Tensor? bias, float eps) -> Tensor",
        R"(batch_norm with given statistics.)",
        [](const Tensor& input, const Tensor& mean, const Tensor& variance,
           std::optional<Tensor> weight, std::optional<Tensor> bias, const Number& eps) {
          check_input(input, "batch_norm");
          Tensor x = to_dtype(input, compute_type(input.dtype()));
          Sizes full = graph::sizes_of(x);
          Tensor m = channel_parameter(mean, input, x.dtype(), "batch_norm", "running_mean");
          Tensor v = channel_parameter(variance, input, x.dtype(), "batch_norm", "running_var");
          Tensor scale = reciprocal_root(v, to_tensor(eps, x.dtype()));
          Tensor unit = prim::mul(prim::sub(x, by_channel(m, full)), by_channel(scale, full));
          return to_dtype(scaled(unit, input, weight, bias, "batch_norm"), input.dtype());
        },
        0};

const Op<Tensor(const Tensor&, const Tensor&, const Number&)> moving_average{
    "_moving_average(Tensor self, Tensor value, float momentum) -> Tensor",
    R"((1 - momentum) self + momentum value.)",
    [](const Tensor& self, const Tensor& value, const Number& momentum) {
      DType t = compute_type(self.dtype());
      Tensor x = to_dtype(self, t), v = to_dtype(value, t);
      Tensor m = expand_to(to_tensor(momentum, t), graph::sizes_of(x));
      Tensor kept = prim::mul(prim::sub(prim::constant_like(m, 1), m), x);
      return to_dtype(prim::add(kept, prim::mul(m, v)), self.dtype());
    },
    0};

void update(const std::optional<Tensor>& running, const Tensor& value, const Number& momentum) {
  if (running) call_into(moving_average.definition(), {*running, value, momentum}, {*running});
}

/// Instances as channels of one image: [n, c, s...] -> [1, n * c, s...].
Tensor as_channels(const Tensor& x) {
  Sizes s = graph::sizes_of(x), merged{Size(1), s[0] * s[1]};
  merged.insert(merged.end(), s.begin() + 2, s.end());
  return prim::reshape(x, merged);
}

const Op<std::tuple<Tensor, Tensor, Tensor>(const Tensor&, std::optional<Tensor>,
                                            std::optional<Tensor>, const Number&)>
    instance_norm_training{
        "_instance_norm_training(Tensor input, Tensor? weight, Tensor? bias, float eps) -> (Tensor "
        "result, Tensor mean, Tensor unbiased)",
        R"(instance_norm with the statistics of each instance, and their means over the batch.)",
        [](const Tensor& input, std::optional<Tensor> weight, std::optional<Tensor> bias,
           const Number& eps) {
          check_input(input, "instance_norm");
          Normalized n = normalized(as_channels(input), eps);
          Sizes full = graph::sizes_of(input);
          Tensor y = scaled(prim::reshape(n.x, full), input, weight, bias, "instance_norm");
          auto mean = [&](const Tensor& t) {
            return prim::barrier(mean_of(prim::reshape(t, {full[0], full[1]}), {0}, false));
          };
          return std::tuple{to_dtype(y, input.dtype()), mean(n.mean), mean(n.unbiased)};
        },
        0};

Size values_per_channel(const Tensor& input, int64_t first) {
  Size n = first == 0 ? Size(input.size(0)) : Size(1);
  for (int64_t d = 2; d < input.dim(); ++d) n = n * Size(input.size(d));
  return n;
}

}  // namespace

const Op<Tensor(const Tensor&, std::optional<Tensor>, std::optional<Tensor>, std::optional<Tensor>,
                std::optional<Tensor>, bool, const Number&, const Number&)>
    batch_norm{
        "nn.functional.batch_norm(Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? "
        "weight=None, Tensor? bias=None, bool training=False, float momentum=0.1, float eps=1e-05) "
        "-> Tensor",
        R"((x - mean) / sqrt(variance + eps) * weight + bias with a mean and variance of each channel. Source: Ioffe and
Szegedy, "Batch normalization", 2015.

Shapes: input [n, c, s...], all others [c]. In training the statistics are those of the batch, and the running ones become
(1 - momentum) running + momentum batch, with the unbiased variance; else the running ones are used. Dtypes: floats; half
types are computed in float32. Errors: ValueError for one value a channel in training, RuntimeError for shapes that do not
fit.)",
        [](const Tensor& input, std::optional<Tensor> running_mean,
           std::optional<Tensor> running_var, std::optional<Tensor> weight,
           std::optional<Tensor> bias, bool training, const Number& momentum, const Number& eps) {
          if (input.numel() == 0 && input.dim() == 1) return clone(input, std::nullopt);
          if (!training) {
            check(running_mean && running_var, ErrorKind::runtime,
                  "batch_norm: Expected running_mean and running_var to be defined when "
                  "training=False");
            return batch_norm_inference(input, *running_mean, *running_var, weight, bias, eps);
          }
          check(input.dim() >= 2, ErrorKind::runtime,
                "batch_norm: expected an input of at least 2 dims [n, c, ...], got ",
                input.sizes());
          check(values_per_channel(input, 0).value != 1, ErrorKind::value,
                "Expected more than 1 value per channel when training, got input size ",
                input.sizes());
          auto [y, mean, scale, unbiased] = batch_norm_training(input, weight, bias, eps);
          if (input.numel() > 0) {
            update(running_mean, mean, momentum);
            update(running_var, unbiased, momentum);
          }
          return y;
        },
        kFunction, BodyKind::direct};

const Op<Tensor(const Tensor&, std::optional<Tensor>, std::optional<Tensor>, std::optional<Tensor>,
                std::optional<Tensor>, bool, const Number&, const Number&)>
    instance_norm{
        "nn.functional.instance_norm(Tensor input, Tensor? running_mean=None, Tensor? "
        "running_var=None, Tensor? weight=None, Tensor? bias=None, bool use_input_stats=True, "
        "float "
        "momentum=0.1, float eps=1e-05) -> Tensor",
        R"(batch_norm of each instance by itself: statistics of each [n, c] over s.... Source: Ulyanov, Vedaldi and Lempitsky,
"Instance normalization", 2016. The running statistics take the mean over the batch. Shapes, dtypes: see batch_norm. Errors:
ValueError for one value an instance and channel, RuntimeError for shapes that do not fit.)",
        [](const Tensor& input, std::optional<Tensor> running_mean,
           std::optional<Tensor> running_var, std::optional<Tensor> weight,
           std::optional<Tensor> bias, bool use_input_stats, const Number& momentum,
           const Number& eps) {
          if (!use_input_stats) {
            check(running_mean && running_var, ErrorKind::runtime,
                  "instance_norm: Expected running_mean and running_var to be defined when "
                  "use_input_stats is false");
            return batch_norm_inference(input, *running_mean, *running_var, weight, bias, eps);
          }
          check(input.dim() >= 2, ErrorKind::runtime,
                "instance_norm: expected an input of at least 2 dims [n, c, ...], got ",
                input.sizes());
          check(values_per_channel(input, 1).value != 1, ErrorKind::value,
                "Expected more than 1 spatial element when training, got input size ",
                input.sizes());
          auto [y, mean, unbiased] = instance_norm_training(input, weight, bias, eps);
          if (input.numel() > 0) {
            update(running_mean, mean, momentum);
            update(running_var, unbiased, momentum);
          }
          return y;
        },
        kFunction, BodyKind::direct};

using NativeBatchNorm = Op<std::tuple<Tensor, Tensor, Tensor>(
    const Tensor&, std::optional<Tensor>, std::optional<Tensor>, std::optional<Tensor>,
    std::optional<Tensor>, bool, const Number&, const Number&)>;

const NativeBatchNorm native_batch_norm{
    "native_batch_norm|_native_batch_norm_legit(Tensor input, Tensor? weight, Tensor? bias, "
    "Tensor? "
    "running_mean, Tensor? running_var, bool training, float momentum, float eps) -> (Tensor, "
    "Tensor, Tensor)",
    R"(batch_norm with what its derivative needs: mean and 1 / sqrt(variance + eps) of the batch, empty outside training.)",
    [](const Tensor& input, std::optional<Tensor> weight, std::optional<Tensor> bias,
       std::optional<Tensor> running_mean, std::optional<Tensor> running_var, bool training,
       const Number& momentum, const Number& eps) {
      if (!training) {
        check(running_mean && running_var, ErrorKind::runtime,
              "native_batch_norm: Expected running_mean and running_var when training is False");
        Tensor y = batch_norm_inference(input, *running_mean, *running_var, weight, bias, eps);
        DType t = compute_type(input.dtype());
        return std::tuple{y, empty_tensor({0}, t), empty_tensor({0}, t)};
      }
      auto [y, mean, scale, unbiased] = batch_norm_training(input, weight, bias, eps);
      if (input.numel() > 0) {
        update(running_mean, mean, momentum);
        update(running_var, unbiased, momentum);
      }
      return std::tuple{y, mean, scale};
    },
    kFunction, BodyKind::direct};

namespace {

/// group_norm's result, mean [n, groups] and 1 / sqrt(variance + eps).
std::tuple<Tensor, Tensor, Tensor> grouped_norm(const Tensor& input, Size batch, Size channels,
                                                Size spatial, Dim groups,
                                                const std::optional<Tensor>& weight,
                                                const std::optional<Tensor>& bias,
                                                const Number& eps, const char* name) {
  check(is_float(input.dtype()), ErrorKind::runtime, name, ": not implemented for ", input.dtype());
  check(groups > 0, ErrorKind::runtime, name, ": Expected num groups to be greater than 0, got ",
        groups.value);
  check(channels.value % groups == 0, ErrorKind::runtime, name,
        ": Expected number of channels in input to be divisible by num_groups, but got input of "
        "shape ",
        input.sizes(), " and num_groups=", groups.value);
  Size each = channels / Size(groups);
  Tensor x = to_dtype(input, compute_type(input.dtype()));
  Tensor rows = prim::reshape(x, {batch, Size(groups), each * spatial});
  Sizes full = graph::sizes_of(rows);
  Tensor mean = mean_of(rows, {2}, true);
  Tensor centered = prim::sub(rows, expand_to(mean, full));
  Tensor variance = mean_of(prim::mul(centered, centered), {2}, true);
  Tensor scale = reciprocal_root(variance, to_tensor(eps, x.dtype()));
  Tensor y = prim::mul(centered, expand_to(scale, full));
  if (weight || bias) {
    Sizes split{batch, Size(groups), each, spatial};
    y = prim::reshape(y, split);
    auto parameter = [&](const Tensor& p, const char* what) {
      check(p.dim() == 1 &&
                graph::Trace::current()->require_equal(
                    graph::size_of(p, 0), channels, "{a} elements in a parameter for {b} channels"),
            ErrorKind::runtime, name, ": Expected ", what,
            " to be a vector of size equal to the number of channels in input, but got ", what,
            " of shape ", p.sizes(), " and input of shape ", input.sizes());
      Tensor t = prim::reshape(to_dtype(p, x.dtype()), {Size(groups), each});
      return prim::broadcast(t, split, {-1, 0, 1, -1});
    };
    if (weight) y = prim::mul(y, parameter(*weight, "weight"));
    if (bias) y = prim::add(y, parameter(*bias, "bias"));
  }
  Sizes per_group{batch, Size(groups)};
  return {to_dtype(prim::reshape(y, graph::sizes_of(input)), input.dtype()),
          prim::reshape(mean, per_group), prim::reshape(scale, per_group)};
}

}  // namespace

const Op<Tensor(const Tensor&, Dim, std::optional<Tensor>, std::optional<Tensor>, const Number&)>
    group_norm{
        "nn.functional.group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? "
        "bias=None, float eps=1e-05) -> Tensor",
        R"((x - mean) / sqrt(variance + eps) * weight + bias with a mean and variance of each of num_groups groups of channels
in each instance. Source: Wu and He, "Group normalization", 2018.

Shapes: input [n, c, s...], weight and bias [c]. Dtypes: floats; half types are computed in float32. Errors: RuntimeError
where the channels cannot be divided or shapes do not fit.)",
        [](const Tensor& input, Dim num_groups, std::optional<Tensor> weight,
           std::optional<Tensor> bias, const Number& eps) {
          check(input.dim() >= 2, ErrorKind::runtime,
                "group_norm: Expected at least 2 dimensions for input tensor but received ",
                input.dim());
          Sizes s = graph::sizes_of(input);
          check(s[1].value > 0 && (s[0].value == 0 || input.numel() > 0), ErrorKind::runtime,
                "group_norm: Expected more than zero values in a group, got input of shape ",
                input.sizes());
          Size spatial = 1;
          for (size_t d = 2; d < s.size(); ++d) spatial = spatial * s[d];
          return std::get<0>(grouped_norm(input, s[0], s[1], spatial, num_groups, weight, bias, eps,
                                          "group_norm"));
        },
        kFunction};

const Op<std::tuple<Tensor, Tensor, Tensor>(const Tensor&, std::optional<Tensor>,
                                            std::optional<Tensor>, Size, Size, Size, Dim,
                                            const Number&)>
    native_group_norm{
        "native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt "
        "HxW, int group, float eps) -> (Tensor, Tensor, Tensor)",
        R"(group_norm with its statistics: mean and 1 / sqrt(variance + eps), both [n, group].)",
        [](const Tensor& input, std::optional<Tensor> weight, std::optional<Tensor> bias,
           Size batch, Size channels, Size spatial, Dim group, const Number& eps) {
          auto [y, mean, scale] = grouped_norm(input, batch, channels, spatial, group, weight, bias,
                                               eps, "native_group_norm");
          return std::tuple{y, to_dtype(mean, input.dtype()), to_dtype(scale, input.dtype())};
        },
        kFunction};

}  // namespace flambeau::ops
