#include "flambeau/kernel/frame.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <set>

#include "flambeau/base/error.h"
#include "flambeau/kernel/cost.h"

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

namespace {

/// Access of a node's operand from that of its result; false when the operand is not read by index maps.
Access operand_access(const Graph& g, const Node& n, size_t operand, const Access& access) {
  const Shape& from = g.value(n.inputs[operand]).shape;
  Access result(from.size(), kUnknown);
  switch (n.primitive->kind) {
    case PrimitiveKind::elementwise:
    case PrimitiveKind::barrier: result = access; break;
    case PrimitiveKind::broadcast:
      std::fill(result.begin(), result.end(), kFixed);
      for (size_t d = 0; d < access.size(); ++d) {
        if (n.attributes.ints[d] >= 0) result[static_cast<size_t>(n.attributes.ints[d])] = access[d];
      }
      break;
    case PrimitiveKind::permute:
      for (size_t d = 0; d < access.size(); ++d) result[static_cast<size_t>(n.attributes.ints[d])] = access[d];
      break;
    case PrimitiveKind::reshape: {
      // Dims of size 1 come and go; everything else must be the same dims in the same order.
      const Shape& to = n.attributes.sizes;
      std::vector<size_t> to_dims, from_dims;
      for (size_t d = 0; d < to.size(); ++d) {
        if (!g.sizes.is_value(to[d], 1)) to_dims.push_back(d);
      }
      for (size_t d = 0; d < from.size(); ++d) {
        if (!g.sizes.is_value(from[d], 1)) from_dims.push_back(d);
      }
      bool same = to_dims.size() == from_dims.size();
      for (size_t i = 0; same && i < to_dims.size(); ++i) same = to[to_dims[i]] == from[from_dims[i]];
      for (size_t i = 0; same && i < to_dims.size(); ++i) result[from_dims[i]] = access[to_dims[i]];
      break;
    }
    case PrimitiveKind::slice:
    case PrimitiveKind::concat:
      result = access;
      result[static_cast<size_t>(n.attributes.ints[0])] = kUnknown;
      break;
    case PrimitiveKind::pad:
      if (operand == 0) {
        result = access;
        result[static_cast<size_t>(n.attributes.ints[0])] = kUnknown;
      }
      break;
    case PrimitiveKind::reverse:
      result = access;
      for (int64_t d : n.attributes.ints) result[static_cast<size_t>(d)] = kUnknown;
      break;
    default: break;
  }
  for (size_t d = 0; d < from.size(); ++d) {
    if (g.sizes.is_value(from[d], 1)) result[d] = kFixed;
  }
  return result;
}

}  // namespace

void walk(const Graph& g, ValueId root, const Access& access, const std::function<bool(ValueId, const Access&)>& visit) {
  std::set<std::pair<ValueId, Access>> seen;
  std::vector<std::pair<ValueId, Access>> work{{root, access}};
  while (!work.empty()) {
    auto [v, at] = work.back();
    work.pop_back();
    if (!seen.emplace(v, at).second || !visit(v, at)) continue;
    const Node* n = g.node_of(v);
    if (!n) continue;
    for (size_t i = 0; i < n->inputs.size(); ++i) work.emplace_back(n->inputs[i], operand_access(g, *n, i, at));
  }
}

namespace {

/// A run of dims of the domain that are looped over as one: the last dim of the run carries the index.
struct Loop {
  size_t first, last;
  SizeId extent;
  bool reduced;
};

class FrameEmitter {
 public:
  FrameEmitter(const Graph& g, const Frame& f, Schedule& schedule, Step& step, const std::map<ValueId, Buffer>& buffers, int vector_bytes)
      : g_(g), f_(f), schedule_(schedule), step_(step), buffers_(buffers), lanes_(vector_bytes / 4) {}

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
  void find_loops() {
    size_t rank = f_.full.size();
    std::vector<bool> joins(rank, true);  // dim d with dim d + 1
    Access domain(rank);
    for (size_t d = 0; d < rank; ++d) domain[d] = schedule_.sizes.is_value(f_.full[d], 1) ? kFixed : static_cast<int>(d);
    auto forbid = [&](const Access& a) {
      for (int d : a) {
        if (d >= 0) joins[static_cast<size_t>(d)] = false;
        if (d > 0) joins[static_cast<size_t>(d) - 1] = false;
      }
    };
    auto leaf = [&](const Access& a, const Layout* layout) {
      // Position of each domain dim in the access.
      std::vector<int> where(rank, -1);
      for (size_t d = 0; d < a.size(); ++d) {
        if (a[d] >= 0) where[static_cast<size_t>(a[d])] = where[static_cast<size_t>(a[d])] == -1 ? static_cast<int>(d) : -2;
      }
      for (size_t d = 0; d + 1 < rank; ++d) {
        if (where[d] == -1 && where[d + 1] == -1) continue;
        bool together = where[d] >= 0 && where[d + 1] == where[d] + 1 && (!layout || ((*layout)[static_cast<size_t>(where[d])] & kMerges));
        if (!together) joins[d] = false;
      }
    };
    // An index that was not followed may depend on any dim.
    auto unknown = [](const Access& a) { return std::find(a.begin(), a.end(), kUnknown) != a.end(); };
    auto visit = [&](ValueId v, const Access& a) {
      if (auto it = buffers_.find(v); it != buffers_.end()) {
        leaf(a, it->second.contiguous ? nullptr : &it->second.layout);
        if (unknown(a)) unknown_access_ = true;
        return false;
      }
      const Node* n = g_.node_of(v);
      if (!n) return false;
      switch (n->primitive->kind) {
        case PrimitiveKind::elementwise:
        case PrimitiveKind::barrier:
        case PrimitiveKind::broadcast:
        case PrimitiveKind::permute: return true;
        case PrimitiveKind::constant: return false;
        case PrimitiveKind::random: leaf(a, nullptr); return true;
        case PrimitiveKind::reduce: return false;
        default: forbid(a); unknown_access_ = true; return true;
      }
    };
    for (const Root& r : f_.roots) {
      const Node* n = g_.node_of(r.value);
      if (is_reduction(r)) {
        walk(g_, n->inputs[0], domain, visit);
      } else if (f_.kind == Frame::Kind::rows) {
        walk(g_, r.value, root_access(r, domain), [&](ValueId v, const Access& a) { return visit(v, a); });
      }
      if (r.buffer >= 0) leaf(root_access(r, domain), r.layout.contiguous ? nullptr : &r.layout.layout);
    }
    bool join_allowed = f_.kind == Frame::Kind::rows || f_.kind == Frame::Kind::blocks;
    for (size_t d = 0; d < rank; ++d) {
      if (domain[d] == kFixed) continue;
      // Dims of size 1 between two dims do not keep them apart.
      bool joined = !loops_.empty() && join_allowed && !unknown_access_ && loops_.back().reduced == f_.reduced[d] &&
                    loops_.back().last + 1 == d && joins[d - 1];
      if (joined) {
        loops_.back().last = d;
        loops_.back().extent = schedule_.sizes.binary(SizeOp::mul, loops_.back().extent, f_.full[d]);
      } else {
        loops_.push_back({d, d, f_.full[d], f_.reduced[d]});
      }
    }
  }

