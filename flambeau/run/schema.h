// Operator schemas in the field's notation, parsed at first use:
//   add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
// `int` arguments are structure (Dim), `SymInt` arguments are data (Size); so are `float` and
// `Scalar`. Several names separated by '|' before the overload name are aliases:
// relu|nn.functional.relu(...).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "flambeau/run/argument.h"

namespace flambeau {

enum class ArgumentType : uint8_t {
  tensor,
  tensors,
  optional_tensors,  // Tensor, Tensor[], Tensor?[]
  boolean,           // bool
  dim,
  dims,  // int, int[]
  size,
  sizes,   // SymInt, SymInt[]
  number,  // Scalar
  real,    // float
  dtype,   // ScalarType
  text,    // str
  device,  // Device
  layout,
  memory_format,  // accepted for the field's sake; only strided and contiguous/preserve
};

struct SchemaArgument {
  std::string name;
  ArgumentType type;
  bool nullable = false;  // "Tensor?", "int?"
  bool has_default = false;
  Argument default_value;
  bool keyword_only = false;
  bool written = false;      // "Tensor(a!)"
  int64_t list_length = -1;  // int[2]: a single int stands for all
};

struct Schema {
  std::vector<std::string> names;  // the first is the name, others are aliases
  std::string overload;
  std::vector<SchemaArgument> arguments;
  int returns = 1;  // number of tensors; -1: a list of tensors; 0: something that is no tensor
  std::vector<std::string> return_names;
  std::string text;
};

/// Throws an internal Error that quotes the text where it is malformed.
Schema parse_schema(std::string_view text);
std::string_view type_name(ArgumentType type);

}  // namespace flambeau
