#include "flambeau/autograd/views.h"

#include <algorithm>
#include <utility>

#include "flambeau/autograd/nodes.h"
#include "flambeau/autograd/programs.h"
#include "flambeau/autograd/state.h"
#include "flambeau/base/error.h"

namespace flambeau::autograd {

namespace {

using run::Derivative;
using run::Operand;

/// A tensor that has sizes but no memory, for size formulas.
Tensor geometry(const Dims& sizes, DType dtype, Device device) {
  auto* impl = new TensorImpl;
  Tensor t(impl);
  impl->sizes = sizes;
  impl->strides = contiguous_strides(sizes);
  impl->dtype = dtype;
  impl->device = device;
  impl->refresh();
  return t;
}

/// A step with what its program says about one base.
struct Application {
  const ViewStep* step;
  run::ProgramPointer program;
  std::shared_ptr<const Derivative> derivative;
  std::vector<Operand> operands;
  std::vector<int64_t> sizes;
  Tensor result;  // its geometry
};

Application apply_step(const ViewStep& step, const Tensor& t, const Tensor& view = {}) {
  Application a{&step, step.program(), nullptr, step.operands_for(t), {}, view};
  std::vector<bool> wanted(a.operands.size(), false);
  wanted[step.self] = true;
  a.derivative = a.program->derivative(wanted);
  for (const auto& source : a.derivative->sources) {
    // The derivative of a view moves elements: it needs no values of the base.
    bool number = source.kind == Derivative::Source::Kind::input &&
                  std::holds_alternative<Scalar>(a.operands[static_cast<size_t>(source.index)]);
    internal_check(number || source.kind == Derivative::Source::Kind::cotangent,
                   "the derivative of the view operator ", a.program->name(), " needs values");
  }
  a.sizes = a.program->evaluate_sizes(a.operands, step.size_arguments);
  if (!a.result.defined()) {
    const auto& graph = a.program->graph();
    const auto& value = graph.value(graph.outputs[0]);
    Dims sizes;
    for (graph::SizeId id : value.shape) sizes.push_back(a.sizes[static_cast<size_t>(id)]);
    a.result = geometry(sizes, value.dtype, t.device());
  }
  return a;
}

/// All steps from a base of this geometry on, in order.
std::vector<Application> apply_steps(const std::shared_ptr<ViewStep>& last, Tensor t) {
  std::vector<const ViewStep*> steps;
  for (const ViewStep* s = last.get(); s; s = s->previous.get()) steps.push_back(s);
  std::vector<Application> result;
  for (auto it = steps.rbegin(); it != steps.rend(); ++it) {
    result.push_back(apply_step(**it, t));
    t = result.back().result;
  }
  return result;
}

NodePointer make_node(const Application& a, Edge edge) {
  return std::make_shared<DerivativeNode>(a.derivative, a.operands, a.sizes,
                                          std::vector<Tensor>{a.result},
                                          std::vector<Edge>{std::move(edge)});
}

/// A base, part of which was written: the gradient of the part goes to what was written there, that
/// of the rest to the base as it was.
class RegionNode final : public Node {
 public:
  RegionNode(const Tensor& base, std::shared_ptr<ViewStep> last, Edge before, Edge value)
      : type_(base), last_(std::move(last)) {
    edges_.push_back(std::move(before));
    edges_.push_back(std::move(value));
  }
  std::string name() const override { return "CopySlices"; }
  int32_t result_count() const override { return 1; }
  const ResultType* result_type(int32_t) const override { return &type_; }
  void release() override {}
  void visit_saved(const std::function<void(const Tensor&)>&) const override {}

