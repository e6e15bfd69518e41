// A node of the tape as Python sees it (grad_fn), and the functions of flambeau.autograd.
#pragma once

#include "flambeau/autograd/autograd.h"
#include "object.h"

namespace flambeau::python {

/// A new reference: the same object as long as one is alive. None for a null node.
PyObject* wrap_node(const autograd::NodePointer& node);

/// The node of such an object; a type Error for another one.
autograd::NodePointer node_of(PyObject* object);

/// tensor.backward(gradient, retain_graph, create_graph, inputs)
PyObject* tensor_backward(PyObject* self, PyObject* args, PyObject* kwargs);

void add_node_type(PyObject* module);
extern PyMethodDef autograd_functions[];

}  // namespace flambeau::python