  /// Reductions that this frame computes; others are read from memory.
  bool is_reduction(const Root& r) const {
    const Node* n = g_.node_of(r.value);
    return n && n->primitive->kind == PrimitiveKind::reduce && !buffers_.count(r.value);
  }
  bool is_full(const Root& r) const { return !is_reduction(r) && g_.value(r.value).shape == f_.full; }

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

  Indices root_indices(const Root& r, const Indices& domain) const { return is_full(r) ? domain : kept_indices(domain); }

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
        : builder("f" + std::to_string(f.step_.module.functions.size())), e(builder, f.g_, f.schedule_, f.step_, f.buffers_, f.lanes_) {}
  };

  void finish(Emitter& e, Phase phase) {
    phase.function = static_cast<int32_t>(step_.module.functions.size());
    phase.elements = elements();
    step_.module.functions.push_back(e.b.finish());
    step_.phases.push_back(std::move(phase));
  }

  Indices zero_domain(Emitter& e) { return Indices(f_.full.size(), e.zero()); }

  /// Splits a linear position over loops, the last one fastest.
  void set_positions(Emitter& e, Indices& domain, const std::vector<Loop>& loops, Index linear) {
    for (size_t k = loops.size(); k-- > 0;) {
      if (k == 0) {
        domain[loops[k].last] = linear;
      } else {
        auto [q, r] = e.divide(linear, loops[k].extent);
        domain[loops[k].last] = r;
        linear = q;
      }
    }
  }

  SizeId product(const std::vector<Loop>& loops) {
    SizeId n = schedule_.sizes.constant(1);
    for (const Loop& l : loops) n = schedule_.sizes.binary(SizeOp::mul, n, l.extent);
    return n;
  }

  /// for (i = lo; i < hi; i += lanes) body(i, mask): whole vectors without a mask, then a masked one.
  void vector_loop(Emitter& e, Value lo, Value hi, const std::function<void(Value, Value)>& body) {
    auto& b = e.b;
    Value width = b.integer(-lanes_);
    Value whole = b.add(lo, b.bit_and(b.sub(hi, lo), width));
    b.loop(lo, whole, lanes_, {}, [&](Value i, const std::vector<Value>&) -> std::vector<Value> {
      e.enter();
      body(i, kNone);
      e.leave();
      return {};
    });
    b.branch(b.compare(Opcode::lt, whole, hi),
             [&]() -> std::vector<Value> {
               e.enter();
               body(whole, lane_mask(e, whole, hi));
               e.leave();
               return {};
             },
             []() -> std::vector<Value> { return {}; });
  }

  Value lane_mask(Emitter& e, Value first, Value end) {
    return e.b.compare(Opcode::lt, e.positions({first, 1, kNone}), e.splat(end));
  }

  void store_roots(Emitter& e, const std::vector<const Root*>& roots, const Indices& domain, Value mask) {
    std::vector<Lanes> values;
    for (const Root* r : roots) values.push_back(e.value(r->value, root_indices(*r, domain), mask));
    for (size_t i = 0; i < roots.size(); ++i) e.store(roots[i]->layout, roots[i]->value, root_indices(*roots[i], domain), values[i], mask);
  }

