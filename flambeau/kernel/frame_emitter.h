// The writer of one frame's functions: what its parts share. frame.cpp has loops over a domain
// without reductions, frame_rows.cpp the reductions, frame_data.cpp writes at positions and scans.
// Private to these.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "flambeau/base/error.h"
#include "flambeau/kernel/frame.h"

namespace flambeau::kernel {

using graph::Graph;
using graph::Node;
using graph::PrimitiveKind;
using graph::Shape;
using graph::SizeId;
using graph::SizeOp;
using graph::ValueId;
using loop::kNone;
using loop::Opcode;
using loop::Value;
using prim::Monoid;

/// A run of dims of the domain that are looped over as one: the last dim of the run carries the
/// index.
struct Loop {
  size_t first, last;
  SizeId extent;
  bool reduced;
};
class FrameEmitter {
 public:
  FrameEmitter(const Graph& g, const Frame& f, Schedule& schedule, Step& step,
               const std::map<ValueId, Buffer>& buffers, int vector_bytes)
      : g_(g),
        f_(f),
        schedule_(schedule),
        step_(step),
        buffers_(buffers),
        lanes_(vector_bytes / 4) {}

  void emit() {
    find_loops();
    bool any_reduced = std::find(f_.reduced.begin(), f_.reduced.end(), true) != f_.reduced.end();
    if (f_.kind == Frame::Kind::put) return emit_put();
    if (f_.kind == Frame::Kind::scan) return emit_scan();
    if (f_.kind == Frame::Kind::blocks) return emit_blocks();
    if (!any_reduced) return emit_pointwise();
    emit_rows();
  }

 private:
  std::vector<Loop> loops(bool reduced) const {
    std::vector<Loop> result;
    for (const Loop& l : loops_) {
      if (l.reduced == reduced) result.push_back(l);
    }
    return result;
  }

  // Adjacent dims become one loop where every access steps through them together.
  void find_loops();

  /// Reductions that this frame computes; others are read from memory.
  bool is_reduction(const Root& r) const {
    const Node* n = g_.node_of(r.value);
    return n && n->primitive->kind == PrimitiveKind::reduce && !buffers_.count(r.value);
  }
  bool is_full(const Root& r) const {
    return !is_reduction(r) && g_.value(r.value).shape == f_.full;
  }

  Access root_access(const Root& r, const Access& domain) const {
    if (is_full(r)) return domain;
    Access kept;
    for (size_t d = 0; d < domain.size(); ++d) {
      if (!f_.reduced[d]) kept.push_back(domain[d]);
    }
    return kept;
  }

  Indices kept_indices(const Indices& domain) const {
    Indices kept;
    for (size_t d = 0; d < domain.size(); ++d) {
      if (!f_.reduced[d]) kept.push_back(domain[d]);
    }
    return kept;
  }

  Indices root_indices(const Root& r, const Indices& domain) const {
    return is_full(r) ? domain : kept_indices(domain);
  }

  SizeId elements() {
    SizeId n = schedule_.sizes.constant(1);
    for (SizeId s : f_.full) n = schedule_.sizes.binary(SizeOp::mul, n, s);
    return n;
  }

  /// A function under construction.
  struct Open {
    loop::Builder builder;
    Emitter e;
    Open(FrameEmitter& f)
        : builder("f" + std::to_string(f.step_.module.functions.size())),
          e(builder, f.g_, f.schedule_, f.step_, f.buffers_, f.lanes_) {}
  };

  void finish(Emitter& e, Phase phase);

  Indices zero_domain(Emitter& e) { return Indices(f_.full.size(), e.zero()); }

  /// Splits a linear position over loops, the last one fastest.
  void set_positions(Emitter& e, Indices& domain, const std::vector<Loop>& loops, Index linear);

  SizeId product(const std::vector<Loop>& loops) {
    SizeId n = schedule_.sizes.constant(1);
    for (const Loop& l : loops) n = schedule_.sizes.binary(SizeOp::mul, n, l.extent);
    return n;
  }

  /// for (i = lo; i < hi; i += lanes) body(i, mask): whole vectors without a mask, then a masked
  /// one.
  void vector_loop(Emitter& e, Value lo, Value hi, const std::function<void(Value, Value)>& body);

  Value lane_mask(Emitter& e, Value first, Value end) {
    return e.b.compare(Opcode::lt, e.positions({first, 1, kNone}), e.splat(end));
  }

