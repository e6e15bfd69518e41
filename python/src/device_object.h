// flambeau.device.
#pragma once

#include "flambeau/tensor/device.h"
#include "object.h"

namespace flambeau::python {

struct DeviceObject {
  PyObject_HEAD;
  Device value;
};
extern PyTypeObject device_type;

PyObject* wrap_device(Device device);
/// A device object, a text such as "cpu", or the index of an accelerator. False for anything else;
/// throws for a text that names no device.
bool as_device(PyObject* object, Device* device);

void add_device_type(PyObject* module);

}  // namespace flambeau::python
