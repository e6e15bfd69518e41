// One step of recurrent networks: everything that follows the input's projection.
#include <optional>

#include "flambeau/base/error.h"
#include "flambeau/ops/matmul.h"
#include "flambeau/ops/typing.h"

namespace flambeau::ops {

namespace {

/// h w^T + b: [n, h], [g, h], [g] -> [n, g], in the compute type.
Tensor projected(const Tensor& h, const Tensor& weight, const std::optional<Tensor>& bias) {
  return to_dtype(linear(h, weight, bias), compute_type(h.dtype()));
}

/// Part number `i` of `count` equal ones of [n, count * width].
Tensor part(const Tensor& gates, int64_t i, int64_t count) {
  Size width = graph::size_of(gates, 1) / Size(count);
  return prim::slice(gates, 1, Size(i) * width, width, 1);
}

Tensor sigmoid_of(const Tensor& x) {
  Tensor one = prim::constant_like(x, 1);
  return prim::div(one, prim::add(one, prim::exp(prim::neg(x))));
}

void check_step(const Tensor& gates, const Tensor& h, int64_t count, const char* name) {
  check(gates.dim() == 2 && h.dim() == 2, ErrorKind::runtime, name, ": expected [n, ", count,
        " * hidden] and [n, hidden], got ", gates.sizes(), " and ", h.sizes());
  check(gates.dtype() == h.dtype() && is_float(h.dtype()), ErrorKind::runtime, name,
        ": expected one floating dtype, got ", gates.dtype(), " and ", h.dtype());
}

}  // namespace

const Op<Tensor(const Tensor&, const Tensor&, const Tensor&, std::optional<Tensor>)> gates_of_step{
    "_recurrent_gates(Tensor gates, Tensor h, Tensor weight, Tensor? bias) -> Tensor",
    R"(gates + h weight^T + bias: [n, g], [n, h], [g, h], [g] -> [n, g].)",
    [](const Tensor& gates, const Tensor& h, const Tensor& weight, std::optional<Tensor> bias) {
      check_step(gates, h, 4, "lstm");
      DType t = compute_type(h.dtype());
      return to_dtype(prim::add(to_dtype(gates, t), projected(h, weight, bias)), h.dtype());
    },
    kFunction};

// The gates come apart, so that the derivative computes each of them once.
const Op<std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                    const Tensor&)>
    lstm_cell{
        "_lstm_cell(Tensor input, Tensor forget, Tensor cell, Tensor output, Tensor c) -> (Tensor, "
        "Tensor)",
        R"(One step of an LSTM from its gates, before their functions, and c, all [n, hidden]: the next h (before a projection)
and c. Source: Hochreiter and Schmidhuber, "Long short-term memory", 1997.)",
        [](const Tensor& input, const Tensor& forget, const Tensor& cell, const Tensor& output,
           const Tensor& c) {
          DType t = compute_type(c.dtype());
          auto ready = [&](const Tensor& x) { return to_dtype(x, t); };
          Tensor next = prim::add(prim::mul(sigmoid_of(ready(forget)), ready(c)),
                                  prim::mul(sigmoid_of(ready(input)), prim::tanh(ready(cell))));
          Tensor result = prim::mul(sigmoid_of(ready(output)), prim::tanh(next));
          return std::tuple{to_dtype(result, input.dtype()), to_dtype(next, c.dtype())};
        },
        kFunction};

const Op<Tensor(const Tensor&, const Tensor&, const Tensor&, std::optional<Tensor>)> gru_step{
    "_gru_step(Tensor gates, Tensor h, Tensor weight, Tensor? bias) -> Tensor",
    R"(One step of a GRU from the projected input `gates` [n, 3 * hidden] (reset, update, new) and h [n, hidden]: the next h.
Source: Cho et al., "Learning phrase representations using RNN encoder-decoder", 2014.)",
    [](const Tensor& gates, const Tensor& h, const Tensor& weight, std::optional<Tensor> bias) {
      check_step(gates, h, 3, "gru");
      DType t = compute_type(h.dtype());
      Tensor x = to_dtype(gates, t), y = projected(h, weight, bias), before = to_dtype(h, t);
      Tensor reset = sigmoid_of(prim::add(part(x, 0, 3), part(y, 0, 3)));
      Tensor update = sigmoid_of(prim::add(part(x, 1, 3), part(y, 1, 3)));
      Tensor fresh = prim::tanh(prim::add(part(x, 2, 3), prim::mul(reset, part(y, 2, 3))));
      Tensor next = prim::add(fresh, prim::mul(update, prim::sub(before, fresh)));
      return to_dtype(next, h.dtype());
    },
    kFunction};

const Op<Tensor(const Tensor&, const Tensor&, const Tensor&, std::optional<Tensor>, bool)> rnn_step{
    "_rnn_step(Tensor gates, Tensor h, Tensor weight, Tensor? bias, bool relu) -> Tensor",
    R"(One step of an Elman network from the projected input `gates` [n, hidden] and h [n, hidden]: tanh, or relu, of the sum
of the projections.)",
    [](const Tensor& gates, const Tensor& h, const Tensor& weight, std::optional<Tensor> bias,
       bool relu) {
      check_step(gates, h, 1, "rnn");
      Tensor sum = prim::add(to_dtype(gates, compute_type(h.dtype())), projected(h, weight, bias));
      Tensor next = relu ? prim::maximum(sum, prim::zeros_like(sum)) : prim::tanh(sum);
      return to_dtype(next, h.dtype());
    },
    kFunction};

}  // namespace flambeau::ops
