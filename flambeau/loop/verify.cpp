// The rules of the loop IR (ir.h), checked one instruction at a time. Fields without meaning for an
// opcode must be empty, so that the text form says all there is.
#include <set>

#include "flambeau/base/error.h"
#include "flambeau/loop/ir.h"

namespace flambeau::loop {
namespace {

constexpr int kMaxLanes = 64;
constexpr int64_t kMaxSlots = 1 << 16;

std::string text_of(Type t) {
  return t.lanes == 1 ? std::string(name(t.scalar)) : text(name(t.scalar), "x", t.lanes);
}

bool is_computed_float(Type t) { return t.scalar == Scalar::f32 || t.scalar == Scalar::f64; }
// Integers of arithmetic; i1 is for conditions.
bool is_number(Type t) { return is_integer(t.scalar) && t.scalar != Scalar::i1; }

class Verifier {
 public:
  explicit Verifier(const Function& function) : function_(function) {
    const size_t count = function.types.size();
    defined_.assign(count, false);
    visible_.assign(count, false);
  }

  void run() { check_block(function_.body, {}, true); }

 private:
  static constexpr Type kIndex{Scalar::i64, 1};
  static constexpr Type kPointer{Scalar::ptr, 1};

  template <class... Parts>
  void require(bool ok, const Parts&... parts) const {
    if (ok) [[likely]]
      return;
    std::string where;
    if (now_ != nullptr) {
      where = text(" at '");
      for (Value v : now_->results) where += text("v", v, " ");
      where += text(now_->results.empty() ? "" : "= ", name(now_->opcode));
      for (Value v : now_->operands) where += text(" v", v);
      where += "'";
    }
    fail(ErrorKind::internal,
         text("internal error: loop IR of ", function_.name, where, ": ", parts...));
  }

  Type type(Value v) const { return function_.types[static_cast<size_t>(v)]; }
  Type operand(size_t number) const { return type(now_->operands[number]); }
  size_t count() const { return now_->operands.size(); }

  void require_type(Type t) const {
    require(t.scalar <= Scalar::ptr, "unknown scalar type");
    require(t.lanes >= 1 && t.lanes <= kMaxLanes && (t.lanes & (t.lanes - 1)) == 0,
            "lanes must be a power of two up to ", kMaxLanes, "; got ", t.lanes);
    require(t.scalar != Scalar::ptr || t.lanes == 1, "ptr has one lane; got ", t.lanes);
  }

  void require_operands(size_t least, size_t most) const {
    require(count() >= least && count() <= most, "expected ", least, " to ", most,
            " operands; got ", count());
  }

  void require_operand(size_t number, Type wanted) const {
    require(operand(number) == wanted, "operand ", number, " must be ", text_of(wanted), "; got ",
            text_of(operand(number)));
  }

  void define(Value v) {
    require(v >= 0 && static_cast<size_t>(v) < function_.types.size(), "value number ", v,
            " out of range");
    require_type(type(v));
    const auto index = static_cast<size_t>(v);
    require(!defined_[index], "v", v, " is defined twice");
    defined_[index] = true;
    visible_[index] = true;
    scope_.push_back(v);
  }

  // Returns the operands of the block's yield.
  std::vector<Value> check_block(const Block& block, const std::vector<Type>& arguments, bool top) {
    const size_t scope_start = scope_.size();
    require(block.arguments.size() == arguments.size(), "the block must have ", arguments.size(),
            " arguments; got ", block.arguments.size());
    for (size_t i = 0; i < arguments.size(); ++i) {
      define(block.arguments[i]);
      require(type(block.arguments[i]) == arguments[i], "block argument ", i, " must be ",
              text_of(arguments[i]), "; got ", text_of(type(block.arguments[i])));
    }
    std::vector<Value> yielded;
    bool closed = false;
    const Instruction* const outer = now_;
    for (const Instruction& instruction : block.instructions) {
      now_ = &instruction;
      require(!closed, "instruction after the yield");
      check_instruction(instruction, top);
      if (instruction.opcode == Opcode::yield) {
        closed = true;
        yielded = instruction.operands;
      }
    }
    now_ = outer;
    require(closed, "a block must end with a yield");
    require(!top || yielded.empty(), "the function's block yields nothing");
    for (size_t i = scope_start; i < scope_.size(); ++i) {
      visible_[static_cast<size_t>(scope_[i])] = false;
    }
    scope_.resize(scope_start);
    return yielded;
  }

