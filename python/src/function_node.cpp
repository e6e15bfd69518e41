#include "function_node.h"

#include <string>
#include <vector>

#include "flambeau/base/error.h"
#include "node_object.h"
#include "tensor_object.h"

namespace flambeau::python {

namespace {

/// Calls context.apply_backward(node, cotangents, create_graph), a tuple with a tensor or None for
/// each operand.
class FunctionNode final : public autograd::Node {
 public:
  FunctionNode(std::string name, PyObject* context, std::vector<autograd::Edge> edges,
               const std::vector<Tensor>& results)
      : name_(std::move(name)), context_(Py_NewRef(context)) {
    edges_ = std::move(edges);
    for (const Tensor& t : results) types_.emplace_back(t);
  }
  ~FunctionNode() override {
    if (!context_ || !interpreter_alive()) return;
    GilAcquire gil;
    Py_CLEAR(context_);
  }

  std::string name() const override { return name_; }
  int32_t result_count() const override { return static_cast<int32_t>(types_.size()); }
  const autograd::ResultType* result_type(int32_t index) const override {
    return &types_[static_cast<size_t>(index)];
  }

  std::vector<Tensor> apply(std::vector<Tensor> cotangents, bool create_graph) override {
    GilAcquire gil;
    check(context_ != nullptr, ErrorKind::runtime,
          "Trying to backward through the graph a second time (or directly access saved tensors "
          "after they have already been freed). Saved intermediate values of the graph are freed "
          "when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to "
          "backward through the graph a second time or if you need to access saved tensors after "
          "calling backward.");
    Object context = Object::borrow(context_);
    Object node = checked(wrap_node(shared_from_this()));
    Object given = checked(PyTuple_New(static_cast<Py_ssize_t>(cotangents.size())));
    for (size_t i = 0; i < cotangents.size(); ++i) {
      PyObject* item =
          cotangents[i].defined() ? checked(wrap(cotangents[i])).release() : Py_NewRef(Py_None);
      PyTuple_SET_ITEM(given.get(), static_cast<Py_ssize_t>(i), item);
    }
    Object result = checked(PyObject_CallMethod(context.get(), "apply_backward", "OOO", node.get(),
                                                given.get(), create_graph ? Py_True : Py_False));
    check(PyTuple_Check(result.get()) &&
              PyTuple_GET_SIZE(result.get()) == static_cast<Py_ssize_t>(edges_.size()),
          ErrorKind::runtime, name_, ": returned an incorrect number of gradients (expected ",
          edges_.size(), ")");
    std::vector<Tensor> tensors;
    for (size_t i = 0; i < edges_.size(); ++i) {
      PyObject* item = PyTuple_GET_ITEM(result.get(), static_cast<Py_ssize_t>(i));
      check(item == Py_None || is_tensor(item), ErrorKind::type, name_,
            ": expected a Tensor or None as gradient ", i, ", got ", type_name_of(item));
      tensors.push_back(item == Py_None ? Tensor() : unwrap(item));
    }
    return tensors;
  }

  void release() override {
    if (!context_ || !interpreter_alive()) return;
    GilAcquire gil;
    Py_CLEAR(context_);
  }
  void visit_saved(const std::function<void(const Tensor&)>&) const override {}

  PyObject* context() const { return context_; }

 private:
  std::string name_;
  PyObject* context_;
  std::vector<autograd::ResultType> types_;
};

/// _record_function(name, context, inputs, outputs, written): outputs become results of a new node;
/// those for which `written` is true were written in place.
PyObject* record_function(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    const char* name;
    PyObject *context, *inputs, *outputs, *written;
    if (!PyArg_ParseTuple(args, "sOO!O!O!:_record_function", &name, &context, &PyTuple_Type,
                          &inputs, &PyTuple_Type, &outputs, &PyTuple_Type, &written))
      throw PythonError();
    std::vector<autograd::Edge> edges;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inputs); ++i) {
      PyObject* item = PyTuple_GET_ITEM(inputs, i);
      edges.push_back(is_tensor(item) ? autograd::gradient_edge(unwrap(item)) : autograd::Edge());
    }
    std::vector<Tensor> results;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(outputs); ++i)
      results.push_back(unwrap(PyTuple_GET_ITEM(outputs, i)));
    auto node = std::make_shared<FunctionNode>(name, context, std::move(edges), results);
    for (size_t i = 0; i < results.size(); ++i) {
      bool in_place = PyTuple_GET_ITEM(written, static_cast<Py_ssize_t>(i)) == Py_True;
      if (in_place)
        autograd::rebase_history(results[i], node, static_cast<int32_t>(i));
      else
        autograd::set_history(results[i], node, static_cast<int32_t>(i));
    }
    return wrap_node(node);
  });
}

/// _with_history(tensor, grad_fn's tensor's node, index): an alias that is result `index` of a
/// node.
PyObject* with_history(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *tensor, *node;
    int index;
    if (!PyArg_ParseTuple(args, "OOi:_with_history", &tensor, &node, &index)) throw PythonError();
    Tensor alias = autograd::detach(unwrap(tensor));
    autograd::set_history(alias, node_of(node), index);
    return wrap(alias);
  });
}

}  // namespace

PyObject* context_of(const autograd::Node& node) {
  const auto* function = dynamic_cast<const FunctionNode*>(&node);
  return function ? function->context() : nullptr;
}

PyMethodDef function_node_functions[] = {
    {"_record_function", record_function, METH_VARARGS,
     "_record_function(name, context, inputs, outputs, written)"},
    {"_with_history", with_history, METH_VARARGS, "_with_history(tensor, node, index)"},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace flambeau::python
