// Tensors from Python data: numbers, nested sequences, arrays.
#pragma once

#include <optional>

#include "flambeau/tensor/tensor.h"
#include "object.h"

namespace flambeau::python {

/// A new tensor with a copy of the data; its dtype follows from the data unless given.
Tensor tensor_from_data(PyObject* data, std::optional<DType> dtype);
/// Shares memory where the data has any that can be shared.
Tensor tensor_sharing_data(PyObject* data, std::optional<DType> dtype);

extern PyMethodDef construct_functions[];
/// tensor.new_tensor(data, *, dtype=None, device=None, requires_grad=False)
PyObject* new_tensor(PyObject* self, PyObject* args, PyObject* kwargs);

/// Tensor._make_subclass(cls, data, require_grad=False): the data as an object of a class derived
/// from Tensor.
PyObject* make_subclass(PyObject*, PyObject* args, PyObject* kwargs);

}  // namespace flambeau::python
