#include "tensor_object.h"

#include <cstddef>
#include <mutex>

#include "flambeau/autograd/autograd.h"
#include "flambeau/base/error.h"
#include "structmember.h"

namespace flambeau::python {

namespace {

PyTypeObject* tensor_type_ = nullptr;

TensorObject* cast(PyObject* object) { return reinterpret_cast<TensorObject*>(object); }

// In a build without the GIL, objects are found, made and given over under this lock.
#ifdef Py_GIL_DISABLED
std::mutex ownership_mutex;
struct OwnershipLock {
  std::lock_guard<std::mutex> lock{ownership_mutex};
};
#else
struct OwnershipLock {
  OwnershipLock() {}
};
#endif

/// Called without the GIL when the last C++ handle of an impl that owns its object goes.
bool take_over(TensorImpl* impl) {
  if (!interpreter_alive()) return true;
  GilAcquire gil;
  auto* object = static_cast<PyObject*>(impl->python);
  {
    OwnershipLock lock;
    impl->references.store(1, std::memory_order_relaxed);
    cast(object)->owned_by_impl = false;
  }
  Py_DECREF(object);
  return true;
}

/// Gives an object that is being deallocated to its impl, if C++ still holds that and the object
/// has more to lose than its identity.
bool give_to_impl(PyObject* self) {
  TensorObject* object = cast(self);
  if (!object->impl || object->owned_by_impl) return false;
  if (object->impl->references.load(std::memory_order_acquire) == 1) return false;
  bool plain =
      Py_TYPE(self) == tensor_type_ && (!object->dict || PyDict_GET_SIZE(object->dict) == 0);
  if (plain) return false;
  // A weak reference could bring the object back beside its impl's ownership.
  if (object->weak_references) PyObject_ClearWeakRefs(self);
  TensorImpl* impl = object->impl;
  Py_SET_REFCNT(self, 1);
  object->owned_by_impl = true;
  impl->release();
  return true;
}

/// __slots__ of Python subclasses.
template <class F>
void for_each_slot(PyTypeObject* type, PyObject* self, F&& visit) {
  for (; type && type != &tensor_base_type; type = type->tp_base) {
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) continue;
    Py_ssize_t count = Py_SIZE(type);
    for (Py_ssize_t i = 0; i < count; ++i) {
      const PyMemberDef& member = type->tp_members[i];
      if (member.type != T_OBJECT_EX || (member.flags & READONLY)) continue;
      visit(reinterpret_cast<PyObject**>(reinterpret_cast<char*>(self) + member.offset));
    }
  }
}

void dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  TensorObject* object = cast(self);
  if (type != tensor_type_ && type->tp_finalize && PyObject_CallFinalizerFromDealloc(self) < 0)
    return;
  if (give_to_impl(self)) return;
  PyObject_GC_UnTrack(self);
  if (object->weak_references) PyObject_ClearWeakRefs(self);
  if (type != tensor_type_) for_each_slot(type, self, [](PyObject** slot) { Py_CLEAR(*slot); });
  Py_CLEAR(object->dict);
  if (TensorImpl* impl = std::exchange(object->impl, nullptr)) {
    {
      OwnershipLock lock;
      if (impl->python == self) impl->python = nullptr;
    }
    impl->release();
  }
  type->tp_free(self);
  if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) Py_DECREF(type);
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  TensorObject* object = cast(self);
  PyTypeObject* type = Py_TYPE(self);
  Py_VISIT(type);
  Py_VISIT(object->dict);
  if (type != tensor_type_) {
    int result = 0;
    for_each_slot(type, self, [&](PyObject** slot) {
      if (!result && *slot) result = visit(*slot, arg);
    });
    if (result) return result;
  }
  TensorImpl* impl = object->impl;
  if (impl && impl->gradient && !object->owned_by_impl &&
      impl->references.load(std::memory_order_relaxed) == 1) {
    return traverse_tape(impl, visit, arg);
  }
  return 0;
}

