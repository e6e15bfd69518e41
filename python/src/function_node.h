// Calls on the tape whose derivative is Python code: those of flambeau.autograd.Function.
#pragma once

#include "flambeau/autograd/autograd.h"
#include "object.h"

namespace flambeau::python {

/// The Python object that a node calls, borrowed; null for other nodes.
PyObject* context_of(const autograd::Node& node);

extern PyMethodDef function_node_functions[];

}  // namespace flambeau::python
