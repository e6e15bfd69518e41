#include "operator_object.h"

#include <cstddef>

#include "binding.h"
#include "convert.h"
#include "flambeau/autograd/autograd.h"
#include "flambeau/base/error.h"
#include "generator_object.h"
#include "structmember.h"
#include "tensor_object.h"

namespace flambeau::python {

namespace {

// Calls over fewer elements keep the GIL: giving it up costs more than they take.
constexpr int64_t kReleaseGilAbove = 1 << 15;

OperatorObject* cast(PyObject* self) { return reinterpret_cast<OperatorObject*>(self); }

/// An empty call with the memory of one that did not fit.
BoundCall reuse(BoundCall&& refused) {
  BoundCall call;
  call.arguments = std::move(refused.arguments);
  call.arguments.clear();
  return call;
}

template <class F>
auto run_released(int64_t work, F&& body) {
  if (work <= kReleaseGilAbove) return body();
  GilRelease released;
  return body();
}

std::vector<Tensor> out_tensors(const Signature& signature, PyObject* out) {
  const std::string& name = signature.schema->names[0];
  std::vector<Tensor> tensors;
  if (is_tensor(out)) {
    tensors.push_back(unwrap(out));
  } else {
    check(PyTuple_Check(out) || PyList_Check(out), ErrorKind::type, name,
          "(): argument 'out' must be Tensor or tuple of Tensors, not ", type_name_of(out));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(out); ++i) {
      PyObject* item = PySequence_Fast_GET_ITEM(out, i);
      check(is_tensor(item), ErrorKind::type, name,
            "(): argument 'out' must be tuple of Tensors, but found ", type_name_of(item),
            " at position ", static_cast<int64_t>(i));
      tensors.push_back(unwrap(item));
    }
  }
  int expected = signature.schema->returns;
  check(expected == static_cast<int>(tensors.size()), ErrorKind::type, name,
        "(): argument 'out' must hold ", expected, " tensors, got ",
        static_cast<int64_t>(tensors.size()));
  return tensors;
}

PyObject* run_bound(const OperatorObject* object, const Signature& signature, BoundCall&& bound) {
  const Operator& op = *signature.op;
  if (object->form == Form::inplace) {
    Tensor self =
        run_released(bound.work, [&] { return call_inplace(op, std::move(bound.arguments)); });
    return wrap(self);
  }
  if (bound.out) {
    std::vector<Tensor> out = out_tensors(signature, bound.out);
    std::vector<Tensor> results =
        run_released(bound.work, [&] { return call_out(op, std::move(bound.arguments), out); });
    if (results.size() == 1) return wrap(results[0]);
    return wrap_result(Argument(TensorList(std::move(results))), signature.result_tuple);
  }
  if (bound.generator) {
    GeneratorScope scope(generator_of(bound.generator));
    bound.generator = nullptr;
    return run_bound(object, signature, std::move(bound));
  }
  Argument result = run_released(bound.work, [&] { return call(op, std::move(bound.arguments)); });
  if (bound.requires_grad) autograd::set_requires_grad(std::get<Tensor>(result), true);
  return wrap_result(std::move(result), signature.result_tuple);
}

PyObject* vectorcall(PyObject* self, PyObject* const* args, size_t flagged_count,
                     PyObject* keyword_names) {
  Py_ssize_t count = PyVectorcall_NARGS(flagged_count);
  PyObject* result = nullptr;
  if (!try_call(cast(self), args, count, keyword_names, &result)) {
    set_mismatch_error(cast(self), args, count, keyword_names);
  }
  return result;
}

bool is_list_type(ArgumentType type) {
  return type == ArgumentType::dims || type == ArgumentType::sizes ||
         type == ArgumentType::tensors || type == ArgumentType::optional_tensors;
}

/// "torch.return_types.max(\nvalues=..., \nindices=...)"
PyObject* repr_result_tuple(PyObject* self) {
  Object names = Object::steal(
      PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(self)), "__match_args__"));
  if (!names) return nullptr;
  const char* full = Py_TYPE(self)->tp_name;
  const char* dot = strchr(full, '.');
  std::string s = std::string("torch.") + (dot ? dot + 1 : full) + "(";
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self); ++i) {
    Object item = Object::steal(PyObject_Repr(PyTuple_GET_ITEM(self, i)));
    if (!item) return nullptr;
    s += std::string(i ? "," : "") + "\n" + PyUnicode_AsUTF8(PyTuple_GET_ITEM(names.get(), i)) +
         "=" + PyUnicode_AsUTF8(item.get());
  }
  return PyUnicode_FromString((s + ")").c_str());
}

