#include "flambeau/run/program.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <mutex>

#include "flambeau/base/error.h"
#include "flambeau/base/settings.h"
#include "flambeau/graph/primitive.h"
#include "flambeau/graph/trace.h"
#include "flambeau/prim/prim.h"
#include "flambeau/run/executable.h"

namespace flambeau::run {

using graph::Graph;
using graph::PrimitiveKind;
using graph::SizeId;
using graph::SizeOp;
using graph::Trace;
using graph::ValueId;

struct Program::Derivatives {
  std::mutex mutex;
  std::map<std::vector<bool>, std::shared_ptr<const Derivative>> by_mask;
};

Program::Program(std::string name, Graph graph, std::vector<int64_t> example_sizes, Rule rule)
    : name_(std::move(name)),
      graph_(std::move(graph)),
      example_sizes_(std::move(example_sizes)),
      rule_(std::move(rule)),
      executables_(std::make_unique<Executables>()),
      derivatives_(std::make_unique<Derivatives>()) {
  for (const graph::Node& n : graph_.nodes) {
    PrimitiveKind k = n.primitive->kind;
    bool whole_numbers =
        k == PrimitiveKind::elementwise && is_integer(graph_.value(n.outputs[0]).dtype);
    std::string_view primitive = n.primitive->name;
    may_raise_ |=
        k == PrimitiveKind::take || k == PrimitiveKind::put ||
        (whole_numbers && (primitive == "div" || primitive == "rem" || primitive == "pow"));
  }
  if (dump_enabled("graph"))
    std::fputs(text("graph ", name_, "\n", graph::print(graph_), "\n").c_str(), stderr);
}

Program::~Program() = default;

std::vector<int64_t> Program::input_sizes(const std::vector<Operand>& operands,
                                          const std::vector<int64_t>& size_arguments) const {
  std::vector<int64_t> result;
  result.reserve(graph_.size_sources.size());
  for (graph::SizeSource s : graph_.size_sources) {
    result.push_back(s.input < 0
                         ? size_arguments[static_cast<size_t>(s.dim)]
                         : std::get<Tensor>(operands[static_cast<size_t>(s.input)]).size(s.dim));
  }
  return result;
}

std::vector<int64_t> Program::evaluate_sizes(const std::vector<Operand>& operands,
                                             const std::vector<int64_t>& size_arguments) const {
  std::vector<int64_t> inputs = input_sizes(operands, size_arguments);
  std::vector<int64_t> values(static_cast<size_t>(graph_.sizes.size()));
  graph_.sizes.evaluate(inputs.data(), values.data());
  return values;
}

bool Program::holds(const std::vector<int64_t>& sizes) const {
  for (const graph::Guard& g : graph_.guards) {
    int64_t a = sizes[static_cast<size_t>(g.a)], b = sizes[static_cast<size_t>(g.b)];
    if ((g.kind == graph::Guard::Kind::equal ? a == b : a < b) != g.outcome) return false;
  }
  return true;
}

namespace {

/// The message with the sizes in the place of {a} and {b}, or after it.
std::string with_sizes(std::string message, int64_t a, int64_t b) {
  if (message.find("{a}") == std::string::npos) return text(message, " (got ", a, " and ", b, ")");
  for (auto [mark, value] : {std::pair("{a}", a), std::pair("{b}", b)}) {
    if (size_t at = message.find(mark); at != std::string::npos)
      message.replace(at, 3, text(value));
  }
  return message;
}

}  // namespace

void Program::check_requirements(const std::vector<int64_t>& sizes) const {
  for (const graph::Requirement& r : graph_.requirements) {
    int64_t a = sizes[static_cast<size_t>(r.a)], b = sizes[static_cast<size_t>(r.b)];
    if (a != b) [[unlikely]]
      fail(ErrorKind::runtime, text(name_, ": ", with_sizes(r.message, a, b)));
  }
}

namespace {

/// Kept for the backward rather than computed again.
bool is_expensive(PrimitiveKind k) {
  return k == PrimitiveKind::dot || k == PrimitiveKind::convolution || k == PrimitiveKind::reduce ||
         k == PrimitiveKind::scan || k == PrimitiveKind::put;
}

class DerivativeBuilder {
 public:
  DerivativeBuilder(const Program& program, const std::vector<bool>& wanted,
                    const Program::Rule& rule)
      : program_(program),
        trace_(program.graph(), program.example_sizes()),
        wanted_(wanted),
        rule_(rule) {}

