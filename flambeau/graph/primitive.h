// What a primitive is: fixed semantics, no broadcasting, no promotion, no defaults. It states its
// type rule, its factors, its derivatives and how a kernel computes it. The primitives themselves
// are in prim/, one family a file.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "flambeau/graph/graph.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau::prim {
struct Lowering;  // prim/lowering.h
}

namespace flambeau::graph {

/// One application of a primitive inside a trace, as derivative rules see it.
struct Application {
  const Primitive* primitive;
  const Attributes& attributes;
  const std::vector<Tensor>& inputs;
  const std::vector<Tensor>& outputs;
};

/// What happens along a dim of an operand. Batching and sharding derive from these.
struct Factor {
  enum class Kind : uint8_t {
    mapped,   // the same position of every operand and result that has the factor
    reduced,  // combined by a monoid; no result has it
    whole,    // the primitive needs the whole extent
  };
  Kind kind;
  std::vector<int32_t> input_dims;   // by operand: its dim with this factor, -1 if it has none
  std::vector<int32_t> output_dims;  // by result
};

using ResultTypes = std::vector<std::pair<DType, Shape>>;

enum class PrimitiveKind : uint8_t {
  elementwise,  // all operands and the result have one shape
  barrier,      // the identity, with no derivative
  constant,
  iota,
  random,  // made from nothing or from numbers
  broadcast,
  permute,
  reshape,
  slice,
  pad,
  reverse,
  concat,  // index maps
  take,
  put,  // read and write at positions given by an index tensor
  reduce,
  scan,
  dot,          // [batch, m, k] x [batch, k, n] -> [batch, m, n]
  convolution,  // and the cotangent of its weight
};

struct Definition {
  const char* name;
  PrimitiveKind kind;
  /// Result types; throws an internal Error naming the primitive when operands do not fit.
  ResultTypes (*infer)(Graph&, const Primitive&, const std::vector<ValueId>& operands,
                       const Attributes&) = nullptr;
  /// Cotangents of the operands from those of the results (undefined where there is none: integers,
  /// or no influence).
  std::vector<Tensor> (*vjp)(const Application&, const std::vector<Tensor>& cotangents) = nullptr;
  /// Tangents of the results from those of the operands (undefined: zero).
  std::vector<Tensor> (*jvp)(const Application&, const std::vector<Tensor>& tangents) = nullptr;
  std::vector<Factor> (*factors)(const Graph&, const Node&) = nullptr;
  /// Elementwise primitives: the result from the operands' vectors.
  int32_t (*lower)(prim::Lowering&) = nullptr;
  /// The components of complex operands are computed apart, by the same code (select).
  bool componentwise = false;
};

struct Primitive : Definition {
  using Kind = PrimitiveKind;
  /// Links the primitive into the list that find_primitive searches.
  explicit Primitive(const Definition& definition);
  Primitive(const Primitive&) = delete;
  const Primitive* next;
};

/// The primitive of that name, or nullptr.
const Primitive* find_primitive(std::string_view name);
/// All of them, for tests and documentation.
std::vector<const Primitive*> all_primitives();

/// Applies a primitive in the current trace.
std::vector<Tensor> apply(const Primitive& primitive, const std::vector<Tensor>& operands,
                          Attributes attributes = {});
inline Tensor apply_one(const Primitive& primitive, const std::vector<Tensor>& operands,
                        Attributes attributes = {}) {
  return apply(primitive, operands, std::move(attributes))[0];
}

}  // namespace flambeau::graph
