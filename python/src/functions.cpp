// Functions of the package that are no operators: defaults, dtypes, threads, printing, memory.
#include "functions.h"

#include "convert.h"
#include "device_object.h"
#include "dtype_object.h"
#include "flambeau/base/error.h"
#include "flambeau/base/threads.h"
#include "flambeau/emit/code.h"
#include "flambeau/io/element.h"
#include "flambeau/io/print.h"
#include "flambeau/ops/typing.h"
#include "operator_table.h"
#include "tensor_object.h"

namespace flambeau::python {

namespace {

PyObject* get_default_dtype(PyObject*, PyObject*) {
  return Py_NewRef(dtype_object(default_dtype()));
}
PyObject* set_default(PyObject*, PyObject* value) {
  return guarded([&]() -> PyObject* {
    DType dtype;
    check(is_dtype(value), ErrorKind::type,
          "set_default_dtype(): argument must be torch.dtype, not ", type_name_of(value));
    dtype = dtype_of(value);
    set_default_dtype(dtype);
    Py_RETURN_NONE;
  });
}

PyObject* get_threads(PyObject*, PyObject*) {
  return guarded([] { return PyLong_FromLong(num_threads()); });
}
PyObject* set_threads(PyObject*, PyObject* value) {
  return guarded([&]() -> PyObject* {
    int64_t count;
    check(as_integer(value, &count), ErrorKind::type,
          "set_num_threads(): expected an int, but got ", type_name_of(value));
    check(count > 0 && count < 65536, ErrorKind::runtime,
          "set_num_threads expects a positive integer, got ", count);
    set_num_threads(static_cast<int>(count));
    Py_RETURN_NONE;
  });
}

/// (schema, forms, documentation) of every operator, for programs that go over the table.
PyObject* operator_schemas(PyObject*, PyObject*) {
  return guarded([] {
    Object list = checked(PyList_New(0));
    for (const Operator* op : all_operators())
      check_status(PyList_Append(
          list.get(),
          checked(Py_BuildValue("(sis)", op->schema_text, op->forms(), op->doc())).get()));
    return list.release();
  });
}

PyObject* get_target(PyObject*, PyObject*) {
  return guarded([] {
    emit::Target target = emit::target();
    return Py_BuildValue("(si)", target.features.c_str(), target.vector_bytes);
  });
}
PyObject* set_target(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    const char* features;
    int vector_bytes;
    if (!PyArg_ParseTuple(args, "si:_set_target", &features, &vector_bytes)) throw PythonError();
    emit::set_target({features, vector_bytes});
    Py_RETURN_NONE;
  });
}

PyObject* is_tensor_function(PyObject*, PyObject* value) {
  return PyBool_FromLong(is_tensor(value));
}
Tensor tensor_argument(PyObject* value, const char* function) {
  check(is_tensor(value), ErrorKind::type, function,
        "(): argument 'input' (position 1) must be Tensor, not ", type_name_of(value));
  return unwrap(value);
}
PyObject* is_floating_point(PyObject*, PyObject* value) {
  return guarded([&] {
    return PyBool_FromLong(is_float(tensor_argument(value, "is_floating_point").dtype()));
  });
}
PyObject* is_complex_function(PyObject*, PyObject* value) {
  return guarded(
      [&] { return PyBool_FromLong(is_complex(tensor_argument(value, "is_complex").dtype())); });
}
PyObject* is_nonzero(PyObject*, PyObject* value) {
  return guarded([&] {
    Tensor t = tensor_argument(value, "is_nonzero");
    check(t.numel() != 0, ErrorKind::runtime,
          "Boolean value of Tensor with no values is ambiguous");
    check(t.numel() == 1, ErrorKind::runtime,
          "Boolean value of Tensor with more than one value is ambiguous");
    return PyBool_FromLong(item(t).boolean());
  });
}
PyObject* numel(PyObject*, PyObject* value) {
  return guarded([&] { return PyLong_FromLongLong(tensor_argument(value, "numel").numel()); });
}

