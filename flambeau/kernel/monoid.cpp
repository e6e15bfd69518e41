#include <limits>

#include "flambeau/base/error.h"
#include "flambeau/kernel/frame.h"

namespace flambeau::kernel {

using loop::Builder;
using loop::Opcode;
using loop::Value;
using prim::Monoid;

namespace {

bool is_extreme(Monoid m) { return m >= Monoid::maximum && m != Monoid::all && m != Monoid::any; }
bool wants_largest(Monoid m) { return m == Monoid::maximum || m == Monoid::argmax; }

Value lowest(Builder& b, DType dtype, loop::Type type, bool largest_wanted) {
  if (is_float(dtype)) {
    double inf = std::numeric_limits<double>::infinity();
    return b.real(largest_wanted ? -inf : inf, type);
  }
  if (dtype == DType::boolean) return b.integer(largest_wanted ? 0 : 1, type);
  if (dtype == DType::uint8) return b.integer(largest_wanted ? 0 : -1, type);
  int bits = loop::bits(type.scalar);
  int64_t low = bits == 64 ? std::numeric_limits<int64_t>::min() : -(int64_t{1} << (bits - 1));
  return b.integer(largest_wanted ? low : -(low + 1), type);
}

/// Lanes where x is strictly beyond a; a NaN is beyond every number.
Value beyond(Builder& b, Monoid monoid, DType dtype, Value a, Value x) {
  bool largest = wants_largest(monoid);
  if (dtype == DType::boolean) {
    Value not_a = b.unary(Opcode::bit_not, a), not_x = b.unary(Opcode::bit_not, x);
    return largest ? b.bit_and(x, not_a) : b.bit_and(not_x, a);
  }
  if (dtype == DType::uint8)
    return largest ? b.compare(Opcode::ult, a, x) : b.compare(Opcode::ult, x, a);
  Value strictly = b.compare(largest ? Opcode::gt : Opcode::lt, x, a);
  if (!is_float(dtype)) return strictly;
  Value a_number = b.compare(Opcode::eq, a, a), x_nan = b.compare(Opcode::ne, x, x);
  return b.bit_or(strictly, b.bit_and(x_nan, a_number));
}

Value equal(Builder& b, DType dtype, Value a, Value x) {
  if (dtype == DType::boolean) return b.unary(Opcode::bit_not, b.bit_xor(a, x));
  Value same = b.compare(Opcode::eq, a, x);
  if (!is_float(dtype)) return same;
  return b.bit_or(same, b.bit_and(b.compare(Opcode::ne, a, a), b.compare(Opcode::ne, x, x)));
}

}  // namespace

Accumulator identity(Builder& b, Monoid monoid, DType dtype, int lanes) {
  loop::Type type{prim::scalar_of(dtype), lanes};
  if (is_extreme(monoid)) {
    Accumulator a{lowest(b, dtype, type, wants_largest(monoid)), loop::kNone};
    if (monoid >= Monoid::argmax) {
      a.position = b.integer(std::numeric_limits<int64_t>::max(), {loop::Scalar::i64, lanes});
    }
    return a;
  }
  bool one = monoid == Monoid::product || monoid == Monoid::all;
  return {is_float(dtype) ? b.real(one, type) : b.integer(one, type), loop::kNone};
}

Accumulator combine(Builder& b, Monoid monoid, DType dtype, Accumulator a, Accumulator x) {
  switch (monoid) {
    case Monoid::sum:
      return {b.add(a.value, x.value), loop::kNone};
    case Monoid::product:
      return {b.mul(a.value, x.value), loop::kNone};
    case Monoid::all:
      return {b.bit_and(a.value, x.value), loop::kNone};
    case Monoid::any:
      return {b.bit_or(a.value, x.value), loop::kNone};
    case Monoid::maximum:
    case Monoid::minimum:
      return {b.select(beyond(b, monoid, dtype, a.value, x.value), x.value, a.value), loop::kNone};
    default: {
      // Of equal values the first position wins, whichever side it comes from.
      Value earlier = b.bit_and(equal(b, dtype, a.value, x.value),
                                b.compare(Opcode::lt, x.position, a.position));
      return choose(b, b.bit_or(beyond(b, monoid, dtype, a.value, x.value), earlier), x, a);
    }
  }
}

Accumulator choose(Builder& b, Value mask, Accumulator a, Accumulator otherwise) {
  return {b.select(mask, a.value, otherwise.value),
          a.position == loop::kNone ? loop::kNone : b.select(mask, a.position, otherwise.position)};
}

}  // namespace flambeau::kernel
