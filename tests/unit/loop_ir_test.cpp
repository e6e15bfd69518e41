// The loop IR itself: text form, verifier, builder.
#include <gtest/gtest.h>

#include "flambeau/base/error.h"
#include "loop_flow_samples.h"
#include "loop_samples.h"

namespace flambeau {
namespace {

using loop::Block;
using loop::Builder;
using loop::Function;
using loop::Instruction;
using loop::Module;
using loop::Opcode;
using loop::Scalar;
using loop::Type;
using loop::Value;

bool same(const Block& a, const Block& b);

bool same(const Instruction& a, const Instruction& b) {
  if (a.opcode != b.opcode || !(a.type == b.type) || a.operands != b.operands || a.imm != b.imm ||
      a.mask != b.mask || a.results != b.results || a.blocks.size() != b.blocks.size()) {
    return false;
  }
  for (size_t i = 0; i < a.blocks.size(); ++i) {
    if (!same(a.blocks[i], b.blocks[i])) return false;
  }
  return true;
}

bool same(const Block& a, const Block& b) {
  if (a.arguments != b.arguments || a.instructions.size() != b.instructions.size()) return false;
  for (size_t i = 0; i < a.instructions.size(); ++i) {
    if (!same(a.instructions[i], b.instructions[i])) return false;
  }
  return true;
}

std::string message(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(LoopIr, TextFormReadsBack) {
  for (int lanes : {1, 8}) {
    Module module;
    for (const samples::Case& c : samples::all_cases()) {
      module.functions.push_back(samples::make(c, lanes).function);
    }
    for (const samples::Sample& s : samples::flow_samples(lanes)) {
      module.functions.push_back(s.function);
    }
    loop::verify(module);
    const std::string form = loop::print(module);
    const Module back = loop::parse(form);
    loop::verify(back);
    ASSERT_EQ(back.functions.size(), module.functions.size());
    for (size_t i = 0; i < back.functions.size(); ++i) {
      EXPECT_EQ(back.functions[i].name, module.functions[i].name);
      EXPECT_EQ(back.functions[i].types, module.functions[i].types) << back.functions[i].name;
      EXPECT_TRUE(same(back.functions[i].body, module.functions[i].body)) << back.functions[i].name;
    }
    EXPECT_EQ(loop::print(back), form);
  }
}

TEST(LoopIr, TextFormIsStable) {
  // Kernel caches are named by this form.
  Builder b("f");
  const Type vector{Scalar::f32, 4};
  const Value x = b.slot(0, Scalar::ptr);
  const auto sum = b.loop(b.begin(), b.end(), 4, {b.real(-1, vector)},
                          [&](Value i, const std::vector<Value>& carried) {
                            return std::vector<Value>{b.add(carried[0], b.load(x, i, vector))};
                          });
  b.store(x, b.integer(-3), b.shuffle(sum[0], sum[0], {3, 2, 1, 0}));
  EXPECT_EQ(loop::print({{b.finish()}}), R"(function f {
  v0 = slot.ptr 0
  v1 = param.i64 0
  v2 = param.i64 1
  v3 = constant.f32x4 0xbf800000
  v8.f32x4 = loop 4 v1 v2 v3 { v4.i64 v5.f32x4
    v6 = load.f32x4 v0 v4
    v7 = add.f32x4 v5 v6
    yield v7
  }
  v9 = constant.i64 -3
  v10 = shuffle.f32x4 v8 v8 [ 3 2 1 0 ]
  store v0 v9 v10
  yield
}
)");
}

TEST(LoopIr, ParserNamesLineAndWord) {
  EXPECT_EQ(message([] { loop::parse("function f {\n  v0 = sulk.i64 0\n}\n"); }),
            "loop IR text, line 2: expected an instruction; got 'sulk.i64'");
  EXPECT_EQ(message([] { loop::parse("function f {\n  v0 = param.i65 0\n}\n"); }),
            "loop IR text, line 2: expected a type; got 'param.i65'");
  EXPECT_EQ(message([] { loop::parse("function f {\n  yield\n"); }),
            "loop IR text, line 3: expected an instruction; got ''");
  EXPECT_EQ(message([] { loop::parse("function f {\n  v99999999 = param.i64 0\n"); }),
            "loop IR text, line 2: expected a value number below 16777216; got 'v99999999'");
  std::string deep = "function f {\n";
  for (int i = 0; i < 100000; ++i) deep += "branch v0 {\n";
  EXPECT_EQ(message([&] { loop::parse(deep); }),
            "loop IR text, line 103: expected less than 100 nested blocks; got 'branch'");
}

TEST(LoopIr, ParserSurvivesDamage) {
  Module module{{samples::nested_loops(8).function, samples::branches(4).function}};
  const std::string form = loop::print(module);
  uint64_t state = 1;
  for (int round = 0; round < 4000; ++round) {
    std::string damaged = form;
    for (int n = 0; n < 3; ++n) {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      const size_t at = (state >> 33) % damaged.size();
      switch ((state >> 20) % 3) {
        case 0:
          damaged[at] = form[(state >> 40) % form.size()];
          break;
        case 1:
          damaged.erase(at, 1 + (state >> 50) % 9);
          break;
        default:
          damaged.insert(at, form.substr((state >> 40) % form.size(), 7));
      }
    }
    try {
      loop::verify(loop::parse(damaged));
    } catch (const Error&) {
    }
  }
}

// A function from its text, with what the verifier says about it.
std::string verdict(const std::string& lines) {
  return message([&] { loop::verify(loop::parse("function f {\n" + lines + "\n}\n")); });
}

TEST(LoopIr, VerifierAcceptsValidFunctions) {
  EXPECT_EQ(verdict("yield"), "no error");
  EXPECT_EQ(verdict("v0 = param.i64 0\nv2 = add.i64 v0 v0\nyield"),
            "no error");  // numbers may be left out
}

TEST(LoopIr, VerifierRejects) {
  const std::string at = "internal error: loop IR of f at '";
  EXPECT_EQ(verdict("v0 = add.i64 v1 v1\nyield"),
            at + "v0 = add v1 v1': v1 is not defined before this use");
  EXPECT_EQ(verdict("v0 = param.i64 0\nv0 = param.i64 1\nyield"),
            at + "v0 = param': v0 is defined twice");
  EXPECT_EQ(verdict("v0 = param.i64 0"),
            "internal error: loop IR of f: a block must end with a yield");
  EXPECT_EQ(verdict("yield\nv0 = param.i64 0"), at + "v0 = param': instruction after the yield");
  EXPECT_EQ(verdict("v0 = param.i64 0\nyield v0"),
            "internal error: loop IR of f: the function's block yields nothing");
  EXPECT_EQ(verdict("v0 = param.i64 3\nyield"), at + "v0 = param': a param is i64 and 0, 1 or 2");
  EXPECT_EQ(verdict("v0 = slot.f32 0\nyield"),
            at + "v0 = slot': a slot is i64, f64 or ptr; got f32");
  EXPECT_EQ(verdict("v0 = constant.i8 200\nyield"),
            at + "v0 = constant': constant 200 is wider than i8");
  EXPECT_EQ(verdict("v0 = constant.i8x3 1\nyield"),
            at + "v0 = constant': lanes must be a power of two up to 64; got 3");
  EXPECT_EQ(verdict("v0 = constant.f16x8 0\nv1 = add.f16x8 v0 v0\nyield"),
            at + "v1 = add v0 v0': no arithmetic on f16x8");
  EXPECT_EQ(verdict("v0 = constant.i32 0\nv1 = param.i64 0\nv2 = add.i32 v0 v1\nyield"),
            at + "v2 = add v0 v1': operand 1 must be i32; got i64");
  EXPECT_EQ(verdict("v0 = constant.i32 0\nv1 = fdiv.i32 v0 v0\nyield"),
            at + "v1 = fdiv v0 v0': no float arithmetic on i32");
  EXPECT_EQ(verdict("v0 = constant.f32 0\nv1 = shl.f32 v0 v0\nyield"),
            at + "v1 = shl v0 v0': no integer arithmetic on f32");
  EXPECT_EQ(verdict("v0 = constant.f32 0\nv1 = ult.i1 v0 v0\nyield"),
            at + "v1 = ult v0 v0': no such comparison of f32");
  EXPECT_EQ(verdict("v0 = constant.f32x4 0\nv1 = lt.i1 v0 v0\nyield"),
            at + "v1 = lt v0 v0': the result must be i1 with 4 lanes");
  EXPECT_EQ(verdict("v0 = constant.f64 0\nv1 = fptrunc.f16 v0\nyield"),
            at + "v1 = fptrunc v0': not from f64 to f16");
  EXPECT_EQ(verdict("v0 = constant.i32 0\nv1 = bitcast.f64 v0\nyield"),
            at + "v1 = bitcast v0': not from i32 to f64");
  EXPECT_EQ(verdict("v0 = constant.i32 0\nv1 = sext.i64x2 v0\nyield"),
            at + "v1 = sext v0': a cast keeps the lanes; got i32 to i64x2");
  EXPECT_EQ(verdict("v0 = constant.i32x4 0\nv1 = extract.i32 4 v0\nyield"),
            at + "v1 = extract v0': lane 4 of i32x4");
  EXPECT_EQ(verdict("v0 = constant.i32x4 0\nv1 = shuffle.i32x2 v0 v0 [ 0 8 ]\nyield"),
            at + "v1 = shuffle v0 v0': lane 8 of two i32x4");
  EXPECT_EQ(verdict("v0 = param.i64 0\nv1 = load.i32 v0 v0\nyield"),
            at + "v1 = load v0 v0': operand 0 must be ptr; got i64");
  EXPECT_EQ(verdict("v0 = slot.ptr 0\nv1 = param.i64 0\nv2 = load.i1 v0 v1\nyield"),
            at + "v2 = load v0 v1': i1 is not a memory type");
  EXPECT_EQ(
      verdict("v0 = slot.ptr 0\nv1 = lanes.i64x4\nv2 = load.f32x8 v0 v1\nyield"),
      at + "v2 = load v0 v1': the index must be i64, alone or for each of 8 lanes; got i64x4");
  EXPECT_EQ(
      verdict("v0 = slot.ptr 0\nv1 = param.i64 0\nv2 = constant.i1x4 0\nstore v0 v1 v1 v2\nyield"),
      at + "store v0 v1 v1 v2': operand 3 must be i1; got i1x4");
  EXPECT_EQ(verdict("v0 = param.i64 0\nloop 0 v0 v0 { v1.i64\nyield\n}\nyield"),
            at + "loop v0 v0': the step must be at least 1; got 0");
  EXPECT_EQ(verdict("v0 = param.i64 0\nloop 1 v0 v0 v0 { v1.i64 v2.i64\nyield v0\n}\nyield"),
            at + "loop v0 v0 v0': results: expected 1 values; got 0");
  EXPECT_EQ(verdict("v0 = param.i64 0\nv3.i64 = loop 1 v0 v0 v0 { v1.i64 v2.i64\nyield\n}\nyield"),
            at + "v3 = loop v0 v0 v0': yield of the loop: expected 1 values; got 0");
  EXPECT_EQ(verdict("v0 = param.i64 0\nloop 1 v0 v0 { v1.i64\nv2 = add.i64 v1 v1\nyield\n}\n"
                    "v3 = add.i64 v2 v2\nyield"),
            at + "v3 = add v2 v2': v2 is not defined before this use");
  EXPECT_EQ(verdict("v0 = param.i64 0\nloop 1 v0 v0 { v1.i64\nv2 = stack.ptr 64\nyield\n}\nyield"),
            at + "v2 = stack': only in the function's top block");
  EXPECT_EQ(verdict("v0 = constant.i1 0\nbranch v0 {\nyield\n}\nyield"),
            at + "branch v0': a branch has two blocks; got 1");
  EXPECT_EQ(verdict("v0 = constant.i1 0\nv1.i1 = branch v0 {\nyield v0\n} {\nyield\n}\nyield"),
            at + "v1 = branch v0': yield of the second block: expected 1 values; got 0");
  EXPECT_EQ(message([] {
              loop::verify(loop::parse("function f {\nyield\n}\nfunction f {\nyield\n}\n"));
            }),
            "internal error: loop IR: two functions are named f");
  EXPECT_EQ(message([] { loop::verify(loop::parse("function 1+1 {\nyield\n}\n")); }),
            "internal error: loop IR: '1+1' is no function name (letters, digits and _)");
}

TEST(LoopIr, BuilderFoldsIntegersAndSharesLeaves) {
  Builder b("f");
  const Type i8{Scalar::i8, 1};
  int64_t known = 0;
  EXPECT_TRUE(b.known_integer(b.add(b.integer(100, i8), b.integer(100, i8)), &known));
  EXPECT_EQ(known, -56);
  EXPECT_TRUE(b.known_integer(b.lshr(b.integer(-1, i8), b.integer(1, i8)), &known));
  EXPECT_EQ(known, 127);
  EXPECT_TRUE(b.known_integer(b.ashr(b.integer(-128, i8), b.integer(7, i8)), &known));
  EXPECT_EQ(known, -1);
  EXPECT_TRUE(b.known_integer(b.cast(Opcode::zext, b.integer(-1, i8), Scalar::i32), &known));
  EXPECT_EQ(known, 255);
  EXPECT_TRUE(b.known_integer(b.smin(b.integer(3), b.integer(3)), &known));
  EXPECT_FALSE(b.known_integer(b.binary(Opcode::sdiv, b.integer(1), b.integer(0)), &known));
  EXPECT_EQ(b.begin(), b.begin());
  EXPECT_EQ(b.add(b.begin(), b.integer(0)), b.begin());
  EXPECT_EQ(b.mul(b.begin(), b.integer(1)), b.begin());
  // Floats are never folded: x + 0 is not x for -0, x * 1 is left to rewrites that know.
  const Value x = b.slot(0, Scalar::f64);
  EXPECT_NE(b.add(x, b.real(0, {Scalar::f64, 1})), x);
}

TEST(LoopIr, ConstantsAreRoundedToTheirType) {
  const double values[] = {0.0,
                           -0.0,
                           1.0,
                           -2.5,
                           65504.0,
                           65519.99,
                           65520.0,
                           1e-8,
                           6e-8,
                           3e-8,
                           2.98023223876953125e-8,
                           1e39,
                           -1e39,
                           0.1,
                           1.00390625,
                           1.01171875,
                           3.4e38,
                           9.2e-41,
                           1e-45,
                           INFINITY,
                           -INFINITY,
                           NAN};
  for (double value : values) {
    Builder b("f");
    b.real(value, {Scalar::f16, 1});
    b.real(value, {Scalar::bf16, 1});
    b.real(value, {Scalar::f32, 1});
    const Function f = b.finish();
    EXPECT_EQ(f.body.instructions[0].imm, samples::encode(value, 10)) << value;
    EXPECT_EQ(f.body.instructions[1].imm, samples::encode(value, 7)) << value;
    EXPECT_EQ(f.body.instructions[2].imm,
              static_cast<int64_t>(samples::to_bits(static_cast<float>(value))));
  }
}

}  // namespace
}  // namespace flambeau
