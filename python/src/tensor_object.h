// The Python object of a tensor. A TensorImpl has at most one (impl->python) while either lives.
//
// Who owns whom: usually the object owns one reference on the impl. When Python's last reference
// goes while C++ (a tape, a module's state) still holds the impl, an object with attributes of its
// own is kept: it becomes `owned_by_impl`, with one Python reference that belongs to the impl and
// none on it. A plain object is dropped and made again when it is asked for.
#pragma once

#include "flambeau/tensor/tensor.h"
#include "object.h"

namespace flambeau::python {

struct TensorObject {
  PyObject_HEAD;
  TensorImpl* impl;
  PyObject* dict;
  PyObject* weak_references;
  bool owned_by_impl;
};

/// flambeau._C.TensorBase: what Tensor derives from. Tensor itself is an ordinary class, so its
/// attributes can be assigned.
extern PyTypeObject tensor_base_type;
PyTypeObject* tensor_type();

inline bool is_tensor(PyObject* object) {
  return Py_TYPE(object) == tensor_type() || PyObject_TypeCheck(object, &tensor_base_type);
}
[[noreturn]] void fail_uninitialised();
/// The tensor of an object for which is_tensor() holds; throws when the object was never
/// initialised.
inline Tensor unwrap(PyObject* object) {
  auto* impl = reinterpret_cast<TensorObject*>(object)->impl;
  if (!impl) [[unlikely]]
    fail_uninitialised();
  return Tensor(impl);
}
/// A new reference to the object of a tensor; None for an undefined one.
PyObject* wrap(const Tensor& t);
/// A new object of a subclass for a tensor that has no object yet.
PyObject* wrap_as(PyTypeObject* type, const Tensor& t);

/// Makes the types and adds them to the module. `members` and `slots` live in the files of their
/// concern.
void add_tensor_types(PyObject* module);

// The tables that add_tensor_types puts into the type.
extern PyGetSetDef tensor_properties[];    // tensor_properties.cpp
extern PyMethodDef tensor_methods[];       // tensor_methods.cpp
extern PyNumberMethods tensor_number;      // tensor_arithmetic.cpp
extern PyMappingMethods tensor_mapping;    // indexing.cpp
extern PySequenceMethods tensor_sequence;  // tensor_methods.cpp
PyObject* compare_tensors(PyObject* a, PyObject* b, int operation);
PyObject* tensor_repr(PyObject* self);
PyObject* iterate_tensor(PyObject* self);
/// Tensor(...): the field's old constructor.
PyObject* make_tensor_legacy(PyTypeObject* type, PyObject* args, PyObject* kwargs);

/// Visits what is reachable through the tape from a tensor whose impl only its object holds.
int traverse_tape(TensorImpl* impl, visitproc visit, void* context);

}  // namespace flambeau::python
