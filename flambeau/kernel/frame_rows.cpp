// Reductions: rows that a task goes over, and everything reduced at once in blocks.
#include "flambeau/kernel/cost.h"
#include "flambeau/kernel/frame_emitter.h"

namespace flambeau::kernel {

std::vector<FrameEmitter::Reduction> FrameEmitter::reductions() {
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
    result.push_back({r.value, static_cast<Monoid>(n.attributes.ints[0]),
                      g_.value(n.inputs[0]).dtype, n.inputs[0], own});
  }
  return result;
}

std::vector<Accumulator> FrameEmitter::reduce_block(Emitter& e, const std::vector<Reduction>& rs,
                                                    const Indices& row, Value row_mask, Value lo,
                                                    Value hi, const std::optional<Kept>& kept) {
  auto& b = e.b;
  bool along = along_row();
  int chains = along ? kChainsAlongRow : kChainsAcrossRows;
  int vectors = along ? chains / lanes_ : chains;
  std::vector<Loop> inner = loops(true);
  std::vector<std::vector<Accumulator>> accs(rs.size());
  for (size_t i = 0; i < rs.size(); ++i) {
    for (int k = 0; k < vectors; ++k)
      accs[i].push_back(identity(b, rs[i].monoid, rs[i].dtype, lanes_));
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
        Accumulator next =
            combine(b, rs[r].monoid, rs[r].dtype, state[r][static_cast<size_t>(k)], x);
        state[r][static_cast<size_t>(k)] =
            masked ? choose(b, mask, next, state[r][static_cast<size_t>(k)]) : next;
      }
      if (kept)
        e.store(kept->root->layout, kept->root->value, domain, e.value(kept->value, domain, mask),
                mask);
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
  after = b.branch(
      b.compare(Opcode::lt, whole, hi),
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
  // Halves of the chains are combined until one is left: a tree that does not depend on the
  // vector width.
  std::vector<Accumulator> result;
  for (size_t r = 0; r < rs.size(); ++r) {
    auto& a = accs[r];
    for (size_t n = a.size(); n > 1; n /= 2) {
      for (size_t k = 0; k < n / 2; ++k)
        a[k] = combine(b, rs[r].monoid, rs[r].dtype, a[k], a[k + n / 2]);
    }
    Accumulator folded = a[0];
    if (along) {
      for (int width = lanes_ / 2; width >= 1; width /= 2) {
        std::vector<int32_t> upper;
        for (int l = 0; l < lanes_; ++l) upper.push_back(l < width ? l + width : l);
        Accumulator other{
            b.shuffle(folded.value, folded.value, upper),
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

int FrameEmitter::work(ValueId v) const {
  int total = 0;
  walk(g_, v, Access(g_.value(v).shape.size(), kUnknown), [&](ValueId u, const Access&) {
    const Node* n = buffers_.count(u) ? nullptr : g_.node_of(u);
    if (!n || n->primitive->kind == PrimitiveKind::reduce) return false;
    total += cost(g_, *n);
    return true;
  });
  return total;
}

bool FrameEmitter::reads(ValueId from, ValueId wanted) const {
  bool found = false;
  walk(g_, from, domain_access(), [&](ValueId u, const Access& a) {
    found |= u == wanted && a == domain_access();
    return !found && !buffers_.count(u);
  });
  return found;
}

std::optional<FrameEmitter::Kept> FrameEmitter::value_to_keep(
    const std::vector<Reduction>& now, const std::vector<Reduction>& later) const {
  std::vector<const Root*> full = stored(true);
  std::vector<ValueId> readers;
  for (const Reduction& r : later) readers.push_back(r.operand);
  for (const Root* r : full) readers.push_back(r->value);
  std::optional<Kept> kept;
  for (const Reduction& r : now) {
    walk(g_, r.operand, domain_access(), [&](ValueId v, const Access& a) {
      const Node* n = buffers_.count(v) ? nullptr : g_.node_of(v);
      if (kept || !n || n->primitive->kind == PrimitiveKind::reduce ||
          g_.value(v).dtype == DType::boolean || is_complex(g_.value(v).dtype))
        return false;
      if (a != domain_access() || g_.value(v).shape != f_.full || work(v) < kCostly) return true;
      bool again = std::any_of(readers.begin(), readers.end(),
                               [&](ValueId reader) { return reads(reader, v); });
      auto memory = std::find_if(full.begin(), full.end(), [&](const Root* root) {
        return g_.value(root->value).dtype == g_.value(v).dtype;
      });
      if (again && memory != full.end()) kept = Kept{v, *memory};
      return !kept;
    });
  }
  return kept;
}

/// All reductions of one level over a row (or `lanes` rows): blocks in ascending order.
void FrameEmitter::reduce_row(Emitter& e, const std::vector<Reduction>& rs, const Indices& row,
                              Value row_mask, const std::optional<Kept>& kept) {
  auto& b = e.b;
  Value n = e.size(product(loops(true)));
  int width = along_row() ? 1 : lanes_;
  std::vector<std::vector<Accumulator>> totals(rs.size());
  for (size_t r = 0; r < rs.size(); ++r)
    totals[r] = {identity(b, rs[r].monoid, rs[r].dtype, width)};
  std::vector<Value> init;
  flatten(rs, totals, init);
  auto after = b.loop(
      b.integer(0), n, kReductionBlock, init, [&](Value lo, const std::vector<Value>& carried) {
        e.enter();
        auto state = totals;
        unflatten(rs, carried, state);
        Value hi = b.smin(b.add(lo, b.integer(kReductionBlock)), n);
        auto block = reduce_block(e, rs, row, row_mask, lo, hi, kept);
        for (size_t r = 0; r < rs.size(); ++r)
          state[r][0] = combine(b, rs[r].monoid, rs[r].dtype, state[r][0], block[r]);
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

void FrameEmitter::row(Emitter& e, const std::vector<Reduction>& all, Indices domain, Value mask) {
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

void FrameEmitter::store_row(Emitter& e, const Indices& domain, Value mask) {
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
    b.loop(b.integer(0), e.size(inner[k].extent), 1, {},
           [&](Value i, const std::vector<Value>&) -> std::vector<Value> {
             e.enter();
             Indices here = at;
             here[inner[k].last] = {i, 0, kNone};
             if (last)
               store_roots(e, full, here, mask);
             else
               nest(k + 1, here);
             e.leave();
             return {};
           });
  };
  nest(0, domain);
}

void FrameEmitter::emit_rows() {
  Open open(*this);
  Emitter& e = open.e;
  auto& b = e.b;
  std::vector<Reduction> all = reductions();
  std::vector<Loop> kept = loops(false);
  hoist_fixed(e);
  Phase phase;
  if (along_row()) {
    b.loop(b.begin(), b.end(), 1, {},
           [&](Value t, const std::vector<Value>&) -> std::vector<Value> {
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
  // The last dim is kept: a task is one vector of it. A last dim of size 1 is a vector with one
  // lane in use.
  std::vector<Loop> outer = kept;
  SizeId width = schedule_.sizes.constant(1);
  size_t carrier = f_.full.size() - 1;
  if (!outer.empty() && outer.back().last == carrier) {
    width = outer.back().extent;
    outer.pop_back();
  }
  SizeId per_row = schedule_.sizes.binary(
      SizeOp::div, schedule_.sizes.binary(SizeOp::add, width, schedule_.sizes.constant(lanes_ - 1)),
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
    b.branch(
        whole,
        [&]() -> std::vector<Value> {
          e.enter();
          row(e, all, domain, kNone);
          e.leave();
          return {};
        },
        [&]() -> std::vector<Value> {
          e.enter();
          Value mask = lane_mask(e, first, n);
          e.has_some(mask);
          row(e, all, domain, mask);
          e.leave();
          return {};
        });
    e.leave();
    return {};
  });
  phase.extents = {schedule_.sizes.binary(SizeOp::mul, product(outer), per_row)};
  finish(e, phase);
}

void FrameEmitter::emit_blocks() {
  std::vector<Reduction> rs = reductions();
  SizeId n = product(loops(true));
  SizeId blocks = schedule_.sizes.binary(
      SizeOp::div,
      schedule_.sizes.binary(SizeOp::add, n, schedule_.sizes.constant(kReductionBlock - 1)),
      schedule_.sizes.constant(kReductionBlock));
  auto partial = [&](DType dtype) {
    schedule_.temporaries.push_back({dtype, blocks});
    return static_cast<BufferId>(g_.values.size() + g_.outputs.size() +
                                 schedule_.temporaries.size() - 1);
  };
  std::vector<BufferId> values, positions;
  for (const Reduction& r : rs) {
    values.push_back(partial(r.dtype));
    positions.push_back(has_position(r) ? partial(DType::int64) : -1);
  }
  auto memory = [](Emitter& e, DType dtype, Value v) {
    return dtype == DType::boolean ? e.b.cast(Opcode::zext, v, loop::Scalar::i8) : v;
  };
  {
    Open open(*this);
    Emitter& e = open.e;
    auto& b = e.b;
    hoist_fixed(e);
    b.loop(b.begin(), b.end(), 1, {},
           [&](Value t, const std::vector<Value>&) -> std::vector<Value> {
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
  auto after = b.loop(
      b.integer(0), e.size(blocks), 1, init, [&](Value t, const std::vector<Value>& carried) {
        auto state = totals;
        unflatten(rs, carried, state);
        for (size_t r = 0; r < rs.size(); ++r) {
          Accumulator x{b.load(e.pointer(values[r]), t, {prim::memory_scalar_of(rs[r].dtype), 1}),
                        kNone};
          if (rs[r].dtype == DType::boolean)
            x.value = b.compare(Opcode::ne, x.value, b.integer(0, {loop::Scalar::i8, 1}));
          if (positions[r] >= 0)
            x.position = b.load(e.pointer(positions[r]), t, {loop::Scalar::i64, 1});
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
      if (root.value == rs[r].value)
        e.store(root.layout, root.value, kept_indices(zero_domain(e)), {b.splat(v, lanes_), kNone},
                kNone);
    }
  }
  finish(e, {});
  step_.phases.back().elements = -1;
}

}  // namespace flambeau::kernel
