#include "flambeau/kernel/emitter.h"

#include <algorithm>
#include <bit>

#include "flambeau/base/error.h"
#include "flambeau/prim/prim.h"

namespace flambeau::kernel {

using graph::Node;
using graph::PrimitiveKind;
using graph::Shape;
using graph::SizeId;
using graph::ValueId;
using loop::kNone;
using loop::Opcode;
using loop::Value;
using LoopScalar = loop::Scalar;

Emitter::Emitter(loop::Builder& builder, const graph::Graph& graph, Schedule& schedule, Step& step,
                 const std::map<ValueId, Buffer>& buffers, int lanes)
    : b(builder), lanes(lanes), g_(graph), schedule_(schedule), step_(step), buffers_(buffers) {
  enter();
}

void Emitter::enter() {
  memo_.emplace_back();
  known_.emplace_back();
}

void Emitter::leave() {
  memo_.pop_back();
  known_.pop_back();
}

Value Emitter::slot(Slot s, LoopScalar scalar) {
  auto& slots = step_.slots;
  size_t n = 0;
  while (n < slots.size() && slots[n] != s) ++n;
  if (n == slots.size()) slots.push_back(s);
  return b.slot(static_cast<int>(n), scalar);
}

Value Emitter::size(SizeId s) {
  int64_t known;
  if (schedule_.sizes.is_constant(s, &known)) return b.integer(known);
  return slot({Slot::Kind::size, s, 0}, LoopScalar::i64);
}

Index Emitter::zero() { return {b.integer(0), 0, kNone}; }

Value Emitter::positions(const Index& i) {
  if (i.vector != kNone) return i.vector;
  Value base = splat(i.base);
  if (i.step == 0) return base;
  loop::Type type{LoopScalar::i64, lanes};
  Value steps = b.lanes(type);
  if (i.step != 1) steps = b.mul(steps, b.integer(i.step, type));
  return b.add(base, steps);
}

Index Emitter::add(const Index& x, const Index& y) {
  if (x.vector == kNone && y.vector == kNone)
    return {b.add(x.base, y.base), x.step + y.step, kNone};
  return {kNone, 0, b.add(positions(x), positions(y))};
}

Index Emitter::scale(const Index& x, SizeId factor) {
  int64_t known;
  bool is_known = schedule_.sizes.is_constant(factor, &known);
  if (is_known && known == 1) return x;
  if (x.vector == kNone && (x.step == 0 || is_known))
    return {b.mul(x.base, size(factor)), is_known ? x.step * known : 0, kNone};
  return {kNone, 0, b.mul(positions(x), splat(size(factor)))};
}

std::pair<Index, Index> Emitter::divide(const Index& x, SizeId divisor) {
  if (schedule_.sizes.is_value(divisor, 1)) return {x, zero()};
  if (x.uniform()) {
    Value d = size(divisor);
    return {{b.binary(Opcode::udiv, x.base, d), 0, kNone},
            {b.binary(Opcode::urem, x.base, d), 0, kNone}};
  }
  Value p = positions(x), d = splat(size(divisor));
  int64_t known = 0;
  if (schedule_.sizes.is_constant(divisor, &known) &&
      std::has_single_bit(static_cast<uint64_t>(known)))
    return {{kNone, 0, b.binary(Opcode::udiv, p, d)}, {kNone, 0, b.binary(Opcode::urem, p, d)}};
  if (x.vector == kNone && x.step == 1) return divide_consecutive(x.base, size(divisor));
  // There is no division of integer vectors. Positions are below 2^51, so that the rounded quotient
  // of two of them is below the next integer.
  Value q = b.cast(Opcode::fptosi,
                   b.binary(Opcode::fdiv, b.cast(Opcode::sitofp, p, LoopScalar::f64),
                            b.cast(Opcode::sitofp, d, LoopScalar::f64)),
                   LoopScalar::i64);
  return {{kNone, 0, q}, {kNone, 0, b.sub(p, b.mul(q, d))}};
}

std::pair<Index, Index> Emitter::divide_consecutive(Value base, Value divisor) {
  // One scalar division; lanes differ from it by less than the lanes.
  Value quotient = splat(b.binary(Opcode::udiv, base, divisor));
  loop::Type type{LoopScalar::i64, lanes};
  Value n = b.add(splat(b.binary(Opcode::urem, base, divisor)), b.lanes(type)), d = splat(divisor);
  std::vector<Value> both = b.branch(
      b.compare(Opcode::ge, divisor, b.integer(lanes)),
      [&]() -> std::vector<Value> {
        Value wraps = b.compare(Opcode::ge, n, d);
        Value more = b.add(quotient, b.integer(1, type));
        return {b.select(wraps, more, quotient), b.select(wraps, b.sub(n, d), n)};
      },
      [&]() -> std::vector<Value> {
        // n / d as n * ceil(2^16 / d) / 2^16, which is exact for n d < 2^16.
        Value factor = b.binary(Opcode::udiv, b.add(b.integer(65535), divisor), divisor);
        Value q = b.binary(Opcode::lshr, b.mul(n, splat(factor)), b.integer(16, type));
        return {b.add(quotient, q), b.sub(n, b.mul(q, d))};
      });
  return {{kNone, 0, both[0]}, {kNone, 0, both[1]}};
}

Value Emitter::both(Value mask, Value condition) {
  return mask == kNone ? condition : b.bit_and(mask, condition);
}

Lanes Emitter::select(Value condition, Lanes x, Lanes y) {
  return {b.select(condition, x.re, y.re), x.im == kNone ? kNone : b.select(condition, x.im, y.im)};
}

void Emitter::raise(Value condition, prim::KernelError error, Value detail, Value limit,
                    Value mask) {
  // The error block has a lane of each: codes, details, limits.
  step_.raises = true;
  Value where = both(mask, condition);
  Value block = slot({Slot::Kind::error, 0, 0}, LoopScalar::ptr);
  loop::Type type{LoopScalar::i64, lanes};
  // The first error of a lane stays.
  where = b.bit_and(where,
                    b.compare(Opcode::eq, b.load(block, b.integer(0), type), b.integer(0, type)));
  b.store(block, b.integer(0), b.integer(static_cast<int64_t>(error), type), where);
  if (detail != kNone) b.store(block, b.integer(64), detail, where);
  if (limit != kNone) b.store(block, b.integer(128), limit, where);
}

Index Emitter::address(const Buffer& buffer, ValueId v, const Indices& index) {
  const Shape& shape = g_.value(v).shape;
  Index at = zero();
  if (buffer.contiguous) {
    for (size_t d = 0; d < shape.size(); ++d) {
      if (schedule_.sizes.is_value(shape[d], 1)) continue;
      at = add(scale(at, shape[d]), index[d]);
    }
    return at;
  }
  for (size_t d = 0; d < shape.size(); ++d) {
    uint8_t flags = buffer.layout[d];
    if ((flags & kStrideZero) || schedule_.sizes.is_value(shape[d], 1)) continue;
    if (flags & kStrideOne) {
      at = add(at, index[d]);
      continue;
    }
    Value stride = slot({Slot::Kind::stride, buffer.id, static_cast<int32_t>(d)}, LoopScalar::i64);
    const Index& i = index[d];
    at = i.uniform() ? add(at, {b.mul(i.base, stride), 0, kNone})
                     : add(at, {kNone, 0, b.mul(positions(i), splat(stride))});
  }
  return at;
}

Value Emitter::read(Value pointer, const Index& at, LoopScalar scalar, Value mask) {
  loop::Type type{scalar, lanes};
  if (at.vector == kNone && at.step == 1) return b.load(pointer, at.base, type, mask);
  if (at.uniform() && (mask == kNone || some_.count(mask)))
    return splat(b.load(pointer, at.base, {scalar, 1}));
  return b.load(pointer, positions(at), type, mask);
}

Lanes Emitter::load(const Buffer& buffer, ValueId v, const Indices& index, Value mask) {
  DType dtype = g_.value(v).dtype;
  Value p = pointer(buffer.id);
  Index at = address(buffer, v, index);
  if (is_complex(dtype)) {
    LoopScalar part = prim::scalar_of(real_type(dtype));
    Value two = b.integer(2, {LoopScalar::i64, lanes});
    Value even = b.mul(positions(at), two);
    Value odd = b.add(even, b.integer(1, {LoopScalar::i64, lanes}));
    return {b.load(p, even, {part, lanes}, mask), b.load(p, odd, {part, lanes}, mask)};
  }
  Value x = read(p, at, prim::memory_scalar_of(dtype), mask);
  if (dtype == DType::boolean) x = b.compare(Opcode::ne, x, b.integer(0, b.type(x)));
  return {x, kNone};
}

void Emitter::store(const Buffer& buffer, ValueId v, const Indices& index, Lanes x, Value mask) {
  DType dtype = g_.value(v).dtype;
  Value p = pointer(buffer.id);
  Index at = address(buffer, v, index);
  if (is_complex(dtype)) {
    if (at.uniform()) {
      Value even = b.mul(at.base, b.integer(2));
      b.store(p, even, b.extract(x.re, 0));
      b.store(p, b.add(even, b.integer(1)), b.extract(x.im, 0));
      return;
    }
    Value even = b.mul(positions(at), b.integer(2, {LoopScalar::i64, lanes}));
    b.store(p, even, x.re, mask);
    b.store(p, b.add(even, b.integer(1, {LoopScalar::i64, lanes})), x.im, mask);
    return;
  }
  Value y = x.re;
  if (dtype == DType::boolean) y = b.cast(Opcode::zext, y, LoopScalar::i8);
  if (at.uniform()) {
    b.store(p, at.base, b.extract(y, 0));
  } else if (at.vector == kNone && at.step == 1) {
    b.store(p, at.base, y, mask);
  } else {
    b.store(p, positions(at), y, mask);
  }
}

bool Emitter::knows(ValueId v) const {
  return std::any_of(known_.begin(), known_.end(),
                     [v](const auto& scope) { return scope.count(v) > 0; });
}

Lanes Emitter::value(ValueId v, const Indices& index, Value mask) {
  for (auto scope = known_.rbegin(); scope != known_.rend(); ++scope) {
    if (auto it = scope->find(v); it != scope->end()) return it->second;
  }
  // What was evaluated for all lanes serves a mask as well.
  Key key{v, index, mask}, unmasked{v, index, kNone};
  for (auto scope = memo_.rbegin(); scope != memo_.rend(); ++scope) {
    if (auto it = scope->find(key); it != scope->end()) return it->second;
    if (auto it = scope->find(unmasked); it != scope->end()) return it->second;
  }
  Lanes result = compute(v, index, mask);
  memo_.back().emplace(std::move(key), result);
  return result;
}

Lanes Emitter::compute(ValueId v, const Indices& index, Value mask) {
  if (auto it = buffers_.find(v); it != buffers_.end()) return load(it->second, v, index, mask);
  const Node* node = g_.node_of(v);
  if (!node) {
    for (size_t i = 0; i < g_.inputs.size(); ++i) {
      if (g_.inputs[i].value == v) return number(static_cast<int32_t>(i));
    }
    fail(ErrorKind::internal, "a value has neither memory nor a definition");
  }
  const Node& n = *node;
  switch (n.primitive->kind) {
    case PrimitiveKind::elementwise:
      return elementwise(n, index, mask);
    case PrimitiveKind::barrier:
      return value(n.inputs[0], index, mask);
    case PrimitiveKind::constant:
      return constant(n);
    case PrimitiveKind::iota:
      return {positions(index[static_cast<size_t>(n.attributes.ints[0])]), kNone};
    case PrimitiveKind::random:
      return random(n, index, mask);
    case PrimitiveKind::broadcast: {
      const Shape& from = g_.value(n.inputs[0]).shape;
      Indices inner(from.size(), zero());
      for (size_t d = 0; d < index.size(); ++d) {
        int64_t o = n.attributes.ints[d];
        if (o >= 0 && !schedule_.sizes.is_value(from[static_cast<size_t>(o)], 1))
          inner[static_cast<size_t>(o)] = index[d];
      }
      return value(n.inputs[0], inner, mask);
    }
    case PrimitiveKind::permute: {
      Indices inner(index.size());
      for (size_t d = 0; d < index.size(); ++d)
        inner[static_cast<size_t>(n.attributes.ints[d])] = index[d];
      return value(n.inputs[0], inner, mask);
    }
    case PrimitiveKind::reshape:
      return reshape(n, index, mask);
    case PrimitiveKind::slice: {
      Indices inner = index;
      auto d = static_cast<size_t>(n.attributes.ints[0]);
      inner[d] =
          add(scale(index[d], n.attributes.sizes[2]), {size(n.attributes.sizes[0]), 0, kNone});
      if (schedule_.sizes.is_value(g_.value(n.inputs[0]).shape[d], 1)) inner[d] = zero();
      return value(n.inputs[0], inner, mask);
    }
    case PrimitiveKind::reverse: {
      Indices inner = index;
      for (int64_t dim : n.attributes.ints) {
        auto d = static_cast<size_t>(dim);
        Value last = b.sub(size(g_.value(n.inputs[0]).shape[d]), b.integer(1));
        const Index& i = index[d];
        inner[d] = i.vector != kNone ? Index{kNone, 0, b.sub(splat(last), i.vector)}
                                     : Index{b.sub(last, i.base), -i.step, kNone};
      }
      return value(n.inputs[0], inner, mask);
    }
    case PrimitiveKind::pad:
      return padded(n, index, mask);
    case PrimitiveKind::concat:
      return concatenated(n, index, mask);
    case PrimitiveKind::take:
      return taken(n, index, mask);
    default:
      fail(ErrorKind::internal, text("the result of ", n.primitive->name, " was not given memory"));
  }
}

Lanes Emitter::number(int32_t input) {
  DType dtype = g_.value(g_.inputs[static_cast<size_t>(input)].value).dtype;
  if (is_complex(dtype) || is_float(dtype)) {
    LoopScalar part = prim::scalar_of(real_type(dtype));
    auto get = [&](Slot::Kind kind) {
      Value x = slot({kind, input, 0}, LoopScalar::f64);
      if (part != LoopScalar::f64) x = b.cast(Opcode::fptrunc, x, part);
      return splat(x);
    };
    return {get(Slot::Kind::real), is_complex(dtype) ? get(Slot::Kind::imaginary) : kNone};
  }
  Value x = splat(slot({Slot::Kind::integer, input, 0}, LoopScalar::i64));
  if (dtype == DType::boolean) return {b.compare(Opcode::ne, x, b.integer(0, b.type(x))), kNone};
  return {dtype == DType::int64 ? x : b.cast(Opcode::itrunc, x, prim::scalar_of(dtype)), kNone};
}

Lanes Emitter::constant(const Node& n) {
  DType dtype = n.attributes.dtype;
  if (is_complex(dtype) || is_float(dtype)) {
    loop::Type type{prim::scalar_of(real_type(dtype)), lanes};
    Value re = b.real(std::bit_cast<double>(n.attributes.ints[0]), type);
    return {re,
            is_complex(dtype) ? b.real(std::bit_cast<double>(n.attributes.ints[1]), type) : kNone};
  }
  return {b.integer(n.attributes.ints[0], {prim::scalar_of(dtype), lanes}), kNone};
}

Lanes Emitter::elementwise(const Node& n, const Indices& index, Value mask) {
  std::vector<Lanes> x;
  for (ValueId v : n.inputs) x.push_back(value(v, index, mask));
  if (n.primitive == &prim::kMakeComplex) return {x[0].re, x[1].re};
  if (n.primitive == &prim::kReal) return {x[0].re, kNone};
  if (n.primitive == &prim::kImag) return {x[0].im, kNone};
  DType operand = g_.value(n.inputs[0]).dtype, result = g_.value(n.outputs[0]).dtype;
  auto raised = [&](Value condition, prim::KernelError error) {
    raise(condition, error, kNone, kNone, mask);
  };
  auto lower = [&](bool imaginary) {
    std::vector<Value> operands;
    for (const Lanes& l : x) operands.push_back(imaginary && l.im != kNone ? l.im : l.re);
    prim::Lowering lowering{b, operands, operand, result, lanes, raised};
    return static_cast<Value>(n.primitive->lower(lowering));
  };
  if (is_complex(result)) {
    internal_check(n.primitive->componentwise, n.primitive->name, ": complex operands");
    return {lower(false), lower(true)};
  }
  return {lower(false), kNone};
}

Lanes Emitter::random(const Node& n, const Indices& index, Value mask) {
  Index linear = zero();
  for (size_t d = 0; d < index.size(); ++d)
    linear = add(scale(linear, n.attributes.sizes[d]), index[d]);
  Value seed = value(n.inputs[0], {}, mask).re, offset = value(n.inputs[1], {}, mask).re;
  return {philox_word(b, seed, offset, positions(linear), static_cast<int>(n.attributes.ints[0])),
          kNone};
}

bool Emitter::steps_together(const Buffer& buffer, size_t first, size_t last) {
  if (buffer.contiguous) return true;
  return std::all_of(buffer.layout.begin() + static_cast<ptrdiff_t>(first),
                     buffer.layout.begin() + static_cast<ptrdiff_t>(last),
                     [](uint8_t flags) { return (flags & kMerges) != 0; });
}

Lanes Emitter::reshape(const Node& n, const Indices& index, Value mask) {
  ValueId x = n.inputs[0];
  const Shape &to = n.attributes.sizes, &from = g_.value(x).shape;
  // Dims of size 1 come and go; equal leading and trailing dims keep their index; those between go
  // through the linear position.
  auto significant = [&](const Shape& shape) {
    std::vector<size_t> dims;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (!schedule_.sizes.is_value(shape[d], 1)) dims.push_back(d);
    }
    return dims;
  };
  std::vector<size_t> outer = significant(to), open = significant(from);
  Indices inner(from.size(), zero());
  while (!outer.empty() && !open.empty() && to[outer.front()] == from[open.front()]) {
    inner[open.front()] = index[outer.front()];
    outer.erase(outer.begin());
    open.erase(open.begin());
  }
  while (!outer.empty() && !open.empty()) {
    // As many trailing dims as make one of the operand.
    SizeId product = to[outer.back()];
    size_t first = outer.size() - 1;
    while (product != from[open.back()] && first > 0)
      product = schedule_.sizes.binary(graph::SizeOp::mul, to[outer[--first]], product);
    if (product != from[open.back()]) {
      // Or one dim that is as many of the operand.
      size_t last = open.size() - 1;
      product = from[open.back()];
      while (product != to[outer.back()] && last > 0)
        product = schedule_.sizes.binary(graph::SizeOp::mul, from[open[--last]], product);
      if (product != to[outer.back()]) break;
      Index rest = index[outer.back()];
      for (size_t i = open.size(); i-- > last + 1;) {
        auto [q, r] = divide(rest, from[open[i]]);
        inner[open[i]] = r;
        rest = q;
      }
      inner[open[last]] = rest;
      outer.pop_back();
      open.resize(last);
      continue;
    }
    Index joined = zero();
    for (size_t i = first; i < outer.size(); ++i)
      joined = i == first ? index[outer[i]] : add(scale(joined, to[outer[i]]), index[outer[i]]);
    inner[open.back()] = joined;
    outer.resize(first);
    open.pop_back();
  }
  Index linear = zero();
  for (size_t d : outer) linear = add(scale(linear, to[d]), index[d]);
  for (size_t k = open.size(); k-- > 0;) {
    if (k == 0) {
      inner[open[k]] = linear;
    } else if (auto it = buffers_.find(x);
               it != buffers_.end() && steps_together(it->second, open.front(), open[k])) {
      // The dims left are one in memory: it takes the linear position as it is.
      inner[open[k]] = linear;
      break;
    } else {
      auto [q, r] = divide(linear, from[open[k]]);
      inner[open[k]] = r;
      linear = q;
    }
  }
  return value(x, inner, mask);
}