bool two_dtypes(PyObject* args, const char* format, const char* name, DType* a, DType* b) {
  PyObject *first, *second;
  if (!PyArg_ParseTuple(args, format, &first, &second)) throw PythonError();
  check(as_dtype(first, a) && as_dtype(second, b), ErrorKind::type, name,
        "(): arguments must be torch.dtype, not ", type_name_of(first), " and ",
        type_name_of(second));
  return true;
}
PyObject* promote_types(PyObject*, PyObject* args) {
  return guarded([&] {
    DType a, b;
    two_dtypes(args, "OO:promote_types", "promote_types", &a, &b);
    return Py_NewRef(dtype_object(promote(a, b)));
  });
}
PyObject* can_cast(PyObject*, PyObject* args) {
  return guarded([&] {
    DType from, to;
    two_dtypes(args, "OO:can_cast", "can_cast", &from, &to);
    bool allowed = !(is_complex(from) && !is_complex(to)) &&
                   !(is_inexact(from) && !is_inexact(to)) &&
                   !(from != DType::boolean && to == DType::boolean);
    return PyBool_FromLong(allowed);
  });
}
PyObject* result_type(PyObject*, PyObject* args) {
  return guarded([&] {
    PyObject* operands[2];
    if (!PyArg_ParseTuple(args, "OO:result_type", &operands[0], &operands[1])) throw PythonError();
    std::vector<Tensor> tensors;
    std::vector<Number> numbers;
    for (PyObject* operand : operands) {
      Scalar number;
      if (is_tensor(operand)) {
        tensors.push_back(unwrap(operand));
      } else {
        check(as_scalar(operand, &number), ErrorKind::type,
              "result_type(): arguments must be Tensor or Number, not ", type_name_of(operand));
        numbers.push_back(Number(number));
      }
    }
    return Py_NewRef(dtype_object(ops::result_type(tensors, numbers)));
  });
}

PyObject* set_printoptions(PyObject*, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {"precision", "threshold", "edgeitems", "linewidth",
                                  "profile",   "sci_mode",  nullptr};
    PyObject *precision = Py_None, *threshold = Py_None, *edge = Py_None, *width = Py_None,
             *profile = Py_None, *scientific = nullptr;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OOOOOO:set_printoptions",
                                     const_cast<char**>(names), &precision, &threshold, &edge,
                                     &width, &profile, &scientific)) {
      throw PythonError();
    }
    PrintOptions options = print_options();
    if (profile != Py_None) {
      const char* name = PyUnicode_Check(profile) ? PyUnicode_AsUTF8(profile) : "";
      std::string_view kind = name ? name : "";
      options = PrintOptions();
      if (kind == "short") {
        options.precision = 2;
        options.edge_items = 2;
      } else if (kind == "full") {
        options.threshold = INT64_MAX;
      } else {
        check(kind == "default", ErrorKind::value, "set_printoptions(): unknown profile '", kind,
              "'; known are default, short, full");
      }
    }
    auto set = [](PyObject* value, const char* name, auto* field) {
      if (value == Py_None) return;
      int64_t integer;
      Scalar number;
      if (!as_integer(value, &integer)) {
        // `float('inf')` is a usual threshold.
        check(as_scalar(value, &number), ErrorKind::type, "set_printoptions(): '", name,
              "' must be a number, not ", type_name_of(value));
        integer = number.real() >= 9e18 ? INT64_MAX : static_cast<int64_t>(number.real());
      }
      check(integer >= 0, ErrorKind::value, "set_printoptions(): '", name,
            "' must not be negative, got ", integer);
      *field = static_cast<std::remove_pointer_t<decltype(field)>>(integer);
    };
    set(precision, "precision", &options.precision);
    options.precision = std::min(options.precision, 60);
    set(threshold, "threshold", &options.threshold);
    set(edge, "edgeitems", &options.edge_items);
    set(width, "linewidth", &options.line_width);
    if (scientific)
      options.scientific =
          scientific == Py_None ? std::nullopt : std::optional(PyObject_IsTrue(scientific) == 1);
    set_print_options(options);
    Py_RETURN_NONE;
  });
}

