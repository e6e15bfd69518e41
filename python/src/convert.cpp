#include "convert.h"

#include <cstring>
#include <limits>

#include "device_object.h"
#include "dtype_object.h"
#include "flambeau/base/error.h"
#include "flambeau/io/element.h"
#include "size_object.h"
#include "tensor_object.h"

namespace flambeau::python {

namespace {

int64_t to_int64(PyObject* value) {
  int overflow = 0;
  long long result = PyLong_AsLongLongAndOverflow(value, &overflow);
  check(!overflow, ErrorKind::runtime,
        "Overflow when unpacking long: the integer needs more than 64 bits");
  if (result == -1 && PyErr_Occurred()) throw PythonError();
  return result;
}

bool is_numpy(PyObject* value) { return std::strncmp(type_name_of(value), "numpy.", 6) == 0; }
bool is_numpy_bool(PyObject* value) {
  const char* name = type_name_of(value);
  return std::strcmp(name, "numpy.bool") == 0 || std::strcmp(name, "numpy.bool_") == 0;
}

/// A 0-d tensor whose value may be read in place of a number.
bool is_number_tensor(PyObject* value) {
  if (!is_tensor(value)) return false;
  Tensor t = unwrap(value);
  return t.dim() == 0 && !t.requires_grad();
}

bool is_list(PyObject* value) { return PyTuple_Check(value) || PyList_Check(value); }

/// Items of a tuple or list, borrowed.
struct Items {
  explicit Items(PyObject* list)
      : items(PySequence_Fast_ITEMS(list)), count(PySequence_Fast_GET_SIZE(list)) {}
  PyObject** items;
  Py_ssize_t count;
  PyObject** begin() const { return items; }
  PyObject** end() const { return items + count; }
};

bool append_tensors(PyObject* value, bool optional, std::vector<Argument>* arguments,
                    int64_t* work) {
  if (!is_list(value)) return false;
  Items items(value);
  TensorList list;
  list.reserve(static_cast<size_t>(items.count));
  for (PyObject* item : items) {
    if (is_tensor(item)) {
      list.push_back(unwrap(item));
      *work += list.back().numel();
    } else if (optional && item == Py_None) {
      list.emplace_back();
    } else {
      return false;
    }
  }
  arguments->emplace_back(std::move(list));
  return true;
}

bool append_integers(PyObject* value, const SchemaArgument& parameter,
                     std::vector<Argument>* arguments, int64_t* work) {
  std::vector<int64_t> values;
  int64_t single;
  if (is_list(value)) {
    if (!as_integers(value, &values)) return false;
  } else if (parameter.list_length > 0 && as_integer(value, &single)) {
    values.assign(static_cast<size_t>(parameter.list_length), single);
  } else {
    return false;
  }
  if (parameter.type == ArgumentType::dims) {
    arguments->emplace_back(std::in_place_type<DimList>, std::move(values));
  } else {
    int64_t product = 1;
    for (int64_t v : values) {
      if (__builtin_mul_overflow(product, v, &product)) product = 0;  // an error is to come
    }
    *work += product;
    arguments->emplace_back(std::in_place_type<Sizes>, values.begin(), values.end());
  }
  return true;
}

}  // namespace

bool is_numpy_array(PyObject* value) {
  return std::strcmp(type_name_of(value), "numpy.ndarray") == 0;
}

bool as_scalar(PyObject* value, Scalar* result) {
  if (PyFloat_Check(value)) {
    *result = Scalar(PyFloat_AS_DOUBLE(value));
  } else if (PyBool_Check(value)) {
    *result = Scalar(value == Py_True);
  } else if (PyLong_Check(value)) {
    *result = Scalar(to_int64(value));
  } else if (PyComplex_Check(value)) {
    Py_complex c = PyComplex_AsCComplex(value);
    *result = Scalar(std::complex<double>(c.real, c.imag));
  } else if (is_number_tensor(value)) {
    *result = item(unwrap(value));
  } else if (is_numpy(value) && !is_numpy_array(value)) {
    if (is_numpy_bool(value)) {
      *result = Scalar(PyObject_IsTrue(value) == 1);
    } else if (PyIndex_Check(value)) {
      *result = Scalar(to_int64(checked(PyNumber_Index(value)).get()));
    } else if (std::strncmp(type_name_of(value), "numpy.complex", 13) == 0) {
      Py_complex c = PyComplex_AsCComplex(value);
      if (PyErr_Occurred()) throw PythonError();
      *result = Scalar(std::complex<double>(c.real, c.imag));
    } else if (std::strncmp(type_name_of(value), "numpy.float", 11) == 0) {
      *result = Scalar(PyFloat_AsDouble(value));
      if (PyErr_Occurred()) throw PythonError();
    } else {
      return false;
    }
  } else {
    return false;
  }
  return true;
}

bool as_integer(PyObject* value, int64_t* result) {
  if (PyLong_CheckExact(value)) {
    *result = to_int64(value);
    return true;
  }
  if (PyBool_Check(value) || !PyIndex_Check(value) || is_numpy_array(value)) return false;
  if (is_tensor(value)) {
    if (!is_number_tensor(value) || !is_integer(unwrap(value).dtype())) return false;
    *result = item(unwrap(value)).integer();
    return true;
  }
  *result = to_int64(checked(PyNumber_Index(value)).get());
  return true;
}

bool is_integer_like(PyObject* value) {
  if (PyLong_CheckExact(value)) return true;
  if (PyBool_Check(value) || !PyIndex_Check(value) || is_numpy_array(value)) return false;
  return !is_tensor(value) || (is_number_tensor(value) && is_integer(unwrap(value).dtype()));
}

bool as_boolean(PyObject* value, bool* result) {
  if (!PyBool_Check(value) && !is_numpy_bool(value)) return false;
  *result = value == Py_True || (value != Py_False && PyObject_IsTrue(value) == 1);
  return true;
}

bool as_integers(PyObject* value, std::vector<int64_t>* result) {
  if (!is_list(value)) return false;
  Items items(value);
  result->resize(static_cast<size_t>(items.count));
  for (Py_ssize_t i = 0; i < items.count; ++i) {
    if (!as_integer(items.items[i], &(*result)[static_cast<size_t>(i)])) return false;
  }
  return true;
}

PyObject* wrap_scalar(const Scalar& value) {
  switch (value.kind()) {
    case Scalar::Kind::boolean:
      return PyBool_FromLong(value.boolean());
    case Scalar::Kind::integer:
      return PyLong_FromLongLong(value.integer());
    case Scalar::Kind::real:
      return PyFloat_FromDouble(value.real());
    case Scalar::Kind::complex:
      return PyComplex_FromDoubles(value.real(), value.imag());
  }
  Py_UNREACHABLE();
}

bool convert(PyObject* value, const SchemaArgument& parameter, std::vector<Argument>* arguments,
             int64_t* work) {
  if (value == Py_None && parameter.nullable) {
    arguments->emplace_back();
    return true;
  }
  switch (parameter.type) {
    case ArgumentType::tensor:
      if (!is_tensor(value)) return false;
      arguments->emplace_back(std::in_place_type<Tensor>, unwrap(value));
      *work += std::get<Tensor>(arguments->back()).numel();
      return true;
    case ArgumentType::tensors:
      return append_tensors(value, false, arguments, work);
    case ArgumentType::optional_tensors:
      return append_tensors(value, true, arguments, work);
    case ArgumentType::boolean: {
      bool flag;
      if (!as_boolean(value, &flag)) return false;
      arguments->emplace_back(std::in_place_type<bool>, flag);
      return true;
    }
    case ArgumentType::dim:
    case ArgumentType::size: {
      int64_t integer;
      if (!as_integer(value, &integer)) return false;
      if (parameter.type == ArgumentType::dim) {
        arguments->emplace_back(std::in_place_type<Dim>, integer);
      } else {
        arguments->emplace_back(std::in_place_type<Size>, integer);
      }
      return true;
    }
    case ArgumentType::dims:
    case ArgumentType::sizes:
      return append_integers(value, parameter, arguments, work);
    case ArgumentType::number:
    case ArgumentType::real: {
      Scalar scalar;
      if (!as_scalar(value, &scalar)) return false;
      if (parameter.type == ArgumentType::real) {
        if (scalar.kind() == Scalar::Kind::complex || PyBool_Check(value)) return false;
        scalar = Scalar(scalar.real());
      }
      arguments->emplace_back(std::in_place_type<Number>, scalar);
      return true;
    }
    case ArgumentType::dtype: {
      DType dtype;
      if (!as_dtype(value, &dtype)) return false;
      arguments->emplace_back(std::in_place_type<DType>, dtype);
      return true;
    }
    case ArgumentType::text: {
      if (!PyUnicode_Check(value)) return false;
      Py_ssize_t size = 0;
      const char* data = PyUnicode_AsUTF8AndSize(value, &size);
      if (!data) throw PythonError();
      arguments->emplace_back(std::in_place_type<std::string>, data, static_cast<size_t>(size));
      return true;
    }
    case ArgumentType::device: {
      Device device;
      if (!as_device(value, &device)) return false;
      arguments->emplace_back(std::in_place_type<Device>, device);
      return true;
    }
    case ArgumentType::layout:
      if (Py_TYPE(value) != &layout_type) return false;
      check(is_strided(value), ErrorKind::value, "argument '", parameter.name,
            "': only torch.strided is supported, got ",
            PyUnicode_AsUTF8(checked(PyObject_Repr(value)).get()));
      arguments->emplace_back();
      return true;
    case ArgumentType::memory_format:
      if (Py_TYPE(value) != &memory_format_type) return false;
      // A hint about strides; every result here is row-major, with the same values.
      arguments->emplace_back();
      return true;
  }
  return false;
}

PyObject* wrap_result(Argument&& result, PyTypeObject* tuple_type) {
  struct Visitor {
    PyTypeObject* tuple_type;
    PyObject* operator()(std::monostate) { Py_RETURN_NONE; }
    PyObject* operator()(const Tensor& t) { return wrap(t); }
    PyObject* operator()(const TensorList& list) {
      auto count = static_cast<Py_ssize_t>(list.size());
      Object tuple = checked(tuple_type ? PyStructSequence_New(tuple_type) : PyTuple_New(count));
      for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* item = wrap(list[static_cast<size_t>(i)]);
        if (!item) throw PythonError();
        if (tuple_type) {
          PyStructSequence_SetItem(tuple.get(), i, item);
        } else {
          PyTuple_SET_ITEM(tuple.get(), i, item);
        }
      }
      return tuple.release();
    }
    PyObject* operator()(bool v) { return PyBool_FromLong(v); }
    PyObject* operator()(Dim v) { return PyLong_FromLongLong(v.value); }
    PyObject* operator()(Size v) { return PyLong_FromLongLong(v.value); }
    PyObject* operator()(const DimList& v) {
      return wrap_size(v.data(), static_cast<int64_t>(v.size()));
    }
    PyObject* operator()(const Sizes& v) { return wrap_size(values(v)); }
    PyObject* operator()(const Number& v) { return wrap_scalar(v.scalar()); }
    PyObject* operator()(DType v) { return Py_NewRef(dtype_object(v)); }
    PyObject* operator()(const std::string& v) {
      return PyUnicode_FromStringAndSize(v.data(), static_cast<Py_ssize_t>(v.size()));
    }
    PyObject* operator()(Device v) { return wrap_device(v); }
  };
  if (const Tensor* t = std::get_if<Tensor>(&result)) return wrap(*t);
  return std::visit(Visitor{tuple_type}, result);
}

}  // namespace flambeau::python
