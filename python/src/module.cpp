// The module flambeau._C: types first, then functions, then every operator.
#include "construct.h"
#include "device_object.h"
#include "dlpack.h"
#include "dtype_object.h"
#include "function_node.h"
#include "functions.h"
#include "generator_object.h"
#include "hooks.h"
#include "node_object.h"
#include "numpy.h"
#include "operator_table.h"
#include "pickle.h"
#include "size_object.h"
#include "tensor_object.h"

namespace {

using namespace flambeau::python;

int fill_module(PyObject* module) {
  return guarded(
      [&] {
        add_dtype_types(module);
        add_device_type(module);
        add_size_type(module);
        add_generator_type(module);
        add_operator_types(module);
        add_numpy_types(module);
        add_node_type(module);
        add_hook_types(module);
        add_tensor_types(module);
        for (PyMethodDef* functions :
             {plain_functions, construct_functions, dlpack_functions, autograd_functions,
              pickle_functions, file_functions, deferred_functions, function_node_functions}) {
          check_status(PyModule_AddFunctions(module, functions));
        }
        add_pickle_functions(module);
        check_status(PyModule_AddObjectRef(module, "OutOfMemoryError", out_of_memory_error()));
        add_operators(module);
        return 0;
      },
      -1);
}

PyModuleDef_Slot slots[] = {
    {Py_mod_exec, reinterpret_cast<void*>(fill_module)},
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
#ifdef FLAMBEAU_WITHOUT_GIL
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, nullptr},
};

PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "flambeau._C",
    .m_doc = "Tensors, operators and the tape as Python objects.",
    .m_slots = slots,
};

}  // namespace

PyMODINIT_FUNC PyInit__C() { return PyModuleDef_Init(&definition); }
