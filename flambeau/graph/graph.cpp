#include "flambeau/graph/graph.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "flambeau/base/error.h"
#include "flambeau/graph/primitive.h"

namespace flambeau::graph {

ValueId Graph::add_input(DType dtype, Shape shape, bool number) {
  auto v = static_cast<ValueId>(values.size());
  values.push_back({dtype, std::move(shape)});
  inputs.push_back({v, number});
  return v;
}

int32_t Graph::add_node(const Primitive* primitive, std::vector<ValueId> operands,
                        Attributes attributes, std::vector<std::pair<DType, Shape>> results) {
  auto n = static_cast<int32_t>(nodes.size());
  Node node{primitive, std::move(operands), {}, std::move(attributes)};
  for (auto& [dtype, shape] : results) {
    auto output = static_cast<int32_t>(node.outputs.size());
    node.outputs.push_back(static_cast<ValueId>(values.size()));
    values.push_back({dtype, std::move(shape), n, output});
  }
  nodes.push_back(std::move(node));
  return n;
}

namespace {

/// Copies size formulas from one table to another.
class SizeMap {
 public:
  SizeMap(Graph& target, const Graph& source, std::vector<SizeId> inputs)
      : target_(target),
        source_(source),
        inputs_(std::move(inputs)),
        known_(static_cast<size_t>(source.sizes.size()), -1) {}
  SizeId operator()(SizeId s) {
    SizeId& known = known_[static_cast<size_t>(s)];
    if (known >= 0) return known;
    SizeExpression e = source_.sizes[s];
    SizeId made = e.op == SizeOp::constant ? target_.sizes.constant(e.value)
                  : e.op == SizeOp::input  ? inputs_[static_cast<size_t>(e.value)]
                                           : target_.sizes.binary(e.op, (*this)(e.a), (*this)(e.b));
    return known_[static_cast<size_t>(s)] = made;
  }
  Shape operator()(const Shape& shape) {
    Shape result;
    for (SizeId s : shape) result.push_back((*this)(s));
    return result;
  }

