#include "flambeau/kernel/frame.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <set>

#include "flambeau/base/error.h"
#include "flambeau/kernel/frame_emitter.h"

namespace flambeau::kernel {

namespace {

/// Access of a node's operand from that of its result; false when the operand is not read by index
/// maps.
Access operand_access(const Graph& g, const Node& n, size_t operand, const Access& access) {
  const Shape& from = g.value(n.inputs[operand]).shape;
  Access result(from.size(), kUnknown);
  switch (n.primitive->kind) {
    case PrimitiveKind::elementwise:
    case PrimitiveKind::barrier:
      result = access;
      break;
    case PrimitiveKind::broadcast:
      std::fill(result.begin(), result.end(), kFixed);
      for (size_t d = 0; d < access.size(); ++d) {
        if (n.attributes.ints[d] >= 0)
          result[static_cast<size_t>(n.attributes.ints[d])] = access[d];
      }
      break;
    case PrimitiveKind::permute:
      for (size_t d = 0; d < access.size(); ++d)
        result[static_cast<size_t>(n.attributes.ints[d])] = access[d];
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
      for (size_t i = 0; same && i < to_dims.size(); ++i)
        same = to[to_dims[i]] == from[from_dims[i]];
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
    default:
      break;
  }
  for (size_t d = 0; d < from.size(); ++d) {
    if (g.sizes.is_value(from[d], 1)) result[d] = kFixed;
  }
  return result;
}

}  // namespace

void walk(const Graph& g, ValueId root, const Access& access,
          const std::function<bool(ValueId, const Access&)>& visit) {
  std::set<std::pair<ValueId, Access>> seen;
  std::vector<std::pair<ValueId, Access>> work{{root, access}};
  while (!work.empty()) {
    auto [v, at] = work.back();
    work.pop_back();
    if (!seen.emplace(v, at).second || !visit(v, at)) continue;
    const Node* n = g.node_of(v);
    if (!n) continue;
    for (size_t i = 0; i < n->inputs.size(); ++i)
      work.emplace_back(n->inputs[i], operand_access(g, *n, i, at));
  }
}

void FrameEmitter::find_loops() {
  size_t rank = f_.full.size();
  std::vector<bool> joins(rank, true);  // dim d with dim d + 1
  Access domain(rank);
  for (size_t d = 0; d < rank; ++d)
    domain[d] = schedule_.sizes.is_value(f_.full[d], 1) ? kFixed : static_cast<int>(d);
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
      if (a[d] >= 0)
        where[static_cast<size_t>(a[d])] =
            where[static_cast<size_t>(a[d])] == -1 ? static_cast<int>(d) : -2;
    }
    for (size_t d = 0; d + 1 < rank; ++d) {
      if (where[d] == -1 && where[d + 1] == -1) continue;
      bool together = where[d] >= 0 && where[d + 1] == where[d] + 1 &&
                      (!layout || ((*layout)[static_cast<size_t>(where[d])] & kMerges));
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
      case PrimitiveKind::permute:
        return true;
      case PrimitiveKind::constant:
        return false;
      case PrimitiveKind::random:
        leaf(a, nullptr);
        return true;
      case PrimitiveKind::reduce:
        return false;
      default:
        forbid(a);
        unknown_access_ = true;
        return true;
    }
  };
  for (const Root& r : f_.roots) {
    const Node* n = g_.node_of(r.value);
    if (is_reduction(r)) {
      walk(g_, n->inputs[0], domain, visit);
    } else if (f_.kind == Frame::Kind::rows) {
      walk(g_, r.value, root_access(r, domain),
           [&](ValueId v, const Access& a) { return visit(v, a); });
    }
    if (r.buffer >= 0)
      leaf(root_access(r, domain), r.layout.contiguous ? nullptr : &r.layout.layout);
  }
  bool join_allowed = f_.kind == Frame::Kind::rows || f_.kind == Frame::Kind::blocks;
  for (size_t d = 0; d < rank; ++d) {
    if (domain[d] == kFixed) continue;
    // Dims of size 1 between two dims do not keep them apart.
    bool joined = !loops_.empty() && join_allowed && !unknown_access_ &&
                  loops_.back().reduced == f_.reduced[d] && loops_.back().last + 1 == d &&
                  joins[d - 1];
    if (joined) {
      loops_.back().last = d;
      loops_.back().extent = schedule_.sizes.binary(SizeOp::mul, loops_.back().extent, f_.full[d]);
    } else {
      loops_.push_back({d, d, f_.full[d], f_.reduced[d]});
    }
  }
}

void FrameEmitter::finish(Emitter& e, Phase phase) {
  phase.function = static_cast<int32_t>(step_.module.functions.size());
  phase.elements = elements();
  step_.module.functions.push_back(e.b.finish());
  step_.phases.push_back(std::move(phase));
}

