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

const Op<std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                    std::optional<Tensor>)>
    lstm_step{
        "_lstm_step(Tensor gates, Tensor h, Tensor c, Tensor weight, Tensor? bias) -> (Tensor, "
        "Tensor)",
        R"(One step of an LSTM from the projected input `gates` [n, 4 * hidden] (input, forget, cell, output), h [n, proj] and
c [n, hidden]: the next h (before a projection) and c, both [n, hidden]. Source: Hochreiter and Schmidhuber, "Long short-term
memory", 1997.)",
        [](const Tensor& gates, const Tensor& h, const Tensor& c, const Tensor& weight,
           std::optional<Tensor> bias) {
          check_step(gates, h, 4, "lstm");
          DType t = compute_type(h.dtype());
          Tensor g = prim::add(to_dtype(gates, t), projected(h, weight, bias));
          Tensor in = sigmoid_of(part(g, 0, 4)), forget = sigmoid_of(part(g, 1, 4)),
                 cell = prim::tanh(part(g, 2, 4)), out = sigmoid_of(part(g, 3, 4));
          Tensor next = prim::add(prim::mul(forget, to_dtype(c, t)), prim::mul(in, cell));
          Tensor result = prim::mul(out, prim::tanh(next));
          return std::tuple{to_dtype(result, h.dtype()), to_dtype(next, c.dtype())};
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
