#include "flambeau/base/error.h"
#include "flambeau/graph/primitive.h"

namespace flambeau::graph {

namespace {

void check_size(const Graph& g, SizeId s, const char* where) {
  internal_check(s >= 0 && s < static_cast<SizeId>(g.sizes.size()), "graph: ", where,
                 " names size ", static_cast<int64_t>(s), ", there are ", g.sizes.size());
}

void check_tables(const Graph& g) {
  for (SizeId s = 0; s < static_cast<SizeId>(g.sizes.size()); ++s) {
    const SizeExpression& e = g.sizes[s];
    if (e.op == SizeOp::constant) continue;
    if (e.op == SizeOp::input) {
      internal_check(e.value >= 0 && e.value < static_cast<int64_t>(g.size_sources.size()),
                     "graph: size ", static_cast<int64_t>(s), " has no source");
      continue;
    }
    internal_check(e.a >= 0 && e.a < s && e.b >= 0 && e.b < s, "graph: size ",
                   static_cast<int64_t>(s), " comes before its operands");
  }
  for (SizeSource s : g.size_sources) {
    if (s.input < 0) continue;
    bool exists = s.input < static_cast<int32_t>(g.inputs.size());
    internal_check(exists, "graph: a size comes from input ", static_cast<int64_t>(s.input),
                   ", there are ", g.inputs.size());
    size_t rank = g.value(g.inputs[static_cast<size_t>(s.input)].value).shape.size();
    internal_check(s.dim >= 0 && static_cast<size_t>(s.dim) < rank, "graph: a size comes from dim ",
                   static_cast<int64_t>(s.dim), " of an input with ", rank);
  }
  for (const Guard& guard : g.guards) {
    check_size(g, guard.a, "a guard");
    check_size(g, guard.b, "a guard");
  }
  for (const Requirement& r : g.requirements) {
    check_size(g, r.a, "a requirement");
    check_size(g, r.b, "a requirement");
  }
}

void check_value(const Graph& g, ValueId v, const char* where) {
  internal_check(v >= 0 && v < static_cast<ValueId>(g.values.size()), "graph: ", where,
                 " names value ", static_cast<int64_t>(v), ", there are ", g.values.size());
}

}  // namespace

void verify(const Graph& g) {
  check_tables(g);
  std::vector<bool> known(g.values.size());
  for (const Input& input : g.inputs) {
    check_value(g, input.value, "an input");
    const Value& v = g.value(input.value);
    internal_check(v.node < 0, "graph: input value ", static_cast<int64_t>(input.value),
                   " is computed by a node");
    internal_check(!known[static_cast<size_t>(input.value)], "graph: value ",
                   static_cast<int64_t>(input.value), " is two inputs");
    internal_check(!input.number || v.shape.empty(), "graph: a number with dims");
    known[static_cast<size_t>(input.value)] = true;
  }
  for (const Value& v : g.values) {
    for (SizeId s : v.shape) check_size(g, s, "a shape");
  }
  Graph scratch = g;  // type rules may make new size formulas
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const Node& n = g.nodes[i];
    for (ValueId v : n.inputs) {
      check_value(g, v, "an operand");
      internal_check(known[static_cast<size_t>(v)], "graph: node ", i, " (", n.primitive->name,
                     ") uses value ", static_cast<int64_t>(v), " before it is computed");
    }
    for (SizeId s : n.attributes.sizes) check_size(g, s, "an attribute");
    ResultTypes types = n.primitive->infer(scratch, *n.primitive, n.inputs, n.attributes);
    internal_check(types.size() == n.outputs.size(), "graph: node ", i, " (", n.primitive->name,
                   ") has ", n.outputs.size(), " results, its type rule gives ", types.size());
    for (size_t o = 0; o < n.outputs.size(); ++o) {
      check_value(g, n.outputs[o], "a result");
      const Value& v = g.value(n.outputs[o]);
      internal_check(v.node == static_cast<int32_t>(i) && v.output == static_cast<int32_t>(o),
                     "graph: value ", static_cast<int64_t>(n.outputs[o]),
                     " does not know its node");
      internal_check(v.dtype == types[o].first && v.shape == types[o].second, "graph: node ", i,
                     " (", n.primitive->name, ") has a result of another type than its rule gives");
      known[static_cast<size_t>(n.outputs[o])] = true;
    }
  }
  for (ValueId v : g.outputs) {
    check_value(g, v, "an output");
    internal_check(known[static_cast<size_t>(v)], "graph: output ", static_cast<int64_t>(v),
                   " is not computed");
  }
}

}  // namespace flambeau::graph