  /// Whether evaluating `v` early is the same: nothing in it reports errors or waits for a result of the row.
  bool can_hoist(const Emitter& e, ValueId v) const {
    bool can = true;
    walk(g_, v, Access(g_.value(v).shape.size(), kUnknown), [&](ValueId u, const Access&) {
      if (buffers_.count(u)) return false;
      const Node* n = g_.node_of(u);
      if (!n) return false;
      if (n->primitive->kind == PrimitiveKind::reduce) {
        can &= e.knows(u);
        return false;
      }
      bool whole_numbers = n->primitive->kind == PrimitiveKind::elementwise && is_integer(g_.value(u).dtype);
      if (n->primitive->kind == PrimitiveKind::take || whole_numbers) can = false;
      return can;
    });
    return can;
  }

  /// Evaluates what `values` read at positions that the loops over `inner` do not change, before those loops.
  void hoist(Emitter& e, const std::vector<std::pair<ValueId, Access>>& values, const std::vector<bool>& inner, const Indices& domain, Value mask) {
    for (const auto& [root, access] : values) {
      walk(g_, root, access, [&](ValueId v, const Access& a) {
        bool memory = buffers_.count(v) > 0;
        bool fixed = std::all_of(a.begin(), a.end(), [&](int d) { return d == kFixed || (d >= 0 && !inner[static_cast<size_t>(d)]); });
        const Node* n = g_.node_of(v);
        if (n && !memory && (n->primitive->kind == PrimitiveKind::reduce || n->primitive->kind == PrimitiveKind::constant)) return false;
        if (!fixed || !can_hoist(e, v)) return !memory;
        Indices at;
        for (int d : a) at.push_back(d == kFixed ? e.zero() : domain[static_cast<size_t>(d)]);
        e.value(v, at, mask);
        return false;
      });
    }
  }
  std::vector<std::pair<ValueId, Access>> root_accesses(const std::vector<const Root*>& roots) const {
    std::vector<std::pair<ValueId, Access>> result;
    for (const Root* r : roots) result.emplace_back(r->value, root_access(*r, domain_access()));
    return result;
  }
  Access domain_access() const {
    Access domain(f_.full.size());
    for (size_t d = 0; d < domain.size(); ++d) domain[d] = schedule_.sizes.is_value(f_.full[d], 1) ? kFixed : static_cast<int>(d);
    return domain;
  }
  /// What the whole kernel reads at one position: by all roots, and by the operands of reductions.
  void hoist_fixed(Emitter& e) {
    std::vector<std::pair<ValueId, Access>> values;
    for (const Root& r : f_.roots) {
      if (is_reduction(r)) values.emplace_back(g_.node_of(r.value)->inputs[0], domain_access());
      else values.emplace_back(r.value, root_access(r, domain_access()));
    }
    hoist(e, values, std::vector<bool>(f_.full.size(), true), zero_domain(e), kNone);
  }

  std::vector<const Root*> stored(bool full) const {
    std::vector<const Root*> result;
    for (const Root& r : f_.roots) {
      if (r.buffer >= 0 && is_full(r) == full) result.push_back(&r);
    }
    return result;
  }

  void emit_pointwise() {
    Open open(*this);
    Emitter& e = open.e;
    auto& b = e.b;
    std::vector<const Root*> roots;
    for (const Root& r : f_.roots) roots.push_back(&r);
    if (loops_.empty()) {
      store_roots(e, roots, zero_domain(e), kNone);
      return finish(e, {});
    }
    std::vector<Loop> outer(loops_.begin(), loops_.end() - 1);
    Loop inner = loops_.back();
    hoist_fixed(e);
    if (outer.empty()) {
      vector_loop(e, b.begin(), b.end(), [&](Value i, Value mask) {
        Indices domain = zero_domain(e);
        domain[inner.last] = {i, 1, kNone};
        store_roots(e, roots, domain, mask);
      });
      return finish(e, {.extents = {inner.extent}, .align = 64});
    }
    b.loop(b.begin(), b.end(), 1, {}, [&](Value t, const std::vector<Value>&) -> std::vector<Value> {
      e.enter();
      Indices domain = zero_domain(e);
      set_positions(e, domain, outer, {t, 0, kNone});
      std::vector<bool> inside(f_.full.size());
      for (size_t d = inner.first; d <= inner.last; ++d) inside[d] = true;
      hoist(e, root_accesses(roots), inside, domain, kNone);
      vector_loop(e, b.integer(0), e.size(inner.extent), [&](Value i, Value mask) {
        Indices at = domain;
        at[inner.last] = {i, 1, kNone};
        store_roots(e, roots, at, mask);
      });
      e.leave();
      return {};
    });
    finish(e, {.extents = {product(outer)}});
  }

  struct Reduction {
    ValueId value;
    Monoid monoid;
    DType dtype;       // of the operand
    ValueId operand;
    int level;
  };

  std::vector<Reduction> reductions() {
    std::vector<Reduction> result;
    std::map<ValueId, int> level;
    Access domain(f_.full.size());
    for (size_t d = 0; d < domain.size(); ++d) domain[d] = static_cast<int>(d);
    for (const Root& r : f_.roots) {
      if (!is_reduction(r)) continue;
      const Node& n = *g_.node_of(r.value);
      int own = 0;
      walk(g_, n.inputs[0], domain, [&](ValueId v, const Access&) {
        if (auto it = level.find(v); it != level.end()) {
          own = std::max(own, it->second + 1);
          return false;
        }
        return !buffers_.count(v);
      });
      level[r.value] = own;
      result.push_back({r.value, static_cast<Monoid>(n.attributes.ints[0]), g_.value(n.inputs[0]).dtype, n.inputs[0], own});
    }
    return result;
  }

