// Every operator under its names: functions in the package and its namespaces, methods on Tensor.
#pragma once

#include <string_view>
#include <vector>

#include "operator_object.h"

namespace flambeau::python {

/// Adds what all_operators() holds and is not there yet.
void add_operators(PyObject* module);
/// The method object of a name, or null: what Tensor's symbols and indexing call. Valid for the
/// life of the process.
OperatorObject* find_method(std::string_view name);
OperatorObject* find_function(std::string_view name);

/// A C++ call of an operator by name, for this module's own use; found at the first call. Arguments
/// that are left out come from the schema; integers become what the schema asks for.
class NativeOperator {
 public:
  explicit constexpr NativeOperator(const char* name, const char* overload = nullptr)
      : name_(name), overload_(overload) {}
  /// Whether there is such an operator.
  bool exists();
  Tensor operator()(std::vector<Argument> arguments);
  /// Its in-place form.
  void in_place(std::vector<Argument> arguments);

 private:
  const Operator& find();
  const char* name_;
  const char* overload_;
  const Operator* op_ = nullptr;
};

}  // namespace flambeau::python
