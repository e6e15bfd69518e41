// Methods of Tensor that are no operators: queries, conversion to Python's values, hooks, copying.
#include <cstring>

#include "construct.h"
#include "convert.h"
#include "device_object.h"
#include "dlpack.h"
#include "dtype_object.h"
#include "flambeau/autograd/autograd.h"
#include "flambeau/base/error.h"
#include "flambeau/io/element.h"
#include "flambeau/io/print.h"
#include "hooks.h"
#include "node_object.h"
#include "numpy.h"
#include "operator_table.h"
#include "pickle.h"
#include "size_object.h"
#include "tensor_object.h"

namespace flambeau::python {

namespace {

constinit NativeOperator select_op("select", "int"), eq_scalar("eq", "Scalar"),
    eq_tensor("eq", "Tensor"), any_op("any");

/// A dim given by position or as `dim`; false when there is none.
bool dim_argument(PyObject* args, PyObject* kwargs, const char* format, const Tensor& t,
                  const char* name, int64_t* dim) {
  static const char* names[] = {"dim", nullptr};
  PyObject* given = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, format, const_cast<char**>(names), &given))
    throw PythonError();
  if (given == Py_None) return false;
  check(as_integer(given, dim), ErrorKind::type, name, "(): argument 'dim' must be int, not ",
        type_name_of(given));
  check(*dim >= -t.dim() && *dim < t.dim() && t.dim() > 0, ErrorKind::index,
        "Dimension out of range (expected to be in range of [", -std::max<int64_t>(t.dim(), 1),
        ", ", std::max<int64_t>(t.dim(), 1) - 1, "], but got ", *dim, ")");
  return true;
}

PyObject* size(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    Tensor t = unwrap(self);
    int64_t dim;
    return dim_argument(args, kwargs, "|O:size", t, "size", &dim) ? PyLong_FromLongLong(t.size(dim))
                                                                  : wrap_size(t.sizes());
  });
}
PyObject* stride(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    Tensor t = unwrap(self);
    int64_t dim;
    return dim_argument(args, kwargs, "|O:stride", t, "stride", &dim)
               ? PyLong_FromLongLong(t.stride(dim))
               : wrap_tuple(t.strides());
  });
}
PyObject* dim(PyObject* self, PyObject*) {
  return guarded([&] { return PyLong_FromLongLong(unwrap(self).dim()); });
}
PyObject* numel(PyObject* self, PyObject*) {
  return guarded([&] { return PyLong_FromLongLong(unwrap(self).numel()); });
}
PyObject* element_size(PyObject* self, PyObject*) {
  return guarded([&] { return PyLong_FromLongLong(itemsize(unwrap(self).dtype())); });
}
PyObject* storage_offset(PyObject* self, PyObject*) {
  return guarded([&] { return PyLong_FromLongLong(unwrap(self).offset()); });
}
PyObject* is_contiguous(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    static const char* names[] = {"memory_format", nullptr};
    PyObject* format = nullptr;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:is_contiguous", const_cast<char**>(names),
                                     &format))
      throw PythonError();
    return PyBool_FromLong(unwrap(self).is_contiguous());
  });
}
PyObject* data_ptr(PyObject* self, PyObject*) {
  return guarded([&] {
    Tensor t = unwrap(self);
    t.storage().set_exported();
    return PyLong_FromVoidPtr(t.numel() ? t.data() : nullptr);
  });
}
PyObject* get_device(PyObject* self, PyObject*) {
  return guarded([&] { return PyLong_FromLong(unwrap(self).device().index); });
}
PyObject* is_floating_point(PyObject* self, PyObject*) {
  return guarded([&] { return PyBool_FromLong(is_float(unwrap(self).dtype())); });
}
PyObject* is_complex_method(PyObject* self, PyObject*) {
  return guarded([&] { return PyBool_FromLong(is_complex(unwrap(self).dtype())); });
}
PyObject* is_signed_method(PyObject* self, PyObject*) {
  return guarded([&] { return PyBool_FromLong(is_signed(unwrap(self).dtype())); });
}
PyObject* return_false(PyObject*, PyObject*) { Py_RETURN_FALSE; }
PyObject* is_set_to(PyObject* self, PyObject* other) {
  return guarded([&] {
    check(is_tensor(other), ErrorKind::type, "is_set_to(): argument must be Tensor, not ",
          type_name_of(other));
    Tensor a = unwrap(self), b = unwrap(other);
    return PyBool_FromLong(a.impl()->storage == b.impl()->storage && a.offset() == b.offset() &&
                           a.sizes() == b.sizes() && a.strides() == b.strides());
  });
}

PyObject* item_method(PyObject* self, PyObject*) {
  return guarded([&] { return wrap_scalar(item(unwrap(self))); });
}

