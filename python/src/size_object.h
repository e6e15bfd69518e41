// flambeau.Size: the tuple that shapes are.
#pragma once

#include <cstdint>

#include "flambeau/tensor/dims.h"
#include "object.h"

namespace flambeau::python {

extern PyTypeObject size_type;

PyObject* wrap_size(const int64_t* values, int64_t count);
inline PyObject* wrap_size(const Dims& dims) { return wrap_size(dims.data(), dims.size()); }
/// A plain tuple of the same numbers.
PyObject* wrap_tuple(const Dims& dims);

void add_size_type(PyObject* module);

}  // namespace flambeau::python
