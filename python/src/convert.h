// Python values to the values that operators take. Exact types are looked at first; numbers of
// NumPy and 0-d tensors stand for Python's numbers.
#pragma once

#include <vector>

#include "flambeau/run/schema.h"
#include "object.h"

namespace flambeau::python {

/// False, without an error, when `value` is no bool, int, float or complex (or a NumPy number or a
/// 0-d tensor that requires no grad). Throws for an integer beyond 64 bits.
bool as_scalar(PyObject* value, Scalar* result);
/// The same for integers; a bool is none.
bool as_integer(PyObject* value, int64_t* result);
bool as_boolean(PyObject* value, bool* result);
/// A tuple or list of integers.
bool as_integers(PyObject* value, std::vector<int64_t>* result);
/// Whether the value looks like one integer and not like a list of them.
bool is_integer_like(PyObject* value);
bool is_numpy_array(PyObject* value);

PyObject* wrap_scalar(const Scalar& value);

/// Appends `value` as an argument of the type; false where it is of another type. None is accepted
/// where the argument is nullable. `work` grows by the number of elements.
bool convert(PyObject* value, const SchemaArgument& parameter, std::vector<Argument>* arguments,
             int64_t* work);
/// An operator's result as Python sees it; `tuple_type` is the named tuple of several results, or
/// null.
PyObject* wrap_result(Argument&& result, PyTypeObject* tuple_type);

}  // namespace flambeau::python