  static bool has_position(const Reduction& r) { return r.monoid >= Monoid::argmax; }

  static void flatten(const std::vector<Reduction>& rs, const std::vector<std::vector<Accumulator>>& accs, std::vector<Value>& out) {
    for (size_t i = 0; i < rs.size(); ++i) {
      for (const Accumulator& a : accs[i]) {
        out.push_back(a.value);
        if (has_position(rs[i])) out.push_back(a.position);
      }
    }
  }
  static void unflatten(const std::vector<Reduction>& rs, const std::vector<Value>& in, std::vector<std::vector<Accumulator>>& accs) {
    size_t next = 0;
    for (size_t i = 0; i < rs.size(); ++i) {
      for (Accumulator& a : accs[i]) {
        a.value = in[next++];
        if (has_position(rs[i])) a.position = in[next++];
      }
    }
  }

  /// A value that a reduction computes and a later pass over the row needs again, kept in the memory of a root
  /// that is written last.
  struct Kept {
    ValueId value;
    const Root* root;
  };

  bool along_row() const { return f_.reduced.back(); }

  /// One block [lo, hi) of the flattened reduced extent: a result per reduction, with 1 lane along rows and
  /// `lanes` across rows.
  std::vector<Accumulator> reduce_block(Emitter& e, const std::vector<Reduction>& rs, const Indices& row, Value row_mask, Value lo, Value hi,
                                        const std::optional<Kept>& kept = std::nullopt) {
    auto& b = e.b;
    bool along = along_row();
    int chains = along ? kChainsAlongRow : kChainsAcrossRows;
    int vectors = along ? chains / lanes_ : chains;
    std::vector<Loop> inner = loops(true);
    std::vector<std::vector<Accumulator>> accs(rs.size());
    for (size_t i = 0; i < rs.size(); ++i) {
      for (int k = 0; k < vectors; ++k) accs[i].push_back(identity(b, rs[i].monoid, rs[i].dtype, lanes_));
    }
    auto group = [&](std::vector<std::vector<Accumulator>>& state, Value i, bool masked) {
      for (int k = 0; k < vectors; ++k) {
        Value at = b.add(i, b.integer(along ? k * lanes_ : k));
        Index linear{at, along ? 1 : 0, kNone};
        Value mask = row_mask;
        if (masked) {
          Value inside = along ? lane_mask(e, at, hi) : e.splat(b.compare(Opcode::lt, at, hi));
          mask = e.both(mask, inside);
        }
        Indices domain = row;
        if (!inner.empty()) set_positions(e, domain, inner, linear);
        for (size_t r = 0; r < rs.size(); ++r) {
          Accumulator x{e.value(rs[r].operand, domain, mask).re, kNone};
          if (has_position(rs[r])) x.position = e.positions(linear);
          Accumulator next = combine(b, rs[r].monoid, rs[r].dtype, state[r][static_cast<size_t>(k)], x);
          state[r][static_cast<size_t>(k)] = masked ? choose(b, mask, next, state[r][static_cast<size_t>(k)]) : next;
        }
        if (kept) e.store(kept->root->layout, kept->root->value, domain, e.value(kept->value, domain, mask), mask);
      }
    };
    Value whole = b.add(lo, b.bit_and(b.sub(hi, lo), b.integer(-chains)));
    std::vector<Value> init;
    flatten(rs, accs, init);
    auto after = b.loop(lo, whole, chains, init, [&](Value i, const std::vector<Value>& carried) {
      e.enter();
      auto state = accs;
      unflatten(rs, carried, state);
      group(state, i, false);
      std::vector<Value> out;
      flatten(rs, state, out);
      e.leave();
      return out;
    });
    after = b.branch(b.compare(Opcode::lt, whole, hi),
                     [&] {
                       e.enter();
                       auto state = accs;
                       unflatten(rs, after, state);
                       group(state, whole, true);
                       std::vector<Value> out;
                       flatten(rs, state, out);
                       e.leave();
                       return out;
                     },
                     [&] { return after; });
    unflatten(rs, after, accs);
    // Halves of the chains are combined until one is left: a tree that does not depend on the vector width.
    std::vector<Accumulator> result;
    for (size_t r = 0; r < rs.size(); ++r) {
      auto& a = accs[r];
      for (size_t n = a.size(); n > 1; n /= 2) {
        for (size_t k = 0; k < n / 2; ++k) a[k] = combine(b, rs[r].monoid, rs[r].dtype, a[k], a[k + n / 2]);
      }
      Accumulator folded = a[0];
      if (along) {
        for (int width = lanes_ / 2; width >= 1; width /= 2) {
          std::vector<int32_t> upper;
          for (int l = 0; l < lanes_; ++l) upper.push_back(l < width ? l + width : l);
          Accumulator other{b.shuffle(folded.value, folded.value, upper),
                            has_position(rs[r]) ? b.shuffle(folded.position, folded.position, upper) : kNone};
          folded = combine(b, rs[r].monoid, rs[r].dtype, folded, other);
        }
        folded.value = b.extract(folded.value, 0);
        if (has_position(rs[r])) folded.position = b.extract(folded.position, 0);
      }
      result.push_back(folded);
    }
    return result;
  }

