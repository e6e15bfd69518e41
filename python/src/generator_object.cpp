#include "generator_object.h"

#include <cstring>
#include <random>

#include "device_object.h"
#include "flambeau/base/error.h"
#include "flambeau/io/element.h"
#include "tensor_object.h"

namespace flambeau::python {

namespace {

struct GeneratorObject {
  PyObject_HEAD;
  Generator* generator;
  bool owned;  // false for the process's generator
};

PyTypeObject* type();
GeneratorObject* cast(PyObject* self) { return reinterpret_cast<GeneratorObject*>(self); }

uint64_t seed_argument(PyObject* value) {
  check(PyLong_Check(value), ErrorKind::type, "manual_seed(): the seed must be int, not ",
        type_name_of(value));
  // Negative seeds stand for their two's complement, as in PyTorch.
  unsigned long long seed = PyLong_AsUnsignedLongLong(value);
  if (seed == static_cast<unsigned long long>(-1) && PyErr_Occurred()) {
    PyErr_Clear();
    long long negative = PyLong_AsLongLong(value);
    if (negative == -1 && PyErr_Occurred()) {
      PyErr_Clear();
      fail(ErrorKind::runtime, "Overflow when unpacking long: a seed has 64 bits");
    }
    seed = static_cast<unsigned long long>(negative);
  }
  return seed;
}

PyObject* make(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {"device", nullptr};
    PyObject* given = nullptr;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:Generator", const_cast<char**>(names),
                                     &given))
      throw PythonError();
    Device device;
    if (given && given != Py_None) {
      check(as_device(given, &device), ErrorKind::type,
            "Generator(): argument 'device' must be torch.device, not ", type_name_of(given));
    }
    check(device.type == DeviceType::cpu, ErrorKind::runtime, "Generator(): device ", device,
          " is not available in this build; available: cpu");
    Object self = checked(type->tp_alloc(type, 0));
    cast(self.get())->generator = new Generator;
    cast(self.get())->owned = true;
    return self.release();
  });
}
void dealloc(PyObject* self) {
  if (cast(self)->owned) delete cast(self)->generator;
  Py_TYPE(self)->tp_free(self);
}

PyObject* set_seed(PyObject* self, PyObject* seed) {
  return guarded([&] {
    manual_seed(*cast(self)->generator, seed_argument(seed));
    return Py_NewRef(self);
  });
}
PyObject* initial_seed(PyObject* self, PyObject*) {
  std::lock_guard lock(cast(self)->generator->mutex);
  return PyLong_FromUnsignedLongLong(cast(self)->generator->seed);
}
PyObject* random_seed(PyObject* self, PyObject*) {
  return guarded([&] {
    std::random_device device;
    uint64_t seed = (uint64_t{device()} << 32) | device();
    manual_seed(*cast(self)->generator, seed);
    return PyLong_FromUnsignedLongLong(seed);
  });
}

// The state is a uint8 tensor of seed and offset, as programs save it.
constexpr int64_t kStateBytes = 16;
PyObject* get_state(PyObject* self, PyObject*) {
  return guarded([&] {
    Tensor state = empty_tensor({kStateBytes}, DType::uint8);
    Generator& generator = *cast(self)->generator;
    std::lock_guard lock(generator.mutex);
    std::memcpy(state.data(), &generator.seed, 8);
    std::memcpy(state.data() + 8, &generator.offset, 8);
    return wrap(state);
  });
}
PyObject* set_state(PyObject* self, PyObject* given) {
  return guarded([&] {
    check(is_tensor(given), ErrorKind::type, "set_state(): expected a Tensor, got ",
          type_name_of(given));
    Tensor state = unwrap(given);
    check(state.dtype() == DType::uint8 && state.numel() == kStateBytes && state.is_contiguous(),
          ErrorKind::runtime, "set_state(): expected a uint8 tensor of ", kStateBytes,
          " elements as get_state() returns, got ", state.dtype(), " of sizes ", state.sizes());
    Generator& generator = *cast(self)->generator;
    std::lock_guard lock(generator.mutex);
    std::memcpy(&generator.seed, state.data(), 8);
    std::memcpy(&generator.offset, state.data() + 8, 8);
    return Py_NewRef(self);
  });
}
PyObject* get_device(PyObject*, void*) { return wrap_device(Device()); }

PyMethodDef methods[] = {
    {"manual_seed", set_seed, METH_O,
     "Sets the seed and starts from its first value; returns self."},
    {"seed", random_seed, METH_NOARGS,
     "Sets a seed drawn from the system's randomness and returns it."},
    {"initial_seed", initial_seed, METH_NOARGS, "The seed."},
    {"get_state", get_state, METH_NOARGS, "The state as a uint8 tensor."},
    {"set_state", set_state, METH_O, "Restores a state that get_state returned."},
    {nullptr, nullptr, 0, nullptr},
};
PyGetSetDef properties[] = {
    {"device", get_device, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyTypeObject generator_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "flambeau.Generator",
    .tp_basicsize = sizeof(GeneratorObject),
    .tp_dealloc = dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Generator(device='cpu'): a stream of random numbers of its own.",
    .tp_methods = methods,
    .tp_getset = properties,
    .tp_new = make,
};
PyTypeObject* type() { return &generator_type; }

}  // namespace

bool is_generator(PyObject* object) { return Py_TYPE(object) == type(); }
Generator& generator_of(PyObject* object) { return *cast(object)->generator; }

void add_generator_type(PyObject* module) {
  check_status(PyType_Ready(&generator_type));
  check_status(
      PyModule_AddObjectRef(module, "Generator", reinterpret_cast<PyObject*>(&generator_type)));
  Object process = checked(generator_type.tp_alloc(&generator_type, 0));
  cast(process.get())->generator = &default_generator();
  check_status(PyModule_AddObjectRef(module, "default_generator", process.get()));
}

}  // namespace flambeau::python
