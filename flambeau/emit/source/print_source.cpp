// Loop IR as plain C++: each value is a constant `vN`, loops are for statements whose carried
// values live in the variables of their results. Serves as a second opinion on the machine code and
// as the form that other C dialects start from.
#include <string>

#include "flambeau/base/error.h"
#include "flambeau/emit/code.h"
#include "flambeau/emit/source/prelude.h"

namespace flambeau::emit {
namespace {

using loop::Block;
using loop::Function;
using loop::Instruction;
using loop::Opcode;
using loop::Scalar;
using loop::Type;
using loop::Value;

class Printer {
 public:
  explicit Printer(std::string& out) : out_(out) {}

  void print(const Function& function) {
    types_ = &function.types;
    out_ += text("extern \"C\" void ", function.name,
                 "(const int64_t* slots, int64_t begin, int64_t end, int64_t worker) {\n");
    print(function.body, {});
    out_ += "}\n\n";
  }

 private:
  // One statement; the parts are concatenated.
  template <class... Parts>
  void line(const Parts&... parts) {
    out_.append(depth_ * 2, ' ');
    (append(out_, parts), ...);
    out_ += '\n';
  }

  static std::string var(Value v) { return text("v", v); }
  Type type(Value v) const { return (*types_)[static_cast<size_t>(v)]; }

  // The C++ type of one lane.
  static std::string element(Type t) {
    switch (t.scalar) {
      case Scalar::i1:
        return t.lanes == 1 ? "bool" : "i8";
      case Scalar::f16:
      case Scalar::bf16:
        return "u16";
      case Scalar::ptr:
        return "char*";
      default:
        return std::string(loop::name(t.scalar));
    }
  }
  // Template arguments of the helpers: lane type and number of lanes.
  static std::string shape(Type t) { return text("<", element(t), ", ", t.lanes, ">"); }
  static std::string cpp_type(Type t) { return t.lanes == 1 ? element(t) : "V" + shape(t); }
  static std::string unsigned_type(Type t) { return text("U<", element(t), ">"); }

  void print(const Block& block, const std::vector<Value>& results) {
    ++depth_;
    for (const Instruction& instruction : block.instructions) {
      if (instruction.opcode == Opcode::yield) {
        for (size_t i = 0; i < results.size(); ++i) {
          line(var(results[i]), " = ", var(instruction.operands[i]), ";");
        }
      } else {
        print(instruction);
      }
    }
    --depth_;
  }

  void print(const Instruction& i) {
    switch (i.opcode) {
      case Opcode::loop:
        return print_loop(i);
      case Opcode::branch:
        return print_branch(i);
      case Opcode::store:
        return print_store(i);
      case Opcode::prefetch:
        line("__builtin_prefetch(", var(i.operands[0]), " + ", var(i.operands[1]), " * ", i.imm,
             ");");
        return;
      case Opcode::stack:
        line("alignas(64) char room", i.results[0], "[", i.imm, "];");
        line("char* const ", var(i.results[0]), " = room", i.results[0], ";");
        return;
      default:
        line(i.type.scalar == Scalar::ptr ? "" : "const ", cpp_type(i.type),
             i.type.scalar == Scalar::ptr ? " const " : " ", var(i.results[0]), " = ",
             expression(i), ";");
    }
  }

  // Constants by their bits; the cast keeps the compilers from rounding anything.
  static std::string constant(const Instruction& i) {
    const Type t = i.type;
    const Type one{t.scalar, 1};
    std::string scalar;
    if (t.scalar == Scalar::i1) {
      scalar = t.lanes == 1 ? (i.imm != 0 ? "true" : "false") : (i.imm != 0 ? "-1" : "0");
    } else {
      scalar = text("__builtin_bit_cast(", element(one), ", static_cast<u", loop::bits(t.scalar),
                    ">(", static_cast<uint64_t>(i.imm), "u))");
    }
    return t.lanes == 1 ? scalar : text("splat", shape(t), "(", scalar, ")");
  }

  std::string call(std::string_view function, const Instruction& i) const {
    return call(function, i.type, i);
  }
  std::string call(std::string_view function, Type t, const Instruction& i) const {
    std::string out = text(function, shape(t), "(");
    for (size_t n = 0; n < i.operands.size(); ++n)
      out += text(n == 0 ? "" : ", ", var(i.operands[n]));
    return out + ")";
  }

