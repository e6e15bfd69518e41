#include "flambeau/autograd/nodes.h"

#include <cctype>
#include <limits>
#include <utility>

#include "flambeau/autograd/programs.h"
#include "flambeau/autograd/state.h"
#include "flambeau/base/error.h"

namespace flambeau::autograd {

namespace {

Tensor zeros_for(const Edge& edge) {
  const ResultType* type = edge.node ? edge.node->result_type(edge.index) : nullptr;
  return type ? filled(*type, 0) : Tensor();
}

bool any_defined(const std::vector<Tensor>& tensors) {
  for (const auto& t : tensors) {
    if (t.defined()) return true;
  }
  return false;
}

/// The integer arguments of a run of `program`, from the values of its input sizes.
std::vector<int64_t> size_arguments_of(const run::Program& program,
                                       const std::vector<int64_t>& input_sizes) {
  const auto& sources = program.graph().size_sources;
  internal_check(sources.size() == input_sizes.size(), "a derivative does not know the sizes of ",
                 program.name());
  std::vector<int64_t> arguments;
  for (size_t i = 0; i < sources.size(); ++i) {
    if (sources[i].input >= 0) continue;
    auto at = static_cast<size_t>(sources[i].dim);
    if (arguments.size() <= at) arguments.resize(at + 1);
    arguments[at] = input_sizes[i];
  }
  return arguments;
}

/// True when the backward program only hands cotangents on.
bool only_passes(const graph::Graph& backward) {
  for (graph::ValueId v : backward.outputs) {
    if (backward.value(v).node >= 0) return false;
  }
  return true;
}

}  // namespace

std::string node_name(const std::string& operator_name) {
  std::string result;
  bool upper = true;
  for (char c : operator_name.substr(operator_name.rfind('.') + 1)) {
    if (c == '_') {
      upper = true;
      continue;
    }
    result.push_back(upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c);
    upper = false;
  }
  return result + "Backward0";
}

DerivativeNode::DerivativeNode(std::shared_ptr<const run::Derivative> derivative,
                               const std::vector<run::Operand>& operands,
                               const std::vector<int64_t>& forward_sizes,
                               const std::vector<Tensor>& results, std::vector<Edge> edges)
    : derivative_(std::move(derivative)) {
  using Kind = run::Derivative::Source::Kind;
  edges_ = std::move(edges);
  first_type_ = ResultType(results[0]);
  for (int32_t i = 1; i < derivative_->outputs; ++i) {
    more_types_.emplace_back(results[static_cast<size_t>(i)]);
  }
  for (graph::SizeId id : derivative_->sizes)
    sizes_.push_back(forward_sizes[static_cast<size_t>(id)]);

  saved_.reserve(derivative_->sources.size());
  bool keeps = false;
  for (const auto& source : derivative_->sources) {
    auto i = static_cast<size_t>(source.index);
    switch (source.kind) {
      case Kind::cotangent:
        break;
      case Kind::input:
        saved_.push_back(save(operands[i]));
        break;
      case Kind::output:
        saved_.push_back({SavedTensor(results[i], source.index), {}, false});
        break;
      case Kind::kept:
        keeps = true;
        saved_.push_back(
            {SavedTensor(results[static_cast<size_t>(derivative_->outputs) + i], -1), {}, false});
        break;
    }
  }
  if (!keeps) return;
  for (const auto& operand : operands) operands_.push_back(save(operand));
  // The sizes of the backward program are the input sizes of the forward one, in order.
  size_arguments_ = size_arguments_of(*derivative_->forward, sizes_.vector());
}

DerivativeNode::Saved DerivativeNode::save(const run::Operand& operand) {
  if (const Scalar* number = std::get_if<Scalar>(&operand)) return {{}, *number, true};
  return {SavedTensor(std::get<Tensor>(operand), -1), {}, false};
}

run::Operand DerivativeNode::unpack(const Saved& saved, bool create_graph) {
  if (saved.is_number) return saved.number;
  if (!saved.tensor.defined()) return Tensor();
  return saved.tensor.unpack(shared_from_this(), create_graph);
}

std::vector<run::Operand> DerivativeNode::backward_operands(std::vector<Tensor>& cotangents,
                                                            bool create_graph) {
  using Kind = run::Derivative::Source::Kind;
  std::vector<Saved> saved, operands;
  {
    std::lock_guard lock(mutex_);
    if (released_) fail_released();
    saved = saved_;
    if (create_graph) operands = operands_;
  }

  std::vector<Tensor> again;  // results of the program, with a history
  if (!operands.empty()) {
    std::vector<run::Operand> unpacked;
    for (const auto& s : operands) unpacked.push_back(unpack(s, true));
    again = run::execute_recorded(derivative_->forward, unpacked, size_arguments_);
  }

  std::vector<run::Operand> result;
  result.reserve(derivative_->sources.size());
  auto next = saved.begin();
  for (const auto& source : derivative_->sources) {
    auto i = static_cast<size_t>(source.index);
    if (source.kind == Kind::cotangent) {
      if (!cotangents[i].defined()) cotangents[i] = filled(*result_type(source.index), 0);
      result.emplace_back(cotangents[i]);
      continue;
    }
    const Saved& s = *next++;
    if (source.kind == Kind::kept && !again.empty()) {
      result.emplace_back(again[static_cast<size_t>(derivative_->outputs) + i]);
    } else {
      result.push_back(unpack(s, create_graph));
    }
  }
  cotangents.clear();
  return result;
}

std::vector<Tensor> DerivativeNode::apply(std::vector<Tensor> cotangents, bool create_graph) {
  std::vector<Tensor> result(edges_.size());
  if (!any_defined(cotangents)) return result;
  std::vector<run::Operand> operands = backward_operands(cotangents, create_graph);
  const graph::Graph& backward = derivative_->backward->graph();
  std::vector<Tensor> computed;
  if (only_passes(backward)) {
    for (graph::ValueId v : backward.outputs) {
      size_t input = 0;
      while (backward.inputs[input].value != v) ++input;
      computed.push_back(std::get<Tensor>(operands[input]));
    }
  } else {
    computed = create_graph
                   ? run::execute_recorded(derivative_->backward, operands, sizes_.vector())
                   : run::execute(derivative_->backward, operands, sizes_.vector());
  }
  operands.clear();
  // The program has a result for each cotangent that there is.
  size_t next = 0;
  for (size_t i = 0; i < edges_.size(); ++i) {
    bool has = derivative_->has_cotangent[i];
    Tensor g = has ? std::move(computed[next++]) : Tensor();
    if (edges_[i].node) result[i] = has ? std::move(g) : zeros_for(edges_[i]);
  }
  return result;
}

void DerivativeNode::release() {
  std::vector<Saved> saved, operands;  // let go after the lock
  std::lock_guard lock(mutex_);
  // Numbers alone cost nothing to keep, and the node can run again.
  bool tensors = !operands_.empty();
  for (const auto& s : saved_) tensors |= !s.is_number;
  if (!tensors) return;
  released_ = true;
  saved.swap(saved_);
  operands.swap(operands_);
}

void DerivativeNode::visit_saved(const std::function<void(const Tensor&)>& visit) const {
  for (const auto* list : {&saved_, &operands_}) {
    for (const auto& saved : *list) {
      if (saved.tensor.data().defined()) visit(saved.tensor.data());
    }
  }
}

void DerivativeNode::allow_write(const Storage& storage) {
  std::lock_guard lock(mutex_);
  for (auto& saved : saved_) saved.tensor.allow_write(storage);
}

AccumulateNode::AccumulateNode(const Tensor& leaf)
    // Leaves come first: their gradients are finished, and what they were computed from can go.
    : Node(std::numeric_limits<uint64_t>::max()), leaf_(leaf), type_(leaf) {}

std::vector<Tensor> AccumulateNode::apply(std::vector<Tensor> cotangents, bool create_graph) {
  if (!cotangents[0].defined()) return {};
  {
    std::lock_guard lock(mutex_);
    AutogradState& state = make_state(leaf_);
    if (!state.slot) state.slot = std::make_shared<GradientSlot>();
    Tensor g = std::move(cotangents[0]);
    accumulate(state.slot->grad, std::move(g), create_graph);
  }
  if (hooks_) {
    for (const auto& entry : std::vector(hooks_->accumulated)) entry.hook(leaf_);
  }
  return {};
}

void accumulate(Tensor& grad, Tensor addend, bool create_graph) {
  if (!grad.defined()) {
    bool alone =
        addend.impl()->references.load() == 1 && addend.storage().references() == 1 &&
        addend.is_contiguous() &&
        addend.storage().bytes() == static_cast<size_t>(addend.numel() * itemsize(addend.dtype()));
    if (alone && !create_graph) {
      grad = std::move(addend);
      grad.impl()->gradient.reset();
      return;
    }
    grad = copied(addend);
    if (create_graph && addend.requires_grad()) {
      replace_history(
          grad, std::make_shared<PassNode>("CloneBackward0", grad, gradient_edge(addend), false),
          0);
    }
    return;
  }
  if (create_graph || has_internal_overlap(grad)) {
    grad = added(grad, addend, create_graph);
  } else {
    add_in_place(grad, addend);
  }
}

PassNode::PassNode(std::string name, const Tensor& result, Edge operand, bool zero)
    : name_(std::move(name)), type_(result), zero_(zero) {
  edges_.push_back(std::move(operand));
}

std::vector<Tensor> PassNode::apply(std::vector<Tensor> cotangents, bool create_graph) {
  if (!zero_ || !cotangents[0].defined()) return cotangents;
  return {zeros_for(edges_[0])};
}

}  // namespace flambeau::autograd