  /// Work for a vector of `v` where everything in `buffers_` is read.
  int work(ValueId v) const {
    int total = 0;
    walk(g_, v, Access(g_.value(v).shape.size(), kUnknown), [&](ValueId u, const Access&) {
      const Node* n = buffers_.count(u) ? nullptr : g_.node_of(u);
      if (!n || n->primitive->kind == PrimitiveKind::reduce) return false;
      total += cost(g_, *n);
      return true;
    });
    return total;
  }

  bool reads(ValueId from, ValueId wanted) const {
    bool found = false;
    walk(g_, from, domain_access(), [&](ValueId u, const Access& a) {
      found |= u == wanted && a == domain_access();
      return !found && !buffers_.count(u);
    });
    return found;
  }

  /// The first costly value that the reductions `now` read and `later` ones or the stored roots read again.
  std::optional<Kept> value_to_keep(const std::vector<Reduction>& now, const std::vector<Reduction>& later) const {
    std::vector<const Root*> full = stored(true);
    std::vector<ValueId> readers;
    for (const Reduction& r : later) readers.push_back(r.operand);
    for (const Root* r : full) readers.push_back(r->value);
    std::optional<Kept> kept;
    for (const Reduction& r : now) {
      walk(g_, r.operand, domain_access(), [&](ValueId v, const Access& a) {
        const Node* n = buffers_.count(v) ? nullptr : g_.node_of(v);
        if (kept || !n || n->primitive->kind == PrimitiveKind::reduce || g_.value(v).dtype == DType::boolean || is_complex(g_.value(v).dtype)) return false;
        if (a != domain_access() || g_.value(v).shape != f_.full || work(v) < kCostly) return true;
        bool again = std::any_of(readers.begin(), readers.end(), [&](ValueId reader) { return reads(reader, v); });
        auto memory = std::find_if(full.begin(), full.end(), [&](const Root* root) { return g_.value(root->value).dtype == g_.value(v).dtype; });
        if (again && memory != full.end()) kept = Kept{v, *memory};
        return !kept;
      });
    }
    return kept;
  }
  static constexpr int kCostly = 12;  // instructions, about twice a store and a load

  /// All reductions of one level over a row (or `lanes` rows): blocks in ascending order.
  void reduce_row(Emitter& e, const std::vector<Reduction>& rs, const Indices& row, Value row_mask, const std::optional<Kept>& kept) {
    auto& b = e.b;
    Value n = e.size(product(loops(true)));
    int width = along_row() ? 1 : lanes_;
    std::vector<std::vector<Accumulator>> totals(rs.size());
    for (size_t r = 0; r < rs.size(); ++r) totals[r] = {identity(b, rs[r].monoid, rs[r].dtype, width)};
    std::vector<Value> init;
    flatten(rs, totals, init);
    auto after = b.loop(b.integer(0), n, kReductionBlock, init, [&](Value lo, const std::vector<Value>& carried) {
      e.enter();
      auto state = totals;
      unflatten(rs, carried, state);
      Value hi = b.smin(b.add(lo, b.integer(kReductionBlock)), n);
      auto block = reduce_block(e, rs, row, row_mask, lo, hi, kept);
      for (size_t r = 0; r < rs.size(); ++r) state[r][0] = combine(b, rs[r].monoid, rs[r].dtype, state[r][0], block[r]);
      std::vector<Value> out;
      flatten(rs, state, out);
      e.leave();
      return out;
    });
    unflatten(rs, after, totals);
    for (size_t r = 0; r < rs.size(); ++r) {
      Value v = has_position(rs[r]) ? totals[r][0].position : totals[r][0].value;
      e.know(rs[r].value, {b.splat(v, lanes_), kNone});
    }
  }

  /// Everything of one row, or of `lanes` rows when the last dim is kept.
  void row(Emitter& e, const std::vector<Reduction>& all, Indices domain, Value mask) {
    int levels = 0;
    for (const Reduction& r : all) levels = std::max(levels, r.level + 1);
    std::optional<Kept> kept;
    for (int level = 0; level < levels; ++level) {
      std::vector<Reduction> rs, later;
      for (const Reduction& r : all) {
        if (r.level == level) rs.push_back(r);
        if (r.level > level) later.push_back(r);
      }
      bool first = !kept;
      if (first) kept = value_to_keep(rs, later);
      std::vector<std::pair<ValueId, Access>> operands;
      for (const Reduction& r : rs) operands.emplace_back(r.operand, domain_access());
      hoist(e, operands, f_.reduced, domain, mask);
      reduce_row(e, rs, domain, mask, first ? kept : std::nullopt);
      if (kept) buffers_[kept->value] = kept->root->layout;
    }
    store_roots(e, stored(false), domain, mask);
    store_row(e, domain, mask);
    if (kept) buffers_.erase(kept->value);
  }

