// Reader of the text form (print.cpp). Checks the form only: what it means is checked by `verify`.
#include <charconv>
#include <map>

#include "flambeau/base/error.h"
#include "flambeau/loop/ir.h"

namespace flambeau::loop {
namespace {

constexpr int kMaxDepth = 100;          // of nested blocks
constexpr int64_t kMaxValue = 1 << 24;  // numbers index a table

const std::map<std::string_view, Opcode>& opcodes() {
  static const auto* table = [] {
    auto* made = new std::map<std::string_view, Opcode>;
    for (int i = 0; i <= static_cast<int>(Opcode::yield); ++i) {
      made->emplace(name(static_cast<Opcode>(i)), static_cast<Opcode>(i));
    }
    return made;
  }();
  return *table;
}

const std::map<std::string_view, Scalar>& scalars() {
  static const auto* table = [] {
    auto* made = new std::map<std::string_view, Scalar>;
    for (int i = 0; i <= static_cast<int>(Scalar::ptr); ++i) {
      made->emplace(name(static_cast<Scalar>(i)), static_cast<Scalar>(i));
    }
    return made;
  }();
  return *table;
}

// Words are separated by spaces; braces, brackets and '=' are words too; a line end is "\n".
class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) { advance(); }

  Module parse() {
    Module module;
    while (skip_lines(), !word_.empty()) {
      expect("function");
      Function function;
      function.name = std::string(take());
      function_ = &function;
      expect("{");
      expect("\n");
      function.body = parse_block(0);
      module.functions.push_back(std::move(function));
    }
    return module;
  }

 private:
  [[noreturn]] void bad(std::string_view wanted) {
    fail(ErrorKind::value,
         text("loop IR text, line ", line_, ": expected ", wanted, "; got '",
              word_ == "\n" ? std::string_view("end of line") : word_.substr(0, 40), "'"));
  }

  void advance() {
    if (word_ == "\n") ++line_;
    const size_t start = rest_.find_first_not_of(' ');
    rest_.remove_prefix(start == std::string_view::npos ? rest_.size() : start);
    size_t length = rest_.find_first_of(" \n");
    if (length == std::string_view::npos) length = rest_.size();
    if (length == 0 && !rest_.empty()) length = 1;
    word_ = rest_.substr(0, length);
    rest_.remove_prefix(length);
  }

  std::string_view take() {
    const std::string_view taken = word_;
    advance();
    return taken;
  }

  bool accept(std::string_view wanted) {
    if (word_ != wanted) return false;
    advance();
    return true;
  }

  void expect(std::string_view wanted) {
    if (!accept(wanted)) bad(wanted == "\n" ? "end of line" : wanted);
  }

  void skip_lines() {
    while (accept("\n")) {
    }
  }

  int64_t to_number(std::string_view digits) {
    const bool hexadecimal = digits.substr(0, 2) == "0x";
    const char* const end = digits.data() + digits.size();
    uint64_t pattern = 0;
    int64_t number = 0;
    const auto read = hexadecimal ? std::from_chars(digits.data() + 2, end, pattern, 16)
                                  : std::from_chars(digits.data(), end, number);
    if (read.ec != std::errc() || read.ptr != end) bad("a number");
    return hexadecimal ? static_cast<int64_t>(pattern) : number;
  }

  int64_t parse_number() {
    const int64_t number = to_number(word_);
    advance();
    return number;
  }

  Type to_type(std::string_view word) {
    Type type;
    const size_t cross = word.find('x');
    const auto found = scalars().find(word.substr(0, cross));
    if (found == scalars().end()) bad("a type");
    type.scalar = found->second;
    if (cross != std::string_view::npos) {
      const int64_t lanes = to_number(word.substr(cross + 1));
      if (lanes < 2 || lanes > 1024) bad("a number of lanes from 2 to 1024");
      type.lanes = static_cast<int>(lanes);
    }
    return type;
  }

  bool at_value() const {
    return word_.size() > 1 && word_[0] == 'v' && word_[1] >= '0' && word_[1] <= '9';
  }

  // `v7` or `v7.f32x8`; the latter states the type of the value.
  Value parse_value() {
    if (!at_value()) bad("a value");
    const size_t dot = word_.find('.');
    const int64_t number = to_number(word_.substr(0, dot).substr(1));
    if (number < 0 || number >= kMaxValue) bad("a value number below 16777216");
    const auto value = static_cast<Value>(number);
    if (dot != std::string_view::npos) set_type(value, to_type(word_.substr(dot + 1)));
    advance();
    return value;
  }

  void set_type(Value value, Type type) {
    const auto index = static_cast<size_t>(value);
    if (index >= function_->types.size()) function_->types.resize(index + 1);
    function_->types[index] = type;
  }

  // After the line of the opening brace; takes the closing one.
  Block parse_block(int depth) {
    if (depth > kMaxDepth) bad("less than 100 nested blocks");
    Block block;
    while (skip_lines(), !accept("}")) block.instructions.push_back(parse_instruction(depth));
    return block;
  }

  Instruction parse_instruction(int depth) {
    Instruction instruction{Opcode::yield, {}, {}, 0, {}, {}, {}};
    if (at_value()) {
      while (!accept("=")) instruction.results.push_back(parse_value());
    }
    const size_t dot = word_.find('.');
    const auto found = opcodes().find(word_.substr(0, dot));
    if (found == opcodes().end()) bad("an instruction");
    const Opcode op = instruction.opcode = found->second;
    if (dot != std::string_view::npos) {
      instruction.type = to_type(word_.substr(dot + 1));
      for (Value v : instruction.results) set_type(v, instruction.type);
    } else if (!instruction.results.empty() && op != Opcode::loop && op != Opcode::branch) {
      bad("a type after the opcode");
    }
    advance();
    if (has_immediate(op)) instruction.imm = parse_number();
    while (at_value()) instruction.operands.push_back(parse_value());
    if (op == Opcode::shuffle) {
      expect("[");
      while (!accept("]")) {
        const int64_t lane = parse_number();
        if (lane < 0 || lane > 2048) bad("a lane number");
        instruction.mask.push_back(static_cast<int32_t>(lane));
      }
    }
    while (accept("{")) {
      std::vector<Value> arguments;
      while (!accept("\n")) arguments.push_back(parse_value());
      instruction.blocks.push_back(parse_block(depth + 1));
      instruction.blocks.back().arguments = std::move(arguments);
    }
    expect("\n");
    return instruction;
  }

  std::string_view rest_;
  std::string_view word_;
  int64_t line_ = 1;
  Function* function_ = nullptr;
};

}  // namespace

Module parse(std::string_view text) { return Parser(text).parse(); }

}  // namespace flambeau::loop
