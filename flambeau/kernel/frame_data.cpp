// Frames that write at positions which are data, and scans.
#include "flambeau/kernel/frame_emitter.h"

namespace flambeau::kernel {

void FrameEmitter::emit_put() {
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
    per_row = schedule_.sizes.binary(
        SizeOp::div,
        schedule_.sizes.binary(SizeOp::add, to[rank - 1], schedule_.sizes.constant(lanes_ - 1)),
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
      Value first =
          b.mul(schedule_.sizes.is_value(per_row, 1) ? b.integer(0) : r.base, b.integer(lanes_));
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
    b.loop(b.integer(0), e.size(count), 1, {},
           [&](Value m, const std::vector<Value>&) -> std::vector<Value> {
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
             e.raise(b.unary(Opcode::bit_not, inside), prim::KernelError::index_out_of_range, p,
                     limit, mask);
             Value active = e.both(mask, inside);
             Indices source(at.begin(), at.begin() + static_cast<ptrdiff_t>(dim));
             source.insert(source.end(), where.begin(), where.end());
             source.insert(source.end(), at.begin() + static_cast<ptrdiff_t>(dim) + 1, at.end());
             Lanes x = e.value(n.inputs[2], source, active);
             Indices target = at;
             target[dim] = {b.extract(p, 0), 0, kNone};
             Lanes old =
                 how == prim::Combine::set ? x : e.load(root.layout, root.value, target, active);
             Lanes next = x;
             if (how != prim::Combine::set) next = combined(e, how, dtype, old, x);
             // Without a vector dim only lane 0 is in use.
             if (!vectors) {
               target.back().step = 0;
               b.branch(
                   b.extract(inside, 0),
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

Lanes FrameEmitter::combined(Emitter& e, prim::Combine how, DType dtype, Lanes a, Lanes x) {
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
  if (dtype == DType::boolean)
    monoid =
        how == prim::Combine::multiply || how == prim::Combine::minimum ? Monoid::all : Monoid::any;
  Value r = combine(b, monoid, compute, {wide(a.re), kNone}, {wide(x.re), kNone}).value;
  return {half ? b.cast(Opcode::fptrunc, r, prim::scalar_of(dtype)) : r, kNone};
}

void FrameEmitter::emit_scan() {
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
    b.loop(b.integer(0), e.size(shape[dim]), 1, {start.value},
           [&](Value i, const std::vector<Value>& carried) -> std::vector<Value> {
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

}  // namespace flambeau::kernel
