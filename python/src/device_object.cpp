#include "device_object.h"

#include <string>
#include <string_view>

#include "flambeau/base/error.h"

namespace flambeau::python {

namespace {

Device value_of(PyObject* self) { return reinterpret_cast<DeviceObject*>(self)->value; }
bool is_device(PyObject* object) { return Py_TYPE(object) == &device_type; }

std::string type_text(Device device) { return to_string(Device{device.type, -1}); }

PyObject* make(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {"type", "index", nullptr};
    PyObject* kind = nullptr;
    PyObject* index = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:device", const_cast<char**>(names), &kind,
                                     &index)) {
      throw PythonError();
    }
    Device device;
    check(as_device(kind, &device), ErrorKind::type, "device(): argument 'type' must be str, not ",
          type_name_of(kind));
    if (index != Py_None) {
      check(PyUnicode_Check(kind) && device.index < 0, ErrorKind::runtime,
            "device(): the index is given twice: ", device, " and an index");
      long number = PyLong_AsLong(index);
      if (number == -1 && PyErr_Occurred()) throw PythonError();
      check(number >= 0 && number < 128, ErrorKind::runtime,
            "device(): index must be in [0, 128), got ", int64_t{number});
      device.index = static_cast<int8_t>(number);
    }
    Object self = checked(type->tp_alloc(type, 0));
    reinterpret_cast<DeviceObject*>(self.get())->value = device;
    return self.release();
  });
}

PyObject* repr(PyObject* self) {
  Device device = value_of(self);
  std::string s = "device(type='" + type_text(device) + "'";
  if (device.index >= 0) s += ", index=" + std::to_string(device.index);
  return PyUnicode_FromString((s + ")").c_str());
}
PyObject* str(PyObject* self) { return PyUnicode_FromString(to_string(value_of(self)).c_str()); }
Py_hash_t hash(PyObject* self) {
  return static_cast<int>(value_of(self).type) * 256 + value_of(self).index + 1;
}
PyObject* compare(PyObject* a, PyObject* b, int operation) {
  if (!is_device(a) || !is_device(b) || (operation != Py_EQ && operation != Py_NE))
    Py_RETURN_NOTIMPLEMENTED;
  return PyBool_FromLong((value_of(a) == value_of(b)) == (operation == Py_EQ));
}
PyObject* get_type(PyObject* self, void*) {
  return PyUnicode_FromString(type_text(value_of(self)).c_str());
}
PyObject* get_index(PyObject* self, void*) {
  if (value_of(self).index < 0) Py_RETURN_NONE;
  return PyLong_FromLong(value_of(self).index);
}
PyObject* reduce(PyObject* self, PyObject*) {
  return Py_BuildValue("(O(s))", &device_type, to_string(value_of(self)).c_str());
}

PyGetSetDef properties[] = {
    {"type", get_type, nullptr, "'cpu', 'cuda', ...", nullptr},
    {"index", get_index, nullptr, "Number among devices of the type, or None for the current one.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyMethodDef methods[] = {
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyTypeObject device_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "flambeau.device",
    .tp_basicsize = sizeof(DeviceObject),
    .tp_repr = repr,
    .tp_hash = hash,
    .tp_str = str,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "device(type, index=None): where the memory of a tensor is.",
    .tp_richcompare = compare,
    .tp_methods = methods,
    .tp_getset = properties,
    .tp_new = make,
};

PyObject* wrap_device(Device device) {
  PyObject* self = device_type.tp_alloc(&device_type, 0);
  if (self) reinterpret_cast<DeviceObject*>(self)->value = device;
  return self;
}

bool as_device(PyObject* object, Device* device) {
  if (is_device(object)) {
    *device = value_of(object);
    return true;
  }
  if (PyUnicode_Check(object)) {
    Py_ssize_t size = 0;
    const char* data = PyUnicode_AsUTF8AndSize(object, &size);
    if (!data) throw PythonError();
    *device = parse_device(std::string_view(data, static_cast<size_t>(size)));
    return true;
  }
  if (PyLong_Check(object) && !PyBool_Check(object)) {
    long index = PyLong_AsLong(object);
    if (index == -1 && PyErr_Occurred()) throw PythonError();
    check(index >= 0 && index < 128, ErrorKind::runtime, "device index must be in [0, 128), got ",
          int64_t{index});
    *device = Device{DeviceType::cuda, static_cast<int8_t>(index)};
    return true;
  }
  return false;
}

void add_device_type(PyObject* module) {
  check_status(PyType_Ready(&device_type));
  check_status(PyModule_AddObjectRef(module, "device", reinterpret_cast<PyObject*>(&device_type)));
}

}  // namespace flambeau::python
