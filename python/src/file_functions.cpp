// Reading and writing of safetensors, npy, npz and png files.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "convert.h"
#include "flambeau/base/error.h"
#include "flambeau/base/files.h"
#include "flambeau/io/element.h"
#include "flambeau/io/npy.h"
#include "flambeau/io/png.h"
#include "flambeau/io/safetensors.h"
#include "functions.h"
#include "tensor_object.h"

namespace flambeau::python {

namespace {

struct FormatName {
  const char* name;
  DType dtype;
};
constexpr FormatName kSafetensorsNames[] = {
    {"BOOL", DType::boolean}, {"U8", DType::uint8},    {"I8", DType::int8},    {"I16", DType::int16},
    {"I32", DType::int32},    {"I64", DType::int64},   {"F16", DType::float16}, {"BF16", DType::bfloat16},
    {"F32", DType::float32},  {"F64", DType::float64}, {"C64", DType::complex64},
};

const char* safetensors_name(DType dtype) {
  for (const FormatName& f : kSafetensorsNames) {
    if (f.dtype == dtype) return f.name;
  }
  fail(ErrorKind::type, text("safetensors files cannot hold ", dtype));
}
DType safetensors_dtype(const std::string& name, const std::string& path, const std::string& entry) {
  for (const FormatName& f : kSafetensorsNames) {
    if (name == f.name) return f.dtype;
  }
  fail(ErrorKind::runtime, text(path, ": tensor '", entry, "' has dtype ", name, ", which this build does not have"));
}

/// str, bytes or os.PathLike.
std::string path_argument(PyObject* value) {
  PyObject* bytes = nullptr;
  if (!PyUnicode_FSConverter(value, &bytes)) throw PythonError();
  Object holder = Object::steal(bytes);
  return PyBytes_AsString(bytes);
}

std::string text_argument(PyObject* value, const char* what) {
  check(PyUnicode_Check(value), ErrorKind::type, what, " must be str, not ", type_name_of(value));
  Py_ssize_t size;
  const char* data = PyUnicode_AsUTF8AndSize(value, &size);
  if (!data) throw PythonError();
  return std::string(data, static_cast<size_t>(size));
}

std::string_view content(const MappedFile& file) { return {file.data(), file.size()}; }

/// The tensor itself, or a row-major copy.
Tensor row_major(const Tensor& t) {
  if (t.is_contiguous()) return t;
  Tensor copy = empty_tensor(t.sizes(), t.dtype());
  char* out = copy.data();
  int64_t size = itemsize(t.dtype());
  for_each_element(t, [&](const char* element) {
    std::memcpy(out, element, static_cast<size_t>(size));
    out += size;
  });
  return copy;
}

struct NamedTensor {
  std::string name;
  Tensor tensor;
};
/// The tensors of a dict, row-major.
std::vector<NamedTensor> tensors_of(PyObject* dict, const char* function) {
  check(PyDict_Check(dict), ErrorKind::type, function, "(): expected a dict of tensors by name, got ", type_name_of(dict));
  std::vector<NamedTensor> tensors;
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);) {
    std::string name = text_argument(key, "the name of a tensor");
    check(is_tensor(value), ErrorKind::type, function, "(): '", name, "' must be Tensor, not ", type_name_of(value));
    tensors.push_back({name, row_major(unwrap(value))});
  }
  return tensors;
}

PyObject* load_safetensors(PyObject*, PyObject* given) {
  return guarded([&] {
    std::string path = path_argument(given);
    MappedFile file(path);
    io::SafetensorsHeader header = io::parse_safetensors(content(file), path);
    Object dict = checked(PyDict_New());
    for (const auto& entry : header.entries) {
      Tensor t = empty_tensor(Dims(entry.shape), safetensors_dtype(entry.dtype, path, entry.name));
      check(static_cast<size_t>(t.numel() * itemsize(t.dtype())) == entry.bytes, ErrorKind::runtime, path, ": tensor '", entry.name, "' has a wrong number of bytes");
      if (entry.bytes) std::memcpy(t.data(), content(file).data() + entry.offset, entry.bytes);
      check_status(PyDict_SetItemString(dict.get(), entry.name.c_str(), checked(wrap(t)).get()));
    }
    Object metadata = checked(PyDict_New());
    for (const auto& [key, value] : header.metadata) {
      check_status(PyDict_SetItemString(metadata.get(), key.c_str(), checked(PyUnicode_FromString(value.c_str())).get()));
    }
    return Py_BuildValue("(OO)", dict.get(), metadata.get());
  });
}

