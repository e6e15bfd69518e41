// Deferred scopes of the calling thread, for flambeau.compile.
#include <memory>
#include <vector>

#include "flambeau/run/deferred.h"
#include "flambeau/run/executable.h"
#include "functions.h"

namespace flambeau::python {

namespace {

thread_local std::vector<std::unique_ptr<run::DeferredScope>> scopes;

PyObject* begin(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* {
    scopes.push_back(std::make_unique<run::DeferredScope>());
    Py_RETURN_NONE;
  });
}

/// True while an exception is under way: what fails besides is raised where its result is read.
PyObject* end(PyObject*, PyObject* failing) {
  return guarded([&]() -> PyObject* {
    std::unique_ptr<run::DeferredScope> scope = std::move(scopes.back());
    scopes.pop_back();
    try {
      scope->close();
    } catch (...) {
      if (failing != Py_True) throw;
    }
    Py_RETURN_NONE;
  });
}

PyObject* flush(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* {
    run::flush();
    Py_RETURN_NONE;
  });
}

PyObject* is_deferred(PyObject*, PyObject*) {
  return PyBool_FromLong(run::current_recording() != nullptr);
}

PyObject* launch_count(PyObject*, PyObject*) {
  return guarded([] { return PyLong_FromLongLong(run::launch_count()); });
}

}  // namespace

PyMethodDef deferred_functions[] = {
    {"_begin_deferred", begin, METH_NOARGS, "Opens a deferred scope on this thread."},
    {"_end_deferred", end, METH_O,
     "Ends the innermost scope; the argument tells whether an exception is under way."},
    {"_flush_deferred", flush, METH_NOARGS, "Runs what this thread recorded."},
    {"_is_deferred", is_deferred, METH_NOARGS, "Whether calls of this thread are recorded."},
    {"_launch_count", launch_count, METH_NOARGS, "Kernel launches since the process started."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace flambeau::python
