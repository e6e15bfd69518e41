#include "numpy.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "flambeau/base/error.h"
#include "flambeau/io/element.h"
#include "tensor_object.h"

namespace flambeau::python {

namespace {

/// Element types by their letters in the struct module's notation, which the buffer protocol
/// speaks.
struct Format {
  const char* text;
  DType dtype;
};
constexpr Format kFormats[] = {
    {"?", DType::boolean},    {"B", DType::uint8},       {"b", DType::int8},
    {"h", DType::int16},      {"i", DType::int32},       {"q", DType::int64},
    {"e", DType::float16},    {"f", DType::float32},     {"d", DType::float64},
    {"Zf", DType::complex64}, {"Zd", DType::complex128},
};

const char* format_of(DType dtype) {
  for (const Format& f : kFormats) {
    if (f.dtype == dtype) return f.text;
  }
  fail(ErrorKind::type, text("Got unsupported ScalarType ", dtype,
                             ": NumPy has no such type; convert the tensor with .float() first"));
}

DType dtype_of_format(const char* format, Py_ssize_t size) {
  std::string_view s = format ? format : "B";
  if (!s.empty() && (s[0] == '@' || s[0] == '=' || s[0] == '<')) s.remove_prefix(1);
  if (s == "l" && size == 8) s = "q";
  if (s == "l" && size == 4) s = "i";
  for (const Format& f : kFormats) {
    if (s == f.text && itemsize(f.dtype) == size) return f.dtype;
  }
  fail(ErrorKind::type, text("can't convert a buffer of format '", format ? format : "B",
                             "'. The supported types are: float64, float32, float16, complex64, "
                             "complex128, int64, int32, int16, int8, "
                             "uint8, and bool, in the byte order of this machine."));
}

/// A held buffer of another object; released with the GIL, wherever the last tensor dies.
class Buffer {
 public:
  explicit Buffer(PyObject* exporter) {
    check_status(PyObject_GetBuffer(exporter, &view_, PyBUF_RECORDS_RO));
  }
  Buffer(const Buffer&) = delete;
  ~Buffer() {
    if (!interpreter_alive()) return;
    GilAcquire gil;
    PyBuffer_Release(&view_);
  }
  const Py_buffer& view() const { return view_; }

