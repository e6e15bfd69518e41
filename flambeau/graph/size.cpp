#include "flambeau/graph/size.h"

#include <utility>

#include "flambeau/base/error.h"

namespace flambeau::graph {

int64_t apply(SizeOp op, int64_t a, int64_t b) {
  switch (op) {
    case SizeOp::add:
      return a + b;
    case SizeOp::sub:
      return a - b;
    case SizeOp::mul: {
      // An overflow saturates: the product is then rejected where memory is asked for.
      int64_t result;
      return __builtin_mul_overflow(a, b, &result) ? INT64_MAX : result;
    }
    case SizeOp::div: {
      if (b == 0) return 0;
      int64_t q = a / b;
      return q - ((a % b != 0) && ((a < 0) != (b < 0)));
    }
    case SizeOp::mod:
      return b == 0 ? 0 : a - b * apply(SizeOp::div, a, b);
    case SizeOp::min:
      return a < b ? a : b;
    case SizeOp::max:
      return a > b ? a : b;
    default:
      return 0;
  }
}

bool SizeTable::is_constant(SizeId id, int64_t* value) const {
  const auto& e = (*this)[id];
  if (e.op != SizeOp::constant) return false;
  if (value) *value = e.value;
  return true;
}

bool SizeTable::is_value(SizeId id, int64_t value) const {
  int64_t known;
  return is_constant(id, &known) && known == value;
}

SizeId SizeTable::intern(SizeExpression e) {
  auto [it, added] =
      ids_.try_emplace({e.op, e.a, e.b, e.value}, static_cast<SizeId>(expressions_.size()));
  if (added) expressions_.push_back(e);
  return it->second;
}

SizeId SizeTable::binary(SizeOp op, SizeId a, SizeId b) {
  int64_t x, y;
  bool ca = is_constant(a, &x), cb = is_constant(b, &y);
  if (ca && cb) return constant(apply(op, x, y));
  switch (op) {
    case SizeOp::add:
      if (ca && x == 0) return b;
      if (cb && y == 0) return a;
      break;
    case SizeOp::sub:
      if (cb && y == 0) return a;
      if (a == b) return constant(0);
      break;
    case SizeOp::mul:
      if ((ca && x == 1) || (cb && y == 0)) return b;
      if ((cb && y == 1) || (ca && x == 0)) return a;
      break;
    case SizeOp::div:
      if (cb && y == 1) return a;
      break;
    case SizeOp::mod:
      if (cb && y == 1) return constant(0);
      break;
    case SizeOp::min:
    case SizeOp::max:
      if (a == b) return a;
      break;
    default:
      break;
  }
  bool commutes = op == SizeOp::add || op == SizeOp::mul || op == SizeOp::min || op == SizeOp::max;
  if (commutes && a > b) std::swap(a, b);
  return intern({op, a, b, 0});
}

void SizeTable::evaluate(const int64_t* inputs, int64_t* values) const {
  for (size_t i = 0; i < expressions_.size(); ++i) {
    const auto& e = expressions_[i];
    values[i] = e.op == SizeOp::constant ? e.value
                : e.op == SizeOp::input  ? inputs[e.value]
                                         : apply(e.op, values[e.a], values[e.b]);
  }
}

std::string SizeTable::print(SizeId id) const {
  static constexpr const char* kSymbols[] = {"", "", "+", "-", "*", "/", "%", "min", "max"};
  const auto& e = (*this)[id];
  if (e.op == SizeOp::constant) return text(e.value);
  if (e.op == SizeOp::input) return text("s", e.value);
  return text("(", print(e.a), " ", kSymbols[static_cast<int>(e.op)], " ", print(e.b), ")");
}

}  // namespace flambeau::graph
