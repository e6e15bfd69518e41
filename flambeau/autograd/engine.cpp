// The backward pass: a list of ready nodes, taken by descending number, on the calling thread. No
// recursion.
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "flambeau/autograd/anomaly.h"
#include "flambeau/autograd/nodes.h"
#include "flambeau/autograd/programs.h"
#include "flambeau/autograd/state.h"
#include "flambeau/base/error.h"
#include "flambeau/run/program.h"

namespace flambeau::autograd {

namespace {

class GradientMode {
 public:
  explicit GradientMode(bool enabled) : before_(run::gradients_enabled()) {
    run::set_gradients_enabled(enabled);
  }
  ~GradientMode() { run::set_gradients_enabled(before_); }

 private:
  bool before_;
};

class BackwardPass {
 public:
  BackwardPass(bool retain_graph, bool create_graph)
      : retain_graph_(retain_graph), create_graph_(create_graph) {}

  /// From now on only what leads to a wanted edge runs.
  void want(const Edge& edge) {
    wants_ = true;
    tasks_[edge.node.get()].needed = true;
  }
  /// Keeps the cotangent of an edge; returns its number.
  size_t capture(const Edge& edge) {
    want(edge);
    captures_.push_back({});
    tasks_[edge.node.get()].captures.emplace_back(edge.index, captures_.size() - 1);
    return captures_.size() - 1;
  }
  const Tensor& captured(size_t number) const { return captures_[number]; }

  void run(const std::vector<Edge>& roots, std::vector<Tensor> cotangents) {
    for (const auto& root : roots) {
      explore(root.node.get());
      ++tasks_[root.node.get()].pending;
    }
    for (size_t i = 0; i < roots.size(); ++i) deliver(roots[i], std::move(cotangents[i]));
    while (!ready_.empty()) {
      std::pop_heap(ready_.begin(), ready_.end());
      Node* node = ready_.back().node;
      ready_.pop_back();
      process(*node);
    }
  }

 private:
  struct Task {
    int64_t pending = 0;  // cotangents that are still to come
    bool explored = false;
    bool needed = false;             // it or a node below it is wanted
    bool runs = false;               // not only kept: a node below is wanted
    std::vector<Tensor> cotangents;  // by result
    std::vector<std::pair<int32_t, size_t>> captures;
  };
  struct Ready {
    uint64_t number;
    uint64_t order;  // of becoming ready: among leaves the first comes first
    Node* node;
    friend bool operator<(const Ready& a, const Ready& b) {
      return a.number != b.number ? a.number < b.number : a.order > b.order;
    }
  };

  /// Counts the cotangents that each node below `root` will get, and finds which nodes are needed.
  void explore(Node* root) {
    std::vector<std::pair<Node*, size_t>> stack;
    auto enter = [&](Node* node) {
      Task& task = tasks_[node];
      if (task.explored) return;
      task.explored = true;
      if (!wants_) task.needed = true;
      stack.emplace_back(node, 0);
    };
    enter(root);
    while (!stack.empty()) {
      Node* node = stack.back().first;
      size_t i = stack.back().second++;
      if (i < node->next_edges().size()) {
        Node* next = node->next_edges()[i].node.get();
        if (!next) continue;
        ++tasks_[next].pending;
        enter(next);
        continue;
      }
      stack.pop_back();
      bool below = false;
      for (const auto& edge : node->next_edges())
        below |= edge.node && tasks_[edge.node.get()].needed;
      Task& task = tasks_[node];
      task.runs = wants_ ? below || (task.needed && task.captures.empty()) : true;
      task.needed |= below;
    }
  }

  /// Adds a cotangent (undefined: none) to those of a node; with the last one the node is ready.
  void deliver(const Edge& edge, Tensor cotangent) {
    Task& task = tasks_[edge.node.get()];
    if (cotangent.defined() && task.needed) {
      if (task.cotangents.empty())
        task.cotangents.resize(static_cast<size_t>(edge.node->result_count()));
      Tensor& sum = task.cotangents[static_cast<size_t>(edge.index)];
      sum = sum.defined() ? added(sum, cotangent, create_graph_) : std::move(cotangent);
    }
    if (--task.pending > 0) return;
    ready_.push_back({edge.node->sequence_number(), order_++, edge.node.get()});
    std::push_heap(ready_.begin(), ready_.end());
  }

