#include "dtype_object.h"

#include <array>
#include <cstring>
#include <string>

#include "flambeau/base/error.h"

namespace flambeau::python {

namespace {

std::array<PyObject*, kMaxDType> dtypes;

// The field's other names of dtypes.
struct Alias {
  const char* name;
  DType dtype;
};
constexpr Alias kAliases[] = {
    {"float", DType::float32},    {"double", DType::float64},     {"half", DType::float16},
    {"long", DType::int64},       {"int", DType::int32},          {"short", DType::int16},
    {"cfloat", DType::complex64}, {"cdouble", DType::complex128},
};

DType self_dtype(PyObject* self) { return dtype_of(self); }

PyObject* dtype_repr(PyObject* self) {
  return PyUnicode_FromString(("torch." + std::string(name(self_dtype(self)))).c_str());
}
// Pickled as a global name of the package.
PyObject* dtype_reduce(PyObject* self, PyObject*) {
  return PyUnicode_FromString(std::string(name(self_dtype(self))).c_str());
}
PyObject* to_real(PyObject* self, PyObject*) {
  return Py_NewRef(dtype_object(real_type(self_dtype(self))));
}
PyObject* to_complex(PyObject* self, PyObject*) {
  return guarded([&] { return Py_NewRef(dtype_object(complex_type(self_dtype(self)))); });
}
PyObject* module_name(PyObject*, void*) { return PyUnicode_FromString("flambeau"); }
PyObject* get_floating(PyObject* self, void*) {
  return PyBool_FromLong(is_float(self_dtype(self)));
}
PyObject* get_complex(PyObject* self, void*) {
  return PyBool_FromLong(is_complex(self_dtype(self)));
}
PyObject* get_signed(PyObject* self, void*) { return PyBool_FromLong(is_signed(self_dtype(self))); }
PyObject* get_itemsize(PyObject* self, void*) {
  return PyLong_FromLongLong(itemsize(self_dtype(self)));
}

PyMethodDef dtype_methods[] = {
    {"__reduce__", dtype_reduce, METH_NOARGS, nullptr},
    {"to_real", to_real, METH_NOARGS, "The type of a complex type's parts."},
    {"to_complex", to_complex, METH_NOARGS, "The complex type with parts of this type."},
    {nullptr, nullptr, 0, nullptr},
};
PyGetSetDef dtype_properties[] = {
    {"__module__", module_name, nullptr, nullptr, nullptr},
    {"is_floating_point", get_floating, nullptr, "True for real floating-point types.", nullptr},
    {"is_complex", get_complex, nullptr, "True for complex types.", nullptr},
    {"is_signed", get_signed, nullptr, "True where values may be negative.", nullptr},
    {"itemsize", get_itemsize, nullptr, "Bytes of one element.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

// Layouts and memory formats are names only: everything here is strided and row-major.
struct NamedObject {
  PyObject_HEAD;
  const char* name;
};
PyObject* named_repr(PyObject* self) {
  return PyUnicode_FromFormat("torch.%s", reinterpret_cast<NamedObject*>(self)->name);
}
PyObject* named_reduce(PyObject* self, PyObject*) {
  return PyUnicode_FromString(reinterpret_cast<NamedObject*>(self)->name);
}
PyMethodDef named_methods[] = {
    {"__reduce__", named_reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyGetSetDef named_properties[] = {
    {"__module__", module_name, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyObject* strided = nullptr;

PyObject* add_named(PyObject* module, PyTypeObject* type, const char* name) {
  Object object = checked(type->tp_alloc(type, 0));
  reinterpret_cast<NamedObject*>(object.get())->name = name;
  check_status(PyModule_AddObjectRef(module, name, object.get()));
  return object.release();
}

}  // namespace

PyTypeObject dtype_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "flambeau.dtype",
    .tp_basicsize = sizeof(DTypeObject),
    .tp_repr = dtype_repr,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "The type of a tensor's elements.",
    .tp_methods = dtype_methods,
    .tp_getset = dtype_properties,
};
PyTypeObject layout_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "flambeau.layout",
    .tp_basicsize = sizeof(NamedObject),
    .tp_repr = named_repr,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_methods = named_methods,
    .tp_getset = named_properties,
};
PyTypeObject memory_format_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "flambeau.memory_format",
    .tp_basicsize = sizeof(NamedObject),
    .tp_repr = named_repr,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_methods = named_methods,
    .tp_getset = named_properties,
};

PyObject* dtype_object(DType dtype) { return dtypes[static_cast<size_t>(dtype)]; }

bool as_dtype(PyObject* object, DType* dtype) {
  if (is_dtype(object)) {
    *dtype = dtype_of(object);
  } else if (object == reinterpret_cast<PyObject*>(&PyFloat_Type)) {
    *dtype = DType::float64;
  } else if (object == reinterpret_cast<PyObject*>(&PyLong_Type)) {
    *dtype = DType::int64;
  } else if (object == reinterpret_cast<PyObject*>(&PyBool_Type)) {
    *dtype = DType::boolean;
  } else if (object == reinterpret_cast<PyObject*>(&PyComplex_Type)) {
    *dtype = DType::complex128;
  } else {
    return false;
  }
  return true;
}

bool dtype_argument(PyObject* object, const char* function, DType* dtype) {
  if (!object || object == Py_None) return false;
  check(as_dtype(object, dtype), ErrorKind::type, function,
        "(): argument 'dtype' must be torch.dtype, not ", type_name_of(object));
  return true;
}

PyObject* strided_layout() { return strided; }
bool is_strided(PyObject* object) { return object == strided; }

void add_dtype_types(PyObject* module) {
  for (PyTypeObject* type : {&dtype_type, &layout_type, &memory_format_type}) {
    check_status(PyType_Ready(type));
    check_status(PyModule_AddObjectRef(module, strchr(type->tp_name, '.') + 1,
                                       reinterpret_cast<PyObject*>(type)));
  }
  for (int i = 0; i < kMaxDType; ++i) {
    DType dtype = static_cast<DType>(i);
    std::string label;
    try {
      label = name(dtype);
    } catch (const Error&) {
      continue;  // a number of the field that no dtype here has
    }
    Object object = checked(dtype_type.tp_alloc(&dtype_type, 0));
    reinterpret_cast<DTypeObject*>(object.get())->value = dtype;
    check_status(PyModule_AddObjectRef(module, label.c_str(), object.get()));
    dtypes[static_cast<size_t>(i)] = object.release();
  }
  for (const Alias& alias : kAliases) {
    check_status(PyModule_AddObjectRef(module, alias.name, dtype_object(alias.dtype)));
  }
  strided = add_named(module, &layout_type, "strided");
  add_named(module, &layout_type, "sparse_coo");
  add_named(module, &memory_format_type, "contiguous_format");
  add_named(module, &memory_format_type, "preserve_format");
  add_named(module, &memory_format_type, "channels_last");
  add_named(module, &memory_format_type, "channels_last_3d");
}

}  // namespace flambeau::python
