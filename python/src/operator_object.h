// The callable of an operator's name: all its overloads together, called without temporaries. The
// schema is read once, when the object is made; a call tries the overloads in order of definition.
#pragma once

#include <string>
#include <vector>

#include "flambeau/run/operator.h"
#include "object.h"

namespace flambeau::python {

/// What a callable does with the functional operator behind it.
enum class Form : uint8_t { function, method, inplace };

/// One overload as a call sees it.
struct Signature {
  const Operator* op;
  const Schema* schema;
  std::vector<PyObject*> names;          // interned, of the arguments
  int positional = 0;                    // arguments that may be given by position
  int varargs = -1;                      // the list argument that may be given as separate values
  bool accepts_out = false;              // out=, for an operator that declares no such argument
  bool factory = false;                  // requires_grad= and pin_memory=
  PyTypeObject* result_tuple = nullptr;  // named tuple of several results
};

struct OperatorObject {
  PyObject_HEAD;
  vectorcallfunc vectorcall;
  Form form;
  std::string* name;    // "add_"
  std::string* module;  // "flambeau.nn.functional"
  std::vector<Signature>* signatures;
};

// Methods bind to their tensor; functions, like Python's builtins, do not.
extern PyTypeObject operator_function_type;
extern PyTypeObject operator_method_type;

/// A new callable over overloads that share a name.
PyObject* make_operator_object(Form form, std::string name, std::string module,
                               const std::vector<const Operator*>& overloads);

/// Calls with positional arguments and keywords as in a vectorcall. False when no overload takes
/// them: then no error is set. Otherwise *result is a new reference, or null with the error set.
bool try_call(OperatorObject* object, PyObject* const* args, Py_ssize_t count,
              PyObject* keyword_names, PyObject** result);

/// The TypeError for a call that no overload takes; sets it as the error.
void set_mismatch_error(OperatorObject* object, PyObject* const* args, Py_ssize_t count,
                        PyObject* keyword_names);
/// "relu(Tensor input) -> Tensor", a line for each overload.
std::string signatures_text(const OperatorObject* object);

void add_operator_types(PyObject* module);

}  // namespace flambeau::python