PyObject* list_level(const Tensor& t, const char* data, int64_t dim) {
  if (dim == t.dim()) return checked(wrap_scalar(load_element(data, t.dtype()))).release();
  Object list = checked(PyList_New(t.size(dim)));
  int64_t step = t.stride(dim) * itemsize(t.dtype());
  for (int64_t i = 0; i < t.size(dim); ++i)
    PyList_SET_ITEM(list.get(), i, list_level(t, data + i * step, dim + 1));
  return list.release();
}
PyObject* tolist(PyObject* self, PyObject*) {
  return guarded([&] {
    Tensor t = unwrap(self);
    return list_level(t, t.data(), 0);
  });
}

PyObject* numpy(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    static const char* names[] = {"force", nullptr};
    int force = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$p:numpy", const_cast<char**>(names), &force))
      throw PythonError();
    Tensor t = unwrap(self);
    return numpy_from_tensor(force ? autograd::detach(t) : t);
  });
}
/// What numpy.array(tensor) calls.
PyObject* array(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {"dtype", "copy", nullptr};
    PyObject *dtype = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:__array__", const_cast<char**>(names),
                                     &dtype, &copy))
      throw PythonError();
    Object result = checked(numpy_from_tensor(unwrap(self)));
    if (dtype != Py_None) {
      Object same = checked(PyObject_GetAttrString(result.get(), "dtype"));
      int equal = PyObject_RichCompareBool(same.get(), dtype, Py_EQ);
      check_status(equal);
      if (!equal) return checked(PyObject_CallMethod(result.get(), "astype", "O", dtype)).release();
    }
    if (copy == Py_True)
      return checked(PyObject_CallMethod(result.get(), "copy", nullptr)).release();
    return result.release();
  });
}

PyObject* detach(PyObject* self, PyObject*) {
  return guarded([&] { return wrap(autograd::detach(unwrap(self))); });
}
PyObject* detach_(PyObject* self, PyObject*) {
  return guarded([&] {
    autograd::detach_in_place(unwrap(self));
    return Py_NewRef(self);
  });
}
PyObject* requires_grad_(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    static const char* names[] = {"requires_grad", nullptr};
    int value = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|p:requires_grad_", const_cast<char**>(names),
                                     &value))
      throw PythonError();
    autograd::set_requires_grad(unwrap(self), value != 0);
    return Py_NewRef(self);
  });
}
PyObject* retain_grad(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    autograd::retain_grad(unwrap(self));
    Py_RETURN_NONE;
  });
}
PyObject* add_hook(PyObject* self, PyObject* function) {
  return guarded([&] { return register_hook(self, function); });
}
PyObject* add_post_hook(PyObject* self, PyObject* function) {
  return guarded([&] { return register_post_accumulate_hook(self, function); });
}

PyObject* type_method(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {"dtype", "non_blocking", nullptr};
    PyObject *given = Py_None, *non_blocking = nullptr;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:type", const_cast<char**>(names), &given,
                                     &non_blocking))
      throw PythonError();
    Tensor t = unwrap(self);
    if (given == Py_None) return PyUnicode_FromString(text("torch.", t.dtype()).c_str());
    DType dtype;
    dtype_argument(given, "type", &dtype);
    if (dtype == t.dtype()) return Py_NewRef(self);
    static constinit NativeOperator to("to", "dtype");
    return wrap(to({t, dtype}));
  });
}

int contains(PyObject* self, PyObject* value) {
  return guarded(
      [&] {
        Scalar number;
        Tensor t = unwrap(self);
        Tensor equal;
        if (is_tensor(value)) {
          equal = eq_tensor({t, unwrap(value)});
        } else {
          check(as_scalar(value, &number), ErrorKind::runtime,
                "Tensor.__contains__ only supports Tensor or scalar, but you passed in a ",
                type_name_of(value), ".");
          equal = eq_scalar({t, Number(number)});
        }
        return item(any_op({equal})).boolean() ? 1 : 0;
      },
      -1);
}

// An iterator over the first dim, so that a loop makes one view at a time.
struct IteratorObject {
  PyObject_HEAD;
  PyObject* tensor;
  int64_t at;
};
PyObject* next_item(PyObject* self) {
  auto* iterator = reinterpret_cast<IteratorObject*>(self);
  return guarded([&]() -> PyObject* {
    Tensor t = unwrap(iterator->tensor);
    if (iterator->at >= t.size(0)) return nullptr;
    return wrap(select_op({t, Dim(0), Dim(iterator->at++)}));
  });
}
void dealloc_iterator(PyObject* self) {
  Py_DECREF(reinterpret_cast<IteratorObject*>(self)->tensor);
  Py_TYPE(self)->tp_free(self);
}
PyTypeObject iterator_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "flambeau._C.TensorIterator",
    .tp_basicsize = sizeof(IteratorObject),
    .tp_dealloc = dealloc_iterator,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_iter = PyObject_SelfIter,
    .tp_iternext = next_item,
};

PyObject* format(PyObject* self, PyObject* specification) {
  return guarded([&]() -> PyObject* {
    Tensor t = unwrap(self);
    // The number itself where there is one, as in f"{loss:.3f}".
    Object value = t.dim() == 0 && Py_TYPE(self) == tensor_type() ? checked(wrap_scalar(item(t)))
                                                                  : checked(PyObject_Str(self));
    return checked(PyObject_Format(value.get(), specification)).release();
  });
}

