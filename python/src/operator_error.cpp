// Signatures and mismatches in words: the operator, the argument by position and name, what was
// given and what is allowed. PyTorch's phrases, since programs and people search for them.
#include <string>

#include "binding.h"
#include "convert.h"
#include "dtype_object.h"
#include "flambeau/base/text.h"
#include "operator_object.h"
#include "tensor_object.h"

namespace flambeau::python {

namespace {

std::string type_of(PyObject* value) {
  if (is_tensor(value)) return Py_TYPE(value)->tp_name;
  if (is_dtype(value)) return "torch.dtype";
  if (PyTuple_Check(value) || PyList_Check(value)) {
    // The types inside say what is wrong with a list.
    std::string s = PyTuple_Check(value) ? "tuple of (" : "list of [";
    Py_ssize_t count = PySequence_Fast_GET_SIZE(value);
    for (Py_ssize_t i = 0; i < count && i < 8; ++i) {
      if (i) s += ", ";
      s += Py_TYPE(PySequence_Fast_GET_ITEM(value, i))->tp_name;
    }
    if (count > 8) s += ", ...";
    return s + (PyTuple_Check(value) ? ")" : "]");
  }
  return Py_TYPE(value)->tp_name;
}

/// The first tensor of a function is called `input` by PyTorch's users.
std::string_view shown_name(const Signature& signature, int argument, Form form) {
  const std::string& name = signature.schema->arguments[static_cast<size_t>(argument)].name;
  return argument == 0 && form == Form::function && name == "self" ? std::string_view("input")
                                                                   : std::string_view(name);
}

std::string allowed_type(const SchemaArgument& argument) {
  std::string s(type_name(argument.type));
  if (argument.list_length > 0) s = "int or " + s;
  if (argument.nullable) s += " or None";
  return s;
}

std::string default_text(const SchemaArgument& argument) {
  struct Visitor {
    std::string operator()(std::monostate) { return "None"; }
    std::string operator()(const Tensor&) { return "None"; }
    std::string operator()(const TensorList&) { return "()"; }
    std::string operator()(bool v) { return v ? "True" : "False"; }
    std::string operator()(Dim v) { return text(v.value); }
    std::string operator()(Size v) { return text(v.value); }
    std::string operator()(const DimList& v) { return text(v); }
    std::string operator()(const Sizes& v) { return text(v); }
    std::string operator()(const Number& v) { return text(v.scalar()); }
    std::string operator()(DType v) { return text("torch.", v); }
    std::string operator()(const std::string& v) { return "'" + v + "'"; }
    std::string operator()(Device v) { return text("'", v, "'"); }
  };
  return std::visit(Visitor(), argument.default_value);
}

std::string signature_text(const Signature& signature, Form form) {
  std::string s = "(";
  bool star = false;
  const auto& arguments = signature.schema->arguments;
  for (int i = form == Form::function ? 0 : 1; i < static_cast<int>(arguments.size()); ++i) {
    const SchemaArgument& argument = arguments[static_cast<size_t>(i)];
    if (s.size() > 1) s += ", ";
    if (argument.keyword_only && !star) {
      s += "*, ";
      star = true;
    }
    s += type_name(argument.type);
    s += ' ';
    s += shown_name(signature, i, form);
    if (argument.has_default) s += " = " + default_text(argument);
  }
  if (signature.accepts_out && form == Form::function) {
    if (s.size() > 1) s += ", ";
    s += star ? "" : "*, ";
    s += signature.schema->returns == 1 ? "Tensor out = None" : "tuple of Tensors out = None";
  }
  return s + ")";
}

std::string mismatch_text(const std::string& name, const Signature& signature, Form form,
                          const Mismatch& m, Py_ssize_t count) {
  const auto& arguments = signature.schema->arguments;
  int self = form == Form::function ? 0 : 1;
  switch (m.kind) {
    case Mismatch::Kind::too_many:
      return text(name, "() takes ", signature.positional - self, " positional argument",
                  signature.positional - self == 1 ? "" : "s", " but ",
                  static_cast<int64_t>(count) - self, count - self == 1 ? " was" : " were",
                  " given");
    case Mismatch::Kind::missing: {
      std::string missing;
      int number = 0;
      for (int i = m.argument; i < static_cast<int>(arguments.size()); ++i) {
        const SchemaArgument& argument = arguments[static_cast<size_t>(i)];
        if (argument.has_default || (i != m.argument && argument.keyword_only)) continue;
        missing += text(number++ ? ", \"" : "\"", shown_name(signature, i, form), "\"");
      }
      return text(
          name, "() missing ", number, " required ",
          arguments[static_cast<size_t>(m.argument)].keyword_only ? "keyword-only" : "positional",
          number == 1 ? " argument: " : " arguments: ", missing);
    }
    case Mismatch::Kind::unexpected_keyword:
      return text(name, "() got an unexpected keyword argument '", m.keyword, "'");
    case Mismatch::Kind::given_twice:
      return text(name, "() got multiple values for argument '",
                  shown_name(signature, m.argument, form), "'");
    case Mismatch::Kind::wrong_type:
      break;
  }
  const SchemaArgument& argument = arguments[static_cast<size_t>(m.argument)];
  std::string place = argument.keyword_only ? "" : text(" (position ", m.argument + 1 - self, ")");
  return text(name, "(): argument '", shown_name(signature, m.argument, form), "'", place,
              " must be ", allowed_type(argument), ", not ", type_of(m.value));
}

std::string given_text(PyObject* const* args, Py_ssize_t count, PyObject* keyword_names,
                       Form form) {
  std::string s = "(";
  for (Py_ssize_t i = form == Form::function ? 0 : 1; i < count; ++i) {
    if (s.size() > 1) s += ", ";
    s += type_of(args[i]);
  }
  Py_ssize_t keywords = keyword_names ? PyTuple_GET_SIZE(keyword_names) : 0;
  for (Py_ssize_t k = 0; k < keywords; ++k) {
    if (s.size() > 1) s += ", ";
    s += std::string(PyUnicode_AsUTF8(PyTuple_GET_ITEM(keyword_names, k))) + "=" +
         type_of(args[count + k]);
  }
  return s + ")";
}

}  // namespace

std::string signatures_text(const OperatorObject* object) {
  std::string s;
  for (const Signature& signature : *object->signatures) {
    std::string_view result = signature.schema->text;
    result = result.substr(result.rfind("->"));
    s += *object->name + signature_text(signature, object->form) + " " + std::string(result) + "\n";
  }
  return s;
}

void set_mismatch_error(OperatorObject* object, PyObject* const* args, Py_ssize_t count,
                        PyObject* keyword_names) {
  try {
    const auto& signatures = *object->signatures;
    const std::string& name = *object->name;
    std::string message;
    if (signatures.size() > 1) {
      message =
          text(name, "() received an invalid combination of arguments - got ",
               given_text(args, count, keyword_names, object->form), ", but expected one of:");
    }
    for (const Signature& signature : signatures) {
      BoundCall call;
      Mismatch mismatch{Mismatch::Kind::too_many, -1, nullptr, {}};
      bind(signature, object->form, args, count, keyword_names, &call, &mismatch);
      std::string reason = mismatch_text(name, signature, object->form, mismatch, count);
      if (signatures.size() == 1) {
        message = reason;
      } else {
        message += "\n * " + signature_text(signature, object->form) + "\n      " + reason;
      }
    }
    PyErr_SetString(PyExc_TypeError, message.c_str());
  } catch (...) {
    set_error_from_exception();
  }
}

}  // namespace flambeau::python
