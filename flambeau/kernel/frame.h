// A frame: values that are computed in one pass over one domain. The domain is the shape `full`;
// the dims marked `reduced` are looped over inside a task, the others are the tasks. A reduction
// over the reduced dims stays in registers for the values of the same row that use it.
#pragma once

#include <map>
#include <vector>

#include "flambeau/kernel/emitter.h"
#include "flambeau/prim/prim.h"

namespace flambeau::kernel {

struct Root {
  graph::ValueId value;
  BufferId buffer = -1;  // where it is stored; -1: used in its row only
  Buffer layout{-1, true, {}};
};

struct Frame {
  enum class Kind : uint8_t { rows, blocks, put, scan } kind = Kind::rows;
  graph::Shape full;
  std::vector<bool> reduced;
  std::vector<Root> roots;  // operands come first
};

/// Number of interleaved chains and length of a block of the reduction order (docs/design.md).
constexpr int kChainsAlongRow = 32;   // the last dim is reduced
constexpr int kChainsAcrossRows = 4;  // the last dim is kept
constexpr int64_t kReductionBlock = 4096;

/// Which dim of the frame's domain each dim of a value is indexed by, when walking from a root.
constexpr int kUnknown = -1, kFixed = -2;  // kFixed: always index 0
using Access = std::vector<int>;

/// Calls visit(value, access) for every value that evaluating `root` at `access` reads, root
/// included, once per distinct access. Descends into a value only while visit returns true.
void walk(const graph::Graph& graph, graph::ValueId root, const Access& access,
          const std::function<bool(graph::ValueId, const Access&)>& visit);

/// Writes the functions and phases of a frame. `buffers` are the values that earlier frames left in
/// memory.
void emit_frame(const graph::Graph& graph, const Frame& frame, Schedule& schedule, Step& step,
                const std::map<graph::ValueId, Buffer>& buffers, int vector_bytes);

// Reduction arithmetic (monoid.cpp). An accumulator is one loop value, two for arg- (value,
// position).
struct Accumulator {
  loop::Value value = loop::kNone, position = loop::kNone;
};
Accumulator identity(loop::Builder& b, prim::Monoid monoid, DType dtype, int lanes);
Accumulator combine(loop::Builder& b, prim::Monoid monoid, DType dtype, Accumulator a,
                    Accumulator x);
Accumulator choose(loop::Builder& b, loop::Value mask, Accumulator a, Accumulator otherwise);

}  // namespace flambeau::kernel
