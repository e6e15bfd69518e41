// Optimizer steps over all parameters of a group: each is one program, whose results are written
// over the parameters and their state.
#include "flambeau/ops/optimizer.h"

#include "flambeau/base/error.h"
#include "flambeau/ops/typing.h"

namespace flambeau::ops {

namespace {

Tensor number(const Number& n, const Tensor& x) {
  return expand_to(to_tensor(n, x.dtype()), graph::sizes_of(x));
}
Tensor scalar(const Tensor& s, const Tensor& x) {
  return expand_to(prim::cast(s, x.dtype()), graph::sizes_of(x));
}
Tensor in_float(const Tensor& x) { return to_dtype(x, compute_type(x.dtype())); }

const Op<TensorList(const TensorList&, const TensorList&, const TensorList&, const Number&,
                    const Number&, const Number&, const Number&, bool, bool, bool, bool)>
    sgd_step{
        "_sgd_step(Tensor[] self, Tensor[] grads, Tensor[] momentum_buffers, float weight_decay, "
        "float momentum, float lr, float dampening, bool nesterov, bool maximize, bool first, bool "
        "decays) -> Tensor[]",
        R"(New parameters, then new momentum buffers.)",
        [](const TensorList& self, const TensorList& grads, const TensorList& buffers,
           const Number& weight_decay, const Number& momentum, const Number& lr,
           const Number& dampening, bool nesterov, bool maximize, bool first, bool decays) {
          TensorList parameters, states;
          for (size_t i = 0; i < self.size(); ++i) {
            Tensor p = in_float(self[i]), g = in_float(grads[i]);
            if (maximize) g = prim::neg(g);
            if (decays) g = prim::add(g, prim::mul(p, number(weight_decay, p)));
            if (!buffers.empty()) {
              Tensor buffer = in_float(buffers[i]);
              if (first) {
                buffer = g;
              } else {
                Tensor kept = prim::sub(prim::constant_like(g, 1), number(dampening, g));
                buffer = prim::add(prim::mul(buffer, number(momentum, g)), prim::mul(g, kept));
              }
              states.push_back(to_dtype(buffer, buffers[i].dtype()));
              g = nesterov ? prim::add(g, prim::mul(buffer, number(momentum, g))) : buffer;
            }
            parameters.push_back(
                to_dtype(prim::sub(p, prim::mul(g, number(lr, g))), self[i].dtype()));
          }
          parameters.insert(parameters.end(), states.begin(), states.end());
          return parameters;
        },
        0};

const Op<TensorList(const TensorList&, const TensorList&, const TensorList&, const TensorList&,
                    const TensorList&, const TensorList&, const Number&, const Number&,
                    const Number&, const Number&, const Number&, bool, bool, bool)>
    adam_step{
        "_adam_step(Tensor[] self, Tensor[] grads, Tensor[] exp_avgs, Tensor[] exp_avg_sqs, "
        "Tensor[] max_exp_avg_sqs, Tensor[] state_steps, float lr, float beta1, float beta2, float "
        "weight_decay, float eps, bool maximize, bool decays, bool decoupled) -> Tensor[]",
        R"(New parameters, first and second moments, largest second moments where there are any, and steps.)",
        [](const TensorList& self, const TensorList& grads, const TensorList& exp_avgs,
           const TensorList& exp_avg_sqs, const TensorList& max_exp_avg_sqs,
           const TensorList& state_steps, const Number& lr, const Number& beta1,
           const Number& beta2, const Number& weight_decay, const Number& eps, bool maximize,
           bool decays, bool decoupled) {
          TensorList parameters, firsts, seconds, largest, steps;
          Tensor one = prim::constant(1.0, DType::float64);
          Tensor b1 = to_tensor(beta1, DType::float64), b2 = to_tensor(beta2, DType::float64),
                 rate = to_tensor(lr, DType::float64);
          for (size_t i = 0; i < self.size(); ++i) {
            Tensor step = prim::add(state_steps[i], prim::constant_like(state_steps[i], 1));
            steps.push_back(step);
            Tensor exponent = prim::cast(step, DType::float64);
            Tensor step_size = prim::div(rate, prim::sub(one, prim::pow(b1, exponent)));
            Tensor root = prim::sqrt(prim::sub(one, prim::pow(b2, exponent)));
            Tensor p = in_float(self[i]), g = in_float(grads[i]);
            if (maximize) g = prim::neg(g);
            if (decays) {
              Tensor w = number(weight_decay, p);
              if (decoupled)
                p = prim::sub(
                    p, prim::mul(
                           scalar(prim::mul(rate, to_tensor(weight_decay, DType::float64)), p), p));
              else
                g = prim::add(g, prim::mul(p, w));
            }
            Tensor m = in_float(exp_avgs[i]), v = in_float(exp_avg_sqs[i]);
            m = prim::add(m, prim::mul(prim::sub(g, m), scalar(prim::sub(one, b1), g)));
            v = prim::add(prim::mul(v, scalar(b2, g)),
                          prim::mul(prim::mul(g, g), scalar(prim::sub(one, b2), g)));
            firsts.push_back(to_dtype(m, exp_avgs[i].dtype()));
            seconds.push_back(to_dtype(v, exp_avg_sqs[i].dtype()));
            Tensor second = v;
            if (!max_exp_avg_sqs.empty()) {
              second = prim::maximum(in_float(max_exp_avg_sqs[i]), v);
              largest.push_back(to_dtype(second, max_exp_avg_sqs[i].dtype()));
            }
            Tensor denominator =
                prim::add(prim::div(prim::sqrt(second), scalar(root, g)), number(eps, g));
            Tensor update = prim::div(prim::mul(m, scalar(step_size, g)), denominator);
            parameters.push_back(to_dtype(prim::sub(p, update), self[i].dtype()));
          }
          for (const TensorList* list : {&firsts, &seconds, &largest, &steps})
            parameters.insert(parameters.end(), list->begin(), list->end());
          return parameters;
        },
        0};

void check_lists(const TensorList& self, const TensorList& list, const char* name, const char* what,
                 bool shapes = true) {
  check(self.size() == list.size(), ErrorKind::runtime, name, ": expected ", self.size(),
        " tensors in ", what, ", got ", list.size());
  for (size_t i = 0; shapes && i < self.size(); ++i) {
    check(self[i].sizes() == list[i].sizes(), ErrorKind::runtime, name, ": ", what, "[", i,
          "] has shape ", list[i].sizes(), ", its parameter ", self[i].sizes());
  }
}

template <bool decoupled>
TensorList adam(const TensorList& self, const TensorList& grads, const TensorList& exp_avgs,
                const TensorList& exp_avg_sqs, const TensorList& max_exp_avg_sqs,
                const TensorList& state_steps, const Number& lr, const Number& beta1,
                const Number& beta2, const Number& weight_decay, const Number& eps, bool amsgrad,
                bool maximize) {
  const char* name = decoupled ? "_fused_adamw_" : "_fused_adam_";
  check_lists(self, grads, name, "grads");
  check_lists(self, exp_avgs, name, "exp_avgs");
  check_lists(self, exp_avg_sqs, name, "exp_avg_sqs");
  check_lists(self, state_steps, name, "state_steps", false);
  if (amsgrad) check_lists(self, max_exp_avg_sqs, name, "max_exp_avg_sqs");
  TensorList written = self, maxima = amsgrad ? max_exp_avg_sqs : TensorList();
  for (const TensorList* list : {&exp_avgs, &exp_avg_sqs, &std::as_const(maxima), &state_steps})
    written.insert(written.end(), list->begin(), list->end());
  bool decays = weight_decay.scalar().real() != 0;
  call_into(adam_step.definition(),
            {self, grads, exp_avgs, exp_avg_sqs, maxima, state_steps, lr, beta1, beta2,
             weight_decay, eps, maximize, decays, decoupled},
            written);
  return self;
}

}  // namespace

const Op<TensorList(const TensorList&, const TensorList&, const TensorList&, const Number&,
                    const Number&, const Number&, const Number&, bool, bool, bool)>
    fused_sgd{
        "_fused_sgd_(Tensor(a!)[] self, Tensor[] grads, Tensor(c!)[] momentum_buffer_list, *, "
        "float weight_decay, float momentum, float lr, float dampening, bool nesterov, bool "
        "maximize, bool is_first_step) -> Tensor[]",
        R"(One step of stochastic gradient descent over all parameters, in place: g = grad + weight_decay p; b = momentum b +
(1 - dampening) g, in the first step b = g; p -= lr b, or lr (g + momentum b) for nesterov. Without momentum buffers p -= lr g.
Source: Sutskever et al., "On the importance of initialization and momentum in deep learning", 2013. Returns `self`.)",
        [](const TensorList& self, const TensorList& grads, const TensorList& buffers,
           const Number& weight_decay, const Number& momentum, const Number& lr,
           const Number& dampening, bool nesterov, bool maximize, bool first) {
          check_lists(self, grads, "_fused_sgd_", "grads");
          if (!buffers.empty()) check_lists(self, buffers, "_fused_sgd_", "momentum_buffer_list");
          TensorList written = self;
          written.insert(written.end(), buffers.begin(), buffers.end());
          bool decays = weight_decay.scalar().real() != 0;
          call_into(sgd_step.definition(),
                    {self, grads, buffers, weight_decay, momentum, lr, dampening, nesterov,
                     maximize, first, decays},
                    written);
          return self;
        },
        kFunction, BodyKind::direct};

