#include "dlpack.h"

#include <cstring>
#include <memory>

#include "flambeau/base/error.h"
#include "operator_table.h"
#include "tensor_object.h"

namespace flambeau::python {

namespace {

// The structures of the specification, https://dmlc.github.io/dlpack (version 1.1).
struct DLDevice {
  int32_t device_type;
  int32_t device_id;
};
struct DLDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null for row-major
  uint64_t byte_offset;
};
struct DLPackVersion {
  uint32_t major;
  uint32_t minor;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor*);
};
struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned*);
  uint64_t flags;
  DLTensor dl_tensor;
};
constexpr int32_t kDLCPU = 1;
constexpr uint64_t kReadOnly = 1, kIsCopied = 2;
enum : uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6 };

constexpr const char* kName = "dltensor";
constexpr const char* kUsedName = "used_dltensor";
constexpr const char* kVersionedName = "dltensor_versioned";
constexpr const char* kUsedVersionedName = "used_dltensor_versioned";

struct TypeCode {
  DType dtype;
  uint8_t code, bits;
};
constexpr TypeCode kTypes[] = {
    {DType::boolean, kBool, 8},       {DType::uint8, kUInt, 8},
    {DType::int8, kInt, 8},           {DType::int16, kInt, 16},
    {DType::int32, kInt, 32},         {DType::int64, kInt, 64},
    {DType::float16, kFloat, 16},     {DType::float32, kFloat, 32},
    {DType::float64, kFloat, 64},     {DType::bfloat16, kBfloat, 16},
    {DType::complex64, kComplex, 64}, {DType::complex128, kComplex, 128},
};

/// What a consumer of one of our tensors holds.
template <class Managed>
struct Exported {
  Managed managed{};
  Tensor tensor;
  Dims sizes, strides;
};

template <class Managed>
void delete_exported(Managed* managed) {
  delete static_cast<Exported<Managed>*>(managed->manager_ctx);
}

template <class Managed>
Managed* export_tensor(const Tensor& t) {
  auto* exported = new Exported<Managed>;
  exported->tensor = t;
  exported->sizes = t.sizes();
  exported->strides = t.strides();
  exported->managed.manager_ctx = exported;
  exported->managed.deleter = delete_exported<Managed>;
  DLTensor& dl = exported->managed.dl_tensor;
  dl.data = t.data();
  dl.device = {kDLCPU, 0};
  dl.ndim = static_cast<int32_t>(t.dim());
  for (const TypeCode& code : kTypes) {
    if (code.dtype == t.dtype()) dl.dtype = {code.code, code.bits, 1};
  }
  dl.shape = exported->sizes.data();
  dl.strides = exported->strides.data();
  dl.byte_offset = 0;
  t.storage().set_exported();
  return &exported->managed;
}

/// A capsule that nobody took its tensor from frees it.
template <class Managed>
void destroy_capsule(PyObject* capsule, const char* name) {
  if (!PyCapsule_IsValid(capsule, name)) return;
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (managed->deleter) managed->deleter(managed);
}
void destroy_plain(PyObject* capsule) { destroy_capsule<DLManagedTensor>(capsule, kName); }
void destroy_versioned(PyObject* capsule) {
  destroy_capsule<DLManagedTensorVersioned>(capsule, kVersionedName);
}

DType dtype_from(DLDataType type) {
  check(type.lanes == 1, ErrorKind::type, "from_dlpack(): vectors of ",
        static_cast<int>(type.lanes), " lanes are not supported");
  for (const TypeCode& code : kTypes) {
    if (code.code == type.code && code.bits == type.bits) return code.dtype;
  }
  fail(ErrorKind::type, text("from_dlpack(): elements of type code ", static_cast<int>(type.code),
                             " with ", static_cast<int>(type.bits), " bits are not supported"));
}

template <class Managed>
Tensor import_tensor(Managed* managed) {
  std::shared_ptr<Managed> keep(managed, [](Managed* m) {
    if (!m->deleter) return;
    GilAcquire gil;  // the producer may be a Python library
    m->deleter(m);
  });
  const DLTensor& dl = managed->dl_tensor;
  check(dl.device.device_type == kDLCPU, ErrorKind::runtime,
        "from_dlpack(): memory of device type ", dl.device.device_type,
        " is not available in this build; available: cpu (1)");
  auto* impl = new TensorImpl;
  Tensor t(impl);
  impl->dtype = dtype_from(dl.dtype);
  impl->sizes = Dims(dl.shape, dl.ndim);
  checked_numel(impl->sizes);
  impl->strides = dl.strides ? Dims(dl.strides, dl.ndim) : contiguous_strides(impl->sizes);
  int64_t reach = 1;
  for (int32_t d = 0; d < dl.ndim; ++d) {
    check(impl->strides[d] >= 0 || impl->sizes[d] <= 1, ErrorKind::value,
          "from_dlpack(): negative strides are not supported, got ", impl->strides);
    if (impl->sizes[d] <= 1) impl->strides[d] = 1;
    reach += (impl->sizes[d] - 1) * impl->strides[d];
  }
  impl->refresh();
  size_t bytes = impl->numel == 0 ? 0 : static_cast<size_t>(reach * itemsize(impl->dtype));
  impl->storage = Pointer<Storage>(
      new Storage(static_cast<char*>(dl.data) + dl.byte_offset, bytes, Device(), [keep]() mutable {
        if (interpreter_alive()) {
          keep.reset();
        }
      }));
  impl->storage->set_exported();
  return t;
}

