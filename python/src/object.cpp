#include "object.h"

#include <new>

#include "flambeau/base/error.h"

namespace flambeau::python {

namespace {

PyObject* exception_type(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::value:
      return PyExc_ValueError;
    case ErrorKind::type:
      return PyExc_TypeError;
    case ErrorKind::index:
      return PyExc_IndexError;
    case ErrorKind::not_implemented:
      return PyExc_NotImplementedError;
    case ErrorKind::out_of_memory:
      return out_of_memory_error();
    case ErrorKind::runtime:
    case ErrorKind::internal:
      return PyExc_RuntimeError;
  }
  return PyExc_RuntimeError;
}

void drop(PyObject* object) {
  if (!object || !interpreter_alive()) return;
  GilAcquire gil;
  Py_DECREF(object);
}

}  // namespace

PythonError::PythonError() {
#if PY_VERSION_HEX >= 0x030C0000
  exception_.reset(PyErr_GetRaisedException(), drop);
#else
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback) PyException_SetTraceback(value, traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  exception_.reset(value, drop);
#endif
}

void PythonError::restore() const {
#if PY_VERSION_HEX >= 0x030C0000
  PyErr_SetRaisedException(Py_NewRef(exception_.get()));
#else
  PyObject* value = exception_.get();
  PyErr_Restore(Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(value))), Py_NewRef(value),
                PyException_GetTraceback(value));
#endif
}

void set_error_from_exception() noexcept {
  try {
    throw;
  } catch (const PythonError& error) {
    error.restore();
  } catch (const Error& error) {
    PyErr_SetString(exception_type(error.kind()), error.what());
  } catch (const std::bad_alloc&) {
    PyErr_SetString(out_of_memory_error(), "not enough memory");
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "unknown C++ exception");
  }
}

const char* type_name_of(PyObject* object) { return Py_TYPE(object)->tp_name; }

PyObject* out_of_memory_error() {
  // In PyTorch's words the device ran out of memory; it is a RuntimeError.
  static PyObject* type =
      PyErr_NewException("flambeau.OutOfMemoryError", PyExc_RuntimeError, nullptr);
  return type ? type : PyExc_RuntimeError;
}

}  // namespace flambeau::python