const Op<AdamStep> fused_adam{
    "_fused_adam_(Tensor(a!)[] self, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] "
    "exp_avg_sqs, Tensor(d!)[] max_exp_avg_sqs, Tensor(e!)[] state_steps, *, float lr, float "
    "beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize) -> Tensor[]",
    R"(One step of Adam over all parameters, in place: t += 1; g = grad + weight_decay p; m += (1 - beta1) (g - m);
v = beta2 v + (1 - beta2) g^2; p -= lr / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + eps), with the largest v so far for
amsgrad. Powers of the betas are taken in float64. `state_steps` are 0-d float32 tensors. Source: Kingma and Ba, "Adam", 2015.
Returns `self`.)",
    adam<false>, kFunction, BodyKind::direct};

const Op<AdamStep> fused_adamw{
    "_fused_adamw_(Tensor(a!)[] self, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] "
    "exp_avg_sqs, Tensor(d!)[] max_exp_avg_sqs, Tensor(e!)[] state_steps, *, float lr, float "
    "beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize) -> Tensor[]",
    R"(_fused_adam_ with the decay taken from the parameter: p -= lr weight_decay p, before the step. Source: Loshchilov and
Hutter, "Decoupled weight decay regularization", 2019.)",
    adam<true>, kFunction, BodyKind::direct};

}  // namespace flambeau::ops
