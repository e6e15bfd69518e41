// Losses over classes. The target's log-probability is picked by comparison with the class number
// inside the pass over the row, so that loss and gradient are one kernel each.
#include "flambeau/base/error.h"
#include "flambeau/ops/loss.h"
#include "flambeau/ops/reduce.h"
#include "flambeau/ops/softmax.h"
#include "flambeau/ops/typing.h"

namespace flambeau::ops {

namespace {

using prim::Monoid;

Tensor like(const Tensor& x, double v) { return prim::constant_like(x, v); }

/// [batch, ...] repeated over the classes, [classes] over everything else.
Tensor over_classes(const Tensor& x, const Sizes& full) {
  std::vector<int64_t> from(full.size());
  for (size_t d = 2; d < full.size(); ++d) from[d] = static_cast<int64_t>(d) - 1;
  from[1] = -1;
  return prim::broadcast(x, full, from);
}
Tensor over_batch(const Tensor& x, const Sizes& full) {
  std::vector<int64_t> from(full.size(), -1);
  from[1] = 0;
  return prim::broadcast(x, full, from);
}
Tensor over_all(const Tensor& x, const Sizes& full) {
  return prim::broadcast(x, full, std::vector<int64_t>(full.size(), -1));
}

/// Class numbers and what follows from them; all [batch, ...].
struct Targets {
  Tensor number;  // int64, checked, 0 where ignored
  Tensor valid;   // bool
};

Targets targets_of(const Tensor& target, const Number& ignore_index, const Sizes& full,
                   const char* name) {
  check(target.dtype() == DType::int64 || target.dtype() == DType::uint8, ErrorKind::runtime, name,
        ": expected target dtype to be Long or Byte, got ", target.dtype());
  Sizes kept = full;
  kept.erase(kept.begin() + 1);
  Sizes given = graph::sizes_of(target);
  bool equal = given.size() == kept.size();
  for (size_t d = 0; equal && d < kept.size(); ++d) {
    equal = graph::Trace::current()->require_equal(given[d], kept[d],
                                                   "sizes of input and target must match");
  }
  check(equal, ErrorKind::value, name,
        ": Expected input batch_size and target sizes to match, got input of size ", values(full),
        " and target of size ", target.sizes());
  Tensor t = to_dtype(target, DType::int64);
  Tensor ignored = prim::eq(t, over_all(to_tensor(ignore_index, DType::int64), kept));
  Tensor zero = prim::zeros_like(t);
  Tensor number = prim::check_index(prim::select(ignored, zero, t), full[1], false);
  return {number, prim::bit_not(ignored)};
}

/// Sum over classes of x where the class is the target: [batch, classes, ...] -> [batch, ...].
Tensor picked(const Tensor& x, const Targets& t, const Sizes& full) {
  Tensor hit = prim::eq(over_classes(t.number, full), prim::iota(full, 1));
  return prim::reduce(prim::select(hit, x, prim::zeros_like(x)), {1}, Monoid::sum);
}

/// Weights of the targets, 0 where ignored.
Tensor weights_of(const Targets& t, const std::optional<Tensor>& weight, DType dtype) {
  Tensor w =
      weight ? prim::take(to_dtype(*weight, dtype), t.number, 0) : prim::cast(t.valid, dtype);
  return prim::select(t.valid, w, prim::zeros_like(w));
}

/// Sums of a loss over the batch by those of its weights.
Tensor combined(const Tensor& loss, const Tensor& weights, Reduction reduction) {
  if (reduction == Reduction::none) return loss;
  Tensor total = reduced(loss, Reduction::sum);
  return reduction == Reduction::sum ? total : prim::div(total, reduced(weights, Reduction::sum));
}

/// Inputs without a batch get one of size 1.
Tensor with_batch(const Tensor& x) {
  Sizes s = graph::sizes_of(x);
  s.insert(s.begin(), Size(1));
  return prim::reshape(x, s);
}

void check_weight(const std::optional<Tensor>& weight, const Sizes& full, const char* name) {
  if (!weight) return;
  bool fits = weight->dim() == 1 && graph::Trace::current()->require_equal(
                                        graph::size_of(*weight, 0), full[1], "one weight a class");
  check(fits, ErrorKind::runtime, name, ": weight tensor should be defined either for all ",
        full[1], " classes or no classes but got weight tensor of shape: ", weight->sizes());
}

Tensor negative_log_likelihood(const Tensor& logs, const Tensor& target,
                               const std::optional<Tensor>& weight, Reduction reduction,
                               const Number& ignore_index, const char* name) {
  Sizes full = graph::sizes_of(logs);
  check_weight(weight, full, name);
  Targets t = targets_of(target, ignore_index, full, name);
  Tensor w = weights_of(t, weight, logs.dtype());
  Tensor loss = prim::neg(prim::mul(picked(logs, t, full), w));
  loss = prim::select(t.valid, loss, prim::zeros_like(loss));
  return combined(loss, w, reduction);
}

Tensor smoothed_loss(const Tensor& logs, const Tensor& target, const std::optional<Tensor>& weight,
                     Reduction reduction, const Number& ignore_index, const Number& smoothing) {
  Sizes full = graph::sizes_of(logs);
  Targets t = targets_of(target, ignore_index, full, "cross_entropy");
  Tensor w = weights_of(t, weight, logs.dtype());
  Tensor plain = prim::neg(prim::mul(picked(logs, t, full), w));
  Tensor all = weight ? prim::mul(logs, over_batch(to_dtype(*weight, logs.dtype()), full)) : logs;
  Tensor spread = prim::neg(prim::reduce(all, {1}, Monoid::sum));
  Sizes kept = graph::sizes_of(spread);
  Tensor eps = over_all(to_tensor(smoothing, logs.dtype()), kept);
  Tensor share = prim::div(eps, over_all(count_of(logs, {1}, logs.dtype()), kept));
  Tensor loss = prim::add(prim::mul(prim::sub(like(eps, 1), eps), plain), prim::mul(share, spread));
  return combined(prim::select(t.valid, loss, prim::zeros_like(loss)), w, reduction);
}

Tensor probability_loss(const Tensor& logs, const Tensor& target,
                        const std::optional<Tensor>& weight, Reduction reduction,
                        const Number& smoothing, bool smoothed) {
  Sizes full = graph::sizes_of(logs);
  Tensor t = to_dtype(target, logs.dtype());
  if (smoothed) {
    Tensor eps = over_all(to_tensor(smoothing, logs.dtype()), full);
    t = prim::add(prim::mul(t, prim::sub(like(eps, 1), eps)),
                  prim::div(eps, over_all(count_of(logs, {1}, logs.dtype()), full)));
  }
  Tensor each = prim::mul(logs, t);
  if (weight) each = prim::mul(each, over_batch(to_dtype(*weight, logs.dtype()), full));
  Tensor loss = prim::neg(prim::reduce(each, {1}, Monoid::sum));
  return reduced(loss, reduction);
}

using Old = std::optional<bool>;

const Op<Tensor(const Tensor&, const Tensor&, std::optional<Tensor>, const Number&,
                const std::string&, const Number&, bool)>
    cross_entropy_step{
        "_cross_entropy(Tensor input, Tensor target, Tensor? weight, Scalar ignore_index, str "
        "reduction, float label_smoothing, bool smoothed) -> Tensor",
        R"(cross_entropy with checked arguments; `smoothed`: label_smoothing is not 0.)",
        [](const Tensor& input, const Tensor& target, std::optional<Tensor> weight,
           const Number& ignore_index, const std::string& reduction, const Number& smoothing,
           bool smoothed) {
          Reduction r = reduction_of(reduction, std::nullopt, std::nullopt);
          bool single = input.dim() == 1;
          Tensor x = to_dtype(single ? with_batch(input) : input, compute_type(input.dtype()));
          Tensor t = single ? with_batch(target) : target;
          Tensor logs = log_normalized(x, 1);
          check_weight(weight, graph::sizes_of(x), "cross_entropy");
          Tensor loss;
          if (is_float(target.dtype()))
            loss = probability_loss(logs, t, weight, r, smoothing, smoothed);
          else if (smoothed)
            loss = smoothed_loss(logs, t, weight, r, ignore_index, smoothing);
          else
            loss = negative_log_likelihood(logs, t, weight, r, ignore_index, "cross_entropy");
          if (single && r == Reduction::none) loss = prim::reshape(loss, {});
          return to_dtype(loss, input.dtype());
        },
        0};

}  // namespace

const Op<Tensor(const Tensor&, const Tensor&, std::optional<Tensor>, Old, const Number&, Old,
                const std::string&, const Number&)>
    cross_entropy{
        "nn.functional.cross_entropy(Tensor input, Tensor target, Tensor? weight=None, bool? "
        "size_average=None, Scalar ignore_index=-100, bool? reduce=None, str reduction='mean', "
        "float label_smoothing=0.0) -> Tensor",
        R"(The negative log-probability of the target class, where the probabilities are softmax(input, 1); or, for a floating-point
target of the input's shape, -sum(target * log_softmax(input, 1), 1).

Shapes: input [classes], [batch, classes] or [batch, classes, ...], target the same without the classes. Dtypes: floats; target
int64 or uint8. `weight` [classes] scales each target's loss; the mean is over the weights of targets other than ignore_index.
Errors: IndexError for a target out of range, RuntimeError for a label_smoothing outside of [0, 1].)",
        [](const Tensor& input, const Tensor& target, std::optional<Tensor> weight, Old average,
           const Number& ignore_index, Old reduce, const std::string& reduction,
           const Number& smoothing) {
          check(is_float(input.dtype()), ErrorKind::runtime,
                "cross_entropy: expected a floating-point input, got ", input.dtype());
          check(input.dim() >= 1, ErrorKind::value,
                "cross_entropy: expected an input of at least 1 dimension, got 0");
          double eps = smoothing.scalar().real();
          check(eps >= 0 && eps <= 1, ErrorKind::runtime,
                "label_smoothing must be between 0.0 and 1.0. Got: ", eps);
          if (is_float(target.dtype())) {
            check(target.sizes() == input.sizes(), ErrorKind::runtime,
                  "cross_entropy: Expected floating point type for target with class probabilities "
                  "of size ",
                  input.sizes(), ", got ", target.sizes());
          } else {
            int64_t wanted = input.dim() - 1;
            check(target.dim() == wanted, ErrorKind::runtime,
                  "cross_entropy: expected a target of ", wanted, " dimensions for an input of ",
                  input.dim(), ", got ", target.dim());
            for (int64_t d = 0; d < wanted; ++d) {
              int64_t n = input.size(input.dim() == 1 || d == 0 ? 0 : d + 1);
              check(input.dim() == 1 || target.size(d) == n, ErrorKind::value,
                    "Expected input batch_size (", input.size(0), ") to match target batch_size (",
                    target.size(0), "): input ", input.sizes(), ", target ", target.sizes());
            }
          }
          Reduction r = reduction_of(reduction, average, reduce);
          const char* text = r == Reduction::none ? "none" : r == Reduction::mean ? "mean" : "sum";
          return cross_entropy_step(input, target, weight, ignore_index, std::string(text),
                                    smoothing, eps != 0);
        },
        kFunction, BodyKind::direct};

