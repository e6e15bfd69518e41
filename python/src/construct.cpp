#include "construct.h"

#include <cstring>
#include <vector>

#include "convert.h"
#include "device_object.h"
#include "dlpack.h"
#include "dtype_object.h"
#include "flambeau/autograd/autograd.h"
#include "flambeau/base/error.h"
#include "flambeau/io/element.h"
#include "numpy.h"
#include "operator_table.h"
#include "size_object.h"
#include "tensor_object.h"

namespace flambeau::python {

namespace {

constexpr int64_t kMaxNesting = 128;

bool is_sequence(PyObject* data) {
  return (PyList_Check(data) || PyTuple_Check(data) ||
          (PySequence_Check(data) && !PyUnicode_Check(data) && !PyBytes_Check(data) &&
           !PyDict_Check(data)));
}

/// A tensor over what `data` holds as a whole, or undefined where it must be looked at element by
/// element.
Tensor whole(PyObject* data) {
  if (is_tensor(data)) return autograd::detach(unwrap(data));
  if (is_numpy_array_or_derived(data)) return share_buffer(data, true);
  return Tensor();
}

/// Sizes and dtype of nested data, then its elements: each level is checked when it is filled.
class NestedData {
 public:
  explicit NestedData(PyObject* data) {
    PyObject* level = data;
    Object holder;
    for (;;) {
      check(sizes_.size() < kMaxNesting, ErrorKind::value, "too many dimensions: more than ",
            kMaxNesting, " nested sequences");
      if (Tensor t = whole(level); t.defined()) {
        for (int64_t s : t.sizes()) sizes_.push_back(s);
        break;
      }
      Scalar ignored;
      if (!is_sequence(level) || as_scalar(level, &ignored)) break;
      Py_ssize_t length = PySequence_Size(level);
      if (length < 0) throw PythonError();
      sizes_.push_back(length);
      if (length == 0) break;
      holder = checked(PySequence_GetItem(level, 0));
      level = holder.get();
    }
    infer(data, 0);
  }

  const Dims& sizes() const { return sizes_; }
  DType dtype() const { return any_ ? dtype_ : default_dtype(); }

  Tensor fill(PyObject* data, DType dtype) const {
    Tensor t = empty_tensor(sizes_, dtype);
    char* out = t.data();
    store(data, 0, dtype, &out);
    return t;
  }

 private:
  void add(DType dtype) {
    dtype_ = any_ ? promote(dtype_, dtype) : dtype;
    any_ = true;
  }

  void check_length(int64_t length, int64_t dim) const {
    check(dim < sizes_.size(), ErrorKind::value,
          "only one element tensors can be converted to Python scalars");
    check(length == sizes_[dim], ErrorKind::value, "expected sequence of length ", sizes_[dim],
          " at dim ", dim, " (got ", length, ")");
  }

  template <class F>
  void for_each(PyObject* data, int64_t dim, F&& visit) const {
    if (dim >= sizes_.size() || !is_sequence(data)) {
      if (dim >= sizes_.size() && is_sequence(data) && !PyUnicode_Check(data)) {
        fail(ErrorKind::value,
             text("too many dimensions: a sequence stands where an element is expected (at dim ",
                  dim, ")"));
      }
      fail(dim < sizes_.size() ? ErrorKind::type : ErrorKind::runtime,
           dim < sizes_.size() && dim > 0 && !PyUnicode_Check(data)
               ? text("expected a sequence of length ", sizes_[dim], " at dim ", dim, ", got ",
                      type_name_of(data))
               : text("Could not infer dtype of ", type_name_of(data)));
    }
    Object fast = checked(PySequence_Fast(data, "not a sequence"));
    check_length(PySequence_Fast_GET_SIZE(fast.get()), dim);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.get()); ++i)
      visit(PySequence_Fast_GET_ITEM(fast.get(), i));
  }

  void infer(PyObject* data, int64_t dim) {
    Scalar value;
    if (is_tensor(data)) return add(unwrap(data).dtype());
    if (as_scalar(data, &value)) {
      const char* numpy =
          std::strncmp(type_name_of(data), "numpy.", 6) == 0 ? type_name_of(data) + 6 : nullptr;
      if (numpy && (std::strncmp(numpy, "float", 5) == 0 || std::strncmp(numpy, "int", 3) == 0 ||
                    std::strncmp(numpy, "complex", 7) == 0 || std::strcmp(numpy, "uint8") == 0)) {
        return add(parse_dtype(numpy));
      }
      return add(value.dtype());
    }
    if (Tensor t = whole(data); t.defined()) return add(t.dtype());
    for_each(data, dim, [&](PyObject* item) { infer(item, dim + 1); });
  }