  void check_instruction(const Instruction& i, bool top) {
    const Opcode op = i.opcode;
    require(op <= Opcode::yield, "unknown opcode");
    for (Value v : i.operands) {
      require(
          v >= 0 && static_cast<size_t>(v) < visible_.size() && visible_[static_cast<size_t>(v)],
          "v", v, " is not defined before this use");
    }
    require(has_immediate(op) || i.imm == 0, "imm has no meaning here");
    require(op == Opcode::shuffle || i.mask.empty(), "mask has no meaning here");
    const bool nested = op == Opcode::loop || op == Opcode::branch;
    const bool effect = op == Opcode::store || op == Opcode::prefetch || op == Opcode::yield;
    require(nested || i.blocks.empty(), "blocks have no meaning here");
    if (nested || effect) {
      require(i.type == Type{}, "the instruction itself has no type");
    } else {
      require(i.results.size() == 1, "expected one result; got ", i.results.size());
    }
    if (effect) require(i.results.empty(), "expected no result; got ", i.results.size());
    if (op == Opcode::loop) return check_loop(i);
    if (op == Opcode::branch) return check_branch(i);
    if (!effect) require_type(i.type);
    check_rule(i, top);
    for (Value v : i.results) {
      define(v);
      require(type(v) == i.type, "the result's type is ", text_of(type(v)), ", the instruction's ",
              text_of(i.type));
    }
  }

  void require_uniform(size_t operands, const Instruction& i) const {
    require_operands(operands, operands);
    for (size_t n = 0; n < operands; ++n) require_operand(n, i.type);
  }

