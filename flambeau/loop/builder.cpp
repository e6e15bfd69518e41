// Building of loop-IR functions: types of results, leaves shared in the top block, and exact
// folding of integer arithmetic. Rules are checked by `verify`; here only what the builder itself
// relies on.
#include "flambeau/loop/builder.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "flambeau/base/error.h"

namespace flambeau::loop {
namespace {

// Rounds to nearest even to a binary format with `fraction` stored bits and the given exponent
// range. Works on exact doubles, so that there is one rounding only.
uint16_t narrow(double value, int fraction, int exponent_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const auto infinity = static_cast<uint16_t>(((1 << exponent_bits) - 1) << fraction);
  if (std::isnan(value)) return static_cast<uint16_t>(sign | infinity | (1 << (fraction - 1)));
  double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return static_cast<uint16_t>(sign | infinity);
  if (magnitude == 0) return sign;
  int exponent;
  std::frexp(magnitude, &exponent);
  // Units in the last place; denormals share the exponent of the smallest normal number.
  int ulp = std::max(exponent - 1, 1 - bias) - fraction;
  double scaled = std::ldexp(magnitude, -ulp);
  double rounded = std::nearbyint(scaled);
  auto steps = static_cast<int64_t>(rounded);
  // A carry out of the fraction moves into the exponent by itself.
  int64_t base = static_cast<int64_t>(ulp + fraction + bias - 1) << fraction;
  int64_t result = base + steps;
  return static_cast<uint16_t>(sign | std::min<int64_t>(result, infinity));
}

bool fold(Opcode op, Scalar scalar, int64_t a, int64_t b, int64_t* out) {
  const auto ua = static_cast<uint64_t>(a);
  const auto ub = static_cast<uint64_t>(b);
  const int width = bits(scalar);
  const bool shift_ok = ub < static_cast<uint64_t>(width);
  switch (op) {
    case Opcode::add:
      *out = static_cast<int64_t>(ua + ub);
      return true;
    case Opcode::sub:
      *out = static_cast<int64_t>(ua - ub);
      return true;
    case Opcode::mul:
      *out = static_cast<int64_t>(ua * ub);
      return true;
    case Opcode::bit_and:
      *out = a & b;
      return true;
    case Opcode::bit_or:
      *out = a | b;
      return true;
    case Opcode::bit_xor:
      *out = a ^ b;
      return true;
    case Opcode::shl:
      if (!shift_ok) return false;
      *out = static_cast<int64_t>(ua << ub);
      return true;
    case Opcode::ashr:
      if (!shift_ok) return false;
      *out = a >> b;
      return true;
    case Opcode::lshr: {
      if (!shift_ok) return false;
      const uint64_t mask = width == 64 ? ~0ull : (1ull << width) - 1;
      *out = static_cast<int64_t>((ua & mask) >> ub);
      return true;
    }
    case Opcode::sdiv:
    case Opcode::srem:
      if (b == 0 || b == -1) return false;
      *out = op == Opcode::sdiv ? a / b : a % b;
      return true;
    default:
      return false;
  }
}

}  // namespace

Builder::Builder(std::string name) {
  function_.name = std::move(name);
  open_.emplace_back();
}

Function Builder::finish() {
  internal_check(open_.size() == 1, "loop IR: finish inside a block of ", function_.name);
  emit_effect(Opcode::yield, {});
  function_.body = std::move(open_.back());
  open_.clear();
  return std::move(function_);
}

Value Builder::new_value(Type type) {
  function_.types.push_back(type);
  return static_cast<Value>(function_.types.size() - 1);
}

Value Builder::emit(Opcode op, Type type, std::vector<Value> operands, int64_t imm,
                    std::vector<int32_t> mask) {
  const bool leaf = op <= Opcode::param;
  if (leaf) {
    auto [found, fresh] = leaves_.try_emplace({op, type.scalar, type.lanes, imm}, kNone);
    if (!fresh) return found->second;
    const Value value = new_value(type);
    found->second = value;
    open_.front().instructions.push_back({op, type, {}, imm, {}, {value}, {}});
    return value;
  }
  const Value value = new_value(type);
  open_.back().instructions.push_back(
      {op, type, std::move(operands), imm, std::move(mask), {value}, {}});
  return value;
}

void Builder::emit_effect(Opcode op, std::vector<Value> operands, int64_t imm) {
  open_.back().instructions.push_back({op, {}, std::move(operands), imm, {}, {}, {}});
}

Value Builder::integer(int64_t value, Type type) {
  internal_check(is_integer(type.scalar), "loop IR: integer constant of a float type");
  return bits(value, type);
}

Value Builder::bits(int64_t pattern, Type type) {
  pattern = constant_bits(type.scalar, pattern);
  const Value v = emit(Opcode::constant, type, {}, pattern);
  if (is_integer(type.scalar)) integers_[v] = pattern;
  return v;
}

Value Builder::real(double value, Type type) {
  switch (type.scalar) {
    case Scalar::f64:
      return bits(std::bit_cast<int64_t>(value), type);
    case Scalar::f32:
      return bits(std::bit_cast<int32_t>(static_cast<float>(value)), type);
    case Scalar::f16:
      return bits(narrow(value, 10, 5), type);
    case Scalar::bf16:
      return bits(narrow(value, 7, 8), type);
    default:
      fail(ErrorKind::internal, "internal error: loop IR: real constant of an integer type");
  }
}

Value Builder::lanes(Type type) { return emit(Opcode::lanes, type, {}); }
Value Builder::slot(int number, Scalar scalar) {
  return emit(Opcode::slot, {scalar, 1}, {}, number);
}
Value Builder::begin() { return emit(Opcode::param, {Scalar::i64, 1}, {}, 0); }
Value Builder::end() { return emit(Opcode::param, {Scalar::i64, 1}, {}, 1); }
Value Builder::worker() { return emit(Opcode::param, {Scalar::i64, 1}, {}, 2); }

Value Builder::binary(Opcode op, Value a, Value b) {
  const Type t = type(a);
  internal_check(t == type(b), "loop IR: operand types differ in ", name(op), " of ",
                 function_.name, ": ", name(t.scalar), " x ", t.lanes, " and ",
                 name(type(b).scalar), " x ", type(b).lanes);
  int64_t x = 0;
  int64_t y = 0;
  const bool known_x = known_integer(a, &x);
  const bool known_y = known_integer(b, &y);
  if (known_x && known_y) {
    int64_t folded;
    if (fold(op, t.scalar, x, y, &folded)) return bits(folded, t);
  }
  if (is_integer(t.scalar)) {
    if (known_y && y == 0 &&
        (op == Opcode::add || op == Opcode::sub || op == Opcode::shl || op == Opcode::lshr ||
         op == Opcode::ashr || op == Opcode::bit_or || op == Opcode::bit_xor)) {
      return a;
    }
    if (known_x && x == 0 && (op == Opcode::add || op == Opcode::bit_or)) return b;
    if (op == Opcode::mul && t.scalar != Scalar::i1) {
      if (known_y && y == 1) return a;
      if (known_x && x == 1) return b;
      if ((known_y && y == 0) || (known_x && x == 0)) return bits(0, t);
    }
  }
  return emit(op, t, {a, b});
}

Value Builder::unary(Opcode op, Value a) {
  int64_t x;
  if (op == Opcode::neg && known_integer(a, &x)) {
    return bits(static_cast<int64_t>(0 - static_cast<uint64_t>(x)), type(a));
  }
  if (op == Opcode::bit_not && known_integer(a, &x)) return bits(~x, type(a));
  return emit(op, type(a), {a});
}

Value Builder::fma(Value a, Value b, Value c) { return emit(Opcode::fma, type(a), {a, b, c}); }

Value Builder::compare(Opcode op, Value a, Value b) {
  const Type t = type(a);
  internal_check(t == type(b), "loop IR: operand types differ in ", name(op), " of ",
                 function_.name, ": ", name(t.scalar), " x ", t.lanes, " and ",
                 name(type(b).scalar), " x ", type(b).lanes);
  return emit(op, {Scalar::i1, t.lanes}, {a, b});
}

Value Builder::select(Value condition, Value a, Value b) {
  if (a == b) return a;
  return emit(Opcode::select, type(a), {condition, a, b});
}

Value Builder::cast(Opcode op, Value a, Scalar to) {
  const Type from = type(a);
  if (op == Opcode::bitcast && from.scalar == to) return a;
  int64_t x;
  if (known_integer(a, &x)) {
    // Constants are kept sign-extended, so widening with zeros drops the copies of the sign.
    if (op == Opcode::sext || op == Opcode::itrunc) return bits(x, {to, from.lanes});
    if (op == Opcode::zext) {
      const int width = loop::bits(from.scalar);
      return bits(width == 64 ? x : x & ((int64_t{1} << width) - 1), {to, from.lanes});
    }
  }
  return emit(op, {to, from.lanes}, {a});
}

Value Builder::splat(Value scalar, int lanes) {
  const Type t = type(scalar);
  if (t.lanes == lanes) return scalar;
  internal_check(t.lanes == 1, "loop IR: splat of a vector in ", function_.name);
  int64_t x;
  if (known_integer(scalar, &x)) return bits(x, {t.scalar, lanes});
  return emit(Opcode::splat, {t.scalar, lanes}, {scalar});
}

Value Builder::extract(Value vector, int lane) {
  const Type t = type(vector);
  if (t.lanes == 1) return vector;
  return emit(Opcode::extract, {t.scalar, 1}, {vector}, lane);
}

Value Builder::insert(Value vector, Value scalar, int lane) {
  if (type(vector).lanes == 1) return scalar;
  return emit(Opcode::insert, type(vector), {vector, scalar}, lane);
}

Value Builder::shuffle(Value a, Value b, std::vector<int32_t> mask) {
  const Type t{type(a).scalar, static_cast<int>(mask.size())};
  return emit(Opcode::shuffle, t, {a, b}, 0, std::move(mask));
}

Value Builder::load(Value pointer, Value index, Type type, Value mask) {
  std::vector<Value> operands{pointer, index};
  if (mask != kNone) operands.push_back(mask);
  return emit(Opcode::load, type, std::move(operands));
}

void Builder::store(Value pointer, Value index, Value value, Value mask) {
  std::vector<Value> operands{pointer, index, value};
  if (mask != kNone) operands.push_back(mask);
  emit_effect(Opcode::store, std::move(operands));
}

Value Builder::offset(Value pointer, Value index, int bytes_per_element) {
  int64_t x;
  if (known_integer(index, &x) && x == 0) return pointer;
  return emit(Opcode::offset, {Scalar::ptr, 1}, {pointer, index}, bytes_per_element);
}

Value Builder::stack(int64_t bytes) {
  const Value value = new_value({Scalar::ptr, 1});
  open_.front().instructions.push_back(
      {Opcode::stack, {Scalar::ptr, 1}, {}, bytes, {}, {value}, {}});
  return value;
}

void Builder::prefetch(Value pointer, Value index, int bytes_per_element) {
  emit_effect(Opcode::prefetch, {pointer, index}, bytes_per_element);
}

std::vector<Value> Builder::loop(
    Value lo, Value hi, int64_t step, std::vector<Value> init,
    const std::function<std::vector<Value>(Value, const std::vector<Value>&)>& body) {
  Instruction instruction{Opcode::loop, {}, {lo, hi}, step, {}, {}, {}};
  instruction.operands.insert(instruction.operands.end(), init.begin(), init.end());
  open_.emplace_back();
  const Value index = new_value({Scalar::i64, 1});
  std::vector<Value> carried;
  for (Value v : init) carried.push_back(new_value(type(v)));
  open_.back().arguments.push_back(index);
  open_.back().arguments.insert(open_.back().arguments.end(), carried.begin(), carried.end());
  std::vector<Value> next = body(index, carried);
  internal_check(next.size() == init.size(), "loop IR: the body of a loop of ", function_.name,
                 " returns ", next.size(), " values for ", init.size(), " carried ones");
  emit_effect(Opcode::yield, std::move(next));
  instruction.blocks.push_back(std::move(open_.back()));
  open_.pop_back();
  for (Value v : init) instruction.results.push_back(new_value(type(v)));
  std::vector<Value> results = instruction.results;
  open_.back().instructions.push_back(std::move(instruction));
  return results;
}

std::vector<Value> Builder::branch(Value condition, const std::function<std::vector<Value>()>& then,
                                   const std::function<std::vector<Value>()>& otherwise) {
  Instruction instruction{Opcode::branch, {}, {condition}, 0, {}, {}, {}};
  std::vector<Value> yielded[2];
  for (int side = 0; side < 2; ++side) {
    open_.emplace_back();
    yielded[side] = side == 0 ? then() : otherwise();
    emit_effect(Opcode::yield, yielded[side]);
    instruction.blocks.push_back(std::move(open_.back()));
    open_.pop_back();
  }
  internal_check(yielded[0].size() == yielded[1].size(), "loop IR: the sides of a branch of ",
                 function_.name, " yield ", yielded[0].size(), " and ", yielded[1].size(),
                 " values");
  for (Value v : yielded[0]) instruction.results.push_back(new_value(type(v)));
  std::vector<Value> results = instruction.results;
  open_.back().instructions.push_back(std::move(instruction));
  return results;
}

bool Builder::known_integer(Value v, int64_t* value) const {
  const auto found = integers_.find(v);
  if (found == integers_.end()) return false;
  *value = found->second;
  return true;
}

}  // namespace flambeau::loop