  void store(PyObject* data, int64_t dim, DType dtype, char** out) const {
    Scalar value;
    if (dim == sizes_.size() && as_scalar(data, &value)) {
      check(!(is_complex(value.dtype()) && !is_complex(dtype)), ErrorKind::type,
            "can't convert complex to ", dtype);
      store_element(*out, dtype, value);
      *out += itemsize(dtype);
      return;
    }
    if (Tensor t = whole(data); t.defined()) {
      Dims rest(sizes_.data() + dim, sizes_.size() - dim);
      // A one-element tensor counts as its element.
      check(t.sizes() == rest || (t.numel() == 1 && rest.empty()), ErrorKind::value,
            "expected a tensor of sizes ", rest, " at dim ", dim, " (got ", t.sizes(), ")");
      for_each_element(t, [&](const char* element) {
        store_element(*out, dtype, load_element(element, t.dtype()));
        *out += itemsize(dtype);
      });
      return;
    }
    for_each(data, dim, [&](PyObject* item) { store(item, dim + 1, dtype, out); });
  }

  Dims sizes_;
  DType dtype_ = DType::float32;
  bool any_ = false;
};

Tensor converted(const Tensor& t, DType dtype) {
  if (t.dtype() == dtype) return t;
  Tensor result = empty_tensor(t.sizes(), dtype);
  char* out = result.data();
  for_each_element(t, [&](const char* element) {
    store_element(out, dtype, load_element(element, t.dtype()));
    out += itemsize(dtype);
  });
  return result;
}

/// A contiguous copy.
Tensor copied(const Tensor& t, DType dtype) {
  if (t.dtype() != dtype) return converted(t, dtype);
  Tensor result = empty_tensor(t.sizes(), dtype);
  if (t.is_contiguous()) {
    if (t.numel())
      std::memcpy(result.data(), t.data(), static_cast<size_t>(t.numel() * itemsize(dtype)));
    return result;
  }
  char* out = result.data();
  int64_t size = itemsize(dtype);
  for_each_element(t, [&](const char* element) {
    std::memcpy(out, element, static_cast<size_t>(size));
    out += size;
  });
  return result;
}

Device device_argument(PyObject* value, const char* function) {
  Device device;
  if (value && value != Py_None) {
    check(as_device(value, &device), ErrorKind::type, function,
          "(): argument 'device' must be torch.device, not ", type_name_of(value));
  }
  check(device.type == DeviceType::cpu, ErrorKind::runtime, "device ", device,
        " is not available in this build; available: cpu");
  return device;
}

std::optional<DType> dtype_option(PyObject* value, const char* function) {
  DType dtype;
  return dtype_argument(value, function, &dtype) ? std::optional(dtype) : std::nullopt;
}

bool flag(PyObject* value) {
  int truth = value ? PyObject_IsTrue(value) : 0;
  check_status(truth);
  return truth == 1;
}

PyObject* finish(const Tensor& t, PyObject* requires_grad) {
  if (flag(requires_grad)) autograd::set_requires_grad(t, true);
  return wrap(t);
}

PyObject* tensor(PyObject*, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    static const char* names[] = {"data",          "dtype",      "device",
                                  "requires_grad", "pin_memory", nullptr};
    PyObject *data, *dtype = nullptr, *device = nullptr, *requires_grad = nullptr, *pin = nullptr;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OOOO:tensor", const_cast<char**>(names),
                                     &data, &dtype, &device, &requires_grad, &pin)) {
      throw PythonError();
    }
    device_argument(device, "tensor");
    return finish(tensor_from_data(data, dtype_option(dtype, "tensor")), requires_grad);
  });
}

PyObject* as_tensor(PyObject*, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    static const char* names[] = {"data", "dtype", "device", nullptr};
    PyObject *data, *dtype = nullptr, *device = nullptr;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OO:as_tensor", const_cast<char**>(names),
                                     &data, &dtype, &device))
      throw PythonError();
    device_argument(device, "as_tensor");
    auto wanted = dtype_option(dtype, "as_tensor");
    if (is_tensor(data) && (!wanted || *wanted == unwrap(data).dtype())) return Py_NewRef(data);
    return wrap(tensor_sharing_data(data, wanted));
  });
}