  void store_row(Emitter& e, const Indices& domain, Value mask) {
    auto& b = e.b;
    std::vector<const Root*> full = stored(true);
    if (full.empty()) return;
    std::vector<Loop> inner = loops(true);
    if (inner.empty()) return store_roots(e, full, domain, mask);
    hoist(e, root_accesses(full), f_.reduced, domain, mask);
    std::function<void(size_t, Indices)> nest = [&](size_t k, Indices at) {
      bool last = k + 1 == inner.size();
      if (last && along_row()) {
        vector_loop(e, b.integer(0), e.size(inner[k].extent), [&](Value i, Value m) {
          Indices here = at;
          here[inner[k].last] = {i, 1, kNone};
          store_roots(e, full, here, m);
        });
        return;
      }
      b.loop(b.integer(0), e.size(inner[k].extent), 1, {}, [&](Value i, const std::vector<Value>&) -> std::vector<Value> {
        e.enter();
        Indices here = at;
        here[inner[k].last] = {i, 0, kNone};
        if (last) store_roots(e, full, here, mask);
        else nest(k + 1, here);
        e.leave();
        return {};
      });
    };
    nest(0, domain);
  }

  void emit_rows() {
    Open open(*this);
    Emitter& e = open.e;
    auto& b = e.b;
    std::vector<Reduction> all = reductions();
    std::vector<Loop> kept = loops(false);
    hoist_fixed(e);
    Phase phase;
    if (along_row()) {
      b.loop(b.begin(), b.end(), 1, {}, [&](Value t, const std::vector<Value>&) -> std::vector<Value> {
        e.enter();
        Indices domain = zero_domain(e);
        if (!kept.empty()) set_positions(e, domain, kept, {t, 0, kNone});
        row(e, all, domain, kNone);
        e.leave();
        return {};
      });
      phase.extents = {product(kept)};
      return finish(e, phase);
    }
    // The last dim is kept: a task is one vector of it. A last dim of size 1 is a vector with one lane in use.
    std::vector<Loop> outer = kept;
    SizeId width = schedule_.sizes.constant(1);
    size_t carrier = f_.full.size() - 1;
    if (!outer.empty() && outer.back().last == carrier) {
      width = outer.back().extent;
      outer.pop_back();
    }
    SizeId per_row = schedule_.sizes.binary(SizeOp::div, schedule_.sizes.binary(SizeOp::add, width, schedule_.sizes.constant(lanes_ - 1)),
                                            schedule_.sizes.constant(lanes_));
    b.loop(b.begin(), b.end(), 1, {}, [&](Value t, const std::vector<Value>&) -> std::vector<Value> {
      e.enter();
      Indices domain = zero_domain(e);
      auto [q, r] = e.divide({t, 0, kNone}, per_row);
      if (!outer.empty()) set_positions(e, domain, outer, q);
      Value first = b.mul(outer.empty() ? t : r.base, b.integer(lanes_));
      Value n = e.size(width);
      domain[carrier] = {first, 1, kNone};
      Value whole = b.compare(Opcode::le, b.add(first, b.integer(lanes_)), n);
      b.branch(whole,
               [&]() -> std::vector<Value> {
                 e.enter();
                 row(e, all, domain, kNone);
                 e.leave();
                 return {};
               },
               [&]() -> std::vector<Value> {
                 e.enter();
                 row(e, all, domain, lane_mask(e, first, n));
                 e.leave();
                 return {};
               });
      e.leave();
      return {};
    });
    phase.extents = {schedule_.sizes.binary(SizeOp::mul, product(outer), per_row)};
    finish(e, phase);
  }

  // A reduction of everything: a task is a block; a second function adds the blocks up in order.
  void emit_blocks() {
    std::vector<Reduction> rs = reductions();
    SizeId n = product(loops(true));
    SizeId blocks = schedule_.sizes.binary(SizeOp::div, schedule_.sizes.binary(SizeOp::add, n, schedule_.sizes.constant(kReductionBlock - 1)),
                                           schedule_.sizes.constant(kReductionBlock));
    auto partial = [&](DType dtype) {
      schedule_.temporaries.push_back({dtype, blocks});
      return static_cast<BufferId>(g_.values.size() + g_.outputs.size() + schedule_.temporaries.size() - 1);
    };
    std::vector<BufferId> values, positions;
    for (const Reduction& r : rs) {
      values.push_back(partial(r.dtype));
      positions.push_back(has_position(r) ? partial(DType::int64) : -1);
    }
    auto memory = [](Emitter& e, DType dtype, Value v) { return dtype == DType::boolean ? e.b.cast(Opcode::zext, v, loop::Scalar::i8) : v; };
    {
      Open open(*this);
      Emitter& e = open.e;
      auto& b = e.b;
      hoist_fixed(e);
      b.loop(b.begin(), b.end(), 1, {}, [&](Value t, const std::vector<Value>&) -> std::vector<Value> {
        e.enter();
        Value lo = b.mul(t, b.integer(kReductionBlock));
        Value hi = b.smin(b.add(lo, b.integer(kReductionBlock)), e.size(n));
        auto block = reduce_block(e, rs, zero_domain(e), kNone, lo, hi);
        for (size_t r = 0; r < rs.size(); ++r) {
          b.store(e.pointer(values[r]), t, memory(e, rs[r].dtype, block[r].value));
          if (positions[r] >= 0) b.store(e.pointer(positions[r]), t, block[r].position);
        }
        e.leave();
        return {};
      });
      finish(e, {.extents = {blocks}});
    }
    Open open(*this);
    Emitter& e = open.e;
    auto& b = e.b;
    std::vector<std::vector<Accumulator>> totals(rs.size());
    for (size_t r = 0; r < rs.size(); ++r) totals[r] = {identity(b, rs[r].monoid, rs[r].dtype, 1)};
    std::vector<Value> init;
    flatten(rs, totals, init);
    auto after = b.loop(b.integer(0), e.size(blocks), 1, init, [&](Value t, const std::vector<Value>& carried) {
      auto state = totals;
      unflatten(rs, carried, state);
      for (size_t r = 0; r < rs.size(); ++r) {
        Accumulator x{b.load(e.pointer(values[r]), t, {prim::memory_scalar_of(rs[r].dtype), 1}), kNone};
        if (rs[r].dtype == DType::boolean) x.value = b.compare(Opcode::ne, x.value, b.integer(0, {loop::Scalar::i8, 1}));
        if (positions[r] >= 0) x.position = b.load(e.pointer(positions[r]), t, {loop::Scalar::i64, 1});
        state[r][0] = combine(b, rs[r].monoid, rs[r].dtype, state[r][0], x);
      }
      std::vector<Value> out;
      flatten(rs, state, out);
      return out;
    });
    unflatten(rs, after, totals);
    for (size_t r = 0; r < rs.size(); ++r) {
      Value v = has_position(rs[r]) ? totals[r][0].position : totals[r][0].value;
      for (const Root& root : f_.roots) {
        if (root.value == rs[r].value) e.store(root.layout, root.value, kept_indices(zero_domain(e)), {b.splat(v, lanes_), kNone}, kNone);
      }
    }
    finish(e, {});
    step_.phases.back().elements = -1;
  }