int clear(PyObject* self) {
  TensorObject* object = cast(self);
  if (Py_TYPE(self) != tensor_type_) {
    for_each_slot(Py_TYPE(self), self, [](PyObject** slot) { Py_CLEAR(*slot); });
  }
  Py_CLEAR(object->dict);
  TensorImpl* impl = object->impl;
  if (impl && !object->owned_by_impl && impl->references.load(std::memory_order_relaxed) == 1) {
    if (impl->gradient) autograd::clear(Tensor(impl));
  }
  return 0;
}

PyObject* new_object(PyTypeObject* type, TensorImpl* impl) {
  PyObject* self = type->tp_alloc(type, 0);
  if (!self) throw PythonError();
  enable_try_reference(self);
  cast(self)->impl = impl;
  impl->retain();
  impl->python = self;
  return self;
}

// Classes derived from Tensor in Python get CPython's own deallocator, which knows nothing of
// objects that stay with their impl; the metaclass replaces it.
int init_class(PyObject* cls, PyObject* args, PyObject* kwargs) {
  if (PyType_Type.tp_init(cls, args, kwargs) < 0) return -1;
  auto* type = reinterpret_cast<PyTypeObject*>(cls);
  type->tp_dealloc = dealloc;
  type->tp_traverse = traverse;
  type->tp_clear = clear;
  return 0;
}

PyTypeObject meta_type = {
    .ob_base = PyVarObject_HEAD_INIT(&PyType_Type, 0).tp_name = "flambeau._C._TensorMeta",
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_init = init_class,
};

}  // namespace

PyTypeObject tensor_base_type = {
    .ob_base = PyVarObject_HEAD_INIT(&meta_type, 0).tp_name = "flambeau._C.TensorBase",
    .tp_basicsize = sizeof(TensorObject),
    .tp_dealloc = dealloc,
    .tp_repr = tensor_repr,
    .tp_as_number = &tensor_number,
    .tp_as_sequence = &tensor_sequence,
    .tp_as_mapping = &tensor_mapping,
    .tp_hash = PyBaseObject_Type.tp_hash,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_traverse = traverse,
    .tp_clear = clear,
    .tp_richcompare = compare_tensors,
    .tp_weaklistoffset = offsetof(TensorObject, weak_references),
    .tp_iter = iterate_tensor,
    .tp_methods = tensor_methods,
    .tp_getset = tensor_properties,
    .tp_dictoffset = offsetof(TensorObject, dict),
    .tp_new = make_tensor_legacy,
};

PyTypeObject* tensor_type() { return tensor_type_; }

void fail_uninitialised() {
  fail(ErrorKind::runtime,
       "the tensor was not initialised: its class must call Tensor.__new__ or _make_subclass");
}

PyObject* wrap(const Tensor& t) {
  if (!t.defined()) Py_RETURN_NONE;
  TensorImpl* impl = t.impl();
  OwnershipLock lock;
  if (!impl->python) return new_object(tensor_type_, impl);
  auto* self = static_cast<PyObject*>(impl->python);
  if (cast(self)->owned_by_impl) {
    // The impl's reference on the object becomes the caller's.
    cast(self)->owned_by_impl = false;
    impl->retain();
    return self;
  }
  if (!try_reference(self)) return new_object(tensor_type_, impl);
  return self;
}

PyObject* wrap_as(PyTypeObject* type, const Tensor& t) {
  internal_check(t.defined() && !t.impl()->python, "a tensor already has a Python object");
  OwnershipLock lock;
  return new_object(type, t.impl());
}

void add_tensor_types(PyObject* module) {
  meta_type.tp_base = &PyType_Type;
  check_status(PyType_Ready(&meta_type));
  tensor_base_type.tp_hash = PyBaseObject_Type.tp_hash;
  check_status(PyType_Ready(&tensor_base_type));
  check_status(
      PyModule_AddObjectRef(module, "TensorBase", reinterpret_cast<PyObject*>(&tensor_base_type)));
  Object type = checked(PyObject_CallFunction(
      reinterpret_cast<PyObject*>(&meta_type), "s(O){s:s,s:s}", "Tensor", &tensor_base_type,
      "__module__", "flambeau", "__doc__", "A multi-dimensional array of elements of one dtype."));
  tensor_type_ = reinterpret_cast<PyTypeObject*>(type.get());
  check_status(PyModule_AddObjectRef(module, "Tensor", type.release()));
  release_python_tensor = take_over;
}

}  // namespace flambeau::python
