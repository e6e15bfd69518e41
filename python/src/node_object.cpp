#include "node_object.h"

#include <cstring>
#include <mutex>
#include <unordered_map>

#include "flambeau/base/error.h"
#include "flambeau/run/program.h"
#include "hooks.h"
#include "tensor_object.h"

namespace flambeau::python {

namespace {

struct NodeObject {
  PyObject_HEAD;
  autograd::NodePointer node;
  PyObject* metadata;
};
NodeObject* cast(PyObject* self) { return reinterpret_cast<NodeObject*>(self); }

// `grad_fn is grad_fn`: the object of a node while one is alive.
std::mutex objects_mutex;
std::unordered_map<autograd::Node*, PyObject*> objects;

void dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  {
    std::lock_guard lock(objects_mutex);
    auto found = objects.find(cast(self)->node.get());
    if (found != objects.end() && found->second == self) objects.erase(found);
  }
  Py_CLEAR(cast(self)->metadata);
  cast(self)->node.~shared_ptr();
  Py_TYPE(self)->tp_free(self);
}
int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(cast(self)->metadata);
  return 0;
}
int clear(PyObject* self) {
  Py_CLEAR(cast(self)->metadata);
  return 0;
}

PyObject* name(PyObject* self, PyObject*) {
  return guarded([&] { return PyUnicode_FromString(cast(self)->node->name().c_str()); });
}
PyObject* repr(PyObject* self) {
  return guarded([&] {
    return PyUnicode_FromFormat("<%s object at %p>", cast(self)->node->name().c_str(), self);
  });
}
PyObject* next_functions(PyObject* self, void*) {
  return guarded([&] {
    const auto& edges = cast(self)->node->next_edges();
    Object tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(edges.size())));
    for (size_t i = 0; i < edges.size(); ++i) {
      PyObject* pair = Py_BuildValue("(Ni)", wrap_node(edges[i].node), edges[i].index);
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), checked(pair).release());
    }
    return tuple.release();
  });
}
PyObject* metadata(PyObject* self, void*) {
  if (!cast(self)->metadata) cast(self)->metadata = PyDict_New();
  return Py_XNewRef(cast(self)->metadata);
}
/// The leaf of an accumulating node.
PyObject* variable(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    Tensor leaf;
    if (cast(self)->node->name() == "AccumulateGrad") {
      cast(self)->node->visit_saved([&](const Tensor& t) { leaf = t; });
    }
    if (!leaf.defined()) {
      PyErr_SetString(PyExc_AttributeError, "only an accumulating node has a variable");
      return nullptr;
    }
    return wrap(leaf);
  });
}
PyObject* add_hook(PyObject* self, PyObject* function) {
  return guarded([&] { return register_node_hook(*cast(self)->node, function); });
}
PyObject* add_prehook(PyObject* self, PyObject* function) {
  return guarded([&] { return register_node_prehook(*cast(self)->node, function); });
}

PyMethodDef methods[] = {
    {"name", name, METH_NOARGS, "The name of the operator, as in 'MulBackward0'."},
    {"register_hook", add_hook, METH_O,
     "Calls function(grad_inputs, grad_outputs) after the node has run."},
    {"register_prehook", add_prehook, METH_O, "Calls function(grad_outputs) before the node runs."},
    {nullptr, nullptr, 0, nullptr},
};
PyGetSetDef properties[] = {
    {"next_functions", next_functions, nullptr,
     "(node, result number) of each operand, or (None, 0).", nullptr},
    {"metadata", metadata, nullptr, "A dictionary for the user.", nullptr},
    {"variable", variable, nullptr, "The leaf whose gradient an accumulating node adds to.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyTypeObject node_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "flambeau.autograd.graph.Node",
    .tp_basicsize = sizeof(NodeObject),
    .tp_dealloc = dealloc,
    .tp_repr = repr,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "One operator call on the tape.",
    .tp_traverse = traverse,
    .tp_clear = clear,
    .tp_methods = methods,
    .tp_getset = properties,
};

/// A tensor, None, or a sequence of these. Undefined tensors stand for None.
std::vector<Tensor> tensors_argument(PyObject* value, const char* function, const char* argument,
                                     bool optional) {
  std::vector<Tensor> tensors;
  if (!value || value == Py_None) return tensors;
  if (is_tensor(value)) return {unwrap(value)};
  Object fast = Object::steal(PySequence_Fast(value, ""));
  if (!fast) {
    PyErr_Clear();
    fail(ErrorKind::type,
         text(function, "(): argument '", argument,
              "' must be Tensor or a sequence of Tensors, not ", type_name_of(value)));
  }
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.get()); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(fast.get(), i);
    check(is_tensor(item) || (optional && item == Py_None), ErrorKind::type, function,
          "(): argument '", argument, "' must hold Tensors, but found ", type_name_of(item),
          " at position ", static_cast<int64_t>(i));
    tensors.push_back(item == Py_None ? Tensor() : unwrap(item));
  }
  return tensors;
}

/// True, False, or None for what `otherwise` says.
bool flag_argument(PyObject* value, bool otherwise) {
  if (!value || value == Py_None) return otherwise;
  int truth = PyObject_IsTrue(value);
  check_status(truth);
  return truth == 1;
}

