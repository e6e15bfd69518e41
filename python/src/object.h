// Owned references to Python objects, and the two directions in which errors cross: a failed
// CPython call becomes a C++ exception (PythonError), any C++ exception becomes Python's error
// indicator.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

// From 3.14 on CPython has what objects that live as long as their C++ side need without the GIL.
#if defined(Py_GIL_DISABLED) && PY_VERSION_HEX >= 0x030E0000
#define FLAMBEAU_WITHOUT_GIL 1
#endif

#include <exception>
#include <memory>
#include <utility>

namespace flambeau::python {

/// An owned reference. Needs the GIL wherever it is copied or destroyed.
class Object {
 public:
  Object() = default;
  static Object steal(PyObject* object) {
    Object result;
    result.object_ = object;
    return result;
  }
  static Object borrow(PyObject* object) { return steal(Py_XNewRef(object)); }
  Object(const Object& other) : object_(Py_XNewRef(other.object_)) {}
  Object(Object&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Object& operator=(Object other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Object() { Py_XDECREF(object_); }

  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

/// A Python exception on its way through C++ frames; it may be destroyed without the GIL.
class PythonError : public std::exception {
 public:
  /// Takes the error indicator of this thread, which must be set.
  PythonError();
  /// Sets the error indicator.
  void restore() const;
  const char* what() const noexcept override { return "Python exception"; }

 private:
  std::shared_ptr<PyObject> exception_;
};

/// The object of a CPython call that returns a new reference; throws PythonError when it failed.
inline Object checked(PyObject* object) {
  if (!object) [[unlikely]]
    throw PythonError();
  return Object::steal(object);
}
/// The same for calls that return a status below zero.
inline void check_status(int status) {
  if (status < 0) [[unlikely]]
    throw PythonError();
}

/// Sets the error indicator from the C++ exception being handled.
void set_error_from_exception() noexcept;

/// The body of a CPython slot: a C++ exception becomes a Python error and the value `failed`.
template <class F>
auto guarded(F&& body, decltype(body()) failed = {}) noexcept -> decltype(body()) {
  try {
    return body();
  } catch (...) {
    set_error_from_exception();
    return failed;
  }
}

class GilRelease {
 public:
  GilRelease() : state_(PyEval_SaveThread()) {}
  ~GilRelease() { PyEval_RestoreThread(state_); }
  GilRelease(const GilRelease&) = delete;

 private:
  PyThreadState* state_;
};

class GilAcquire {
 public:
  GilAcquire() : state_(PyGILState_Ensure()) {}
  ~GilAcquire() { PyGILState_Release(state_); }
  GilAcquire(const GilAcquire&) = delete;

 private:
  PyGILState_STATE state_;
};

/// Whether the interpreter is still able to run code; afterwards references are left alone.
inline bool interpreter_alive() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsInitialized() && !Py_IsFinalizing();
#else
  return Py_IsInitialized() && !_Py_IsFinalizing();
#endif
}

/// A new reference to an object found through a borrowed one, unless it is on its way to its
/// deallocator.
inline bool try_reference(PyObject* object) {
#ifdef FLAMBEAU_WITHOUT_GIL
  return PyUnstable_TryIncRef(object);
#else
  Py_INCREF(object);
  return true;
#endif
}
/// Once for each object that try_reference() will see, when it is made.
inline void enable_try_reference(PyObject* object) {
#ifdef FLAMBEAU_WITHOUT_GIL
  PyUnstable_EnableTryIncRef(object);
#else
  static_cast<void>(object);
#endif
}

/// "list", "numpy.ndarray": how messages name the type of an object.
const char* type_name_of(PyObject* object);

/// flambeau.OutOfMemoryError; added to the module under that name.
PyObject* out_of_memory_error();

}  // namespace flambeau::python
