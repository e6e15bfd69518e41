// Builds one loop-IR function. Instructions go to the innermost open block; integer and float
// constants are folded only where the result is exact by definition (integer arithmetic).
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "flambeau/loop/ir.h"

namespace flambeau::loop {

class Builder {
 public:
  explicit Builder(std::string name);
  /// Closes the function; the builder must not be used afterwards.
  Function finish();

  Type type(Value v) const { return function_.types[static_cast<size_t>(v)]; }

  // Leaves. Vector constants repeat the scalar.
  Value integer(int64_t value, Type type = {Scalar::i64, 1});
  Value real(double value, Type type);  // rounded to the type (f32, f64, f16, bf16)
  Value bits(int64_t bits, Type type);  // any scalar by its bit pattern
  Value lanes(Type type);
  Value slot(int number, Scalar scalar);
  Value begin();
  Value end();
  Value worker();

  // One instruction each; operand and result rules are those of ir.h.
  Value binary(Opcode op, Value a, Value b);
  Value unary(Opcode op, Value a);
  Value add(Value a, Value b) { return binary(Opcode::add, a, b); }
  Value sub(Value a, Value b) { return binary(Opcode::sub, a, b); }
  Value mul(Value a, Value b) { return binary(Opcode::mul, a, b); }
  Value fdiv(Value a, Value b) { return binary(Opcode::fdiv, a, b); }
  Value bit_and(Value a, Value b) { return binary(Opcode::bit_and, a, b); }
  Value bit_or(Value a, Value b) { return binary(Opcode::bit_or, a, b); }
  Value bit_xor(Value a, Value b) { return binary(Opcode::bit_xor, a, b); }
  Value shl(Value a, Value b) { return binary(Opcode::shl, a, b); }
  Value lshr(Value a, Value b) { return binary(Opcode::lshr, a, b); }
  Value ashr(Value a, Value b) { return binary(Opcode::ashr, a, b); }
  Value fma(Value a, Value b, Value c);
  Value compare(Opcode op, Value a, Value b);
  Value select(Value condition, Value a, Value b);
  Value cast(Opcode op, Value a, Scalar to);
  Value bitcast(Value a, Scalar to) { return cast(Opcode::bitcast, a, to); }
  Value splat(Value scalar, int lanes);  // a value that already has the lanes is returned as it is
  Value extract(Value vector, int lane);
  Value insert(Value vector, Value scalar, int lane);
  Value shuffle(Value a, Value b, std::vector<int32_t> mask);
  Value load(Value pointer, Value index, Type type, Value mask = kNone);
  void store(Value pointer, Value index, Value value, Value mask = kNone);
  Value offset(Value pointer, Value index, int bytes_per_element);
  Value stack(int64_t bytes);
  void prefetch(Value pointer, Value index, int bytes_per_element);

  /// for (index = lo; index < hi; index += step) carried = body(index, carried); returns the last
  /// carried values.
  std::vector<Value> loop(
      Value lo, Value hi, int64_t step, std::vector<Value> init,
      const std::function<std::vector<Value>(Value index, const std::vector<Value>& carried)>&
          body);
  /// Both sides must return values of the same types.
  std::vector<Value> branch(Value condition, const std::function<std::vector<Value>()>& then,
                            const std::function<std::vector<Value>()>& otherwise);

  /// The integer that `v` is known to be, if it was made by `integer`.
  bool known_integer(Value v, int64_t* value) const;
  /// Depth of open blocks; values made at depth d stay usable while that block is open.
  int depth() const { return static_cast<int>(open_.size()); }

  // Signed integer minimum and maximum, as compare and select.
  Value smin(Value a, Value b) { return select(compare(Opcode::lt, a, b), a, b); }
  Value smax(Value a, Value b) { return select(compare(Opcode::gt, a, b), a, b); }

 private:
  Value emit(Opcode op, Type type, std::vector<Value> operands, int64_t imm = 0,
             std::vector<int32_t> mask = {});
  Value new_value(Type type);
  void emit_effect(Opcode op, std::vector<Value> operands, int64_t imm = 0);

  Function function_;
  std::vector<Block> open_;
  std::map<Value, int64_t> integers_;
  // Leaves are kept in the top block, once each.
  std::map<std::tuple<Opcode, Scalar, int, int64_t>, Value> leaves_;
};

}  // namespace flambeau::loop