  std::string expression(const Instruction& i) const {
    const Type t = i.type;
    const bool real = loop::is_float(t.scalar);
    const bool one_bit = t.scalar == Scalar::i1 && t.lanes == 1;
    auto x = [&](size_t n) { return var(i.operands[n]); };
    auto infix = [&](std::string_view symbol) {
      return text("static_cast<", cpp_type(t), ">(", x(0), " ", symbol, " ", x(1), ")");
    };
    switch (i.opcode) {
      case Opcode::constant:
        return constant(i);
      case Opcode::lanes:
        return text("iota", shape(t), "()");
      case Opcode::slot:
        return text("__builtin_bit_cast(", element(t), ", slots[", i.imm, "])");
      case Opcode::param:
        return i.imm == 0 ? "begin" : i.imm == 1 ? "end" : "worker";
      case Opcode::add:
        return real ? infix("+") : call("add", i);
      case Opcode::sub:
        return real ? infix("-") : call("sub", i);
      case Opcode::mul:
        return real ? infix("*") : call("mul", i);
      case Opcode::fdiv:
        return infix("/");
      case Opcode::bit_and:
        return infix("&");
      case Opcode::bit_or:
        return infix("|");
      case Opcode::bit_xor:
        return infix("^");
      case Opcode::bit_not:
        return one_bit ? "!" + x(0) : text("static_cast<", cpp_type(t), ">(~", x(0), ")");
      case Opcode::neg:
      case Opcode::abs:
      case Opcode::sqrt:
      case Opcode::floor:
      case Opcode::ceil:
      case Opcode::trunc:
      case Opcode::round_even:
      case Opcode::fma:
      case Opcode::frem:
      case Opcode::sdiv:
      case Opcode::udiv:
      case Opcode::srem:
      case Opcode::urem:
      case Opcode::shl:
      case Opcode::lshr:
      case Opcode::ashr:
        return call(loop::name(i.opcode), i);
      case Opcode::eq:
        return compare(i, "==");
      case Opcode::ne:
        return compare(i, "!=");
      case Opcode::lt:
        return compare(i, "<");
      case Opcode::le:
        return compare(i, "<=");
      case Opcode::gt:
        return compare(i, ">");
      case Opcode::ge:
        return compare(i, ">=");
      case Opcode::ult:
        return compare_unsigned(i, "<");
      case Opcode::ule:
        return compare_unsigned(i, "<=");
      case Opcode::select:
        return t.lanes == 1 ? text(x(0), " ? ", x(1), " : ", x(2)) : call("select", i);
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
        return cast(i);
      case Opcode::splat:
        return t.lanes == 1 ? x(0) : text("splat", shape(t), "(", lane_form(i.operands[0], t), ")");
      case Opcode::extract: {
        if (type(i.operands[0]).lanes == 1) return x(0);
        const std::string lane = text(x(0), "[", i.imm, "]");
        return one_bit ? lane + " != 0" : lane;
      }
      case Opcode::insert:
        return text("insert", shape(t), "(", x(0), ", ", lane_form(i.operands[1], t), ", ", i.imm,
                    ")");
      case Opcode::shuffle:
        return shuffle(i);
      case Opcode::load:
        return load(i);
      case Opcode::offset:
        return text(x(0), " + ", x(1), " * ", i.imm);
      default:
        fail(ErrorKind::internal,
             text("internal error: loop IR ", loop::name(i.opcode), " is no value"));
    }
  }

  // A scalar as it is kept in a lane of `t`.
  std::string lane_form(Value v, Type t) const {
    if (t.scalar == Scalar::i1 && t.lanes > 1 && type(v).lanes == 1) {
      return text("static_cast<i8>(-", var(v), ")");
    }
    return var(v);
  }

  std::string shuffle(const Instruction& i) const {
    // One lane of i1 is a bool: it takes the form of a lane on the way in and back on the way out.
    const bool bits = i.type.scalar == Scalar::i1;
    const Type from = type(i.operands[0]);
    const Type lane{bits ? Scalar::i8 : from.scalar, from.lanes};
    std::string out = text("shuffle<", element(lane), ", ", lane.lanes);
    for (int32_t n : i.mask) out += text(", ", n);
    const Type form{from.scalar, 2};
    out += text(">(", lane_form(i.operands[0], form), ", ", lane_form(i.operands[1], form), ")");
    return bits && i.type.lanes == 1 ? out + " != 0" : out;
  }

  std::string compare(const Instruction& i, std::string_view symbol) const {
    const std::string test = text(var(i.operands[0]), " ", symbol, " ", var(i.operands[1]));
    return i.type.lanes == 1 ? test : text("mask<", i.type.lanes, ">(", test, ")");
  }

  std::string compare_unsigned(const Instruction& i, std::string_view symbol) const {
    const Type t = type(i.operands[0]);
    const std::string as = t.lanes == 1 ? text("(", unsigned_type(t), ")")
                                        : text("(V<", unsigned_type(t), ", ", t.lanes, ">)");
    const std::string test = text(as, var(i.operands[0]), " ", symbol, " ", as, var(i.operands[1]));
    return t.lanes == 1 ? test : text("mask<", t.lanes, ">(", test, ")");
  }

