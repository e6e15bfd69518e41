// What the garbage collector sees through a tensor that only Python holds: hooks and Python objects
// that are reachable from it through the tape and through nothing else. References are counted
// while walking; a node or tensor belongs to the region once every reference to it was met inside.
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "function_node.h"
#include "hooks.h"
#include "tensor_object.h"

namespace flambeau::python {

namespace {

class Walk {
 public:
  Walk(visitproc visit, void* context) : visit_(visit), context_(context) {}

  int run(TensorImpl* root) {
    enter(root);
    while (!result_ && !ready_.empty()) {
      autograd::Node* node = ready_.back();
      ready_.pop_back();
      autograd::visit_hooks(
          *node, [this](const autograd::Hook& hook) { visit_function(function_of(hook)); },
          [this](const autograd::NodePreHook& hook) { visit_function(function_of(hook)); },
          [this](const autograd::NodeHook& hook) { visit_function(function_of(hook)); });
      visit(context_of(*node));
      for (const autograd::Edge& edge : node->next_edges()) meet(edge.node);
      node->visit_saved([this](const Tensor& t) { meet(t.impl()); });
    }
    return result_;
  }

 private:
  /// Everything that the autograd state of a tensor of the region holds.
  void enter(TensorImpl* impl) {
    if (!impl->gradient) return;
    Tensor handle(impl);
    autograd::visit_hooks(
        handle, [this](const autograd::Hook& hook) { visit_function(function_of(hook)); });
    autograd::visit_state(handle, [this](const Tensor& t) { meet(t.impl()); });
    meet(autograd::stored_grad_fn(handle));
  }

  void meet(const autograd::NodePointer& node) {
    if (node && node.use_count() == ++nodes_[node.get()]) ready_.push_back(node.get());
  }

  void meet(TensorImpl* impl) {
    if (!impl || result_) return;
    if (impl->references.load(std::memory_order_relaxed) != ++tensors_[impl]) return;
    auto* object = static_cast<TensorObject*>(impl->python);
    if (object && !object->owned_by_impl) return;  // the object holds the impl, so Python does
    visit(reinterpret_cast<PyObject*>(object));
    if (!result_) enter(impl);
  }

  /// A hook on a tensor is also one of its node: the reference to its function is one.
  void visit_function(HookFunction hook) {
    if (hook.function && functions_.insert(hook.holder).second) visit(hook.function);
  }

  void visit(PyObject* object) {
    if (object && !result_) result_ = visit_(object, context_);
  }

  visitproc visit_;
  void* context_;
  int result_ = 0;
  std::unordered_map<autograd::Node*, long> nodes_;
  std::unordered_map<TensorImpl*, int64_t> tensors_;
  std::unordered_set<const void*> functions_;
  std::vector<autograd::Node*> ready_;
};

}  // namespace

int traverse_tape(TensorImpl* impl, visitproc visit, void* context) {
  return Walk(visit, context).run(impl);
}

}  // namespace flambeau::python