  void process(Node& node) {
    Task& task = tasks_[&node];
    std::vector<Tensor> results;
    if (task.needed) {
      std::vector<Tensor> cotangents = std::move(task.cotangents);
      cotangents.resize(static_cast<size_t>(node.result_count()));
      std::shared_ptr<Hooks> hooks = node.hooks();
      if (hooks) run_tensor_hooks(*hooks, cotangents);
      for (auto [index, number] : task.captures)
        captures_[number] = cotangents[static_cast<size_t>(index)];
      if (task.runs) results = call(node, hooks.get(), std::move(cotangents));
    }
    const auto& edges = node.next_edges();
    for (size_t i = 0; i < edges.size(); ++i) {
      if (edges[i].node) deliver(edges[i], i < results.size() ? std::move(results[i]) : Tensor());
    }
  }

  std::vector<Tensor> call(Node& node, const Hooks* hooks, std::vector<Tensor> cotangents) {
    if (hooks) {
      for (const auto& entry : std::vector(hooks->before)) {
        std::vector<Tensor> replaced = entry.hook(cotangents);
        if (!replaced.empty()) cotangents = std::move(replaced);
      }
    }
    std::vector<Tensor> given;
    if (hooks && !hooks->after.empty()) given = cotangents;
    std::vector<Tensor> results;
    try {
      results = node.apply(std::move(cotangents), create_graph_);
      if (!retain_graph_) node.release();
      check_results(node, results);
    } catch (...) {
      if (anomaly_mode_on()) report_anomaly(node);
      throw;
    }
    if (hooks) {
      for (const auto& entry : std::vector(hooks->after)) {
        std::vector<Tensor> replaced = entry.hook(results, given);
        if (!replaced.empty()) results = std::move(replaced);
      }
    }
    return results;
  }

  void check_results(const Node& node, std::vector<Tensor>& results) {
    const auto& edges = node.next_edges();
    check(results.size() <= edges.size(), ErrorKind::runtime, "Function ", node.name(),
          " returned an invalid number of gradients - expected ", edges.size(), ", but got ",
          results.size());
    for (size_t i = 0; i < results.size(); ++i) {
      if (!results[i].defined() || !edges[i].node) continue;
      const ResultType* type = edges[i].node->result_type(edges[i].index);
      if (type && !conforms(results[i], *type))
        results[i] = conform(results[i], *type, node.name(), i, create_graph_);
    }
    if (!anomaly_mode_on() || !anomaly().check_nan) return;
    for (size_t i = 0; i < results.size(); ++i) {
      check(!results[i].defined() || !has_nan(results[i]), ErrorKind::runtime, "Function '",
            node.name(), "' returned nan values in its ", i, "th output.");
    }
  }