Lanes Emitter::padded(const Node& n, const Indices& index, Value mask) {
  auto d = static_cast<size_t>(n.attributes.ints[0]);
  SizeId count = g_.value(n.inputs[0]).shape[d];
  Indices inner = index;
  const Index& i = index[d];
  Value low = size(n.attributes.sizes[0]);
  Index moved = i.vector != kNone ? Index{kNone, 0, b.sub(i.vector, splat(low))}
                                  : Index{b.sub(i.base, low), i.step, kNone};
  Value p = positions(moved);
  loop::Type type{LoopScalar::i64, lanes};
  Value inside;
  if (schedule_.sizes.is_value(n.attributes.sizes[2], 1)) {
    inside = b.compare(Opcode::ult, p, splat(size(count)));
    inner[d] = moved;
  } else {
    Value step = splat(size(n.attributes.sizes[2]));
    Value q = b.binary(Opcode::udiv, p, step), r = b.binary(Opcode::urem, p, step);
    inside = b.bit_and(b.bit_and(b.compare(Opcode::ge, p, b.integer(0, type)),
                                 b.compare(Opcode::eq, r, b.integer(0, type))),
                       b.compare(Opcode::ult, q, splat(size(count))));
    inner[d] = {kNone, 0, q};
  }
  if (schedule_.sizes.is_value(count, 1)) inner[d] = zero();
  return select(inside, value(n.inputs[0], inner, both(mask, inside)),
                value(n.inputs[1], {}, mask));
}

