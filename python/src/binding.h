// Matching the arguments of a Python call with one overload.
#pragma once

#include <string_view>
#include <vector>

#include "operator_object.h"

namespace flambeau::python {

/// Why a call does not fit an overload; only made for an error message.
struct Mismatch {
  enum class Kind { too_many, missing, unexpected_keyword, given_twice, wrong_type } kind;
  int argument = -1;          // index in the schema; of the first that is missing
  PyObject* value = nullptr;  // borrowed: what was given
  std::string_view keyword;   // as it was given
};

/// A call whose values have been converted.
struct BoundCall {
  std::vector<Argument> arguments;
  int64_t work = 0;               // elements it looks at
  PyObject* out = nullptr;        // borrowed
  PyObject* generator = nullptr;  // borrowed
  bool requires_grad = false;
};

/// Fills `call`, or returns false and, when `mismatch` is given, says why.
bool bind(const Signature& signature, Form form, PyObject* const* args, Py_ssize_t count,
          PyObject* keyword_names, BoundCall* call, Mismatch* mismatch = nullptr);

void intern_keywords();

}  // namespace flambeau::python
