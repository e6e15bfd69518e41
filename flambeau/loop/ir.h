// The loop IR: what a kernel does, in structured SSA form with explicit vectors and loops.
// A Function is a list of instructions in nested blocks. The only parameters are an argument block
// of 64-bit slots (pointers, sizes, strides, scalars), a range of tasks [begin, end) and the number
// of the worker that runs it. Floating-point operations mean exactly one IEEE operation each; fma
// is an operation of its own and nothing is ever contracted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace flambeau::loop {

enum class Scalar : uint8_t { i1, i8, i16, i32, i64, f16, bf16, f32, f64, ptr };

/// A scalar (lanes = 1) or a vector of `lanes` equal scalars (a power of two). ptr has one lane.
struct Type {
  Scalar scalar = Scalar::i64;
  int lanes = 1;
  friend bool operator==(Type, Type) = default;
};

bool is_float(Scalar s);    // f16, bf16, f32, f64
bool is_integer(Scalar s);  // i1 .. i64
int bits(Scalar s);         // 1, 8, 16, 32, 64; ptr is 64

enum class Opcode : uint8_t {
  // Leaves.
  constant,  // `imm`: the bits of the scalar (integers sign-extended, floats as their own width),
             // in every lane
  lanes,     // integer vector 0, 1, 2, ...
  slot,      // argument slot number `imm`, reinterpreted as the result type (i64, f64, ptr)
  param,     // imm 0: begin, 1: end, 2: worker (i64)
  // Arithmetic on equal types. Integers wrap. f16 and bf16 support no arithmetic: cast first.
  add,
  sub,
  mul,
  fdiv,  // floats
  sdiv,
  udiv,  // integers, towards zero; the divisor must not be 0 and sdiv must not overflow
  srem,
  urem,  // remainder with the sign of the dividend; same conditions
  frem,  // C fmod, exact; f32, f64
  fma,   // a * b + c, rounded once
  neg,   // sign bit flip of a float; integer 0 - a
  abs,   // sign bit cleared (floats only)
  sqrt,
  floor,
  ceil,
  trunc,
  round_even,  // floats, correctly rounded
  bit_and,
  bit_or,
  bit_xor,
  bit_not,  // integers and i1
  shl,
  lshr,
  ashr,  // shift amount must be below the width
  // Comparison: result i1 with the same lanes. Float comparisons are false for NaN, except ne.
  eq,
  ne,
  lt,
  le,
  gt,
  ge,  // floats and signed integers
  ult,
  ule,     // unsigned integers
  select,  // (i1 condition, a, b), lane by lane
  // Casts: same lanes.
  sext,
  zext,
  itrunc,  // between integer widths (i1 included)
  sitofp,
  uitofp,  // integer to f32, f64, rounded to nearest even
  fptosi,
  fptoui,  // towards zero, saturating, NaN becomes 0 (from f32, f64)
  fpext,
  fptrunc,  // between float widths, rounded to nearest even (f64 to f16/bf16 is not allowed: go
            // through f32)
  bitcast,  // same width
  // Lanes.
  splat,    // scalar to `type.lanes` lanes
  extract,  // lane `imm` of a vector
  insert,   // (vector, scalar) lane `imm` replaced
  shuffle,  // (a, b): lane i is lane `mask[i]` of the concatenation of a and b
  // Memory. The element type is that of the value. `index` counts elements and is i64.
  // A scalar index reads or writes consecutive elements, a vector index gathers or scatters.
  // An optional last i1 operand masks lanes: masked-off lanes load zero and store nothing.
  // i1 is not a memory type.
  load,    // (ptr, index [, mask])
  store,   // (ptr, index, value [, mask])
  offset,  // (ptr, index): pointer to the element, `imm` bytes an element
  stack,  // `imm` bytes on the stack of this call, 64-byte aligned; ptr; only in the function's top
          // block
  prefetch,  // (ptr, index): a hint, `imm` bytes an element
  // Control. Blocks end with a yield of their results.
  loop,    // (lo, hi, init...): body(index, carried...) for index = lo, lo + imm, ... while < hi;
           // results: the carried values
  branch,  // (scalar i1): blocks[0] when true, else blocks[1]; results: what they yield
  yield,   // (values...)
};

std::string_view name(Opcode op);
std::string_view name(Scalar s);
/// Whether `imm` means something for the opcode; it is 0 for all others.
bool has_immediate(Opcode op);
/// The `imm` of a constant whose scalar has the low bits of `bits`.
int64_t constant_bits(Scalar s, int64_t bits);

/// Number of a value within its function. Values are defined once, before use, in the same or an
/// enclosing block.
using Value = int32_t;
constexpr Value kNone = -1;

struct Block;

struct Instruction {
  Opcode opcode;
  Type type;  // of the results (loops and branches: see `results`)
  std::vector<Value> operands;
  int64_t imm = 0;
  std::vector<int32_t> mask;  // shuffle
  std::vector<Value>
      results;  // one for most, none for store, prefetch and yield, several for loop and branch
  std::vector<Block> blocks;  // loop: one, branch: two
};

struct Block {
  std::vector<Value> arguments;  // loop body: index (i64), then the carried values
  std::vector<Instruction> instructions;
};

struct Function {
  std::string name;
  Block body;               // ends with an empty yield
  std::vector<Type> types;  // by value
};

/// A compiled function: argument block, range of tasks, number of the worker.
using Entry = void (*)(const int64_t* slots, int64_t begin, int64_t end, int64_t worker);

/// Functions that are compiled together. The text form is the content that names a kernel in
/// caches.
struct Module {
  std::vector<Function> functions;
};

/// The text form; `parse` reads it back to an equal module.
std::string print(const Module& module);
Module parse(std::string_view text);

/// Throws an internal Error naming the function and instruction when a rule above is broken.
void verify(const Module& module);

}  // namespace flambeau::loop