Lanes Emitter::concatenated(const Node& n, const Indices& index, Value mask) {
  auto d = static_cast<size_t>(n.attributes.ints[0]);
  const Index& i = index[d];
  Value start = b.integer(0);
  Lanes result;
  for (size_t k = 0; k < n.inputs.size(); ++k) {
    SizeId count = g_.value(n.inputs[k]).shape[d];
    Index moved = i.vector != kNone ? Index{kNone, 0, b.sub(i.vector, splat(start))}
                                    : Index{b.sub(i.base, start), i.step, kNone};
    Value inside = b.compare(Opcode::ult, positions(moved), splat(size(count)));
    Indices inner = index;
    inner[d] = schedule_.sizes.is_value(count, 1) ? zero() : moved;
    Lanes part = value(n.inputs[k], inner, both(mask, inside));
    result = k == 0 ? part : select(inside, part, result);
    start = b.add(start, size(count));
  }
  return result;
}

Lanes Emitter::taken(const Node& n, const Indices& index, Value mask) {
  auto dim = static_cast<size_t>(n.attributes.ints[0]);
  size_t index_rank = g_.value(n.inputs[1]).shape.size();
  const Shape& from = g_.value(n.inputs[0]).shape;
  Indices where(index.begin() + static_cast<ptrdiff_t>(dim),
                index.begin() + static_cast<ptrdiff_t>(dim + index_rank));
  bool uniform = true;
  for (const Index& i : where) uniform &= i.uniform();
  Value p = value(n.inputs[1], where, mask).re;
  Value count = splat(size(from[dim]));
  Value inside = b.compare(Opcode::ult, p, count);
  bool runtime_error = n.attributes.ints.size() > 1 && n.attributes.ints[1] != 0;
  raise(b.unary(Opcode::bit_not, inside),
        runtime_error ? prim::KernelError::position_out_of_range
                      : prim::KernelError::index_out_of_range,
        p, count, mask);
  Indices inner(index.begin(), index.begin() + static_cast<ptrdiff_t>(dim));
  // One position for all lanes keeps the other dims' accesses consecutive.
  inner.push_back(schedule_.sizes.is_value(from[dim], 1) ? zero()
                  : uniform                              ? Index{b.extract(p, 0), 0, kNone}
                                                         : Index{kNone, 0, p});
  inner.insert(inner.end(), index.begin() + static_cast<ptrdiff_t>(dim + index_rank), index.end());
  return value(n.inputs[0], inner, both(mask, inside));
}

}  // namespace flambeau::kernel