  // out[.., index, ..] op= src in ascending order of the index positions; tasks are the other dims, which no
  // two index positions share. The first operand was copied to the result before.
  void emit_put() {
    const Root& root = f_.roots[0];
    const Node& n = *g_.node_of(root.value);
    auto dim = static_cast<size_t>(n.attributes.ints[0]);
    auto how = static_cast<prim::Combine>(n.attributes.ints[1]);
    DType dtype = g_.value(root.value).dtype;
    const Shape &to = g_.value(root.value).shape, &index_shape = g_.value(n.inputs[1]).shape;
    size_t rank = to.size(), index_rank = index_shape.size();
    Open open(*this);
    Emitter& e = open.e;
    auto& b = e.b;
    bool vectors = dim + 1 < rank;
    std::vector<SizeId> outer;  // extents of the tasks' dims
    std::vector<size_t> outer_dims;
    for (size_t d = 0; d < rank; ++d) {
      if (d == dim || (vectors && d + 1 == rank)) continue;
      outer.push_back(to[d]);
      outer_dims.push_back(d);
    }
    SizeId tasks = schedule_.sizes.constant(1);
    for (SizeId s : outer) tasks = schedule_.sizes.binary(SizeOp::mul, tasks, s);
    SizeId per_row = schedule_.sizes.constant(1);
    if (vectors) {
      per_row = schedule_.sizes.binary(SizeOp::div, schedule_.sizes.binary(SizeOp::add, to[rank - 1], schedule_.sizes.constant(lanes_ - 1)),
                                       schedule_.sizes.constant(lanes_));
    }
    SizeId count = schedule_.sizes.constant(1);
    for (SizeId s : index_shape) count = schedule_.sizes.binary(SizeOp::mul, count, s);
    b.loop(b.begin(), b.end(), 1, {}, [&](Value t, const std::vector<Value>&) -> std::vector<Value> {
      e.enter();
      Indices at(rank, e.zero());
      auto [q, r] = e.divide({t, 0, kNone}, per_row);
      Value mask;
      if (vectors) {
        Value first = b.mul(schedule_.sizes.is_value(per_row, 1) ? b.integer(0) : r.base, b.integer(lanes_));
        at[rank - 1] = {first, 1, kNone};
        mask = lane_mask(e, first, e.size(to[rank - 1]));
      } else {
        mask = lane_mask(e, b.integer(0), b.integer(1));
      }
      Index rest = q;
      for (size_t k = outer.size(); k-- > 0;) {
        auto [quotient, remainder] = e.divide(rest, outer[k]);
        at[outer_dims[k]] = schedule_.sizes.is_value(outer[k], 1) ? e.zero() : remainder;
        rest = quotient;
      }
      b.loop(b.integer(0), e.size(count), 1, {}, [&](Value m, const std::vector<Value>&) -> std::vector<Value> {
        e.enter();
        Indices where(index_rank, e.zero());
        Index linear{m, 0, kNone};
        for (size_t k = index_rank; k-- > 0;) {
          auto [quotient, remainder] = e.divide(linear, index_shape[k]);
          where[k] = schedule_.sizes.is_value(index_shape[k], 1) ? e.zero() : remainder;
          linear = quotient;
        }
        Value p = e.value(n.inputs[1], where, mask).re;
        Value limit = e.splat(e.size(to[dim]));
        Value inside = b.compare(Opcode::ult, p, limit);
        e.raise(b.unary(Opcode::bit_not, inside), prim::KernelError::index_out_of_range, p, limit, mask);
        Value active = e.both(mask, inside);
        Indices source(at.begin(), at.begin() + static_cast<ptrdiff_t>(dim));
        source.insert(source.end(), where.begin(), where.end());
        source.insert(source.end(), at.begin() + static_cast<ptrdiff_t>(dim) + 1, at.end());
        Lanes x = e.value(n.inputs[2], source, active);
        Indices target = at;
        target[dim] = {b.extract(p, 0), 0, kNone};
        Lanes old = how == prim::Combine::set ? x : e.load(root.layout, root.value, target, active);
        Lanes next = x;
        if (how != prim::Combine::set) next = combined(e, how, dtype, old, x);
        // Without a vector dim only lane 0 is in use.
        if (!vectors) {
          target.back().step = 0;
          b.branch(b.extract(inside, 0),
                   [&]() -> std::vector<Value> {
                     e.store(root.layout, root.value, target, next, kNone);
                     return {};
                   },
                   []() -> std::vector<Value> { return {}; });
        } else {
          e.store(root.layout, root.value, target, next, active);
        }
        e.leave();
        return {};
      });
      e.leave();
      return {};
    });
    Phase phase;
    phase.extents = {schedule_.sizes.binary(SizeOp::mul, tasks, per_row)};
    phase.function = static_cast<int32_t>(step_.module.functions.size());
    phase.elements = schedule_.sizes.binary(SizeOp::mul, phase.extents[0], count);
    step_.module.functions.push_back(b.finish());
    step_.phases.push_back(phase);
  }