  std::vector<Tensor> apply(std::vector<Tensor> cotangents, bool create_graph) override {
    const Tensor& g = cotangents[0];
    if (!g.defined()) return std::vector<Tensor>(2);
    std::vector<Application> steps =
        apply_steps(last_, geometry(type_.sizes, type_.dtype, type_.device));
    Tensor value = g;
    for (const auto& a : steps) {
      std::vector<Operand> operands = a.step->operands_for(value);
      value = create_graph ? run::execute_recorded(a.program, operands, a.step->size_arguments)[0]
                           : run::execute(a.program, operands, a.step->size_arguments)[0];
    }
    if (!edges_[0].node) return {Tensor(), value};
    // Where the cotangent itself, sent back, is zero, there is nothing to clear. Its derivative is
    // another matter: that must not depend on the values.
    Tensor mask = create_graph ? ones(ResultType(value)) : value;
    for (auto it = steps.rbegin(); it != steps.rend(); ++it) {
      std::vector<Operand> operands;
      for (const auto& source : it->derivative->sources) {
        bool cotangent = source.kind == Derivative::Source::Kind::cotangent;
        operands.push_back(cotangent ? Operand(mask)
                                     : it->operands[static_cast<size_t>(source.index)]);
      }
      std::vector<int64_t> sizes;
      for (graph::SizeId id : it->derivative->sizes)
        sizes.push_back(it->sizes[static_cast<size_t>(id)]);
      mask = run::execute(it->derivative->backward, operands, sizes)[0];
    }
    return {zeroed_where(mask, g, create_graph), edges_[1].node ? value : Tensor()};
  }

 private:
  ResultType type_;
  std::shared_ptr<ViewStep> last_;
};

}  // namespace

ViewStep::~ViewStep() {
  // A long chain of views goes step by step.
  std::shared_ptr<ViewStep> next = std::move(previous);
  while (next && next.use_count() == 1) next = std::exchange(next->previous, nullptr);
}

std::vector<run::Operand> ViewStep::operands_for(const Tensor& t) const {
  std::vector<run::Operand> result = operands;
  result[self] = t;
  return result;
}

void record_view(const Tensor& source, const Tensor& view, std::shared_ptr<ViewStep> step) {
  if (source.same(view) || !is_inexact(source.dtype()) || !is_inexact(view.dtype())) return;
  bool enabled = run::gradients_enabled();
  AutogradState* from = find_state(source);
  auto info = std::make_unique<ViewInfo>();
  info->base = source;
  info->made_without_gradients = !enabled;
  if (from && from->view) {
    info->base = from->view->base;
    info->made_without_gradients |= from->view->made_without_gradients;
    step->previous = from->view->last;
  }
  // A view made without gradients never gets a history.
  if (info->made_without_gradients) step.reset();
  info->last = std::move(step);

  NodePointer node;
  if (enabled && source.requires_grad()) {
    Application a = apply_step(*info->last, source, view);
    // From here on the program is known, and whatever it would be found by can go.
    info->last->program = [program = a.program] { return program; };
    node = make_node(a, gradient_edge(source));
  }
  AutogradState& state = make_state(view);
  state.base = info->base.impl();
  state.view = std::move(info);
  state.history_version = view.storage().version();
  if (node) replace_history(view, std::move(node), 0);
}

void renew_view(const Tensor& view) {
  AutogradState& state = *find_state(view);
  ViewInfo& info = *state.view;
  if (info.made_without_gradients || (!state.grad_fn && !info.base.requires_grad())) return;
  uint32_t version = view.storage().version();
  if (state.history_version == version && !info.stale) return;

  Edge edge = gradient_edge(info.base);
  for (const auto& a : apply_steps(info.last, info.base)) edge = {make_node(a, std::move(edge)), 0};
  std::lock_guard lock(state_mutex(view.impl()));
  if (state.history_version == version && !info.stale) return;
  state.history_version = version;
  info.stale = false;
  replace_history(view, std::move(edge.node), 0);
}

NodePointer make_region_node(const Tensor& base, const std::shared_ptr<ViewStep>& last,
                             Edge value) {
  return std::make_shared<RegionNode>(base, last, gradient_edge(base), std::move(value));
}

}  // namespace flambeau::autograd
