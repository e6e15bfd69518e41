// NumPy arrays both ways without copying, through Python's buffer protocol; NumPy is imported only
// when an array is made.
#pragma once

#include "flambeau/tensor/tensor.h"
#include "object.h"

namespace flambeau::python {

/// Whether the object is an array of NumPy or of a class derived from it.
bool is_numpy_array_or_derived(PyObject* object);
/// A new reference to a tensor over the array's memory (a copy of it with `copy`). Errors as
/// from_numpy's.
PyObject* tensor_from_numpy(PyObject* array, bool copy);
Tensor share_buffer(PyObject* exporter, bool copy);
/// A new reference to an array over the tensor's memory.
PyObject* numpy_from_tensor(const Tensor& t);

void add_numpy_types(PyObject* module);

}  // namespace flambeau::python
