// The graph: values in SSA form, computed by nodes, each an application of a primitive. Shapes are
// lists of size expressions. Graphs are what vjp, fusion and every other pass work on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "flambeau/graph/size.h"
#include "flambeau/tensor/dtype.h"

namespace flambeau::graph {

struct Primitive;  // prim/primitive.h

using ValueId = int32_t;
using Shape = std::vector<SizeId>;

/// What a node knows besides its operands; which fields mean what is said by its primitive.
struct Attributes {
  std::vector<int64_t> ints;
  std::vector<SizeId> sizes;
  DType dtype = DType::float32;
  friend bool operator==(const Attributes&, const Attributes&) = default;
};

struct Value {
  DType dtype;
  Shape shape;
  int32_t node = -1;   // the node that computes it, -1 for an input
  int32_t output = 0;  // which of the node's outputs it is
};

struct Node {
  const Primitive* primitive;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  Attributes attributes;
};

/// Where an input size comes from: dim `dim` of graph input `input`, or (input = -1) integer
/// argument number `dim`.
struct SizeSource {
  int32_t input;
  int32_t dim;
  friend bool operator==(SizeSource, SizeSource) = default;
};

/// A comparison that tracing decided with the sizes it saw. A program is valid where it holds.
struct Guard {
  enum class Kind : uint8_t { equal, less } kind;
  SizeId a, b;
  bool outcome;
};

/// Sizes that must be equal in every run; else the run is an error.
struct Requirement {
  SizeId a, b;
  std::string message;  // {a} and {b} stand for the sizes; without them they follow it
};

/// A graph input: a tensor, or a number (0-d, value in the argument block).
struct Input {
  ValueId value;
  bool number = false;
};

class Graph {
 public:
  std::vector<Value> values;
  std::vector<Node> nodes;  // in an order in which operands come first
  std::vector<Input> inputs;
  std::vector<ValueId> outputs;
  SizeTable sizes;
  std::vector<SizeSource> size_sources;  // by number of the input size
  std::vector<Guard> guards;
  std::vector<Requirement> requirements;

  ValueId add_input(DType dtype, Shape shape, bool number);
  /// Adds a node whose outputs have the given types; returns its number.
  int32_t add_node(const Primitive* primitive, std::vector<ValueId> operands, Attributes attributes,
                   std::vector<std::pair<DType, Shape>> results);
  const Value& value(ValueId v) const { return values[static_cast<size_t>(v)]; }
  const Node* node_of(ValueId v) const {
    int32_t n = value(v).node;
    return n < 0 ? nullptr : &nodes[static_cast<size_t>(n)];
  }
};

/// The text form, one node a line; `parse` reads it back to a graph that prints the same.
std::string print(const Graph& graph);
Graph parse(std::string_view text);

/// Throws an internal Error when operands are used before they are computed, types do not follow
/// the primitives' rules, or ids are out of range.
void verify(const Graph& graph);

/// Bit-exact rewrites: makes sizes that must be equal one, removes nodes whose results are not
/// used, merges equal nodes, drops casts to the same type and index maps that change nothing.
Graph simplify(const Graph& graph);

/// Copies the nodes of `source` to `target`: input i becomes value `operands[i]`, the input sizes
/// follow from the operands' shapes and from `size_arguments` (by number). Returns the values that
/// stand for all values of `source`.
std::vector<ValueId> inline_graph(Graph& target, const Graph& source,
                                  const std::vector<ValueId>& operands,
                                  const std::vector<SizeId>& size_arguments);

}  // namespace flambeau::graph
