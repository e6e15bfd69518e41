#include "flambeau/graph/primitive.h"

#include "flambeau/base/error.h"
#include "flambeau/graph/trace.h"

namespace flambeau::graph {

namespace {
constinit const Primitive* first_primitive = nullptr;
}

Primitive::Primitive(const Definition& definition) : Definition(definition), next(first_primitive) {
  first_primitive = this;
}

const Primitive* find_primitive(std::string_view name) {
  for (const Primitive* p = first_primitive; p; p = p->next) {
    if (name == p->name) return p;
  }
  return nullptr;
}

std::vector<const Primitive*> all_primitives() {
  std::vector<const Primitive*> result;
  for (const Primitive* p = first_primitive; p; p = p->next) result.push_back(p);
  return result;
}

std::vector<Tensor> apply(const Primitive& primitive, const std::vector<Tensor>& operands,
                          Attributes attributes) {
  Trace* trace = Trace::current();
  internal_check(trace != nullptr, "primitive ", primitive.name, " was applied outside of a trace");
  std::vector<ValueId> ids;
  for (const auto& t : operands) {
    internal_check(t.defined() && t.traced(), "primitive ", primitive.name,
                   " was applied to a tensor that is not traced");
    ids.push_back(t.impl()->traced);
  }
  if (primitive.kind == Primitive::Kind::elementwise) {
    for (size_t i = 1; i < operands.size(); ++i) {
      internal_check(operands[i].dim() == operands[0].dim(), primitive.name,
                     ": ranks differ: ", operands[0].sizes(), " and ", operands[i].sizes());
      for (int64_t d = 0; d < operands[0].dim(); ++d) {
        bool equal = trace->require_equal(size_of(operands[0], d), size_of(operands[i], d),
                                          "sizes of an elementwise operation must match");
        internal_check(equal, primitive.name, ": sizes differ: ", operands[0].sizes(), " and ",
                       operands[i].sizes());
      }
    }
  }
  ResultTypes types = primitive.infer(trace->graph(), primitive, ids, attributes);
  int32_t node =
      trace->graph().add_node(&primitive, std::move(ids), std::move(attributes), std::move(types));
  std::vector<Tensor> outputs;
  const auto results = trace->graph().nodes[static_cast<size_t>(node)].outputs;
  for (ValueId v : results) outputs.push_back(trace->tensor(v));
  return outputs;
}

}  // namespace flambeau::graph
