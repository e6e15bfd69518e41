#include "size_object.h"

#include <string>

#include "flambeau/base/error.h"

namespace flambeau::python {

namespace {

/// Puts the numbers into a new tuple of `type`.
PyObject* fill(PyTypeObject* type, const int64_t* values, int64_t count) {
  PyObject* self = type == &PyTuple_Type ? PyTuple_New(count) : type->tp_alloc(type, count);
  if (!self) return nullptr;
  for (int64_t i = 0; i < count; ++i) {
    PyObject* number = PyLong_FromLongLong(values[i]);
    if (!number) {
      Py_DECREF(self);
      return nullptr;
    }
    PyTuple_SET_ITEM(self, i, number);
  }
  return self;
}

PyObject* make(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  Object self = Object::steal(PyTuple_Type.tp_new(type, args, kwargs));
  if (!self) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self.get()); ++i) {
    PyObject* item = PyTuple_GET_ITEM(self.get(), i);
    if (PyLong_Check(item)) continue;
    PyObject* number = PyNumber_Index(item);
    if (!number) {
      PyErr_Format(PyExc_TypeError, "Size() takes an iterable of 'int' (item %zd is '%s')", i,
                   type_name_of(item));
      return nullptr;
    }
    PyTuple_SET_ITEM(self.get(), i, number);
    Py_DECREF(item);
  }
  return self.release();
}

PyObject* repr(PyObject* self) {
  std::string s = "torch.Size([";
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self); ++i) {
    Object item = Object::steal(PyObject_Repr(PyTuple_GET_ITEM(self, i)));
    if (!item) return nullptr;
    if (i) s += ", ";
    s += PyUnicode_AsUTF8(item.get());
  }
  return PyUnicode_FromString((s + "])").c_str());
}

PyObject* numel(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    Object product = checked(PyLong_FromLong(1));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self); ++i) {
      product = checked(PyNumber_Multiply(product.get(), PyTuple_GET_ITEM(self, i)));
    }
    return product.release();
  });
}

PyObject* reduce(PyObject* self, PyObject*) {
  Object plain = Object::steal(PySequence_Tuple(self));
  if (!plain) return nullptr;
  // A tuple subclass returns itself only where the type is exact, so this is a plain tuple.
  return Py_BuildValue("(O(O))", &size_type, plain.get());
}

/// A slice or a sum of Sizes is a Size.
PyObject* as_size(PyObject* tuple) {
  Object plain = Object::steal(tuple);
  if (!plain || !PyTuple_Check(plain.get())) return plain.release();
  return PyObject_CallOneArg(reinterpret_cast<PyObject*>(&size_type), plain.get());
}
PyObject* subscript(PyObject* self, PyObject* index) {
  PyObject* result = PyTuple_Type.tp_as_mapping->mp_subscript(self, index);
  return PySlice_Check(index) ? as_size(result) : result;
}
PyObject* concatenate(PyObject* a, PyObject* b) {
  return as_size(PyTuple_Type.tp_as_sequence->sq_concat(a, b));
}
PyObject* repeat(PyObject* self, Py_ssize_t count) {
  return as_size(PyTuple_Type.tp_as_sequence->sq_repeat(self, count));
}

PyMethodDef methods[] = {
    {"numel", numel, METH_NOARGS, "Number of elements of a tensor of this shape."},
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PySequenceMethods sequence = {
    .sq_concat = concatenate,
    .sq_repeat = repeat,
};
PyMappingMethods mapping = {
    .mp_subscript = subscript,
};

}  // namespace

PyTypeObject size_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "flambeau.Size",
    .tp_repr = repr,
    .tp_as_sequence = &sequence,
    .tp_as_mapping = &mapping,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_TUPLE_SUBCLASS,
    .tp_doc = "The shape of a tensor: a tuple of ints.",
    .tp_methods = methods,
    .tp_base = &PyTuple_Type,
    .tp_new = make,
};

PyObject* wrap_size(const int64_t* values, int64_t count) {
  return fill(&size_type, values, count);
}
PyObject* wrap_tuple(const Dims& dims) { return fill(&PyTuple_Type, dims.data(), dims.size()); }

void add_size_type(PyObject* module) {
  check_status(PyType_Ready(&size_type));
  check_status(PyModule_AddObjectRef(module, "Size", reinterpret_cast<PyObject*>(&size_type)));
}

}  // namespace flambeau::python
