// Text form of the loop IR: one instruction a line, `results = opcode.type imm operands [mask]`,
// with the blocks of loops and branches in braces. Types stand where they cannot be derived: at the
// opcode, at results of loops and branches and at block arguments. The form names a kernel in
// caches, so it is printed on every compile and kept terse.
#include <charconv>

#include "flambeau/base/error.h"
#include "flambeau/loop/ir.h"

namespace flambeau::loop {
namespace {

class Printer {
 public:
  explicit Printer(std::string& out) : out_(out) {}

  void print(const Function& function) {
    types_ = &function.types;
    out_.append("function ").append(function.name).append(" {\n");
    print(function.body, 2);
    out_.append("}\n");
  }

 private:
  void print(const Block& block, size_t indent) {
    for (const Instruction& instruction : block.instructions) {
      out_.append(indent, ' ');
      print(instruction, indent);
      out_.push_back('\n');
    }
  }

  void print(const Instruction& instruction, size_t indent) {
    const Opcode op = instruction.opcode;
    const bool nested = op == Opcode::loop || op == Opcode::branch;
    for (Value v : instruction.results) {
      print_value(v, nested);
      out_.push_back(' ');
    }
    if (!instruction.results.empty()) out_.append("= ");
    out_.append(name(op));
    if (!nested && !instruction.results.empty()) print(instruction.type);
    if (has_immediate(op)) {
      out_.push_back(' ');
      if (op == Opcode::constant && is_float(instruction.type.scalar)) {
        out_.append("0x");
        print_number(instruction.imm, 16);
      } else {
        print_number(instruction.imm);
      }
    }
    for (Value v : instruction.operands) {
      out_.push_back(' ');
      print_value(v, false);
    }
    if (op == Opcode::shuffle) {
      out_.append(" [");
      for (int32_t lane : instruction.mask) {
        out_.push_back(' ');
        print_number(lane);
      }
      out_.append(" ]");
    }
    for (const Block& block : instruction.blocks) {
      out_.append(" {");
      for (Value v : block.arguments) {
        out_.push_back(' ');
        print_value(v, true);
      }
      out_.push_back('\n');
      print(block, indent + 2);
      out_.append(indent, ' ');
      out_.push_back('}');
    }
  }

  void print_value(Value v, bool typed) {
    out_.push_back('v');
    print_number(v);
    if (!typed) return;
    // The form is needed before the verifier has run.
    internal_check(v >= 0 && static_cast<size_t>(v) < types_->size(), "loop IR value number ", v,
                   " out of range");
    print((*types_)[static_cast<size_t>(v)]);
  }

  void print(Type type) {
    out_.push_back('.');
    out_.append(name(type.scalar));
    if (type.lanes == 1) return;
    out_.push_back('x');
    print_number(type.lanes);
  }

  void print_number(int64_t n, int base = 10) {
    char digits[24];
    char* const end = digits + sizeof digits;
    // Hexadecimal numbers are bit patterns.
    const auto written = base == 10 ? std::to_chars(digits, end, n)
                                    : std::to_chars(digits, end, static_cast<uint64_t>(n), base);
    out_.append(digits, written.ptr);
  }

  std::string& out_;
  const std::vector<Type>* types_ = nullptr;
};

}  // namespace

std::string print(const Module& module) {
  std::string out;
  for (const Function& function : module.functions) Printer(out).print(function);
  return out;
}

}  // namespace flambeau::loop