 private:
  Graph& target_;
  const Graph& source_;
  std::vector<SizeId> inputs_;
  std::vector<SizeId> known_;
};

/// Input sizes that every run finds equal, or equal to a constant, become one: values over the same
/// domain then have the same shape. The requirements stay.
Graph unify_sizes(const Graph& g) {
  auto count = static_cast<size_t>(g.sizes.size());
  std::vector<SizeId> parent(count);
  for (size_t s = 0; s < count; ++s) parent[s] = static_cast<SizeId>(s);
  auto root = [&](SizeId s) {
    while (parent[static_cast<size_t>(s)] != s) s = parent[static_cast<size_t>(s)];
    return s;
  };
  auto is_leaf = [&](SizeId s) {
    return g.sizes[s].op == SizeOp::input || g.sizes[s].op == SizeOp::constant;
  };
  auto is_constant = [&](SizeId s) { return g.sizes[s].op == SizeOp::constant; };
  for (const Requirement& r : g.requirements) {
    if (!is_leaf(r.a) || !is_leaf(r.b)) continue;
    SizeId a = root(r.a), b = root(r.b);
    if (a == b || (is_constant(a) && is_constant(b))) continue;
    // Constants stand for their class, else the first size does.
    bool keep_a = is_constant(a) || (!is_constant(b) && a < b);
    parent[static_cast<size_t>(keep_a ? b : a)] = keep_a ? a : b;
  }
  auto replaced = [&](const Shape& shape) {
    return std::any_of(shape.begin(), shape.end(), [&](SizeId s) { return root(s) != s; });
  };
  bool changes = std::any_of(g.values.begin(), g.values.end(),
                             [&](const Value& v) { return replaced(v.shape); }) ||
                 std::any_of(g.nodes.begin(), g.nodes.end(),
                             [&](const Node& n) { return replaced(n.attributes.sizes); });
  if (!changes) return g;
  Graph result = g;
  result.sizes = SizeTable();
  std::vector<SizeId> own(count), used(count);
  for (SizeId s = 0; s < static_cast<SizeId>(count); ++s) {
    if (is_constant(s))
      own[static_cast<size_t>(s)] = used[static_cast<size_t>(s)] =
          result.sizes.constant(g.sizes[s].value);
  }
  for (SizeId s = 0; s < static_cast<SizeId>(count); ++s) {
    auto at = static_cast<size_t>(s);
    const SizeExpression& e = g.sizes[s];
    if (e.op == SizeOp::constant) continue;
    own[at] = e.op == SizeOp::input ? result.sizes.input(e.value)
                                    : result.sizes.binary(e.op, used[static_cast<size_t>(e.a)],
                                                          used[static_cast<size_t>(e.b)]);
    SizeId first = root(s);
    used[at] = first == s ? own[at] : used[static_cast<size_t>(first)];
  }
  auto rewrite = [&](Shape& shape) {
    for (SizeId& s : shape) s = used[static_cast<size_t>(s)];
  };
  for (Value& v : result.values) rewrite(v.shape);
  for (Node& n : result.nodes) rewrite(n.attributes.sizes);
  for (Guard& guard : result.guards)
    guard = {guard.kind, own[static_cast<size_t>(guard.a)], own[static_cast<size_t>(guard.b)],
             guard.outcome};
  for (Requirement& r : result.requirements)
    r = {own[static_cast<size_t>(r.a)], own[static_cast<size_t>(r.b)], r.message};
  return result;
}

using NodeKey = std::tuple<const Primitive*, std::vector<ValueId>, std::vector<int64_t>,
                           std::vector<SizeId>, DType>;

/// The operand that a node equals, or -1.
ValueId identity_operand(const Graph& g, const Node& n) {
  ValueId x = n.inputs.empty() ? -1 : n.inputs[0];
  if (x < 0) return -1;
  const Value& from = g.value(x);
  const Value& to = g.value(n.outputs[0]);
  std::string_view name = n.primitive->name;
  switch (n.primitive->kind) {
    case PrimitiveKind::elementwise:
      return name == "cast" && from.dtype == to.dtype ? x : -1;
    case PrimitiveKind::reshape:
      return from.shape == to.shape ? x : -1;
    case PrimitiveKind::permute:
      for (size_t d = 0; d < n.attributes.ints.size(); ++d) {
        if (n.attributes.ints[d] != static_cast<int64_t>(d)) return -1;
      }
      return x;
    case PrimitiveKind::broadcast:
      for (size_t d = 0; d < n.attributes.ints.size(); ++d) {
        if (n.attributes.ints[d] != static_cast<int64_t>(d)) return -1;
      }
      return from.shape == to.shape ? x : -1;
    case PrimitiveKind::slice: {
      auto dim = static_cast<size_t>(n.attributes.ints[0]);
      bool whole = g.sizes.is_value(n.attributes.sizes[0], 0) &&
                   g.sizes.is_value(n.attributes.sizes[2], 1) &&
                   n.attributes.sizes[1] == from.shape[dim];
      return whole ? x : -1;
    }
    default:
      return -1;
  }
}

}  // namespace

Graph simplify(const Graph& original) {
  const Graph g = unify_sizes(original);
  std::vector<bool> live(g.nodes.size());
  std::vector<int32_t> work;
  auto visit = [&](ValueId v) {
    int32_t n = g.value(v).node;
    if (n >= 0 && !live[static_cast<size_t>(n)]) {
      live[static_cast<size_t>(n)] = true;
      work.push_back(n);
    }
  };
  for (ValueId v : g.outputs) visit(v);
  while (!work.empty()) {
    int32_t n = work.back();
    work.pop_back();
    for (ValueId v : g.nodes[static_cast<size_t>(n)].inputs) visit(v);
  }

  Graph result;
  result.sizes = g.sizes;
  result.size_sources = g.size_sources;
  result.guards = g.guards;
  result.requirements = g.requirements;
  std::vector<ValueId> map(g.values.size(), -1);
  for (const Input& input : g.inputs) {
    map[static_cast<size_t>(input.value)] =
        result.add_input(g.value(input.value).dtype, g.value(input.value).shape, input.number);
  }
  std::map<NodeKey, int32_t> seen;
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    if (!live[i]) continue;
    const Node& n = g.nodes[i];
    if (ValueId same = identity_operand(g, n); same >= 0) {
      map[static_cast<size_t>(n.outputs[0])] = map[static_cast<size_t>(same)];
      continue;
    }
    std::vector<ValueId> operands;
    for (ValueId v : n.inputs) operands.push_back(map[static_cast<size_t>(v)]);
    NodeKey key{n.primitive, operands, n.attributes.ints, n.attributes.sizes, n.attributes.dtype};
    auto [it, added] = seen.try_emplace(std::move(key), -1);
    if (added) {
      ResultTypes types;
      for (ValueId v : n.outputs) types.emplace_back(g.value(v).dtype, g.value(v).shape);
      it->second =
          result.add_node(n.primitive, std::move(operands), n.attributes, std::move(types));
    }
    const Node& made = result.nodes[static_cast<size_t>(it->second)];
    for (size_t o = 0; o < n.outputs.size(); ++o)
      map[static_cast<size_t>(n.outputs[o])] = made.outputs[o];
  }
  for (ValueId v : g.outputs) result.outputs.push_back(map[static_cast<size_t>(v)]);
  return result;
}

std::vector<ValueId> inline_graph(Graph& target, const Graph& source,
                                  const std::vector<ValueId>& operands,
                                  const std::vector<SizeId>& size_arguments) {
  std::vector<SizeId> inputs;
  for (SizeSource s : source.size_sources) {
    inputs.push_back(s.input < 0 ? size_arguments[static_cast<size_t>(s.dim)]
                                 : target.value(operands[static_cast<size_t>(s.input)])
                                       .shape[static_cast<size_t>(s.dim)]);
  }
  SizeMap sizes(target, source, std::move(inputs));
  std::vector<ValueId> map(source.values.size(), -1);
  for (size_t i = 0; i < source.inputs.size(); ++i)
    map[static_cast<size_t>(source.inputs[i].value)] = operands[i];
  for (const Node& n : source.nodes) {
    std::vector<ValueId> from;
    for (ValueId v : n.inputs) from.push_back(map[static_cast<size_t>(v)]);
    Attributes attributes = n.attributes;
    attributes.sizes = sizes(n.attributes.sizes);
    ResultTypes types;
    for (ValueId v : n.outputs)
      types.emplace_back(source.value(v).dtype, sizes(source.value(v).shape));
    int32_t made =
        target.add_node(n.primitive, std::move(from), std::move(attributes), std::move(types));
    for (size_t o = 0; o < n.outputs.size(); ++o)
      map[static_cast<size_t>(n.outputs[o])] = target.nodes[static_cast<size_t>(made)].outputs[o];
  }
  for (const Guard& guard : source.guards)
    target.guards.push_back({guard.kind, sizes(guard.a), sizes(guard.b), guard.outcome});
  for (const Requirement& r : source.requirements) {
    SizeId a = sizes(r.a), b = sizes(r.b);
    if (a != b) target.requirements.push_back({a, b, r.message});
  }
  return map;
}

}  // namespace flambeau::graph
