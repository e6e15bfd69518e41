#include "hooks.h"

#include <memory>
#include <vector>

#include "flambeau/base/error.h"
#include "tensor_object.h"

namespace flambeau::python {

namespace {

/// A function, shared by the tape's std::function and the handle.
class HeldFunction {
 public:
  explicit HeldFunction(PyObject* function) : function_(Py_NewRef(function)) {}
  HeldFunction(const HeldFunction&) = delete;
  ~HeldFunction() {
    if (!function_ || !interpreter_alive()) return;
    GilAcquire gil;
    drop();
  }

  /// Null after drop(). Needs the GIL.
  PyObject* get() const { return function_; }
  void drop() { Py_CLEAR(function_); }

 private:
  PyObject* function_;
};
using HeldPointer = std::shared_ptr<HeldFunction>;

/// Tensors from what a hook returned: None, a tensor, or a tuple of tensors and None.
std::vector<Tensor> tensors_from(PyObject* result) {
  if (result == Py_None) return {};
  if (is_tensor(result)) return {unwrap(result)};
  check(PyTuple_Check(result), ErrorKind::type,
        "a hook must return None, a Tensor or a tuple of them, got ", type_name_of(result));
  std::vector<Tensor> tensors;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result); ++i) {
    PyObject* item = PyTuple_GET_ITEM(result, i);
    check(item == Py_None || is_tensor(item), ErrorKind::type,
          "a hook must return None, a Tensor or a tuple of them, got a tuple with ",
          type_name_of(item));
    tensors.push_back(item == Py_None ? Tensor() : unwrap(item));
  }
  return tensors;
}

Object tuple_of(const std::vector<Tensor>& tensors) {
  Object tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(tensors.size())));
  for (size_t i = 0; i < tensors.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), checked(wrap(tensors[i])).release());
  }
  return tuple;
}

// Callable from any thread without the GIL.
struct TensorHook {
  HeldPointer held;
  Tensor operator()(const Tensor& gradient) const {
    GilAcquire gil;
    if (!held->get()) return Tensor();
    Object function = Object::borrow(held->get());
    Object argument = checked(wrap(gradient));
    Object result = checked(PyObject_CallOneArg(function.get(), argument.get()));
    if (result.get() == Py_None) return Tensor();
    check(is_tensor(result.get()), ErrorKind::type,
          "a gradient hook must return None or a Tensor, got ", type_name_of(result.get()));
    return unwrap(result.get());
  }
};
struct AccumulateHook {
  HeldPointer held;
  void operator()(const Tensor& leaf) const {
    GilAcquire gil;
    if (!held->get()) return;
    Object function = Object::borrow(held->get());
    Object argument = checked(wrap(leaf));
    checked(PyObject_CallOneArg(function.get(), argument.get()));
  }
};
struct AfterNodeHook {
  HeldPointer held;
  std::vector<Tensor> operator()(const std::vector<Tensor>& operands,
                                 const std::vector<Tensor>& results) const {
    GilAcquire gil;
    if (!held->get()) return {};
    Object function = Object::borrow(held->get());
    Object a = tuple_of(operands), b = tuple_of(results);
    return tensors_from(
        checked(PyObject_CallFunctionObjArgs(function.get(), a.get(), b.get(), nullptr)).get());
  }
};
struct BeforeNodeHook {
  HeldPointer held;
  std::vector<Tensor> operator()(const std::vector<Tensor>& results) const {
    GilAcquire gil;
    if (!held->get()) return {};
    Object function = Object::borrow(held->get());
    Object argument = tuple_of(results);
    return tensors_from(checked(PyObject_CallOneArg(function.get(), argument.get())).get());
  }
};

struct HandleObject {
  PyObject_HEAD;
  HeldPointer held;
  PyObject* tensor;  // weak; null for a node's hook
  std::weak_ptr<autograd::Node> node;
  uint64_t id;
};

HandleObject* cast(PyObject* self) { return reinterpret_cast<HandleObject*>(self); }

void dealloc_handle(PyObject* self) {
  Py_XDECREF(cast(self)->tensor);
  cast(self)->held.~HeldPointer();
  cast(self)->node.~weak_ptr();
  Py_TYPE(self)->tp_free(self);
}

Object referent(PyObject* weak) {
#if PY_VERSION_HEX >= 0x030D0000
  PyObject* object = nullptr;
  PyWeakref_GetRef(weak, &object);
  return Object::steal(object);
#else
  PyObject* object = PyWeakref_GetObject(weak);
  return object == Py_None ? Object() : Object::borrow(object);
#endif
}

