// The tape: which operator calls made a tensor, and the way back from it.
//
// Nodes have a number in the order of the calls. A backward pass takes the nodes that can be
// reached in descending order, so cotangents of one result always add in the same order. It runs on
// the calling thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "flambeau/tensor/tensor.h"

namespace flambeau::autograd {

/// One operator call on the tape (the field's grad_fn).
class Node;
using NodePointer = std::shared_ptr<Node>;

/// Where a cotangent goes: result `index` of the call `node`. A leaf has an accumulating node.
struct Edge {
  NodePointer node;
  int32_t index = 0;
};

/// What the cotangent of a result looks like.
struct ResultType {
  DType dtype = DType::float32;
  Device device;
  Dims sizes;
  ResultType() = default;
  explicit ResultType(const Tensor& t) : dtype(t.dtype()), device(t.device()), sizes(t.sizes()) {}
};

using Hook =
    std::function<Tensor(const Tensor&)>;  // an undefined result leaves the gradient as it is
/// Gets the cotangents of a node's results before the node runs; an empty list leaves them as they
/// are.
using NodePreHook = std::function<std::vector<Tensor>(const std::vector<Tensor>& cotangents)>;
/// Gets what the node made of them; an empty list leaves it as it is.
using NodeHook = std::function<std::vector<Tensor>(const std::vector<Tensor>& operand_cotangents,
                                                   const std::vector<Tensor>& cotangents)>;
struct Hooks;

class Node : public std::enable_shared_from_this<Node> {
 public:
  Node();
  /// Releases whatever only this node keeps alive, without recursion along the tape.
  virtual ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  virtual std::string name() const = 0;  // "MulBackward0"
  virtual int32_t result_count() const = 0;
  /// Null where any cotangent is taken as it is.
  virtual const ResultType* result_type(int32_t index) const { return nullptr; }
  const std::vector<Edge>& next_edges() const { return edges_; }
  /// Cotangents of the operands from those of the results. Throws after release().
  virtual std::vector<Tensor> apply(std::vector<Tensor> cotangents, bool create_graph) = 0;
  /// Drops what was saved; a later apply is the field's "second time" error.
  virtual void release() = 0;
  /// Tensors that it keeps alive, for the garbage collector.
  virtual void visit_saved(const std::function<void(const Tensor&)>& visit) const = 0;

  uint64_t sequence_number() const { return sequence_number_; }
  /// Where the call was made; empty unless anomaly mode was on then.
  std::string location() const { return location_ ? *location_ : std::string(); }
  const std::shared_ptr<Hooks>& hooks() const { return hooks_; }
  /// The same, made when there are none yet.
  Hooks& make_hooks();

 protected:
  explicit Node(uint64_t sequence_number) : sequence_number_(sequence_number) {}
  std::vector<Edge> edges_;
  std::shared_ptr<Hooks> hooks_;

 private:
  friend void clear(Node& node);
  uint64_t sequence_number_;
  std::unique_ptr<std::string> location_;
};

/// For the garbage collector: drops edges, hooks and saved tensors of a node that cannot be reached
/// any more.
void clear(Node& node);
/// The same for what a tensor keeps: gradient, history, hooks.
void clear(const Tensor& t);
/// The tensors that the autograd state of `t` keeps alive (gradient, base). Its history is
/// grad_fn's own.
void visit_state(const Tensor& t, const std::function<void(const Tensor&)>& visit);
/// The history as it is stored, without renewing that of a view.
const NodePointer& stored_grad_fn(const Tensor& t);
/// Hooks on the tensor or the node, as they were added; `Hook::target` finds the module's own kind.
void visit_hooks(const Tensor& t, const std::function<void(const Hook&)>& visit);
void visit_hooks(const Node& node, const std::function<void(const Hook&)>& hook,
                 const std::function<void(const NodePreHook&)>& before,
                 const std::function<void(const NodeHook&)>& after);

bool requires_grad(const Tensor& t);
/// Throws in the field's words when t is no leaf or not floating-point.
void set_requires_grad(const Tensor& t, bool value);
bool is_leaf(const Tensor& t);
NodePointer grad_fn(const Tensor& t);  // null for leaves
int32_t output_number(const Tensor& t);
Tensor grad(const Tensor& t);  // undefined when there is none
void set_grad(const Tensor& t, const Tensor& grad);
void retain_grad(const Tensor& t);
bool retains_grad(const Tensor& t);
/// A view of the same storage that is on no tape.
Tensor detach(const Tensor& t);
/// Takes the tensor itself off the tape; throws for views.
void detach_in_place(const Tensor& t);
/// The tensor that t is a view of, if t was made by a view operator; else undefined.
Tensor view_base(const Tensor& t);

/// Where the gradient of t goes: its grad_fn, or the accumulating node of a leaf; a null node when
/// t requires none.
Edge gradient_edge(const Tensor& t);
/// t is result `index` of `node`, a call that is not an operator's (a Function of the module).
void set_history(const Tensor& t, NodePointer node, int32_t index);
/// t has been written in place by result `index` of `node`: its history, that of its base and views
/// follow.
void rebase_history(const Tensor& t, NodePointer node, int32_t index);
/// Throws where the field forbids to write t in place, when gradients are enabled.
void check_inplace(const Tensor& t);

uint64_t add_hook(const Tensor& t, Hook hook);
/// After a leaf's gradient was accumulated.
uint64_t add_post_accumulate_hook(const Tensor& t, std::function<void(const Tensor&)> hook);
/// Of either kind. A hook stays with the value it was added to: it is found after a write in place,
/// too.
void remove_hook(const Tensor& t, uint64_t id);
uint64_t add_hook(Node& node, NodeHook hook);
uint64_t add_pre_hook(Node& node, NodePreHook hook);
void remove_hook(Node& node, uint64_t id);

/// Accumulates gradients of the leaves (or of `inputs` only). An undefined entry of `cotangents`
/// stands for one where the tensor has one element, else is the field's error.
void backward(const std::vector<Tensor>& tensors, const std::vector<Tensor>& cotangents,
              bool retain_graph, bool create_graph, const std::vector<Tensor>& inputs = {});
/// Gradients with respect to `inputs`; an unreachable one is an error unless allow_unused (then
/// undefined).
std::vector<Tensor> gradients(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                              const std::vector<Tensor>& cotangents, bool retain_graph,
                              bool create_graph, bool allow_unused);
/// Gradients with respect to results of nodes instead of tensors.
std::vector<Tensor> gradients(const std::vector<Edge>& outputs, const std::vector<Edge>& inputs,
                              const std::vector<Tensor>& cotangents, bool retain_graph,
                              bool create_graph, bool allow_unused);

/// The sum of two cotangents, with a history when `create_graph`.
Tensor add_gradients(const Tensor& a, const Tensor& b, bool create_graph);

/// Anomaly mode: nodes keep where they were made (as `location` says it), errors of a backward pass
/// name the call, and with `check_nan` a NaN that a node makes is an error. For the whole process.
struct Anomaly {
  bool enabled = false;
  bool check_nan = true;
};
Anomaly anomaly();
void set_anomaly(Anomaly mode);
/// `location` says what the caller is at (the Python line); `report` shows a warning to the user.
/// Either may be empty.
void set_anomaly_callbacks(std::function<std::string()> location,
                           std::function<void(const std::string&)> report);

}  // namespace flambeau::autograd