template <PyObject* (*function)(PyObject*, PyObject*, PyObject*)>
constexpr PyCFunction keywords() {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}
constexpr int kKeywords = METH_VARARGS | METH_KEYWORDS;

PyObject* to_complex(PyObject* self, PyObject*) {
  return guarded([&] {
    Scalar value = item(unwrap(self));
    return PyComplex_FromDoubles(value.real(), value.imag());
  });
}

}  // namespace

PyObject* iterate_tensor(PyObject* self) {
  return guarded([&]() -> PyObject* {
    check(unwrap(self).dim() > 0, ErrorKind::type, "iteration over a 0-d tensor");
    if (!iterator_type.tp_dict) check_status(PyType_Ready(&iterator_type));
    Object iterator = checked(iterator_type.tp_alloc(&iterator_type, 0));
    reinterpret_cast<IteratorObject*>(iterator.get())->tensor = Py_NewRef(self);
    return iterator.release();
  });
}

PyObject* tensor_repr(PyObject* self) {
  return guarded([&] { return PyUnicode_FromString(to_string(unwrap(self)).c_str()); });
}

PySequenceMethods tensor_sequence = {
    .sq_contains = contains,
};

PyMethodDef tensor_methods[] = {
    {"size", keywords<size>(), kKeywords, "size(dim=None): the shape, or one of its sizes."},
    {"stride", keywords<stride>(), kKeywords,
     "stride(dim=None): elements from one index to the next, per dim."},
    {"dim", dim, METH_NOARGS, "Number of dims."},
    {"ndimension", dim, METH_NOARGS, "Number of dims."},
    {"numel", numel, METH_NOARGS, "Number of elements."},
    {"nelement", numel, METH_NOARGS, "Number of elements."},
    {"element_size", element_size, METH_NOARGS, "Bytes of an element."},
    {"storage_offset", storage_offset, METH_NOARGS, "Index of the first element in the storage."},
    {"is_contiguous", keywords<is_contiguous>(), kKeywords,
     "Whether elements lie in row-major order without gaps."},
    {"data_ptr", data_ptr, METH_NOARGS, "Address of the first element."},
    {"get_device", get_device, METH_NOARGS, "Index of the device; -1 for the CPU."},
    {"is_floating_point", is_floating_point, METH_NOARGS,
     "Whether elements are real floating-point numbers."},
    {"is_complex", is_complex_method, METH_NOARGS, "Whether elements are complex."},
    {"is_signed", is_signed_method, METH_NOARGS, "Whether elements may be negative."},
    {"is_conj", return_false, METH_NOARGS, "Conjugation is never pending here."},
    {"is_neg", return_false, METH_NOARGS, "Negation is never pending here."},
    {"is_inference", return_false, METH_NOARGS, nullptr},
    {"is_pinned", return_false, METH_NOARGS, nullptr},
    {"is_shared", return_false, METH_NOARGS, nullptr},
    {"is_set_to", is_set_to, METH_O, "Whether both are the same view of the same memory."},
    {"item", item_method, METH_NOARGS, "The only element as a Python number."},
    {"tolist", tolist, METH_NOARGS, "The elements as nested lists."},
    {"numpy", keywords<numpy>(), kKeywords,
     "numpy(*, force=False): an array over the same memory."},
    {"__array__", keywords<array>(), kKeywords, nullptr},
    {"__dlpack__", keywords<tensor_dlpack>(), kKeywords, nullptr},
    {"__dlpack_device__", tensor_dlpack_device, METH_NOARGS, nullptr},
    {"detach", detach, METH_NOARGS, "The same memory, on no tape."},
    {"detach_", detach_, METH_NOARGS, "Takes the tensor itself off the tape."},
    {"requires_grad_", keywords<requires_grad_>(), kKeywords, "requires_grad_(requires_grad=True)"},
    {"backward", keywords<tensor_backward>(), kKeywords,
     "backward(gradient=None, retain_graph=None, create_graph=False, inputs=None): adds gradients "
     "to the leaves."},
    {"retain_grad", retain_grad, METH_NOARGS, "Keeps the gradient of a tensor that is no leaf."},
    {"register_hook", add_hook, METH_O, "Calls function(grad) when the gradient is computed."},
    {"register_post_accumulate_grad_hook", add_post_hook, METH_O,
     "Calls function(tensor) after the gradient was accumulated."},
    {"type", keywords<type_method>(), kKeywords,
     "type(dtype=None): the dtype's name, or the tensor converted."},
    {"new_tensor", keywords<new_tensor>(), kKeywords,
     "new_tensor(data, *, dtype=None, device=None, requires_grad=False)"},
    {"__format__", format, METH_O, nullptr},
    {"__complex__", to_complex, METH_NOARGS, nullptr},
    {"__deepcopy__", tensor_deepcopy, METH_O, nullptr},
    {"__reduce_ex__", tensor_reduce, METH_O, nullptr},
    {"_make_subclass", keywords<make_subclass>(), kKeywords | METH_STATIC, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace flambeau::python
