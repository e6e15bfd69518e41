// The objects flambeau.float32 and its like, layouts and memory formats. Each exists once, so they
// are compared by identity.
#pragma once

#include "flambeau/tensor/dtype.h"
#include "object.h"

namespace flambeau::python {

struct DTypeObject {
  PyObject_HEAD;
  DType value;
};
extern PyTypeObject dtype_type;
extern PyTypeObject layout_type;
extern PyTypeObject memory_format_type;

inline bool is_dtype(PyObject* object) { return Py_TYPE(object) == &dtype_type; }
inline DType dtype_of(PyObject* object) { return reinterpret_cast<DTypeObject*>(object)->value; }
/// A borrowed reference.
PyObject* dtype_object(DType dtype);
/// The dtype object itself, or Python's float, int, bool or complex. False for anything else.
bool as_dtype(PyObject* object, DType* dtype);
/// The same for an argument that may be None; throws a type Error that names the argument.
bool dtype_argument(PyObject* object, const char* function, DType* dtype);

PyObject* strided_layout();
bool is_strided(PyObject* object);

void add_dtype_types(PyObject* module);

}  // namespace flambeau::python