  std::string cast(const Instruction& i) const {
    const Type from = type(i.operands[0]);
    const Type to = i.type;
    const std::string x = var(i.operands[0]);
    const std::string lanes = text(to.lanes);
    // convert<To, From, N>(...), reading integers as unsigned ones if wanted.
    auto convert = [&](std::string_view function, const std::string& target, Type source,
                       const std::string& value, bool of_unsigned) {
      if (!of_unsigned) {
        return text(function, "<", target, ", ", element(source), ", ", lanes, ">(", value, ")");
      }
      const std::string as = unsigned_type(source);
      return text(function, "<", target, ", ", as, ", ", lanes, ">((V<", as, ", ", lanes, ">)",
                  value, ")");
    };
    const bool bit = from.scalar == Scalar::i1;
    const Type byte{Scalar::i8, to.lanes};
    // i1 as i8 with 0 and -1, or 0 and 1.
    const std::string minus = to.lanes == 1 ? text("static_cast<i8>(-", x, ")") : x;
    const std::string plus =
        to.lanes == 1 ? text("static_cast<i8>(", x, ")") : text("(", x, " & 1)");
    switch (i.opcode) {
      case Opcode::sext:
      case Opcode::sitofp:
        return convert("convert", element(to), bit ? byte : from, bit ? minus : x, false);
      case Opcode::zext:
      case Opcode::uitofp:
        return convert("convert", element(to), bit ? byte : from, bit ? plus : x, !bit);
      case Opcode::itrunc:
        if (to.scalar != Scalar::i1) return convert("convert", element(to), from, x, false);
        return text("lowest_bit", shape(from), "(", x, ")", to.lanes == 1 ? " != 0" : "");
      case Opcode::fptosi:
        return convert("float_to_integer", element(to), from, x, false);
      case Opcode::fptoui: {
        const std::string out = convert("float_to_integer", unsigned_type(to), from, x, false);
        return text("(", cpp_type(to), ")", out);
      }
      case Opcode::fpext:
        if (from.scalar == Scalar::f32) return convert("convert", element(to), from, x, false);
        return text("each<", element(to), ", ", lanes, ">([&](int lane) { return static_cast<",
                    element(to), ">(widen_", loop::name(from.scalar), "(get", shape(from), "(", x,
                    ", lane))); })");
      case Opcode::fptrunc:
        if (to.scalar == Scalar::f32) return convert("convert", element(to), from, x, false);
        return text("each<u16, ", lanes, ">([&](int lane) { return narrow_", loop::name(to.scalar),
                    "(get", shape(from), "(", x, ", lane)); })");
      default:
        return text("__builtin_bit_cast(", cpp_type(to), ", ", x, ")");
    }
  }

  // The lambdas that say where a lane is and whether it takes part.
  std::string lane_rules(Value index, const Value* mask) const {
    std::string out = text(", [&](int lane) -> i64 { return ",
                           type(index).lanes == 1 ? var(index) + " + lane" : var(index) + "[lane]",
                           "; }, [&](int lane) -> bool { return ");
    if (mask == nullptr) {
      out += "true";
    } else {
      out += type(*mask).lanes == 1 ? var(*mask) : var(*mask) + "[lane] != 0";
    }
    return out + "; })";
  }

  std::string load(const Instruction& i) const {
    const std::string pointer = var(i.operands[0]);
    const Value index = i.operands[1];
    const Value* mask = i.operands.size() > 2 ? &i.operands[2] : nullptr;
    if (mask == nullptr && type(index).lanes == 1) {
      return text("load", shape(i.type), "(", pointer, ", ", var(index), ")");
    }
    return text("load_lanes", shape(i.type), "(", pointer, lane_rules(index, mask));
  }

  void print_store(const Instruction& i) {
    const std::string pointer = var(i.operands[0]);
    const Value index = i.operands[1];
    const Value value = i.operands[2];
    const Value* mask = i.operands.size() > 3 ? &i.operands[3] : nullptr;
    if (mask == nullptr && type(index).lanes == 1) {
      line("store", shape(type(value)), "(", pointer, ", ", var(index), ", ", var(value), ");");
      return;
    }
    line("store_lanes", shape(type(value)), "(", pointer, ", ", var(value), lane_rules(index, mask),
         ";");
  }

  void print_loop(const Instruction& i) {
    const Block& body = i.blocks[0];
    for (size_t n = 0; n < i.results.size(); ++n) {
      line(cpp_type(type(i.results[n])), " ", var(i.results[n]), " = ", var(i.operands[n + 2]),
           ";");
    }
    const std::string index = var(body.arguments[0]);
    line("for (i64 ", index, " = ", var(i.operands[0]), "; ", index, " < ", var(i.operands[1]),
         "; ", index, " += ", i.imm, ") {");
    ++depth_;
    for (size_t n = 0; n < i.results.size(); ++n) {
      line("const auto ", var(body.arguments[n + 1]), " = ", var(i.results[n]), ";");
    }
    --depth_;
    print(body, i.results);
    line("}");
  }

  void print_branch(const Instruction& i) {
    for (Value v : i.results) line(cpp_type(type(v)), " ", var(v), ";");
    line("if (", var(i.operands[0]), ") {");
    print(i.blocks[0], i.results);
    line("} else {");
    print(i.blocks[1], i.results);
    line("}");
  }

  std::string& out_;
  const std::vector<Type>* types_ = nullptr;
  size_t depth_ = 0;
};

}  // namespace

std::string print_source(const loop::Module& module) {
  std::string out(source_prelude());
  for (const Function& function : module.functions) Printer(out).print(function);
  return out;
}

}  // namespace flambeau::emit