PyObject* memory_statistics(PyObject*, PyObject*) {
  return guarded([] {
    MemoryStatistics s = allocator(DeviceType::cpu).statistics();
    return Py_BuildValue("{s:L,s:L,s:L,s:L,s:L}", "allocated_bytes",
                         static_cast<long long>(s.allocated_bytes), "peak_allocated_bytes",
                         static_cast<long long>(s.peak_allocated_bytes), "cached_bytes",
                         static_cast<long long>(s.cached_bytes), "allocations",
                         static_cast<long long>(s.allocations), "system_allocations",
                         static_cast<long long>(s.system_allocations));
  });
}
PyObject* reset_peak(PyObject*, PyObject*) {
  return guarded([]() -> PyObject* {
    allocator(DeviceType::cpu).reset_peak();
    Py_RETURN_NONE;
  });
}
PyObject* empty_cache(PyObject*, PyObject*) {
  return guarded([]() -> PyObject* {
    allocator(DeviceType::cpu).empty_cache();
    Py_RETURN_NONE;
  });
}
PyObject* set_memory_limit(PyObject*, PyObject* value) {
  return guarded([&]() -> PyObject* {
    int64_t bytes;
    check(as_integer(value, &bytes), ErrorKind::type, "set_memory_limit(): expected an int, got ",
          type_name_of(value));
    allocator(DeviceType::cpu).set_limit(bytes);
    Py_RETURN_NONE;
  });
}

/// Operators that appeared after the import, such as those of an extension.
PyObject* add_new_operators(PyObject* module, PyObject*) {
  return guarded([&]() -> PyObject* {
    add_operators(module);
    Py_RETURN_NONE;
  });
}

}  // namespace

PyMethodDef plain_functions[] = {
    {"_operator_schemas", operator_schemas, METH_NOARGS, nullptr},
    {"_get_target", get_target, METH_NOARGS, nullptr},
    {"_set_target", set_target, METH_VARARGS, nullptr},
    {"get_default_dtype", get_default_dtype, METH_NOARGS,
     "The dtype of new floating-point tensors."},
    {"set_default_dtype", set_default, METH_O, "Sets the dtype of new floating-point tensors."},
    {"get_num_threads", get_threads, METH_NOARGS, "Number of threads that operators use."},
    {"set_num_threads", set_threads, METH_O, "Sets the number of threads that operators use."},
    {"is_tensor", is_tensor_function, METH_O, "Whether the value is a Tensor."},
    {"is_floating_point", is_floating_point, METH_O,
     "Whether the elements are real floating-point numbers."},
    {"is_complex", is_complex_function, METH_O, "Whether the elements are complex."},
    {"is_nonzero", is_nonzero, METH_O, "Whether the only element differs from zero."},
    {"numel", numel, METH_O, "Number of elements."},
    {"promote_types", promote_types, METH_VARARGS,
     "promote_types(a, b): the smallest dtype that holds both."},
    {"can_cast", can_cast, METH_VARARGS,
     "can_cast(from_, to): whether promotion allows the conversion."},
    {"result_type", result_type, METH_VARARGS,
     "result_type(a, b): the dtype of an operation on two tensors or numbers."},
    {"set_printoptions", reinterpret_cast<PyCFunction>(set_printoptions),
     METH_VARARGS | METH_KEYWORDS,
     "set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, "
     "profile=None, sci_mode=None)"},
    {"_memory_statistics", memory_statistics, METH_NOARGS, nullptr},
    {"_reset_peak_memory", reset_peak, METH_NOARGS, nullptr},
    {"_empty_cache", empty_cache, METH_NOARGS, nullptr},
    {"_set_memory_limit", set_memory_limit, METH_O, nullptr},
    {"_add_new_operators", add_new_operators, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace flambeau::python