  std::shared_ptr<const Derivative> build() {
    const Graph& forward = program_.graph();
    value_count_ = static_cast<ValueId>(forward.values.size());
    auto result = std::make_shared<Derivative>();
    result->name = program_.name();
    result->outputs = static_cast<int32_t>(forward.outputs.size());
    for (ValueId v : forward.outputs) {
      const graph::Node* n = forward.node_of(v);
      bool constant = rule_ && n && n->primitive->kind == PrimitiveKind::barrier;
      result->differentiable.push_back(is_inexact(forward.value(v).dtype) && !constant);
    }
    add_cotangent_inputs();
    std::vector<Tensor> cotangents = rule_ ? by_rule() : by_primitives();
    std::vector<ValueId> results;
    for (size_t i = 0; i < wanted_.size(); ++i) {
      if (!wanted_[i]) continue;
      result->wanted.push_back(static_cast<int32_t>(i));
      result->has_cotangent.push_back(cotangents[i].defined());
      if (cotangents[i].defined()) results.push_back(cotangents[i].impl()->traced);
    }
    partition(results, *result);
    return result;
  }

 private:
  void add_cotangent_inputs() {
    Graph& g = trace_.graph();
    for (size_t k = 0; k < g.outputs.size(); ++k) {
      ValueId v = g.outputs[k];
      if (!is_inexact(g.value(v).dtype)) {
        cotangent_inputs_.push_back(-1);
        continue;
      }
      DType dtype = g.value(v).dtype;
      graph::Shape shape = g.value(v).shape;
      cotangent_inputs_.push_back(g.add_input(dtype, std::move(shape), false));
    }
  }

  std::vector<Tensor> by_rule() {
    Graph& g = trace_.graph();
    std::vector<Tensor> inputs, outputs, cotangents;
    for (size_t i = 0; i < wanted_.size(); ++i) inputs.push_back(trace_.tensor(g.inputs[i].value));
    for (ValueId v : program_.graph().outputs) outputs.push_back(trace_.tensor(v));
    for (ValueId v : cotangent_inputs_) cotangents.push_back(v < 0 ? Tensor() : trace_.tensor(v));
    return rule_(inputs, outputs, cotangents);
  }