PyObject* asarray(PyObject*, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    static const char* names[] = {"obj", "dtype", "device", "copy", "requires_grad", nullptr};
    PyObject *data, *dtype = nullptr, *device = nullptr, *copy = nullptr, *requires_grad = nullptr;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OOOO:asarray", const_cast<char**>(names),
                                     &data, &dtype, &device, &copy, &requires_grad)) {
      throw PythonError();
    }
    device_argument(device, "asarray");
    auto wanted = dtype_option(dtype, "asarray");
    if (copy == Py_True) return finish(tensor_from_data(data, wanted), requires_grad);
    bool same = is_tensor(data) && (!wanted || *wanted == unwrap(data).dtype());
    if (same && flag(requires_grad) == unwrap(data).requires_grad()) return Py_NewRef(data);
    bool shares = is_tensor(data) || is_numpy_array_or_derived(data);
    Tensor t = tensor_sharing_data(data, wanted);
    check(copy != Py_False || (shares && (!wanted || same || !is_tensor(data))), ErrorKind::value,
          "asarray(): cannot be done without a copy, and copy=False");
    return finish(t, requires_grad);
  });
}

PyObject* from_numpy(PyObject*, PyObject* array) { return tensor_from_numpy(array, false); }

PyObject* frombuffer(PyObject*, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    static const char* names[] = {"buffer", "dtype", "count", "offset", "requires_grad", nullptr};
    PyObject *buffer, *dtype, *requires_grad = nullptr;
    long long count = -1, offset = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OLLO:frombuffer", const_cast<char**>(names),
                                     &buffer, &dtype, &count, &offset, &requires_grad)) {
      throw PythonError();
    }
    auto wanted = dtype_option(dtype, "frombuffer");
    check(wanted.has_value(), ErrorKind::type, "frombuffer(): argument 'dtype' is required");
    Object bytes = checked(PyMemoryView_FromObject(buffer));
    bytes = checked(PyObject_CallMethod(bytes.get(), "cast", "s", "B"));
    Tensor all = share_buffer(bytes.get(), false);
    int64_t size = itemsize(*wanted);
    check(all.numel() > 0, ErrorKind::value, "both buffer length (0) and count must not be 0");
    check(offset >= 0 && offset < all.numel(), ErrorKind::value, "offset (", int64_t{offset},
          " bytes) must be non-negative and no greater than buffer length (", all.numel(),
          " bytes) - 1");
    int64_t available = all.numel() - offset;
    check(count != 0 && count >= -1, ErrorKind::value, "count must be positive or -1, got ",
          int64_t{count});
    if (count == -1) {
      check(available % size == 0, ErrorKind::value, "buffer length (", available,
            " bytes) after offset must be a multiple of element size (", size, ")");
      count = available / size;
    }
    check(count <= available / size, ErrorKind::value, "requested buffer length (", int64_t{count},
          " elements) after offset must not be greater than actual buffer length (", available,
          " bytes)");
    check((reinterpret_cast<uintptr_t>(all.data()) + static_cast<uintptr_t>(offset)) %
                  static_cast<uintptr_t>(size > 8 ? 8 : size) ==
              0,
          ErrorKind::value, "frombuffer(): the memory at offset ", int64_t{offset},
          " is not aligned to elements of ", size, " bytes");
    auto keep = all;
    auto* impl = new TensorImpl;
    Tensor t(impl);
    impl->sizes = {count};
    impl->strides = {1};
    impl->dtype = *wanted;
    impl->refresh();
    impl->storage =
        Pointer<Storage>(new Storage(all.data() + offset, static_cast<size_t>(count * size),
                                     Device(), [keep]() mutable { keep = Tensor(); }));
    impl->storage->set_exported();
    return finish(t, requires_grad);
  });
}

}  // namespace

Tensor tensor_from_data(PyObject* data, std::optional<DType> dtype) {
  Scalar value;
  if (is_tensor(data)) {
    Tensor t = unwrap(data);
    return copied(t, dtype.value_or(t.dtype()));
  }
  if (is_numpy_array_or_derived(data)) {
    Tensor t = share_buffer(data, true);
    return dtype ? converted(t, *dtype) : t;
  }
  NestedData nested(data);
  return nested.fill(data, dtype.value_or(nested.dtype()));
}

