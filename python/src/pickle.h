// Copying and pickling of tensors: values, dtype, sizes, requires_grad, and the attributes in
// __dict__.
#pragma once

#include "object.h"

namespace flambeau::python {

PyObject* tensor_deepcopy(PyObject* self, PyObject* memo);
PyObject* tensor_reduce(PyObject* self, PyObject* protocol);

extern PyMethodDef pickle_functions[];
/// Keeps the module's functions that a pickle names.
void add_pickle_functions(PyObject* module);

}  // namespace flambeau::python