  std::vector<Tensor> by_primitives() {
    const Graph& forward = program_.graph();
    std::vector<bool> needs(static_cast<size_t>(value_count_));
    for (size_t i = 0; i < wanted_.size(); ++i) {
      if (wanted_[i]) needs[static_cast<size_t>(forward.inputs[i].value)] = true;
    }
    for (const graph::Node& n : forward.nodes) {
      bool any = false;
      for (ValueId v : n.inputs)
        any |= needs[static_cast<size_t>(v)] && is_inexact(forward.value(v).dtype);
      if (n.primitive->kind == PrimitiveKind::barrier) any = false;
      for (ValueId v : n.outputs)
        needs[static_cast<size_t>(v)] = any && is_inexact(forward.value(v).dtype);
    }
    std::vector<Tensor> cotangent(static_cast<size_t>(value_count_));
    for (size_t k = 0; k < forward.outputs.size(); ++k) {
      if (cotangent_inputs_[k] < 0) continue;
      auto v = static_cast<size_t>(forward.outputs[k]);
      cotangent[v] = prim::add_cotangents(cotangent[v], trace_.tensor(cotangent_inputs_[k]));
    }
    for (size_t i = forward.nodes.size(); i-- > 0;) {
      const graph::Node& n = forward.nodes[i];
      bool reached = false, needed = false;
      for (ValueId v : n.outputs) {
        reached |= cotangent[static_cast<size_t>(v)].defined();
        needed |= needs[static_cast<size_t>(v)];
      }
      if (!reached || !needed) continue;
      check(n.primitive->vjp != nullptr, ErrorKind::not_implemented, "the derivative of '",
            program_.name(), "' is not implemented: primitive ", n.primitive->name, " has no vjp");
      std::vector<Tensor> inputs, outputs, cts;
      for (ValueId v : n.inputs) inputs.push_back(trace_.tensor(v));
      for (ValueId v : n.outputs) {
        outputs.push_back(trace_.tensor(v));
        const Tensor& c = cotangent[static_cast<size_t>(v)];
        cts.push_back(c.defined() ? c : prim::zeros_like(outputs.back()));
      }
      std::vector<Tensor> back =
          n.primitive->vjp({n.primitive, n.attributes, inputs, outputs}, cts);
      for (size_t k = 0; k < n.inputs.size(); ++k) {
        auto v = static_cast<size_t>(n.inputs[k]);
        if (back[k].defined() && needs[v])
          cotangent[v] = prim::add_cotangents(cotangent[v], back[k]);
      }
    }
    std::vector<Tensor> result;
    for (size_t i = 0; i < wanted_.size(); ++i)
      result.push_back(cotangent[static_cast<size_t>(forward.inputs[i].value)]);
    return result;
  }

  /// Splits the joint graph: what the backward reads of the forward becomes its inputs.
  void partition(const std::vector<ValueId>& results, Derivative& d) {
    using Kind = Derivative::Source::Kind;
    const Graph& forward = program_.graph();
    const Graph& joint = trace_.graph();
    std::map<ValueId, Derivative::Source> sources;
    std::vector<ValueId> source_order, kept, work = results;
    std::vector<bool> seen(joint.values.size());
    auto add_source = [&](ValueId v, Kind kind, size_t index) {
      sources[v] = {kind, static_cast<int32_t>(index)};
      source_order.push_back(v);
    };
    auto find = [](const std::vector<ValueId>& in, ValueId v) {
      return static_cast<size_t>(std::find(in.begin(), in.end(), v) - in.begin());
    };
    while (!work.empty()) {
      ValueId v = work.back();
      work.pop_back();
      if (seen[static_cast<size_t>(v)]) continue;
      seen[static_cast<size_t>(v)] = true;
      if (size_t k = find(cotangent_inputs_, v); k < cotangent_inputs_.size()) {
        add_source(v, Kind::cotangent, k);
        continue;
      }
      const graph::Node* n = joint.node_of(v);
      if (v < value_count_) {
        if (size_t k = find(forward.outputs, v); k < forward.outputs.size() && n) {
          add_source(v, Kind::output, k);
          continue;
        }
        if (!n) {
          size_t i = 0;
          while (forward.inputs[i].value != v) ++i;
          add_source(v, Kind::input, i);
          continue;
        }
        if (is_expensive(n->primitive->kind)) {
          add_source(v, Kind::kept, kept.size());
          kept.push_back(v);
          continue;
        }
      }
      for (ValueId x : n->inputs) work.push_back(x);
    }
    std::sort(source_order.begin(), source_order.end());

    Graph f = forward;
    f.outputs.insert(f.outputs.end(), kept.begin(), kept.end());
    d.forward =
        std::make_shared<Program>(program_.name(), graph::simplify(f), program_.example_sizes());

    Graph b;
    b.sizes = joint.sizes;
    b.guards = joint.guards;
    for (size_t j = 0; j < joint.size_sources.size(); ++j) {
      b.size_sources.push_back({-1, static_cast<int32_t>(j)});
      d.sizes.push_back(-1);
    }
    for (SizeId s = 0; s < static_cast<SizeId>(forward.sizes.size()); ++s) {
      if (forward.sizes[s].op == SizeOp::input)
        d.sizes[static_cast<size_t>(forward.sizes[s].value)] = s;
    }
    std::vector<ValueId> map(joint.values.size(), -1);
    for (ValueId v : source_order) {
      const Derivative::Source& s = sources[v];
      d.sources.push_back(s);
      bool number = s.kind == Kind::input && forward.inputs[static_cast<size_t>(s.index)].number;
      map[static_cast<size_t>(v)] = b.add_input(joint.value(v).dtype, joint.value(v).shape, number);
    }
    for (const graph::Node& n : joint.nodes) {
      bool needed = false;
      for (ValueId v : n.outputs) needed |= seen[static_cast<size_t>(v)] && !sources.count(v);
      if (!needed) continue;
      std::vector<ValueId> operands;
      for (ValueId v : n.inputs) operands.push_back(map[static_cast<size_t>(v)]);
      graph::ResultTypes types;
      for (ValueId v : n.outputs) types.emplace_back(joint.value(v).dtype, joint.value(v).shape);
      int32_t made = b.add_node(n.primitive, std::move(operands), n.attributes, std::move(types));
      for (size_t o = 0; o < n.outputs.size(); ++o) {
        auto v = static_cast<size_t>(n.outputs[o]);
        if (map[v] < 0) map[v] = b.nodes[static_cast<size_t>(made)].outputs[o];
      }
    }
    for (ValueId v : results) b.outputs.push_back(map[static_cast<size_t>(v)]);
    d.backward = std::make_shared<Program>(program_.name() + " backward", graph::simplify(b),
                                           trace_.input_sizes());
  }