PyObject* save_safetensors(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *dict, *given_path, *given_metadata;
    if (!PyArg_ParseTuple(args, "OOO:_save_safetensors", &dict, &given_path, &given_metadata)) throw PythonError();
    std::vector<NamedTensor> tensors = tensors_of(dict, "save_safetensors");
    std::vector<io::SafetensorsTensor> entries;
    for (const auto& [name, t] : tensors) {
      entries.push_back({name, safetensors_name(t.dtype()), t.sizes().vector(), t.numel() ? t.data() : nullptr,
                         static_cast<size_t>(t.numel() * itemsize(t.dtype()))});
    }
    std::vector<std::pair<std::string, std::string>> metadata;
    if (given_metadata != Py_None) {
      check(PyDict_Check(given_metadata), ErrorKind::type, "save_safetensors(): 'metadata' must be a dict of str, not ", type_name_of(given_metadata));
      PyObject *key, *value;
      for (Py_ssize_t at = 0; PyDict_Next(given_metadata, &at, &key, &value);) {
        metadata.emplace_back(text_argument(key, "a key of the metadata"), text_argument(value, "a value of the metadata"));
      }
    }
    std::string path = path_argument(given_path);
    {
      GilRelease released;
      io::write_safetensors(path, entries, metadata);
    }
    Py_RETURN_NONE;
  });
}

Tensor tensor_from_npy(std::string_view file, const std::string& name) {
  io::NpyHeader header = io::parse_npy(file, name);
  DType dtype;
  try {
    dtype = parse_dtype(header.dtype);
  } catch (const Error&) {
    fail(ErrorKind::type, text(name, ": arrays of ", header.dtype, " are not supported"));
  }
  Tensor t = empty_tensor(Dims(header.shape), dtype);
  if (header.bytes) io::copy_npy_elements(header, file, t.data());
  return t;
}

io::NpyArray npy_array(const std::string& name, const Tensor& t) {
  return {name, std::string(flambeau::name(t.dtype())), t.sizes().vector(), t.numel() ? t.data() : nullptr,
          static_cast<size_t>(t.numel() * itemsize(t.dtype()))};
}

PyObject* load_npy(PyObject*, PyObject* given) {
  return guarded([&] {
    std::string path = path_argument(given);
    MappedFile file(path);
    return wrap(tensor_from_npy(content(file), path));
  });
}
PyObject* save_npy(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *tensor, *path;
    if (!PyArg_ParseTuple(args, "OO:save_npy", &tensor, &path)) throw PythonError();
    check(is_tensor(tensor), ErrorKind::type, "save_npy(): expected a Tensor, got ", type_name_of(tensor));
    Tensor t = row_major(unwrap(tensor));
    io::write_npy(path_argument(path), npy_array("", t));
    Py_RETURN_NONE;
  });
}
PyObject* load_npz(PyObject*, PyObject* given) {
  return guarded([&] {
    std::string path = path_argument(given);
    io::NpzFile file(path);
    Object dict = checked(PyDict_New());
    for (const std::string& name : file.names()) {
      std::unique_ptr<char[]> storage;
      Tensor t = tensor_from_npy(file.read(name, storage), path + ": " + name);
      check_status(PyDict_SetItemString(dict.get(), name.c_str(), checked(wrap(t)).get()));
    }
    return dict.release();
  });
}
PyObject* save_npz(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *dict, *path;
    int compressed;
    if (!PyArg_ParseTuple(args, "OOp:_save_npz", &dict, &path, &compressed)) throw PythonError();
    std::vector<NamedTensor> tensors = tensors_of(dict, "save_npz");
    std::vector<io::NpyArray> arrays;
    for (const auto& [name, t] : tensors) arrays.push_back(npy_array(name, t));
    io::write_npz(path_argument(path), arrays, compressed != 0);
    Py_RETURN_NONE;
  });
}

PyObject* save_png(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *tensor, *path;
    if (!PyArg_ParseTuple(args, "OO:save_png", &tensor, &path)) throw PythonError();
    check(is_tensor(tensor), ErrorKind::type, "save_png(): expected a Tensor, got ", type_name_of(tensor));
    Tensor t = row_major(unwrap(tensor));
    check(t.dtype() == DType::uint8 && (t.dim() == 2 || (t.dim() == 3 && (t.size(2) == 1 || t.size(2) == 3))), ErrorKind::value,
          "save_png(): expected a uint8 tensor of sizes [height, width] or [height, width, 1 or 3], got ", t.dtype(), " of sizes ", t.sizes());
    io::write_png(path_argument(path), t.size(1), t.size(0), t.dim() == 3 ? t.size(2) : 1, reinterpret_cast<const uint8_t*>(t.data()));
    Py_RETURN_NONE;
  });
}

}  // namespace

PyMethodDef file_functions[] = {
    {"_load_safetensors", load_safetensors, METH_O, nullptr},
    {"_save_safetensors", save_safetensors, METH_VARARGS, nullptr},
    {"_load_npy", load_npy, METH_O, nullptr},
    {"_save_npy", save_npy, METH_VARARGS, nullptr},
    {"_load_npz", load_npz, METH_O, nullptr},
    {"_save_npz", save_npz, METH_VARARGS, nullptr},
    {"_save_png", save_png, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace flambeau::python