  void check_rule(const Instruction& i, bool top) const {
    const Type t = i.type;
    switch (i.opcode) {
      case Opcode::constant:
        require_operands(0, 0);
        require(i.imm == constant_bits(t.scalar, i.imm), "constant ", i.imm, " is wider than ",
                name(t.scalar));
        return;
      case Opcode::lanes:
        require_operands(0, 0);
        require(is_number(t), "lanes are integers of at least 8 bits; got ", text_of(t));
        return;
      case Opcode::slot:
        require_operands(0, 0);
        require(t.lanes == 1 &&
                    (t.scalar == Scalar::i64 || t.scalar == Scalar::f64 || t.scalar == Scalar::ptr),
                "a slot is i64, f64 or ptr; got ", text_of(t));
        require(i.imm >= 0 && i.imm < kMaxSlots, "slot number ", i.imm, " out of range");
        return;
      case Opcode::param:
        require_operands(0, 0);
        require(t == kIndex && i.imm >= 0 && i.imm <= 2, "a param is i64 and 0, 1 or 2");
        return;
      case Opcode::add:
      case Opcode::sub:
      case Opcode::mul:
        require_uniform(2, i);
        require(is_number(t) || is_computed_float(t), "no arithmetic on ", text_of(t));
        return;
      case Opcode::fdiv:
      case Opcode::frem:
        require_uniform(2, i);
        require(is_computed_float(t), "no float arithmetic on ", text_of(t));
        return;
      case Opcode::sdiv:
      case Opcode::udiv:
      case Opcode::srem:
      case Opcode::urem:
      case Opcode::shl:
      case Opcode::lshr:
      case Opcode::ashr:
        require_uniform(2, i);
        require(is_number(t), "no integer arithmetic on ", text_of(t));
        return;
      case Opcode::fma:
        require_uniform(3, i);
        require(is_computed_float(t), "no float arithmetic on ", text_of(t));
        return;
      case Opcode::neg:
        require_uniform(1, i);
        require(is_number(t) || is_computed_float(t), "no arithmetic on ", text_of(t));
        return;
      case Opcode::abs:
      case Opcode::sqrt:
      case Opcode::floor:
      case Opcode::ceil:
      case Opcode::trunc:
      case Opcode::round_even:
        require_uniform(1, i);
        require(is_computed_float(t), "no float arithmetic on ", text_of(t));
        return;
      case Opcode::bit_and:
      case Opcode::bit_or:
      case Opcode::bit_xor:
        require_uniform(2, i);
        require(is_integer(t.scalar), "no bit operations on ", text_of(t));
        return;
      case Opcode::bit_not:
        require_uniform(1, i);
        require(is_integer(t.scalar), "no bit operations on ", text_of(t));
        return;
      case Opcode::eq:
      case Opcode::ne:
      case Opcode::lt:
      case Opcode::le:
      case Opcode::gt:
      case Opcode::ge:
      case Opcode::ult:
      case Opcode::ule:
        return check_comparison(i);
      case Opcode::select:
        require_operands(3, 3);
        require_operand(0, {Scalar::i1, t.lanes});
        require_operand(1, t);
        require_operand(2, t);
        return;
      case Opcode::sext:
      case Opcode::zext:
      case Opcode::itrunc:
      case Opcode::sitofp:
      case Opcode::uitofp:
      case Opcode::fptosi:
      case Opcode::fptoui:
      case Opcode::fpext:
      case Opcode::fptrunc:
      case Opcode::bitcast:
        return check_cast(i);
      case Opcode::splat:
        require_operands(1, 1);
        require_operand(0, {t.scalar, 1});
        return;
      case Opcode::extract:
        require_operands(1, 1);
        require(t == Type{operand(0).scalar, 1}, "the result must be ", name(operand(0).scalar));
        require(i.imm >= 0 && i.imm < operand(0).lanes, "lane ", i.imm, " of ",
                text_of(operand(0)));
        return;
      case Opcode::insert:
        require_operands(2, 2);
        require_operand(0, t);
        require_operand(1, {t.scalar, 1});
        require(i.imm >= 0 && i.imm < t.lanes, "lane ", i.imm, " of ", text_of(t));
        return;
      case Opcode::shuffle:
        require_operands(2, 2);
        require_operand(1, operand(0));
        require(t.scalar == operand(0).scalar && static_cast<size_t>(t.lanes) == i.mask.size(),
                "the result must be ", i.mask.size(), " lanes of ", name(operand(0).scalar));
        require(t.scalar != Scalar::ptr, "no shuffle of ptr");
        for (int32_t lane : i.mask) {
          require(lane >= 0 && lane < 2 * operand(0).lanes, "lane ", lane, " of two ",
                  text_of(operand(0)));
        }
        return;
      case Opcode::load:
        require_operands(2, 3);
        return check_access(t, 2);
      case Opcode::store:
        require_operands(3, 4);
        return check_access(operand(2), 3);
      case Opcode::offset:
      case Opcode::prefetch:
        require_operands(2, 2);
        require_operand(0, kPointer);
        require_operand(1, kIndex);
        require(i.opcode == Opcode::prefetch || t == kPointer, "the result must be ptr");
        require(i.imm >= 1 && i.imm <= (1 << 30), "element of ", i.imm, " bytes");
        return;
      case Opcode::stack:
        require_operands(0, 0);
        require(t == kPointer, "the result must be ptr");
        require(top, "only in the function's top block");
        require(i.imm >= 1 && i.imm <= (1 << 20), "stack of ", i.imm,
                " bytes; 1 to 1048576 allowed");
        return;
      case Opcode::loop:
      case Opcode::branch:
      case Opcode::yield:
        return;
    }
  }

  void check_comparison(const Instruction& i) const {
    require_operands(2, 2);
    require_operand(1, operand(0));
    const Type t = operand(0);
    require(i.type == Type{Scalar::i1, t.lanes}, "the result must be i1 with ", t.lanes, " lanes");
    const bool equality = i.opcode == Opcode::eq || i.opcode == Opcode::ne;
    const bool of_unsigned = i.opcode == Opcode::ult || i.opcode == Opcode::ule;
    require(is_number(t) || (!of_unsigned && is_computed_float(t)) ||
                (equality && t.scalar == Scalar::i1),
            "no such comparison of ", text_of(t));
  }