  Lanes combined(Emitter& e, prim::Combine how, DType dtype, Lanes a, Lanes x) {
    auto& b = e.b;
    Monoid monoid = how == prim::Combine::add        ? Monoid::sum
                    : how == prim::Combine::multiply ? Monoid::product
                    : how == prim::Combine::maximum  ? Monoid::maximum
                                                     : Monoid::minimum;
    if (is_complex(dtype)) {
      internal_check(how == prim::Combine::add, "put: complex numbers can only be set or added");
      return {b.add(a.re, x.re), b.add(a.im, x.im)};
    }
    // Half types accumulate with one rounding per addition.
    bool half = dtype == DType::float16 || dtype == DType::bfloat16;
    auto wide = [&](Value v) { return half ? b.cast(Opcode::fpext, v, loop::Scalar::f32) : v; };
    DType compute = half ? DType::float32 : dtype;
    if (dtype == DType::boolean) monoid = how == prim::Combine::multiply || how == prim::Combine::minimum ? Monoid::all : Monoid::any;
    Value r = combine(b, monoid, compute, {wide(a.re), kNone}, {wide(x.re), kNone}).value;
    return {half ? b.cast(Opcode::fptrunc, r, prim::scalar_of(dtype)) : r, kNone};
  }

  // Ascending along the dim, one chain; tasks are the other dims.
  void emit_scan() {
    const Root& root = f_.roots[0];
    const Node& n = *g_.node_of(root.value);
    auto monoid = static_cast<Monoid>(n.attributes.ints[0]);
    auto dim = static_cast<size_t>(n.attributes.ints[1]);
    const Shape& shape = g_.value(root.value).shape;
    DType dtype = g_.value(root.value).dtype;
    Open open(*this);
    Emitter& e = open.e;
    auto& b = e.b;
    SizeId tasks = schedule_.sizes.constant(1);
    for (size_t d = 0; d < shape.size(); ++d) {
      if (d != dim) tasks = schedule_.sizes.binary(SizeOp::mul, tasks, shape[d]);
    }
    Value lane = lane_mask(e, b.integer(0), b.integer(1));
    b.loop(b.begin(), b.end(), 1, {}, [&](Value t, const std::vector<Value>&) -> std::vector<Value> {
      e.enter();
      Indices at(shape.size(), e.zero());
      Index rest{t, 0, kNone};
      for (size_t d = shape.size(); d-- > 0;) {
        if (d == dim || schedule_.sizes.is_value(shape[d], 1)) continue;
        auto [q, r] = e.divide(rest, shape[d]);
        at[d] = r;
        rest = q;
      }
      Accumulator start = identity(b, monoid, dtype, lanes_);
      b.loop(b.integer(0), e.size(shape[dim]), 1, {start.value}, [&](Value i, const std::vector<Value>& carried) -> std::vector<Value> {
        e.enter();
        Indices here = at;
        if (!schedule_.sizes.is_value(shape[dim], 1)) here[dim] = {i, 0, kNone};
        Accumulator x{e.value(n.inputs[0], here, lane).re, kNone};
        Value next = combine(b, monoid, dtype, {carried[0], kNone}, x).value;
        e.store(root.layout, root.value, here, {next, kNone}, kNone);
        e.leave();
        return {next};
      });
      e.leave();
      return {};
    });
    finish(e, {.extents = {tasks}});
  }

  const Graph& g_;
  const Frame& f_;
  Schedule& schedule_;
  Step& step_;
  std::map<ValueId, Buffer> buffers_;
  int lanes_;
  std::vector<Loop> loops_;
  bool unknown_access_ = false;
};

}  // namespace

void emit_frame(const Graph& graph, const Frame& frame, Schedule& schedule, Step& step, const std::map<ValueId, Buffer>& buffers, int vector_bytes) {
  FrameEmitter(graph, frame, schedule, step, buffers, vector_bytes).emit();
}

}  // namespace flambeau::kernel
