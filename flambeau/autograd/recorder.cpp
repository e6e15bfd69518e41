// What operator calls tell the tape, and the history of tensors that are written in place.
#include <algorithm>

#include "flambeau/autograd/nodes.h"
#include "flambeau/autograd/state.h"
#include "flambeau/base/error.h"
#include "flambeau/run/program.h"

namespace flambeau::autograd {

namespace {

// The operator that announced its write last on this thread: a constant written over a value is a
// node with its name.
thread_local const char* writing_operator = "copy";

/// A leaf's accumulating node, or a node whose result looks different, cannot stand for the written
/// tensor.
Edge wrapped(const Tensor& target, Edge value) {
  const ResultType* type = value.node ? value.node->result_type(value.index) : nullptr;
  bool fits = !type || (type->dtype == target.dtype() && type->sizes == target.sizes());
  if (fits && !dynamic_cast<const AccumulateNode*>(value.node.get())) return value;
  return {std::make_shared<PassNode>("CopyBackwards", target, std::move(value), false), 0};
}

std::string written_name() {
  std::string name = writing_operator;
  while (!name.empty() && name.back() == '_') name.pop_back();
  return node_name(name);
}

void check_view_mode(const AutogradState& state) {
  check(!state.view || !state.view->made_without_gradients, ErrorKind::runtime,
        "A view was created in no_grad mode and is being modified inplace with grad mode enabled. "
        "Given that this use "
        "case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving "
        "both the view and the "
        "inplace either both inside the no_grad block (if you don't want the inplace to be "
        "tracked) or both outside "
        "(if you want the inplace to be tracked).");
}

/// `value` is what target now holds; a null node is a value without history.
void rebase(const Tensor& target, Edge value) {
  AutogradState* state = find_state(target);
  if (state && state->view) {
    check_view_mode(*state);
    const Tensor base = state->view->base;
    replace_history(base, make_region_node(base, state->view->last, std::move(value)), 0);
    state->view->stale = true;
    return;
  }
  if (!value.node) {
    value = {std::make_shared<PassNode>(written_name(), target, gradient_edge(target), true), 0};
  }
  replace_history(target, std::move(value.node), value.index);
}

class TapeRecorder final : public run::Recorder {
 public:
  void record(std::shared_ptr<const run::Derivative> derivative,
              const std::vector<run::Operand>& operands, const std::vector<int64_t>& forward_sizes,
              const std::vector<Tensor>& results) override {
    std::vector<Edge> edges;
    edges.reserve(derivative->wanted.size());
    for (int32_t input : derivative->wanted) {
      edges.push_back(gradient_edge(std::get<Tensor>(operands[static_cast<size_t>(input)])));
    }
    std::vector<bool> differentiable = derivative->differentiable;
    auto node = std::make_shared<DerivativeNode>(std::move(derivative), operands, forward_sizes,
                                                 results, std::move(edges));
    for (size_t i = 0; i < differentiable.size(); ++i) {
      if (differentiable[i]) set_history(results[i], node, static_cast<int32_t>(i));
    }
  }

  void record_view(const Tensor& base, const Tensor& view,
                   std::function<run::ProgramPointer()> program,
                   const std::vector<run::Operand>& operands,
                   const std::vector<int64_t>& size_arguments) override {
    auto step = std::make_shared<ViewStep>();
    step->program = std::move(program);
    step->operands = operands;
    step->size_arguments = size_arguments;
    while (step->self < operands.size()) {
      const Tensor* t = std::get_if<Tensor>(&operands[step->self]);
      if (t && t->same(base)) break;
      ++step->self;
    }
    internal_check(step->self < operands.size(),
                   "a view operator's program does not take its base");
    step->operands[step->self] = Tensor();
    autograd::record_view(base, view, std::move(step));
  }

  void check_write(const Tensor& target, const char* operator_name) override {
    writing_operator = operator_name;
    if (!run::gradients_enabled()) return;
    check_inplace(target);
    announce_write(target.impl()->storage.get());
  }

  void end_write() override { announce_write(nullptr); }

  void record_write(const Tensor& target, const Tensor& value) override {
    announce_write(nullptr);
    if (!run::gradients_enabled() || !is_inexact(target.dtype())) return;
    if (!value.requires_grad()) {
      if (target.requires_grad()) rebase(target, {});
      return;
    }
    Edge edge = gradient_edge(value);
    if (auto* node = dynamic_cast<DerivativeNode*>(edge.node.get()))
      node->allow_write(target.storage());
    rebase(target, wrapped(target, std::move(edge)));
  }
};

TapeRecorder tape_recorder;
const bool registered = (run::set_recorder(&tape_recorder), true);

}  // namespace

void check_inplace(const Tensor& t) {
  if (!t.requires_grad()) return;
  AutogradState& state = *find_state(t);
  if (state.view) {
    check_view_mode(state);
    check(!is_leaf(state.view->base), ErrorKind::runtime,
          "a view of a leaf Variable that requires grad is being used in an in-place operation.");
  }
  check(!is_leaf(t), ErrorKind::runtime,
        "a leaf Variable that requires grad is being used in an in-place operation.");
}

void rebase_history(const Tensor& t, NodePointer node, int32_t index) {
  check(is_inexact(t.dtype()), ErrorKind::runtime,
        "only Tensors of floating point and complex dtype have a history");
  rebase(t, wrapped(t, {std::move(node), index}));
}

}  // namespace flambeau::autograd