/// Named tuple types live for ever, so their descriptions may.
PyTypeObject* make_result_tuple(const Schema& schema) {
  size_t count = schema.return_names.size();
  auto* fields = new PyStructSequence_Field[count + 1]();
  for (size_t i = 0; i < count; ++i) fields[i].name = schema.return_names[i].c_str();
  std::string name = schema.names[0];
  name = name.substr(name.rfind('.') + 1);
  auto* full_name = new std::string("flambeau.return_types." + name);
  PyStructSequence_Desc description = {full_name->c_str(), nullptr, fields,
                                       static_cast<int>(count)};
  PyTypeObject* type = PyStructSequence_NewType(&description);
  if (!type) throw PythonError();
  type->tp_repr = repr_result_tuple;
  return type;
}

Signature make_signature(const Operator& op, Form form) {
  Signature signature;
  signature.op = &op;
  signature.schema = &op.schema();
  const auto& arguments = signature.schema->arguments;
  check(arguments.size() <= 40, ErrorKind::internal,
        "operator with more than 40 arguments: ", signature.schema->text);
  bool has_dtype = false, has_device = false;
  signature.accepts_out = (op.forms() & kOut) && signature.schema->returns > 0;
  for (const SchemaArgument& argument : arguments) {
    PyObject* name = PyUnicode_InternFromString(argument.name.c_str());
    if (!name) throw PythonError();
    signature.names.push_back(name);
    if (!argument.keyword_only) ++signature.positional;
    has_dtype |= argument.type == ArgumentType::dtype;
    has_device |= argument.type == ArgumentType::device;
    if (argument.name == "out") signature.accepts_out = false;
  }
  bool takes_tensor = !arguments.empty() && arguments[0].type == ArgumentType::tensor;
  signature.factory = signature.schema->returns == 1 && has_dtype && (has_device || !takes_tensor);
  // x.view(2, 3), zeros(2, 3), meshgrid(x, y): where the list is all that is given by position.
  int last = signature.positional - 1;
  if (last >= 0 && is_list_type(arguments[static_cast<size_t>(last)].type)) {
    bool tensors = arguments[static_cast<size_t>(last)].type == ArgumentType::tensors;
    if (tensors || last == (form == Form::function ? 0 : 1)) signature.varargs = last;
  }
  if (!signature.schema->return_names.empty() && signature.schema->returns > 1) {
    signature.result_tuple = make_result_tuple(*signature.schema);
  }
  return signature;
}

