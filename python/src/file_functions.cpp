// Reading and writing of safetensors, npy, npz and png files.
#include <string>

#include "convert.h"
#include "flambeau/base/error.h"
#include "flambeau/io/tensor_files.h"
#include "functions.h"
#include "tensor_object.h"

namespace flambeau::python {

namespace {

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

/// The tensors of a dict.
io::NamedTensors tensors_of(PyObject* dict, const char* function) {
  check(PyDict_Check(dict), ErrorKind::type, function,
        "(): expected a dict of tensors by name, got ", type_name_of(dict));
  io::NamedTensors tensors;
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);) {
    std::string name = text_argument(key, "the name of a tensor");
    check(is_tensor(value), ErrorKind::type, function, "(): '", name, "' must be Tensor, not ",
          type_name_of(value));
    tensors.emplace_back(name, unwrap(value));
  }
  return tensors;
}

Object dict_of(const io::NamedTensors& tensors) {
  Object dict = checked(PyDict_New());
  for (const auto& [name, t] : tensors)
    check_status(PyDict_SetItemString(dict.get(), name.c_str(), checked(wrap(t)).get()));
  return dict;
}

PyObject* load_safetensors(PyObject*, PyObject* path) {
  return guarded([&] {
    io::Texts texts;
    Object dict = dict_of(io::load_safetensors(path_argument(path), &texts));
    Object metadata = checked(PyDict_New());
    for (const auto& [key, value] : texts) {
      check_status(PyDict_SetItemString(metadata.get(), key.c_str(),
                                        checked(PyUnicode_FromString(value.c_str())).get()));
    }
    return Py_BuildValue("(OO)", dict.get(), metadata.get());
  });
}

PyObject* save_safetensors(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *dict, *path, *given_metadata;
    if (!PyArg_ParseTuple(args, "OOO:_save_safetensors", &dict, &path, &given_metadata))
      throw PythonError();
    io::NamedTensors tensors = tensors_of(dict, "save_safetensors");
    io::Texts metadata;
    if (given_metadata != Py_None) {
      check(PyDict_Check(given_metadata), ErrorKind::type,
            "save_safetensors(): 'metadata' must be a dict of str, not ",
            type_name_of(given_metadata));
      PyObject *key, *value;
      for (Py_ssize_t at = 0; PyDict_Next(given_metadata, &at, &key, &value);) {
        metadata.emplace_back(text_argument(key, "a key of the metadata"),
                              text_argument(value, "a value of the metadata"));
      }
    }
    io::save_safetensors(tensors, path_argument(path), metadata);
    Py_RETURN_NONE;
  });
}

PyObject* load_npy(PyObject*, PyObject* path) {
  return guarded([&] { return wrap(io::load_npy(path_argument(path))); });
}
PyObject* load_npz(PyObject*, PyObject* path) {
  return guarded([&] { return dict_of(io::load_npz(path_argument(path))).release(); });
}
PyObject* save_npz(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *dict, *path;
    int compressed;
    if (!PyArg_ParseTuple(args, "OOp:_save_npz", &dict, &path, &compressed)) throw PythonError();
    io::save_npz(tensors_of(dict, "save_npz"), path_argument(path), compressed != 0);
    Py_RETURN_NONE;
  });
}

/// save(tensor, path).
PyObject* save_one(PyObject* args, const char* function,
                   void (*save)(const Tensor&, const std::string&)) {
  return guarded([&]() -> PyObject* {
    PyObject *tensor, *path;
    if (!PyArg_ParseTuple(args, "OO", &tensor, &path)) throw PythonError();
    check(is_tensor(tensor), ErrorKind::type, function, "(): expected a Tensor, got ",
          type_name_of(tensor));
    save(unwrap(tensor), path_argument(path));
    Py_RETURN_NONE;
  });
}
PyObject* save_npy(PyObject*, PyObject* args) { return save_one(args, "save_npy", io::save_npy); }
PyObject* save_png(PyObject*, PyObject* args) { return save_one(args, "save_png", io::save_png); }

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