  void check_cast(const Instruction& i) const {
    require_operands(1, 1);
    const Type from = operand(0);
    const Type to = i.type;
    require(from.lanes == to.lanes, "a cast keeps the lanes; got ", text_of(from), " to ",
            text_of(to));
    const bool integers = is_integer(from.scalar) && is_integer(to.scalar);
    const bool floats = is_float(from.scalar) && is_float(to.scalar);
    const int from_bits = bits(from.scalar);
    const int to_bits = bits(to.scalar);
    bool ok = false;
    switch (i.opcode) {
      case Opcode::sext:
      case Opcode::zext:
        ok = integers && from_bits < to_bits;
        break;
      case Opcode::itrunc:
        ok = integers && from_bits > to_bits;
        break;
      case Opcode::sitofp:
      case Opcode::uitofp:
        ok = is_integer(from.scalar) && is_computed_float(to);
        break;
      case Opcode::fptosi:
      case Opcode::fptoui:
        ok = is_computed_float(from) && is_number(to);
        break;
      case Opcode::fpext:
        ok = floats && from_bits < to_bits;
        break;
      case Opcode::fptrunc:
        ok = floats && from_bits > to_bits && !(from_bits == 64 && to_bits == 16);
        break;
      default:
        ok = from_bits == to_bits;
        break;
    }
    require(ok, "not from ", text_of(from), " to ", text_of(to));
  }

  // Pointer, index and the optional mask, which is operand number `mask`.
  void check_access(Type element, size_t mask) const {
    require_operand(0, kPointer);
    require(operand(1) == kIndex || operand(1) == Type{Scalar::i64, element.lanes},
            "the index must be i64, alone or for each of ", element.lanes, " lanes; got ",
            text_of(operand(1)));
    if (count() > mask) require_operand(mask, {Scalar::i1, element.lanes});
    require(element.scalar != Scalar::i1, "i1 is not a memory type");
  }

  void require_same(const std::vector<Value>& values, const std::vector<Type>& wanted,
                    std::string_view what) const {
    require(values.size() == wanted.size(), what, ": expected ", wanted.size(), " values; got ",
            values.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      require(type(values[i]) == wanted[i], what, ": value ", i, " must be ", text_of(wanted[i]),
              "; got ", text_of(type(values[i])));
    }
  }

  void check_loop(const Instruction& i) {
    require(count() >= 2, "a loop needs its bounds");
    require_operand(0, kIndex);
    require_operand(1, kIndex);
    require(i.imm >= 1, "the step must be at least 1; got ", i.imm);
    require(i.blocks.size() == 1, "a loop has one block; got ", i.blocks.size());
    std::vector<Type> carried;
    for (size_t n = 2; n < count(); ++n) carried.push_back(operand(n));
    std::vector<Type> arguments = carried;
    arguments.insert(arguments.begin(), kIndex);
    const std::vector<Value> yielded = check_block(i.blocks[0], arguments, false);
    require_same(yielded, carried, "yield of the loop");
    for (Value v : i.results) define(v);
    require_same(i.results, carried, "results");
  }

  void check_branch(const Instruction& i) {
    require_operands(1, 1);
    require_operand(0, {Scalar::i1, 1});
    require(i.blocks.size() == 2, "a branch has two blocks; got ", i.blocks.size());
    const std::vector<Value> then = check_block(i.blocks[0], {}, false);
    const std::vector<Value> otherwise = check_block(i.blocks[1], {}, false);
    for (Value v : i.results) define(v);
    std::vector<Type> results;
    for (Value v : i.results) results.push_back(type(v));
    require_same(then, results, "yield of the first block");
    require_same(otherwise, results, "yield of the second block");
  }

  const Function& function_;
  const Instruction* now_ = nullptr;
  std::vector<bool> defined_;  // ever
  std::vector<bool> visible_;  // in an open block
  std::vector<Value> scope_;   // visible values, in order of definition
};

bool is_identifier(const std::string& name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  for (char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!letter && !(c >= '0' && c <= '9') && c != '_') return false;
  }
  return true;
}

}  // namespace

void verify(const Module& module) {
  std::set<std::string_view> names;
  for (const Function& function : module.functions) {
    internal_check(is_identifier(function.name), "loop IR: '", function.name,
                   "' is no function name (letters, digits and _)");
    internal_check(names.insert(function.name).second, "loop IR: two functions are named ",
                   function.name);
    Verifier(function).run();
  }
}

}  // namespace flambeau::loop