void FrameEmitter::set_positions(Emitter& e, Indices& domain, const std::vector<Loop>& loops,
                                 Index linear) {
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

void FrameEmitter::vector_loop(Emitter& e, Value lo, Value hi,
                               const std::function<void(Value, Value)>& body) {
  auto& b = e.b;
  Value width = b.integer(-lanes_);
  Value whole = b.add(lo, b.bit_and(b.sub(hi, lo), width));
  b.loop(lo, whole, lanes_, {}, [&](Value i, const std::vector<Value>&) -> std::vector<Value> {
    e.enter();
    body(i, kNone);
    e.leave();
    return {};
  });
  b.branch(
      b.compare(Opcode::lt, whole, hi),
      [&]() -> std::vector<Value> {
        e.enter();
        Value mask = lane_mask(e, whole, hi);
        e.has_some(mask);
        body(whole, mask);
        e.leave();
        return {};
      },
      []() -> std::vector<Value> { return {}; });
}

void FrameEmitter::store_roots(Emitter& e, const std::vector<const Root*>& roots,
                               const Indices& domain, Value mask) {
  std::vector<Lanes> values;
  for (const Root* r : roots) values.push_back(e.value(r->value, root_indices(*r, domain), mask));
  for (size_t i = 0; i < roots.size(); ++i)
    e.store(roots[i]->layout, roots[i]->value, root_indices(*roots[i], domain), values[i], mask);
}

bool FrameEmitter::can_hoist(const Emitter& e, ValueId v) const {
  bool can = true;
  walk(g_, v, Access(g_.value(v).shape.size(), kUnknown), [&](ValueId u, const Access&) {
    if (buffers_.count(u)) return false;
    const Node* n = g_.node_of(u);
    if (!n) return false;
    if (n->primitive->kind == PrimitiveKind::reduce) {
      can &= e.knows(u);
      return false;
    }
    bool whole_numbers =
        n->primitive->kind == PrimitiveKind::elementwise && is_integer(g_.value(u).dtype);
    if (n->primitive->kind == PrimitiveKind::take || whole_numbers) can = false;
    return can;
  });
  return can;
}

void FrameEmitter::hoist(Emitter& e, const std::vector<std::pair<ValueId, Access>>& values,
                         const std::vector<bool>& inner, const Indices& domain, Value mask) {
  for (const auto& [root, access] : values) {
    walk(g_, root, access, [&](ValueId v, const Access& a) {
      bool memory = buffers_.count(v) > 0;
      bool fixed = std::all_of(a.begin(), a.end(), [&](int d) {
        return d == kFixed || (d >= 0 && !inner[static_cast<size_t>(d)]);
      });
      const Node* n = g_.node_of(v);
      if (n && !memory &&
          (n->primitive->kind == PrimitiveKind::reduce ||
           n->primitive->kind == PrimitiveKind::constant))
        return false;
      if (!fixed || !can_hoist(e, v)) return !memory;
      Indices at;
      for (int d : a) at.push_back(d == kFixed ? e.zero() : domain[static_cast<size_t>(d)]);
      e.value(v, at, mask);
      return false;
    });
  }
}

std::vector<std::pair<ValueId, Access>> FrameEmitter::root_accesses(
    const std::vector<const Root*>& roots) const {
  std::vector<std::pair<ValueId, Access>> result;
  for (const Root* r : roots) result.emplace_back(r->value, root_access(*r, domain_access()));
  return result;
}

Access FrameEmitter::domain_access() const {
  Access domain(f_.full.size());
  for (size_t d = 0; d < domain.size(); ++d)
    domain[d] = schedule_.sizes.is_value(f_.full[d], 1) ? kFixed : static_cast<int>(d);
  return domain;
}

void FrameEmitter::hoist_fixed(Emitter& e) {
  std::vector<std::pair<ValueId, Access>> values;
  for (const Root& r : f_.roots) {
    if (is_reduction(r))
      values.emplace_back(g_.node_of(r.value)->inputs[0], domain_access());
    else
      values.emplace_back(r.value, root_access(r, domain_access()));
  }
  hoist(e, values, std::vector<bool>(f_.full.size(), true), zero_domain(e), kNone);
}

std::vector<const Root*> FrameEmitter::stored(bool full) const {
  std::vector<const Root*> result;
  for (const Root& r : f_.roots) {
    if (r.buffer >= 0 && is_full(r) == full) result.push_back(&r);
  }
  return result;
}

void FrameEmitter::emit_pointwise() {
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

void emit_frame(const Graph& graph, const Frame& frame, Schedule& schedule, Step& step,
                const std::map<ValueId, Buffer>& buffers, int vector_bytes) {
  FrameEmitter(graph, frame, schedule, step, buffers, vector_bytes).emit();
}

}  // namespace flambeau::kernel
