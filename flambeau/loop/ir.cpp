// Names and properties of the scalars and opcodes of the loop IR.
#include "flambeau/loop/ir.h"

#include <iterator>

#include "flambeau/base/error.h"

namespace flambeau::loop {
namespace {

constexpr std::string_view kScalarNames[] = {"i1",  "i8",   "i16", "i32", "i64",
                                             "f16", "bf16", "f32", "f64", "ptr"};
constexpr std::string_view kOpcodeNames[] = {
    "constant", "lanes",  "slot",    "param",  "add",        "sub",     "mul",     "fdiv",
    "sdiv",     "udiv",   "srem",    "urem",   "frem",       "fma",     "neg",     "abs",
    "sqrt",     "floor",  "ceil",    "trunc",  "round_even", "bit_and", "bit_or",  "bit_xor",
    "bit_not",  "shl",    "lshr",    "ashr",   "eq",         "ne",      "lt",      "le",
    "gt",       "ge",     "ult",     "ule",    "select",     "sext",    "zext",    "itrunc",
    "sitofp",   "uitofp", "fptosi",  "fptoui", "fpext",      "fptrunc", "bitcast", "splat",
    "extract",  "insert", "shuffle", "load",   "store",      "offset",  "stack",   "prefetch",
    "loop",     "branch", "yield"};
static_assert(std::size(kScalarNames) == static_cast<size_t>(Scalar::ptr) + 1);
static_assert(std::size(kOpcodeNames) == static_cast<size_t>(Opcode::yield) + 1);

}  // namespace

bool is_float(Scalar s) { return s >= Scalar::f16 && s <= Scalar::f64; }
bool is_integer(Scalar s) { return s <= Scalar::i64; }

int bits(Scalar s) {
  switch (s) {
    case Scalar::i1:
      return 1;
    case Scalar::i8:
      return 8;
    case Scalar::i16:
    case Scalar::f16:
    case Scalar::bf16:
      return 16;
    case Scalar::i32:
    case Scalar::f32:
      return 32;
    case Scalar::i64:
    case Scalar::f64:
    case Scalar::ptr:
      return 64;
  }
  fail(ErrorKind::internal, "internal error: loop IR scalar out of range");
}

bool has_immediate(Opcode op) {
  switch (op) {
    case Opcode::constant:
    case Opcode::slot:
    case Opcode::param:
    case Opcode::extract:
    case Opcode::insert:
    case Opcode::offset:
    case Opcode::stack:
    case Opcode::prefetch:
    case Opcode::loop:
      return true;
    default:
      return false;
  }
}

int64_t constant_bits(Scalar s, int64_t value) {
  const int unused = 64 - bits(s);
  const uint64_t high = static_cast<uint64_t>(value) << unused;
  return is_integer(s) ? static_cast<int64_t>(high) >> unused
                       : static_cast<int64_t>(high >> unused);
}

std::string_view name(Scalar s) { return kScalarNames[static_cast<size_t>(s)]; }
std::string_view name(Opcode op) { return kOpcodeNames[static_cast<size_t>(op)]; }

}  // namespace flambeau::loop