PyObject* get_name(PyObject* self, void*) {
  return PyUnicode_FromString(cast(self)->name->c_str());
}
PyObject* get_module(PyObject* self, void*) {
  return PyUnicode_FromString(cast(self)->module->c_str());
}
PyObject* get_qualified_name(PyObject* self, void*) {
  if (cast(self)->form == Form::function || cast(self)->module->empty())
    return get_name(self, nullptr);
  return PyUnicode_FromFormat("Tensor.%s", cast(self)->name->c_str());
}
PyObject* get_doc(PyObject* self, void*) {
  std::string doc = signatures_text(cast(self));
  const char* last = "";
  for (const Signature& signature : *cast(self)->signatures) {
    const char* text = signature.op->doc();
    if (text && *text && strcmp(text, last) != 0) doc += std::string("\n") + text + "\n";
    last = text ? text : "";
  }
  return PyUnicode_FromString(doc.c_str());
}
PyObject* get_schemas(PyObject* self, void*) {
  return guarded([&] {
    const auto& signatures = *cast(self)->signatures;
    Object tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(signatures.size())));
    for (size_t i = 0; i < signatures.size(); ++i) {
      Object text = checked(PyUnicode_FromString(signatures[i].schema->text.c_str()));
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), text.release());
    }
    return tuple.release();
  });
}
PyObject* repr(PyObject* self) {
  const char* kind = cast(self)->form == Form::function ? "operator" : "operator method";
  return PyUnicode_FromFormat("<%s %s>", kind, cast(self)->name->c_str());
}
// Copied and pickled as a global name.
PyObject* reduce(PyObject* self, PyObject*) { return get_qualified_name(self, nullptr); }
PyObject* bind_method(PyObject* self, PyObject* object, PyObject*) {
  return object && object != Py_None ? PyMethod_New(self, object) : Py_NewRef(self);
}
void dealloc(PyObject* self) {
  OperatorObject* object = cast(self);
  if (object->signatures) {
    for (const Signature& signature : *object->signatures) {
      for (PyObject* name : signature.names) Py_DECREF(name);
    }
  }
  delete object->signatures;
  delete object->name;
  delete object->module;
  Py_TYPE(self)->tp_free(self);
}

PyGetSetDef properties[] = {
    {"__name__", get_name, nullptr, nullptr, nullptr},
    {"__qualname__", get_qualified_name, nullptr, nullptr, nullptr},
    {"__module__", get_module, nullptr, nullptr, nullptr},
    {"__doc__", get_doc, nullptr, nullptr, nullptr},
    {"__schemas__", get_schemas, nullptr, "The schemas of all overloads, as text.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyMethodDef methods[] = {
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyTypeObject operator_function_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "flambeau._C.OperatorFunction",
    .tp_basicsize = sizeof(OperatorObject),
    .tp_dealloc = dealloc,
    .tp_vectorcall_offset = offsetof(OperatorObject, vectorcall),
    .tp_repr = repr,
    .tp_call = PyVectorcall_Call,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_methods = methods,
    .tp_getset = properties,
};
PyTypeObject operator_method_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "flambeau._C.OperatorMethod",
    .tp_basicsize = sizeof(OperatorObject),
    .tp_dealloc = dealloc,
    .tp_vectorcall_offset = offsetof(OperatorObject, vectorcall),
    .tp_repr = repr,
    .tp_call = PyVectorcall_Call,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR |
                Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_methods = methods,
    .tp_getset = properties,
    .tp_descr_get = bind_method,
};

PyObject* make_operator_object(Form form, std::string name, std::string module,
                               const std::vector<const Operator*>& overloads) {
  // In-place operators are functions too (flambeau.add_), bound as methods through their own
  // object.
  PyTypeObject* type = form == Form::function ? &operator_function_type : &operator_method_type;
  Object self = checked(type->tp_alloc(type, 0));
  OperatorObject* object = cast(self.get());
  object->vectorcall = vectorcall;
  object->form = form;
  object->name = new std::string(std::move(name));
  object->module = new std::string(std::move(module));
  object->signatures = new std::vector<Signature>();
  for (const Operator* op : overloads) object->signatures->push_back(make_signature(*op, form));
  return self.release();
}

bool try_call(OperatorObject* object, PyObject* const* args, Py_ssize_t count,
              PyObject* keyword_names, PyObject** result) {
  try {
    BoundCall bound;
    for (const Signature& signature : *object->signatures) {
      bound = reuse(std::move(bound));
      if (!bind(signature, object->form, args, count, keyword_names, &bound)) continue;
      *result = run_bound(object, signature, std::move(bound));
      return true;
    }
    return false;
  } catch (...) {
    set_error_from_exception();
    *result = nullptr;
    return true;
  }
}

void add_operator_types(PyObject* module) {
  intern_keywords();
  for (PyTypeObject* type : {&operator_function_type, &operator_method_type}) {
    check_status(PyType_Ready(type));
    check_status(PyModule_AddObjectRef(module, strrchr(type->tp_name, '.') + 1,
                                       reinterpret_cast<PyObject*>(type)));
  }
}

}  // namespace flambeau::python