 private:
  Py_buffer view_;
};

void copy_elements(const Py_buffer& view, const Dims& strides, char* out, int64_t size) {
  if (view.len == 0) return;
  Dims at(view.ndim);
  const char* in = static_cast<const char*>(view.buf);
  for (;;) {
    std::memcpy(out, in, static_cast<size_t>(size));
    out += size;
    int64_t d = view.ndim - 1;
    for (; d >= 0; --d) {
      in += strides[d];
      if (++at[d] < view.shape[d]) break;
      in -= strides[d] * view.shape[d];
      at[d] = 0;
    }
    if (d < 0) return;
  }
}

}  // namespace

bool is_numpy_array_or_derived(PyObject* object) {
  if (std::strcmp(type_name_of(object), "numpy.ndarray") == 0) return true;
  PyObject* mro = Py_TYPE(object)->tp_mro;
  for (Py_ssize_t i = 0; mro && i < PyTuple_GET_SIZE(mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    if (std::strcmp(base->tp_name, "numpy.ndarray") == 0) return true;
  }
  return false;
}

Tensor share_buffer(PyObject* exporter, bool copy) {
  auto buffer = std::make_shared<Buffer>(exporter);
  const Py_buffer& view = buffer->view();
  DType dtype = dtype_of_format(view.format, view.itemsize);
  Dims sizes(view.ndim), byte_strides(view.ndim), strides(view.ndim);
  int64_t reach = view.itemsize;
  for (int d = 0; d < view.ndim; ++d) {
    sizes[d] = view.shape[d];
    byte_strides[d] = view.strides[d];
    strides[d] = view.strides[d] / view.itemsize;
    if (sizes[d] > 1) reach += (sizes[d] - 1) * byte_strides[d];
  }
  if (copy) {
    Tensor t = empty_tensor(sizes, dtype);
    copy_elements(view, byte_strides, t.data(), view.itemsize);
    return t;
  }
  for (int d = 0; d < view.ndim; ++d) {
    check(byte_strides[d] >= 0 || sizes[d] <= 1, ErrorKind::value,
          "At least one stride in the given numpy array is negative, and tensors with negative "
          "strides are not "
          "currently supported. (You can probably work around this by making a copy of your array "
          "with array.copy().)");
    check(byte_strides[d] % view.itemsize == 0 || sizes[d] <= 1, ErrorKind::value,
          "given numpy array strides not a multiple of the element byte size. Copy the numpy array "
          "to reallocate the memory.");
    if (sizes[d] <= 1) strides[d] = 1;
  }
  check(reinterpret_cast<uintptr_t>(view.buf) %
                static_cast<uintptr_t>(std::min<Py_ssize_t>(view.itemsize, 8)) ==
            0,
        ErrorKind::value,
        "the array's memory is not aligned to its elements. Copy the numpy array to reallocate the "
        "memory.");
  if (view.readonly) {
    check_status(PyErr_WarnEx(
        PyExc_UserWarning,
        "The given NumPy array is not writable, and tensors that are not writable are not "
        "supported: writing to this tensor is undefined behavior. Copy the array to protect it.",
        1));
  }
  auto* impl = new TensorImpl;
  Tensor t(impl);
  impl->sizes = sizes;
  impl->strides = strides;
  impl->dtype = dtype;
  impl->refresh();
  size_t bytes = impl->numel == 0 ? 0 : static_cast<size_t>(reach);
  impl->storage = Pointer<Storage>(
      new Storage(view.buf, bytes, Device(), [buffer]() mutable { buffer.reset(); }));
  impl->storage->set_exported();
  return t;
}

PyObject* tensor_from_numpy(PyObject* array, bool copy) {
  return guarded([&] {
    check(is_numpy_array_or_derived(array), ErrorKind::type, "expected np.ndarray (got ",
          type_name_of(array), ")");
    return wrap(share_buffer(array, copy));
  });
}

namespace {

/// What numpy.asarray() reads a tensor's memory through; the array keeps it, and so the tensor,
/// alive.
struct ExporterObject {
  PyObject_HEAD;
  Tensor tensor;
  std::vector<Py_ssize_t>* layout;  // sizes, then strides in bytes
};
ExporterObject* cast(PyObject* self) { return reinterpret_cast<ExporterObject*>(self); }

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  const Tensor& t = cast(self)->tensor;
  auto& layout = *cast(self)->layout;
  view->buf = t.data();
  view->obj = Py_NewRef(self);
  view->itemsize = itemsize(t.dtype());
  view->len = t.numel() * view->itemsize;
  view->readonly = 0;
  view->ndim = static_cast<int>(t.dim());
  view->format = const_cast<char*>(format_of(t.dtype()));
  view->shape = layout.data();
  view->strides = layout.data() + t.dim();
  view->suboffsets = nullptr;
  view->internal = nullptr;
  return 0;
}
void dealloc_exporter(PyObject* self) {
  cast(self)->tensor.~Tensor();
  delete cast(self)->layout;
  Py_TYPE(self)->tp_free(self);
}
PyBufferProcs exporter_buffer = {.bf_getbuffer = get_buffer};
PyTypeObject exporter_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "flambeau._C.TensorMemory",
    .tp_basicsize = sizeof(ExporterObject),
    .tp_dealloc = dealloc_exporter,
    .tp_as_buffer = &exporter_buffer,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
};

PyObject* asarray() {
  static PyObject* function = nullptr;
  if (!function) {
    Object numpy = checked(PyImport_ImportModule("numpy"));
    function = checked(PyObject_GetAttrString(numpy.get(), "asarray")).release();
  }
  return function;
}

}  // namespace

PyObject* numpy_from_tensor(const Tensor& t) {
  check(t.device().type == DeviceType::cpu, ErrorKind::type, "can't convert ", t.device(),
        " device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.");
  check(!t.requires_grad(), ErrorKind::runtime,
        "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.");
  format_of(t.dtype());
  t.storage().set_exported();
  Object memory = checked(exporter_type.tp_alloc(&exporter_type, 0));
  ExporterObject* exporter = cast(memory.get());
  new (&exporter->tensor) Tensor(t);
  exporter->layout = new std::vector<Py_ssize_t>(t.sizes().begin(), t.sizes().end());
  for (int64_t stride : t.strides()) exporter->layout->push_back(stride * itemsize(t.dtype()));
  return checked(PyObject_CallOneArg(asarray(), memory.get())).release();
}

void add_numpy_types(PyObject* module) { check_status(PyType_Ready(&exporter_type)); }

}  // namespace flambeau::python
