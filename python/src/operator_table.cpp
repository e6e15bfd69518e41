#include "operator_table.h"

#include <map>
#include <set>
#include <string>

#include "flambeau/base/error.h"
#include "tensor_object.h"

namespace flambeau::python {

namespace {

using Table = std::map<std::string, OperatorObject*, std::less<>>;
Table functions;  // by full name, "nn.functional.relu"
Table methods;

/// The module object of a namespace of operators, made at its first name: "nn.functional" is
/// _C.functional, "signal.windows" is _C.signal.windows.
PyObject* namespace_module(PyObject* root, std::string_view name) {
  if (name.empty()) return root;
  PyObject* module = root;
  std::string path = "flambeau";
  if (name.starts_with("nn.")) {
    path += ".nn";
    name.remove_prefix(3);
  }
  while (!name.empty()) {
    size_t dot = std::min(name.find('.'), name.size());
    std::string part(name.substr(0, dot));
    path += "." + part;
    PyObject* dict = PyModule_GetDict(module);
    PyObject* inner = PyDict_GetItemString(dict, part.c_str());
    if (!inner) {
      Object made = checked(PyModule_New(path.c_str()));
      check_status(PyDict_SetItemString(dict, part.c_str(), made.get()));
      inner = made.get();
    }
    module = inner;
    name.remove_prefix(std::min(dot + 1, name.size()));
  }
  return module;
}

bool has_self(const Operator& op) {
  const auto& arguments = op.schema().arguments;
  return !arguments.empty() && arguments[0].type == ArgumentType::tensor &&
         !arguments[0].keyword_only;
}

std::vector<const Operator*> with_form(const std::vector<const Operator*>& overloads, int form,
                                       bool needs_self) {
  std::vector<const Operator*> chosen;
  for (const Operator* op : overloads) {
    if ((op->forms() & form) && (!needs_self || has_self(*op))) chosen.push_back(op);
  }
  return chosen;
}

/// Whether the table already has an object with as many overloads.
bool is_current(const Table& table, const std::string& key,
                const std::vector<const Operator*>& overloads) {
  auto found = table.find(key);
  return overloads.empty() ||
         (found != table.end() && found->second->signatures->size() == overloads.size());
}

void add_function(PyObject* root, const std::string& full, Form form,
                  const std::vector<const Operator*>& overloads) {
  std::string key = form == Form::inplace ? full + "_" : full;
  if (is_current(functions, key, overloads)) return;
  size_t dot = full.rfind('.');
  std::string space = dot == std::string::npos ? "" : full.substr(0, dot);
  std::string name = dot == std::string::npos ? key : key.substr(dot + 1);
  PyObject* object =
      make_operator_object(form, name, space.empty() ? "flambeau" : "flambeau." + space, overloads);
  functions[key] = reinterpret_cast<OperatorObject*>(object);
  check_status(PyObject_SetAttrString(namespace_module(root, space), name.c_str(), object));
}

void add_method(const std::string& name, Form form, const std::vector<const Operator*>& overloads) {
  std::string key = form == Form::inplace ? name + "_" : name;
  if (is_current(methods, key, overloads)) return;
  PyObject* object = make_operator_object(form, key, "flambeau", overloads);
  methods[key] = reinterpret_cast<OperatorObject*>(object);
  check_status(
      PyObject_SetAttrString(reinterpret_cast<PyObject*>(tensor_type()), key.c_str(), object));
}

OperatorObject* find(const Table& table, std::string_view name) {
  auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

/// An integer in the form that the schema asks for.
void adapt(Argument* argument, ArgumentType type) {
  if (const Dim* dim = std::get_if<Dim>(argument)) {
    if (type == ArgumentType::size) *argument = Size(dim->value);
    if (type == ArgumentType::number) *argument = Number(dim->value);
  } else if (const DimList* dims = std::get_if<DimList>(argument)) {
    if (type == ArgumentType::sizes) *argument = Sizes(dims->begin(), dims->end());
  }
}

void complete(const Operator& op, std::vector<Argument>* arguments) {
  const auto& parameters = op.schema().arguments;
  internal_check(arguments->size() <= parameters.size(), "too many arguments for ",
                 op.schema().text);
  for (size_t i = 0; i < arguments->size(); ++i) adapt(&(*arguments)[i], parameters[i].type);
  for (size_t i = arguments->size(); i < parameters.size(); ++i) {
    internal_check(parameters[i].has_default, "missing argument '", parameters[i].name, "' for ",
                   op.schema().text);
    arguments->push_back(parameters[i].default_value);
  }
}

}  // namespace

void add_operators(PyObject* module) {
  static const std::vector<const Operator*>* added =
      nullptr;  // a list with new operators is another list
  const std::vector<const Operator*>& operators = all_operators();
  if (added == &operators) return;
  added = &operators;
  std::set<std::string> names;
  for (const Operator* op : operators)
    names.insert(op->schema().names.begin(), op->schema().names.end());
  for (const std::string& name : names) {
    auto overloads = find_operators(name);
    add_function(module, name, Form::function, with_form(overloads, kFunction, false));
    add_function(module, name, Form::inplace, with_form(overloads, kInplace, true));
    if (name.find('.') != std::string::npos) continue;
    add_method(name, Form::method, with_form(overloads, kMethod, true));
    add_method(name, Form::inplace, with_form(overloads, kInplace, true));
  }
}

OperatorObject* find_method(std::string_view name) { return find(methods, name); }
OperatorObject* find_function(std::string_view name) { return find(functions, name); }

bool NativeOperator::exists() {
  if (op_) return true;
  for (const Operator* op : find_operators(name_)) {
    if (overload_ && op->schema().overload != overload_) continue;
    op_ = op;
    return true;
  }
  return false;
}

const Operator& NativeOperator::find() {
  check(exists(), ErrorKind::not_implemented, "operator ", name_, overload_ ? "." : "",
        overload_ ? overload_ : "", " does not exist");
  return *op_;
}

Tensor NativeOperator::operator()(std::vector<Argument> arguments) {
  const Operator& op = find();
  complete(op, &arguments);
  Argument result = call(op, std::move(arguments));
  return std::get<Tensor>(result);
}

void NativeOperator::in_place(std::vector<Argument> arguments) {
  const Operator& op = find();
  complete(op, &arguments);
  call_inplace(op, std::move(arguments));
}

}  // namespace flambeau::python
