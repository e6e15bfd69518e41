// Exchange of memory with other libraries by the DLPack protocol (version 1), without copying.
#pragma once

#include "flambeau/tensor/tensor.h"
#include "object.h"

namespace flambeau::python {

/// A tensor over the memory of an object with __dlpack__, or of a capsule.
Tensor tensor_from_dlpack(PyObject* source);

extern PyMethodDef dlpack_functions[];
/// The methods __dlpack__ and __dlpack_device__ of Tensor.
PyObject* tensor_dlpack(PyObject* self, PyObject* args, PyObject* kwargs);
PyObject* tensor_dlpack_device(PyObject* self, PyObject*);

}  // namespace flambeau::python