  bool retain_graph_, create_graph_;
  bool wants_ = false;
  std::unordered_map<const Node*, Task> tasks_;
  std::vector<Ready> ready_;
  uint64_t order_ = 0;
  std::vector<Tensor> captures_;
};

std::string field_size(const Dims& sizes) { return text("torch.Size(", sizes, ")"); }

/// The cotangents that the pass starts with, in the form of the outputs.
std::vector<Tensor> start_cotangents(const std::vector<ResultType>& types,
                                     const std::vector<Tensor>& given, bool create_graph) {
  check(given.empty() || given.size() == types.size(), ErrorKind::runtime, "got ", types.size(),
        " tensors and ", given.size(), " gradients");
  std::vector<Tensor> result;
  for (size_t i = 0; i < types.size(); ++i) {
    const ResultType& type = types[i];
    if (given.empty() || !given[i].defined()) {
      int64_t numel = checked_numel(type.sizes);
      check(numel == 1, ErrorKind::runtime,
            "grad can be implicitly created only for scalar outputs");
      check(!is_complex(type.dtype), ErrorKind::runtime,
            "grad can be implicitly created only for real scalar outputs but got torch.",
            type.dtype);
      result.push_back(filled(type, 1));
      continue;
    }
    const Tensor& g = given[i];
    check(g.sizes() == type.sizes, ErrorKind::runtime, "Mismatch in shape: grad_output[", i,
          "] has a shape of ", field_size(g.sizes()), " and output[", i, "] has a shape of ",
          field_size(type.sizes), ".");
    check(is_complex(g.dtype()) == is_complex(type.dtype), ErrorKind::runtime,
          "For complex Tensors, both grad_output and output are required to have the same dtype. "
          "Mismatch in dtype: "
          "grad_output[",
          i, "] has a dtype of torch.", g.dtype(), " and output[", i, "] has a dtype of torch.",
          type.dtype, ".");
    result.push_back(conforms(g, type) ? g : conform(g, type, "backward", i, create_graph));
  }
  return result;
}

std::vector<Edge> start_edges(const std::vector<Tensor>& tensors, std::vector<ResultType>* types) {
  std::vector<Edge> edges;
  for (size_t i = 0; i < tensors.size(); ++i) {
    check(tensors[i].requires_grad(), ErrorKind::runtime, "element ", i,
          " of tensors does not require grad and does not have a grad_fn");
    edges.push_back(gradient_edge(tensors[i]));
    types->emplace_back(tensors[i]);
  }
  return edges;
}

std::vector<Tensor> run_to(const std::vector<Edge>& roots, std::vector<Tensor> cotangents,
                           const std::vector<Edge>& inputs, bool retain_graph, bool create_graph,
                           bool allow_unused) {
  GradientMode mode(create_graph);
  BackwardPass pass(retain_graph, create_graph);
  for (const auto& edge : inputs) {
    check(edge.node != nullptr, ErrorKind::runtime,
          "One of the differentiated Tensors does not require grad");
    pass.capture(edge);
  }
  pass.run(roots, std::move(cotangents));
  std::vector<Tensor> result;
  for (size_t i = 0; i < inputs.size(); ++i) {
    check(allow_unused || pass.captured(i).defined(), ErrorKind::runtime,
          "One of the differentiated Tensors appears to not have been used in the graph. Set "
          "allow_unused=True if "
          "this is the desired behavior.");
    result.push_back(pass.captured(i));
  }
  return result;
}

std::vector<Edge> edges_of(const std::vector<Tensor>& tensors) {
  std::vector<Edge> edges;
  for (const auto& t : tensors) edges.push_back(gradient_edge(t));
  return edges;
}

}  // namespace

void backward(const std::vector<Tensor>& tensors, const std::vector<Tensor>& cotangents,
              bool retain_graph, bool create_graph, const std::vector<Tensor>& inputs) {
  std::vector<ResultType> types;
  std::vector<Edge> roots = start_edges(tensors, &types);
  GradientMode mode(create_graph);
  std::vector<Tensor> start = start_cotangents(types, cotangents, create_graph);
  BackwardPass pass(retain_graph, create_graph);
  // Gradients of inputs that are results go to their own slots when the pass is over.
  std::vector<std::pair<Tensor, size_t>> results;
  for (const auto& t : inputs) {
    Edge edge = gradient_edge(t);
    check(edge.node != nullptr, ErrorKind::runtime,
          "One of the differentiated Tensors does not require grad");
    if (is_leaf(t))
      pass.want(edge);
    else
      results.emplace_back(t, pass.capture(edge));
  }
  pass.run(roots, std::move(start));
  for (const auto& [t, number] : results) {
    Tensor g = pass.captured(number);
    if (!g.defined()) continue;
    Tensor sum = grad(t);
    accumulate(sum, std::move(g), create_graph);
    set_grad(t, sum);
  }
}

std::vector<Tensor> gradients(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                              const std::vector<Tensor>& cotangents, bool retain_graph,
                              bool create_graph, bool allow_unused) {
  std::vector<ResultType> types;
  std::vector<Edge> roots = start_edges(outputs, &types);
  return run_to(roots, start_cotangents(types, cotangents, create_graph), edges_of(inputs),
                retain_graph, create_graph, allow_unused);
}

std::vector<Tensor> gradients(const std::vector<Edge>& outputs, const std::vector<Edge>& inputs,
                              const std::vector<Tensor>& cotangents, bool retain_graph,
                              bool create_graph, bool allow_unused) {
  std::vector<Tensor> start = cotangents;
  start.resize(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    check(outputs[i].node != nullptr, ErrorKind::runtime, "element ", i,
          " of tensors does not require grad and does not have a grad_fn");
    const ResultType* type = outputs[i].node->result_type(outputs[i].index);
    check(type || start[i].defined(), ErrorKind::runtime,
          "a gradient must be given for a result of ", outputs[i].node->name());
    if (type) start[i] = start_cotangents({*type}, {start[i]}, create_graph)[0];
  }
  return run_to(outputs, std::move(start), inputs, retain_graph, create_graph, allow_unused);
}

}  // namespace flambeau::autograd
