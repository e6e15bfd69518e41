// Machine code against scalar C++: every opcode, masks, gathers, control flow.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "flambeau/emit/llvm/codegen.h"
#include "loop_flow_samples.h"
#include "loop_samples.h"

namespace flambeau {
namespace {

using samples::Sample;

// Code that an earlier state of the emitter left on disk is not what is tested here.
[[maybe_unused]] const bool no_disk_cache = setenv("FLAMBEAU_CACHE_DIR", "off", 1) == 0;

void expect_right(const std::vector<Sample>& all) {
  loop::Module module;
  for (const Sample& sample : all) module.functions.push_back(sample.function);
  const auto code = emit::compile(module);
  ASSERT_EQ(code->entries().size(), all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(samples::difference(all[i], samples::run(all[i], code->entries()[i])), "");
  }
}

class EmitLlvm : public testing::TestWithParam<int> {};

TEST_P(EmitLlvm, EveryOpcode) {
  std::vector<Sample> all;
  for (const samples::Case& c : samples::all_cases()) all.push_back(samples::make(c, GetParam()));
  expect_right(all);
}

TEST_P(EmitLlvm, MemoryAndControlFlow) { expect_right(samples::flow_samples(GetParam())); }

// Masked-off lanes may lie in memory that does not exist.
TEST_P(EmitLlvm, MaskedLanesTouchNoMemory) {
  const int lanes = GetParam();
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  auto* pages = static_cast<char*>(
      mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  ASSERT_EQ(mprotect(pages + page, page, PROT_NONE), 0);
  for (loop::Scalar s :
       {loop::Scalar::i8, loop::Scalar::f16, loop::Scalar::f32, loop::Scalar::f64}) {
    loop::Builder b("copy");
    const loop::Value out = b.slot(0, loop::Scalar::ptr);
    const loop::Value in = b.slot(1, loop::Scalar::ptr);
    const loop::Value left = b.splat(b.sub(b.end(), b.begin()), lanes);
    const loop::Value mask = b.compare(loop::Opcode::lt, b.lanes({loop::Scalar::i64, lanes}), left);
    b.store(out, b.begin(), b.load(in, b.begin(), {s, lanes}, mask), mask);
    const auto code = emit::compile({{b.finish()}});
    const auto size = static_cast<size_t>(loop::bits(s) / 8);
    for (int64_t count = 0; count <= lanes; ++count) {
      const size_t bytes = static_cast<size_t>(count) * size;
      const samples::Bytes source = samples::random_bytes(bytes + 1, 7);
      char* const at = pages + page - bytes;
      std::memcpy(at, source.data(), bytes);
      samples::Bytes copy(bytes + 64, 'x');
      const int64_t from_memory[] = {reinterpret_cast<int64_t>(copy.data()),
                                     reinterpret_cast<int64_t>(at)};
      code->entries()[0](from_memory, 0, count, 0);
      EXPECT_EQ(std::memcmp(copy.data(), source.data(), bytes), 0);
      EXPECT_EQ(copy[bytes], 'x');
      std::memset(at, 0, bytes);
      const int64_t to_memory[] = {reinterpret_cast<int64_t>(at),
                                   reinterpret_cast<int64_t>(copy.data())};
      code->entries()[0](to_memory, 0, count, 0);
      EXPECT_EQ(std::memcmp(at, source.data(), bytes), 0);
    }
  }
  munmap(pages, 2 * page);
}

INSTANTIATE_TEST_SUITE_P(Lanes, EmitLlvm, testing::Values(1, 2, 4, 8, 16, 32));

// The same bits for other vector widths; AVX-512 code at least is made everywhere.
TEST(EmitTargets, SameBits) {
  const emit::Target before = emit::target();
  const std::vector<Sample> flow = samples::flow_samples(8);
  for (int bytes : {16, 64}) {
    emit::set_target({"x86-64-v3", bytes});
    expect_right(flow);
  }
  loop::Module module;
  for (const samples::Case& c : samples::all_cases()) {
    module.functions.push_back(samples::make(c, 8).function);
  }
  for (const Sample& sample : flow) module.functions.push_back(sample.function);
  for (int bytes : {32, 64}) {
    const emit::Target wide{"x86-64-v4", bytes};
    EXPECT_NE(emit::compile_object(module, wide), "");
    if (!__builtin_cpu_supports("x86-64-v4")) continue;
    emit::set_target(wide);
    expect_right(flow);
  }
  emit::set_target(before);
}

}  // namespace
}  // namespace flambeau
