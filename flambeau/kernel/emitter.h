// Evaluates graph values inside a kernel on demand: "the lanes of value v at this index". Index
// maps only transform the index, so chains of elementwise operations and index maps need no memory
// between them.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "flambeau/graph/primitive.h"
#include "flambeau/kernel/schedule.h"
#include "flambeau/loop/builder.h"
#include "flambeau/prim/lowering.h"

namespace flambeau::kernel {

/// Position along one dim, for all lanes: base + lane * step, or any vector of positions.
struct Index {
  loop::Value base = loop::kNone;  // i64
  int64_t step = 0;
  loop::Value vector = loop::kNone;  // i64 lanes; base and step are then unused
  bool uniform() const { return vector == loop::kNone && step == 0; }
  friend auto operator<=>(const Index&, const Index&) = default;
};
using Indices = std::vector<Index>;

/// A vector of elements: one loop value, two for complex numbers.
struct Lanes {
  loop::Value re = loop::kNone, im = loop::kNone;
};

/// How a value lies in memory.
struct Buffer {
  BufferId id;
  bool contiguous;  // row-major by the value's shape; else strides come from slots and `layout`
                    // tells about them
  Layout layout;
};

class Emitter {
 public:
  /// Writes to `builder`. Values in `buffers` are read from memory, all others are computed.
  Emitter(loop::Builder& builder, const graph::Graph& graph, Schedule& schedule, Step& step,
          const std::map<graph::ValueId, Buffer>& buffers, int lanes);
  loop::Builder& b;
  const int lanes;

  loop::Value slot(Slot s, loop::Scalar scalar);
  loop::Value size(graph::SizeId s);
  loop::Value pointer(BufferId id) { return slot({Slot::Kind::pointer, id, 0}, loop::Scalar::ptr); }
  Index zero();
  loop::Value positions(const Index& index);  // i64 lanes
  Index add(const Index& a, const Index& b);
  Index scale(const Index& a, graph::SizeId factor);
  std::pair<Index, Index> divide(const Index& a, graph::SizeId divisor);  // quotient and remainder
  std::pair<Index, Index> divide_consecutive(loop::Value base, loop::Value divisor);

  /// The lanes of `v` at `index` (one per dim). Lanes where `mask` is false are unspecified and
  /// read nothing.
  Lanes value(graph::ValueId v, const Indices& index, loop::Value mask);
  /// Values known without evaluation in this scope: results of the row at hand.
  void know(graph::ValueId v, Lanes lanes) { known_.back()[v] = lanes; }

  bool knows(graph::ValueId v) const;

  Lanes load(const Buffer& buffer, graph::ValueId v, const Indices& index, loop::Value mask);
  void store(const Buffer& buffer, graph::ValueId v, const Indices& index, Lanes lanes,
             loop::Value mask);
  /// Element number of an index in memory.
  Index address(const Buffer& buffer, graph::ValueId v, const Indices& index);

  Lanes select(loop::Value condition, Lanes a, Lanes b);
  loop::Value splat(loop::Value scalar) { return b.splat(scalar, lanes); }
  loop::Value both(loop::Value mask, loop::Value condition);

  /// At least one lane of `mask` is true: a position that is the same for all lanes exists.
  void has_some(loop::Value mask) {
    if (mask != loop::kNone) some_.insert(mask);
  }

  // Results computed inside a block of the loop IR are forgotten when it ends.
  void enter();
  void leave();

  void raise(loop::Value condition, prim::KernelError error, loop::Value detail, loop::Value limit,
             loop::Value mask);

 private:
  Lanes compute(graph::ValueId v, const Indices& index, loop::Value mask);
  Lanes elementwise(const graph::Node& n, const Indices& index, loop::Value mask);
  Lanes constant(const graph::Node& n);
  Lanes random(const graph::Node& n, const Indices& index, loop::Value mask);
  /// Whether dims first to last of a buffer lie like one dim with the last one's stride.
  static bool steps_together(const Buffer& buffer, size_t first, size_t last);
  Lanes reshape(const graph::Node& n, const Indices& index, loop::Value mask);
  Lanes padded(const graph::Node& n, const Indices& index, loop::Value mask);
  Lanes concatenated(const graph::Node& n, const Indices& index, loop::Value mask);
  Lanes taken(const graph::Node& n, const Indices& index, loop::Value mask);
  Lanes number(int32_t input);
  loop::Value read(loop::Value pointer, const Index& at, loop::Scalar scalar, loop::Value mask);

  const graph::Graph& g_;
  Schedule& schedule_;
  Step& step_;
  const std::map<graph::ValueId, Buffer>& buffers_;
  using Key = std::tuple<graph::ValueId, Indices, loop::Value>;
  std::vector<std::map<Key, Lanes>> memo_;
  std::vector<std::map<graph::ValueId, Lanes>> known_;
  std::set<loop::Value> some_;
};

/// Random words of Philox4x32-10 for a vector of indices: (seed, offset, index) -> 32 bits in an
/// i64.
loop::Value philox_word(loop::Builder& b, loop::Value seed, loop::Value offset, loop::Value index,
                        int word);

}  // namespace flambeau::kernel