Tensor take(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, kVersionedName)) {
    auto* managed =
        static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule, kVersionedName));
    check(managed->version.major == 1, ErrorKind::runtime, "from_dlpack(): DLPack version ",
          managed->version.major, " is not supported; supported: 1");
    if (managed->flags & kReadOnly) {
      check_status(PyErr_WarnEx(PyExc_UserWarning,
                                "The memory is read-only, and tensors that are not writable are "
                                "not supported: writing to this tensor is undefined behavior.",
                                1));
    }
    Tensor t = import_tensor(managed);
    PyCapsule_SetName(capsule, kUsedVersionedName);
    return t;
  }
  check(PyCapsule_IsValid(capsule, kName), ErrorKind::runtime,
        "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only "
        "once, so you might have already constructed a tensor from it once.");
  auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, kName));
  Tensor t = import_tensor(managed);
  PyCapsule_SetName(capsule, kUsedName);
  return t;
}

PyObject* from_dlpack(PyObject*, PyObject* source) {
  return guarded([&] { return wrap(tensor_from_dlpack(source)); });
}

/// flambeau.utils.dlpack.to_dlpack
PyObject* to_dlpack(PyObject*, PyObject* tensor) {
  return guarded([&]() -> PyObject* {
    check(is_tensor(tensor), ErrorKind::type, "to_dlpack(): expected a Tensor, got ",
          type_name_of(tensor));
    Object empty = checked(PyTuple_New(0));
    return tensor_dlpack(tensor, empty.get(), nullptr);
  });
}

}  // namespace

Tensor tensor_from_dlpack(PyObject* source) {
  if (PyCapsule_CheckExact(source)) return take(source);
  Object method = checked(PyObject_GetAttrString(source, "__dlpack__"));
  Object empty = checked(PyTuple_New(0));
  Object keywords = checked(Py_BuildValue("{s:(ii)}", "max_version", 1, 1));
  Object capsule = Object::steal(PyObject_Call(method.get(), empty.get(), keywords.get()));
  if (!capsule) {
    // A producer from before version 1 does not know the keyword.
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw PythonError();
    PyErr_Clear();
    capsule = checked(PyObject_CallNoArgs(method.get()));
  }
  return take(capsule.get());
}

PyObject* tensor_dlpack(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {"stream", "max_version", "dl_device", "copy", nullptr};
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__", const_cast<char**>(names),
                                     &stream, &version, &device, &copy))
      throw PythonError();
    Tensor t = unwrap(self);
    // BufferError is the protocol's exception for what cannot be exported.
    auto refuse = [](const char* message) -> PyObject* {
      PyErr_SetString(PyExc_BufferError, message);
      return nullptr;
    };
    if (t.requires_grad())
      return refuse("Can't export tensors that require gradient, use tensor.detach()");
    if (device != Py_None) {
      int type = 0, index = 0;
      if (!PyArg_ParseTuple(device, "ii:dl_device", &type, &index)) throw PythonError();
      if (type != kDLCPU)
        return refuse("the tensor is in the memory of the CPU and can be exported to that alone");
    }
    bool copied = copy != Py_None && PyObject_IsTrue(copy) == 1;
    if (copied) {
      static constinit NativeOperator clone("clone");
      t = clone({t});
    }
    int major = 0, minor = 0;
    if (version != Py_None && !PyArg_ParseTuple(version, "ii:max_version", &major, &minor))
      throw PythonError();
    if (major < 1)
      return checked(PyCapsule_New(export_tensor<DLManagedTensor>(t), kName, destroy_plain))
          .release();
    auto* managed = export_tensor<DLManagedTensorVersioned>(t);
    managed->version = {1, 1};
    managed->flags = copied ? kIsCopied : 0;
    return checked(PyCapsule_New(managed, kVersionedName, destroy_versioned)).release();
  });
}

PyObject* tensor_dlpack_device(PyObject* self, PyObject*) {
  return Py_BuildValue("(ii)", kDLCPU, 0);
}

PyMethodDef dlpack_functions[] = {
    {"from_dlpack", from_dlpack, METH_O,
     "A tensor over the memory of an object with __dlpack__, or of a capsule."},
    {"_to_dlpack", to_dlpack, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace flambeau::python