  void store_roots(Emitter& e, const std::vector<const Root*>& roots, const Indices& domain,
                   Value mask);

  /// Whether evaluating `v` early is the same: nothing in it reports errors or waits for a result
  /// of the row.
  bool can_hoist(const Emitter& e, ValueId v) const;

  /// Evaluates what `values` read at positions that the loops over `inner` do not change, before
  /// those loops.
  void hoist(Emitter& e, const std::vector<std::pair<ValueId, Access>>& values,
             const std::vector<bool>& inner, const Indices& domain, Value mask);
  std::vector<std::pair<ValueId, Access>> root_accesses(
      const std::vector<const Root*>& roots) const;
  Access domain_access() const;
  /// What the whole kernel reads at one position: by all roots, and by the operands of reductions.
  void hoist_fixed(Emitter& e);

  std::vector<const Root*> stored(bool full) const;

  void emit_pointwise();

  struct Reduction {
    ValueId value;
    Monoid monoid;
    DType dtype;  // of the operand
    ValueId operand;
    int level;
  };

  std::vector<Reduction> reductions();

  static bool has_position(const Reduction& r) { return r.monoid >= Monoid::argmax; }

  static void flatten(const std::vector<Reduction>& rs,
                      const std::vector<std::vector<Accumulator>>& accs, std::vector<Value>& out) {
    for (size_t i = 0; i < rs.size(); ++i) {
      for (const Accumulator& a : accs[i]) {
        out.push_back(a.value);
        if (has_position(rs[i])) out.push_back(a.position);
      }
    }
  }
  static void unflatten(const std::vector<Reduction>& rs, const std::vector<Value>& in,
                        std::vector<std::vector<Accumulator>>& accs) {
    size_t next = 0;
    for (size_t i = 0; i < rs.size(); ++i) {
      for (Accumulator& a : accs[i]) {
        a.value = in[next++];
        if (has_position(rs[i])) a.position = in[next++];
      }
    }
  }

  /// A value that a reduction computes and a later pass over the row needs again, kept in the
  /// memory of a root that is written last.
  struct Kept {
    ValueId value;
    const Root* root;
  };

  bool along_row() const { return f_.reduced.back(); }

  /// One block [lo, hi) of the flattened reduced extent: a result per reduction, with 1 lane along
  /// rows and `lanes` across rows.
  std::vector<Accumulator> reduce_block(Emitter& e, const std::vector<Reduction>& rs,
                                        const Indices& row, Value row_mask, Value lo, Value hi,
                                        const std::optional<Kept>& kept = std::nullopt);

  /// Work for a vector of `v` where everything in `buffers_` is read.
  int work(ValueId v) const;

  bool reads(ValueId from, ValueId wanted) const;

  /// The first costly value that the reductions `now` read and `later` ones or the stored roots
  /// read again.
  std::optional<Kept> value_to_keep(const std::vector<Reduction>& now,
                                    const std::vector<Reduction>& later) const;
  static constexpr int kCostly = 12;  // instructions, about twice a store and a load

  /// All reductions of one level over a row (or `lanes` rows): blocks in ascending order.
  void reduce_row(Emitter& e, const std::vector<Reduction>& rs, const Indices& row, Value row_mask,
                  const std::optional<Kept>& kept);

  /// Everything of one row, or of `lanes` rows when the last dim is kept.
  void row(Emitter& e, const std::vector<Reduction>& all, Indices domain, Value mask);

  void store_row(Emitter& e, const Indices& domain, Value mask);

  void emit_rows();

  // A reduction of everything: a task is a block; a second function adds the blocks up in order.
  void emit_blocks();

  // out[.., index, ..] op= src in ascending order of the index positions; tasks are the other dims,
  // which no two index positions share. The first operand was copied to the result before.
  void emit_put();

  Lanes combined(Emitter& e, prim::Combine how, DType dtype, Lanes a, Lanes x);

  // Ascending along the dim, one chain; tasks are the other dims.
  void emit_scan();

  const Graph& g_;
  const Frame& f_;
  Schedule& schedule_;
  Step& step_;
  std::map<ValueId, Buffer> buffers_;
  int lanes_;
  std::vector<Loop> loops_;
  bool unknown_access_ = false;
};

}  // namespace flambeau::kernel