const Op<Tensor(const Tensor&, const Tensor&, std::optional<Tensor>, Old, const Number&, Old,
                const std::string&)>
    nll_loss{
        "nn.functional.nll_loss(Tensor input, Tensor target, Tensor? weight=None, bool? "
        "size_average=None, Scalar ignore_index=-100, bool? reduce=None, str reduction='mean') -> "
        "Tensor",
        R"(Minus the target's entry of `input`, which holds log-probabilities. Shapes, dtypes and errors: see cross_entropy.)",
        [](const Tensor& input, const Tensor& target, std::optional<Tensor> weight, Old average,
           const Number& ignore_index, Old reduce, const std::string& reduction) {
          check(is_float(input.dtype()), ErrorKind::runtime,
                "nll_loss: expected a floating-point input, got ", input.dtype());
          check(input.dim() >= 1, ErrorKind::value,
                "nll_loss: expected an input of at least 1 dimension, got 0");
          check(target.dim() == input.dim() - 1, ErrorKind::value,
                "nll_loss: Expected input batch_size (", input.size(0),
                ") to match target batch_size: target has ", target.dim(),
                " dimensions for an input of ", input.dim());
          Reduction r = reduction_of(reduction, average, reduce);
          bool single = input.dim() == 1;
          Tensor x = to_dtype(single ? with_batch(input) : input, compute_type(input.dtype()));
          Tensor loss = negative_log_likelihood(x, single ? with_batch(target) : target, weight, r,
                                                ignore_index, "nll_loss");
          if (single && r == Reduction::none) loss = prim::reshape(loss, {});
          return to_dtype(loss, input.dtype());
        },
        kFunction};

}  // namespace flambeau::ops
