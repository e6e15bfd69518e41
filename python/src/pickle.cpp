#include "pickle.h"

#include <cstring>

#include "convert.h"
#include "dtype_object.h"
#include "flambeau/autograd/autograd.h"
#include "flambeau/base/error.h"
#include "flambeau/io/element.h"
#include "size_object.h"
#include "tensor_object.h"

namespace flambeau::python {

namespace {

PyObject* rebuild_function = nullptr;

/// Elements in row-major order.
void write_elements(const Tensor& t, char* out) {
  int64_t size = itemsize(t.dtype());
  if (t.is_contiguous()) {
    if (t.numel()) std::memcpy(out, t.data(), static_cast<size_t>(t.numel() * size));
    return;
  }
  for_each_element(t, [&](const char* element) {
    std::memcpy(out, element, static_cast<size_t>(size));
    out += size;
  });
}

Object object_of(PyTypeObject* type, const Tensor& t, bool requires_grad, PyObject* attributes) {
  if (requires_grad) autograd::set_requires_grad(t, true);
  Object self = checked(wrap_as(type, t));
  if (attributes && attributes != Py_None) {
    Object dict = checked(PyObject_GetAttrString(self.get(), "__dict__"));
    check_status(PyDict_Update(dict.get(), attributes));
  }
  return self;
}

/// _rebuild_tensor(cls, bytes, dtype, sizes, requires_grad, attributes)
PyObject* rebuild(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *cls, *dtype_object, *sizes_object, *attributes;
    Py_buffer bytes;
    int requires_grad;
    if (!PyArg_ParseTuple(args, "Oy*OOpO:_rebuild_tensor", &cls, &bytes, &dtype_object,
                          &sizes_object, &requires_grad, &attributes))
      throw PythonError();
    struct Release {
      Py_buffer* buffer;
      ~Release() { PyBuffer_Release(buffer); }
    } release{&bytes};
    std::vector<int64_t> sizes;
    DType dtype = DType::float32;
    check(PyType_Check(cls) &&
              PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(cls), &tensor_base_type) &&
              as_dtype(dtype_object, &dtype) && as_integers(sizes_object, &sizes),
          ErrorKind::type, "_rebuild_tensor(): not the arguments of a pickled tensor");
    int64_t numel = checked_numel(Dims(sizes));
    check(numel * itemsize(dtype) == bytes.len, ErrorKind::value,
          "_rebuild_tensor(): ", static_cast<int64_t>(bytes.len), " bytes do not fill a ", dtype,
          " tensor of sizes ", Dims(sizes));
    Tensor t = empty_tensor(Dims(sizes), dtype);
    if (bytes.len) std::memcpy(t.data(), bytes.buf, static_cast<size_t>(bytes.len));
    return object_of(reinterpret_cast<PyTypeObject*>(cls), t, requires_grad != 0, attributes)
        .release();
  });
}

}  // namespace

PyObject* tensor_reduce(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    Tensor t = unwrap(self);
    check(autograd::is_leaf(t), ErrorKind::runtime,
          "cannot pickle a tensor that is no leaf of the graph; use detach() first");
    Object bytes = checked(PyBytes_FromStringAndSize(
        nullptr, static_cast<Py_ssize_t>(t.numel() * itemsize(t.dtype()))));
    write_elements(t, PyBytes_AS_STRING(bytes.get()));
    Object sizes = checked(wrap_tuple(t.sizes()));
    PyObject* dict = reinterpret_cast<TensorObject*>(self)->dict;
    return checked(Py_BuildValue("(O(OOOOOO))", rebuild_function, Py_TYPE(self), bytes.get(),
                                 dtype_object(t.dtype()), sizes.get(),
                                 t.requires_grad() ? Py_True : Py_False, dict ? dict : Py_None))
        .release();
  });
}

namespace {

/// A copy of the whole memory of `t`, made once for a memo, so that copies share what their
/// originals share.
Tensor copied_storage(const Tensor& t, PyObject* memo) {
  const char* data = t.storage().data();
  Object key = checked(PyLong_FromVoidPtr(&t.storage()));
  if (PyObject* known = PyDict_GetItemWithError(memo, key.get())) return unwrap(known);
  if (PyErr_Occurred()) throw PythonError();
  auto bytes = static_cast<int64_t>(t.storage().bytes());
  Tensor copy = empty_tensor({bytes}, DType::uint8, t.device());
  if (bytes) std::memcpy(copy.data(), data, static_cast<size_t>(bytes));
  Object object = checked(wrap(copy));
  check_status(PyDict_SetItem(memo, key.get(), object.get()));
  return copy;
}

}  // namespace

PyObject* tensor_deepcopy(PyObject* self, PyObject* memo) {
  return guarded([&]() -> PyObject* {
    Object key = checked(PyLong_FromVoidPtr(self));
    check(PyDict_Check(memo), ErrorKind::type, "__deepcopy__(): the memo must be a dict, not ",
          type_name_of(memo));
    if (PyObject* known = PyDict_GetItemWithError(memo, key.get())) return Py_NewRef(known);
    if (PyErr_Occurred()) throw PythonError();
    Tensor t = unwrap(self);
    check(autograd::is_leaf(t), ErrorKind::runtime,
          "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
          "protocol at the moment.");
    Tensor copy =
        view_tensor(copied_storage(t, memo), t.sizes(), t.strides(), t.offset(), t.dtype());
    Object result = object_of(Py_TYPE(self), copy, t.requires_grad(), nullptr);
    check_status(PyDict_SetItem(memo, key.get(), result.get()));
    if (Tensor grad = autograd::grad(t); grad.defined()) {
      Object object = checked(wrap(grad));
      autograd::set_grad(copy, unwrap(checked(tensor_deepcopy(object.get(), memo)).get()));
    }
    PyObject* dict = reinterpret_cast<TensorObject*>(self)->dict;
    if (dict && PyDict_GET_SIZE(dict)) {
      Object module = checked(PyImport_ImportModule("copy"));
      Object copied = checked(PyObject_CallMethod(module.get(), "deepcopy", "OO", dict, memo));
      Object own = checked(PyObject_GetAttrString(result.get(), "__dict__"));
      check_status(PyDict_Update(own.get(), copied.get()));
    }
    return result.release();
  });
}

PyMethodDef pickle_functions[] = {
    {"_rebuild_tensor", rebuild, METH_VARARGS, "What a pickled tensor calls."},
    {nullptr, nullptr, 0, nullptr},
};

void add_pickle_functions(PyObject* module) {
  rebuild_function = checked(PyObject_GetAttrString(module, "_rebuild_tensor")).release();
}

}  // namespace flambeau::python