PyObject* backward(PyObject*, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {"tensors",      "grad_tensors", "retain_graph",
                                  "create_graph", "inputs",       nullptr};
    PyObject *tensors, *cotangents = nullptr, *retain = nullptr, *create = nullptr,
                       *inputs = nullptr;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OOOO:backward", const_cast<char**>(names),
                                     &tensors, &cotangents, &retain, &create, &inputs)) {
      throw PythonError();
    }
    auto outputs = tensors_argument(tensors, "backward", "tensors", false);
    auto given = tensors_argument(cotangents, "backward", "grad_tensors", true);
    check(given.empty() || given.size() == outputs.size(), ErrorKind::runtime, "got ",
          static_cast<int64_t>(outputs.size()), " tensors and ", static_cast<int64_t>(given.size()),
          " gradients");
    given.resize(outputs.size());
    auto leaves = tensors_argument(inputs, "backward", "inputs", false);
    check(!inputs || inputs == Py_None || !leaves.empty(), ErrorKind::runtime,
          "`inputs` argument to `backward()` cannot be empty.");
    bool create_graph = flag_argument(create, false);
    bool retain_graph = flag_argument(retain, create_graph);
    {
      GilRelease released;
      autograd::backward(outputs, given, retain_graph, create_graph, leaves);
      outputs.clear();
      given.clear();
      leaves.clear();
    }
    Py_RETURN_NONE;
  });
}

PyObject* grad(PyObject*, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {"outputs",           "inputs",       "grad_outputs",
                                  "retain_graph",      "create_graph", "allow_unused",
                                  "materialize_grads", nullptr};
    PyObject *outputs, *inputs, *cotangents = nullptr, *retain = nullptr, *create = nullptr,
                                *unused = nullptr, *materialize = nullptr;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|OOOOO:grad", const_cast<char**>(names),
                                     &outputs, &inputs, &cotangents, &retain, &create, &unused,
                                     &materialize)) {
      throw PythonError();
    }
    auto from = tensors_argument(outputs, "grad", "outputs", false);
    auto to = tensors_argument(inputs, "grad", "inputs", false);
    auto given = tensors_argument(cotangents, "grad", "grad_outputs", true);
    check(given.empty() || given.size() == from.size(), ErrorKind::runtime, "grad(): got ",
          static_cast<int64_t>(from.size()), " outputs and ", static_cast<int64_t>(given.size()),
          " grad_outputs");
    given.resize(from.size());
    bool zeros = flag_argument(materialize, false);
    bool allow_unused = flag_argument(unused, zeros);
    check(allow_unused || !zeros, ErrorKind::value,
          "Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
          "allow_unused=False.");
    bool create_graph = flag_argument(create, false);
    bool retain_graph = flag_argument(retain, create_graph);
    std::vector<Tensor> results;
    {
      GilRelease released;
      results = autograd::gradients(from, to, given, retain_graph, create_graph, allow_unused);
    }
    Object tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(results.size())));
    for (size_t i = 0; i < results.size(); ++i) {
      if (!results[i].defined() && zeros) {
        results[i] = empty_tensor(to[i].sizes(), to[i].dtype(), to[i].device());
        std::memset(results[i].data(), 0,
                    static_cast<size_t>(results[i].numel() * itemsize(results[i].dtype())));
      }
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i),
                       checked(wrap(results[i])).release());
    }
    return tuple.release();
  });
}

PyObject* is_grad_enabled(PyObject*, PyObject*) {
  return PyBool_FromLong(run::gradients_enabled());
}
PyObject* set_grad_mode(PyObject*, PyObject* value) {
  return guarded([&]() -> PyObject* {
    bool before = run::gradients_enabled();
    run::set_gradients_enabled(flag_argument(value, false));
    return PyBool_FromLong(before);
  });
}

}  // namespace

PyObject* wrap_node(const autograd::NodePointer& node) {
  if (!node) Py_RETURN_NONE;
  {
    std::lock_guard lock(objects_mutex);
    auto found = objects.find(node.get());
    if (found != objects.end() && try_reference(found->second)) return found->second;
  }
  // Not under the lock: an allocation may collect garbage, and with it other nodes' objects.
  Object self = checked(node_type.tp_alloc(&node_type, 0));
  new (&cast(self.get())->node) autograd::NodePointer(node);
  enable_try_reference(self.get());
  std::lock_guard lock(objects_mutex);
  objects[node.get()] = self.get();
  return self.release();
}

autograd::NodePointer node_of(PyObject* object) {
  check(PyObject_TypeCheck(object, &node_type), ErrorKind::type, "expected a Node, got ",
        type_name_of(object));
  return cast(object)->node;
}

PyObject* tensor_backward(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"gradient", "retain_graph", "create_graph", "inputs", nullptr};
  PyObject *gradient = Py_None, *retain = Py_None, *create = Py_None, *inputs = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OOOO:backward", const_cast<char**>(names),
                                   &gradient, &retain, &create, &inputs)) {
    return nullptr;
  }
  Object all = Object::steal(Py_BuildValue("(OOOOO)", self, gradient, retain, create, inputs));
  return all ? backward(nullptr, all.get(), nullptr) : nullptr;
}

PyMethodDef autograd_functions[] = {
    {"_backward", reinterpret_cast<PyCFunction>(backward), METH_VARARGS | METH_KEYWORDS,
     "backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, inputs=None)"},
    {"_grad", reinterpret_cast<PyCFunction>(grad), METH_VARARGS | METH_KEYWORDS,
     "grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, "
     "allow_unused=None, "
     "materialize_grads=False)"},
    {"is_grad_enabled", is_grad_enabled, METH_NOARGS,
     "Whether calls of this thread are recorded for gradients."},
    {"_set_grad_enabled", set_grad_mode, METH_O,
     "Sets the mode of this thread and returns what it was."},
    {nullptr, nullptr, 0, nullptr},
};

void add_node_type(PyObject* module) {
  check_status(PyType_Ready(&node_type));
  check_status(PyModule_AddObjectRef(module, "Node", reinterpret_cast<PyObject*>(&node_type)));
}

}  // namespace flambeau::python
