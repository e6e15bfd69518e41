#include "flambeau/ops/op.h"

#include "flambeau/base/error.h"

namespace flambeau::detail {

void complete_arguments(const Operator& op, std::vector<Argument>& arguments) {
  const auto& wanted = op.schema().arguments;
  for (size_t i = arguments.size(); i < wanted.size(); ++i) {
    check(wanted[i].has_default, ErrorKind::type, op.schema().names[0], ": missing argument '",
          wanted[i].name, "'");
    arguments.push_back(wanted[i].default_value);
  }
}

}  // namespace flambeau::detail
