// Python functions called with gradients. The tape holds them inside std::function, where the
// garbage collector's walk (tape_traversal.cpp) finds them again.
#pragma once

#include "flambeau/autograd/autograd.h"
#include "object.h"

namespace flambeau::python {

/// Registers `function` on the gradient of a tensor; returns a handle with remove().
PyObject* register_hook(PyObject* tensor, PyObject* function);
/// The same after accumulation into the leaf's grad; the function is called with the leaf.
PyObject* register_post_accumulate_hook(PyObject* tensor, PyObject* function);

/// The same on a node of the tape: called with the cotangents of its operands and of its results.
PyObject* register_node_hook(autograd::Node& node, PyObject* function);
/// Called with the cotangents of its results, before it runs.
PyObject* register_node_prehook(autograd::Node& node, PyObject* function);

/// The function of a hook, borrowed, and what holds the one reference to it: copies of a hook share
/// that. Null for a hook that is not one of this module's.
struct HookFunction {
  PyObject* function = nullptr;
  const void* holder = nullptr;
};
HookFunction function_of(const autograd::Hook& hook);
HookFunction function_of(const autograd::NodeHook& hook);
HookFunction function_of(const autograd::NodePreHook& hook);

void add_hook_types(PyObject* module);

}  // namespace flambeau::python