  const Program& program_;
  Trace trace_;
  std::vector<bool> wanted_;
  const Program::Rule& rule_;
  ValueId value_count_ = 0;
  std::vector<ValueId> cotangent_inputs_;  // by output; -1 for those without a derivative
};

std::atomic<Recorder*> recorder_{nullptr};
thread_local bool gradients_enabled_ = true;

}  // namespace

std::shared_ptr<const Derivative> Program::derivative(const std::vector<bool>& wanted) {
  std::lock_guard lock(derivatives_->mutex);
  auto& entry = derivatives_->by_mask[wanted];
  if (!entry) entry = DerivativeBuilder(*this, wanted, rule_).build();
  return entry;
}

void set_recorder(Recorder* recorder) { recorder_.store(recorder); }
Recorder* recorder() { return recorder_.load(); }
bool gradients_enabled() { return gradients_enabled_; }
void set_gradients_enabled(bool enabled) { gradients_enabled_ = enabled; }

std::vector<Tensor> execute_recorded(const ProgramPointer& program,
                                     const std::vector<Operand>& operands,
                                     const std::vector<int64_t>& size_arguments) {
  auto requires_grad = [](const Operand& o) {
    const auto* t = std::get_if<Tensor>(&o);
    return t && t->requires_grad();
  };
  auto inexact = [&](ValueId v) { return is_inexact(program->graph().value(v).dtype); };
  const auto& outputs = program->graph().outputs;
  bool any = gradients_enabled_ && recorder() &&
             std::any_of(operands.begin(), operands.end(), requires_grad) &&
             std::any_of(outputs.begin(), outputs.end(), inexact);
  if (!any) return execute(program, operands, size_arguments);
  std::vector<bool> wanted(operands.size());
  for (size_t i = 0; i < operands.size(); ++i) wanted[i] = requires_grad(operands[i]);
  std::shared_ptr<const Derivative> d = program->derivative(wanted);
  std::vector<Tensor> results = execute(d->forward, operands, size_arguments);
  // The forward program's own size table may be smaller: sizes are taken from the program's.
  recorder()->record(d, operands, program->evaluate_sizes(operands, size_arguments), results);
  results.resize(static_cast<size_t>(d->outputs));
  return results;
}

}  // namespace flambeau::run
