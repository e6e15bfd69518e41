#include "binding.h"

#include <array>
#include <cstring>

#include "convert.h"
#include "flambeau/base/error.h"
#include "generator_object.h"
#include "tensor_object.h"

namespace flambeau::python {

namespace {

constexpr int kMaxArguments = 40;

// Keywords that belong to no schema.
PyObject *out_name, *requires_grad_name, *generator_name, *pin_memory_name;

/// NumPy's names of arguments, and PyTorch's `input` for the first tensor.
bool is_other_name(std::string_view argument, std::string_view given) {
  if (argument == "self") return given == "input" || given == "a" || given == "x" || given == "x1";
  if (argument == "input") return given == "self" || given == "a" || given == "x" || given == "x1";
  if (argument == "other") return given == "x2";
  if (argument == "dim") return given == "axis";
  if (argument == "keepdim") return given == "keepdims";
  return false;
}

std::string_view view(PyObject* text) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(text, &size);
  if (!data) throw PythonError();
  return {data, static_cast<size_t>(size)};
}

/// Index of the argument with a keyword's name, or -1.
int find_argument(const Signature& signature, PyObject* keyword) {
  int count = static_cast<int>(signature.names.size());
  for (int i = 0; i < count; ++i) {
    if (signature.names[static_cast<size_t>(i)] == keyword) return i;
  }
  // Names made at run time are not interned.
  std::string_view name = view(keyword);
  for (int i = 0; i < count; ++i) {
    if (signature.schema->arguments[static_cast<size_t>(i)].name == name) return i;
  }
  for (int i = 0; i < count; ++i) {
    if (is_other_name(signature.schema->arguments[static_cast<size_t>(i)].name, name)) return i;
  }
  return -1;
}

bool equals(PyObject* keyword, PyObject* interned) {
  return keyword == interned || PyUnicode_Compare(keyword, interned) == 0;
}

bool take_extra(const Signature& signature, Form form, PyObject* keyword, PyObject* value,
                BoundCall* call) {
  if (signature.accepts_out && form == Form::function && equals(keyword, out_name)) {
    if (value != Py_None) call->out = value;
    return true;
  }
  if (equals(keyword, generator_name)) {
    if (value != Py_None && !is_generator(value)) return false;
    call->generator = value == Py_None ? nullptr : value;
    return true;
  }
  if (!signature.factory) return false;
  if (equals(keyword, requires_grad_name)) return as_boolean(value, &call->requires_grad);
  if (equals(keyword, pin_memory_name)) {
    check(value == Py_False || value == Py_None, ErrorKind::runtime,
          "pin_memory: this build has no device that memory could be pinned for");
    return true;
  }
  return false;
}

/// Whether the values from position `varargs` on are elements of one list argument.
bool gives_elements(const Signature& signature, PyObject* const* args, Py_ssize_t count) {
  if (signature.varargs < 0 || count <= signature.varargs) return false;
  PyObject* first = args[signature.varargs];
  ArgumentType type = signature.schema->arguments[static_cast<size_t>(signature.varargs)].type;
  if (type == ArgumentType::tensors || type == ArgumentType::optional_tensors)
    return is_tensor(first);
  return is_integer_like(first);
}

}  // namespace

bool bind(const Signature& signature, Form form, PyObject* const* args, Py_ssize_t count,
          PyObject* keyword_names, BoundCall* call, Mismatch* mismatch) {
  const std::vector<SchemaArgument>& parameters = signature.schema->arguments;
  const int n = static_cast<int>(parameters.size());
  auto refuse = [&](Mismatch::Kind kind, int argument, PyObject* value = nullptr,
                    PyObject* keyword = nullptr) {
    if (mismatch) *mismatch = {kind, argument, value, keyword ? view(keyword) : std::string_view()};
    return false;
  };

  std::array<PyObject*, kMaxArguments> values;
  std::fill_n(values.begin(), n, nullptr);
  Object elements;
  Py_ssize_t positional = count;
  if (count > 0 && gives_elements(signature, args, count)) {
    Py_ssize_t first = signature.varargs;
    elements = checked(PyTuple_New(count - first));
    for (Py_ssize_t i = first; i < count; ++i)
      PyTuple_SET_ITEM(elements.get(), i - first, Py_NewRef(args[i]));
    values[static_cast<size_t>(first)] = elements.get();
    positional = first;
  } else if (count > signature.positional) {
    return refuse(Mismatch::Kind::too_many, -1);
  }
  for (Py_ssize_t i = 0; i < positional; ++i) values[static_cast<size_t>(i)] = args[i];

  if (keyword_names) {
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(keyword_names); ++k) {
      PyObject* keyword = PyTuple_GET_ITEM(keyword_names, k);
      PyObject* value = args[count + k];
      int i = find_argument(signature, keyword);
      if (i < 0) {
        if (!take_extra(signature, form, keyword, value, call)) {
          return refuse(Mismatch::Kind::unexpected_keyword, -1, value, keyword);
        }
        continue;
      }
      if (values[static_cast<size_t>(i)])
        return refuse(Mismatch::Kind::given_twice, i, value, keyword);
      values[static_cast<size_t>(i)] = value;
    }
  }

  call->arguments.reserve(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) {
    const SchemaArgument& parameter = parameters[static_cast<size_t>(i)];
    if (PyObject* value = values[static_cast<size_t>(i)]) {
      if (!convert(value, parameter, &call->arguments, &call->work)) {
        return refuse(Mismatch::Kind::wrong_type, i, value);
      }
    } else if (parameter.has_default) {
      call->arguments.push_back(parameter.default_value);
    } else {
      return refuse(Mismatch::Kind::missing, i);
    }
  }
  return true;
}

void intern_keywords() {
  out_name = PyUnicode_InternFromString("out");
  requires_grad_name = PyUnicode_InternFromString("requires_grad");
  generator_name = PyUnicode_InternFromString("generator");
  pin_memory_name = PyUnicode_InternFromString("pin_memory");
}

}  // namespace flambeau::python