Tensor tensor_sharing_data(PyObject* data, std::optional<DType> dtype) {
  Tensor t;
  if (is_tensor(data)) {
    t = unwrap(data);
  } else if (is_numpy_array_or_derived(data)) {
    t = share_buffer(data, false);
  } else if (PyObject_HasAttrString(data, "__dlpack__")) {
    t = tensor_from_dlpack(data);
  } else {
    return tensor_from_data(data, dtype);
  }
  if (!dtype || *dtype == t.dtype()) return t;
  static constinit NativeOperator to("to", "dtype");
  return to.exists() ? to({t, *dtype}) : converted(t, *dtype);
}

PyObject* new_tensor(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    static const char* names[] = {"data", "dtype", "device", "requires_grad", nullptr};
    PyObject *data, *dtype = nullptr, *device = nullptr, *requires_grad = nullptr;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OOO:new_tensor", const_cast<char**>(names),
                                     &data, &dtype, &device, &requires_grad))
      throw PythonError();
    device_argument(device, "new_tensor");
    return finish(
        tensor_from_data(data, dtype_option(dtype, "new_tensor").value_or(unwrap(self).dtype())),
        requires_grad);
  });
}

PyObject* make_subclass(PyObject*, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {"cls", "data", "require_grad", nullptr};
    PyObject *cls, *data, *requires_grad = nullptr;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|O:_make_subclass", const_cast<char**>(names),
                                     &cls, &data, &requires_grad))
      throw PythonError();
    check(PyType_Check(cls) &&
              PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(cls), &tensor_base_type),
          ErrorKind::type, "_make_subclass(): 'cls' must be a class derived from Tensor");
    check(is_tensor(data), ErrorKind::type, "_make_subclass(): 'data' must be Tensor, not ",
          type_name_of(data));
    Tensor t = autograd::detach(unwrap(data));
    if (flag(requires_grad)) autograd::set_requires_grad(t, true);
    return wrap_as(reinterpret_cast<PyTypeObject*>(cls), t);
  });
}

PyObject* make_tensor_legacy(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    check(!kwargs || PyDict_GET_SIZE(kwargs) == 0, ErrorKind::type,
          "Tensor() takes no keyword arguments; use flambeau.tensor()");
    Py_ssize_t count = PyTuple_GET_SIZE(args);
    Tensor t;
    std::vector<int64_t> sizes;
    if (count == 0) {
      t = empty_tensor({0}, default_dtype());
    } else if (count == 1 && is_tensor(PyTuple_GET_ITEM(args, 0))) {
      t = autograd::detach(unwrap(PyTuple_GET_ITEM(args, 0)));
    } else if (as_integers(args, &sizes)) {
      t = empty_tensor(Dims(sizes), default_dtype());
    } else if (count == 1 && Py_TYPE(PyTuple_GET_ITEM(args, 0)) == &size_type) {
      as_integers(PyTuple_GET_ITEM(args, 0), &sizes);
      t = empty_tensor(Dims(sizes), default_dtype());
    } else {
      check(count == 1, ErrorKind::type, "Tensor() takes sizes or one sequence of data, got ",
            static_cast<int64_t>(count), " arguments");
      t = tensor_from_data(PyTuple_GET_ITEM(args, 0), default_dtype());
    }
    return wrap_as(type, t);
  });
}

PyMethodDef construct_functions[] = {
    {"tensor", reinterpret_cast<PyCFunction>(tensor), METH_VARARGS | METH_KEYWORDS,
     "tensor(data, *, dtype=None, device=None, requires_grad=False): a new tensor with a copy of "
     "the data."},
    {"as_tensor", reinterpret_cast<PyCFunction>(as_tensor), METH_VARARGS | METH_KEYWORDS,
     "as_tensor(data, dtype=None, device=None): shares memory where it can."},
    {"asarray", reinterpret_cast<PyCFunction>(asarray), METH_VARARGS | METH_KEYWORDS,
     "asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False)"},
    {"from_numpy", from_numpy, METH_O, "A tensor over the memory of a NumPy array."},
    {"frombuffer", reinterpret_cast<PyCFunction>(frombuffer), METH_VARARGS | METH_KEYWORDS,
     "frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False): a 1-d tensor over the "
     "memory of a buffer."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace flambeau::python