PyObject* remove(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    HandleObject* handle = cast(self);
    if (handle->held->get()) {
      if (autograd::NodePointer node = handle->node.lock())
        autograd::remove_hook(*node, handle->id);
      Object tensor = handle->tensor ? referent(handle->tensor) : Object();
      if (tensor) autograd::remove_hook(unwrap(tensor.get()), handle->id);
    }
    handle->held->drop();
    Py_RETURN_NONE;
  });
}

PyObject* enter(PyObject* self, PyObject*) { return Py_NewRef(self); }
PyObject* leave(PyObject* self, PyObject*) { return remove(self, nullptr); }

PyMethodDef handle_methods[] = {
    {"remove", remove, METH_NOARGS, "Takes the hook away; it is not called again."},
    {"__enter__", enter, METH_NOARGS, nullptr},
    {"__exit__", leave, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyTypeObject handle_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "flambeau._C.HookHandle",
    .tp_basicsize = sizeof(HandleObject),
    .tp_dealloc = dealloc_handle,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "A registered hook. `remove()`, or the end of a `with`, takes it away.",
    .tp_methods = handle_methods,
};

PyObject* make_handle(HeldPointer held, uint64_t id, PyObject* tensor,
                      autograd::NodePointer node = nullptr) {
  Object weak = tensor ? checked(PyWeakref_NewRef(tensor, nullptr)) : Object();
  Object self = checked(handle_type.tp_alloc(&handle_type, 0));
  HandleObject* handle = cast(self.get());
  new (&handle->held) HeldPointer(std::move(held));
  new (&handle->node) std::weak_ptr<autograd::Node>(node);
  handle->tensor = weak.release();
  handle->id = id;
  return self.release();
}

void check_callable(PyObject* function) {
  check(PyCallable_Check(function), ErrorKind::type, "a hook must be callable, got ",
        type_name_of(function));
}

}  // namespace

PyObject* register_hook(PyObject* tensor, PyObject* function) {
  check_callable(function);
  Tensor t = unwrap(tensor);
  check(t.requires_grad(), ErrorKind::runtime,
        "cannot register a hook on a tensor that doesn't require gradient");
  auto held = std::make_shared<HeldFunction>(function);
  uint64_t id = autograd::add_hook(t, TensorHook{held});
  return make_handle(std::move(held), id, tensor);
}

PyObject* register_post_accumulate_hook(PyObject* tensor, PyObject* function) {
  check_callable(function);
  Tensor t = unwrap(tensor);
  check(t.requires_grad() && autograd::is_leaf(t), ErrorKind::runtime,
        "post accumulate grad hooks cannot be registered on non-leaf tensors");
  auto held = std::make_shared<HeldFunction>(function);
  uint64_t id = autograd::add_post_accumulate_hook(t, AccumulateHook{held});
  return make_handle(std::move(held), id, tensor);
}

PyObject* register_node_hook(autograd::Node& node, PyObject* function) {
  check_callable(function);
  auto held = std::make_shared<HeldFunction>(function);
  uint64_t id = autograd::add_hook(node, AfterNodeHook{held});
  return make_handle(std::move(held), id, nullptr, node.shared_from_this());
}

PyObject* register_node_prehook(autograd::Node& node, PyObject* function) {
  check_callable(function);
  auto held = std::make_shared<HeldFunction>(function);
  uint64_t id = autograd::add_pre_hook(node, BeforeNodeHook{held});
  return make_handle(std::move(held), id, nullptr, node.shared_from_this());
}

HookFunction function_of(const autograd::Hook& hook) {
  const auto* own = hook.target<TensorHook>();
  return own ? HookFunction{own->held->get(), own->held.get()} : HookFunction();
}
HookFunction function_of(const autograd::NodeHook& hook) {
  const auto* own = hook.target<AfterNodeHook>();
  return own ? HookFunction{own->held->get(), own->held.get()} : HookFunction();
}
HookFunction function_of(const autograd::NodePreHook& hook) {
  const auto* own = hook.target<BeforeNodeHook>();
  return own ? HookFunction{own->held->get(), own->held.get()} : HookFunction();
}

void add_hook_types(PyObject* module) {
  check_status(PyType_Ready(&handle_type));
  check_status(
      PyModule_AddObjectRef(module, "HookHandle", reinterpret_cast<PyObject*>(&handle_type)));
}

}  // namespace flambeau::python
