#include <gtest/gtest.h>

#include <vector>
#include <chrono>
#include "flambeau/emit/code.h"
#include "flambeau/loop/builder.h"

namespace flambeau {
namespace {
using loop::Builder;
using loop::Scalar;
using loop::Value;

// out[i] = a[i] + b[i] for i in [begin, end): whole vectors, then a masked tail.
loop::Module add_module() {
  Builder b("add");
  Value out = b.slot(0, Scalar::ptr), x = b.slot(1, Scalar::ptr), y = b.slot(2, Scalar::ptr);
  const loop::Type vec{Scalar::f32, 8};
  Value whole = b.sub(b.end(), b.binary(loop::Opcode::srem, b.sub(b.end(), b.begin()), b.integer(8)));
  b.loop(b.begin(), whole, 8, {}, [&](Value i, const std::vector<Value>&) -> std::vector<Value> {
    b.store(out, i, b.add(b.load(x, i, vec), b.load(y, i, vec)));
    return {};
  });
  Value left = b.splat(b.sub(b.end(), whole), 8);
  Value mask = b.compare(loop::Opcode::lt, b.lanes({Scalar::i64, 8}), left);
  b.store(out, whole, b.add(b.load(x, whole, vec, mask), b.load(y, whole, vec, mask)), mask);
  return {{b.finish()}};
}

TEST(EmitLlvm, Add) {
  auto code = emit::compile(add_module());
  std::vector<float> a(100), b(100), out(100, -1.f);
  for (int i = 0; i < 100; ++i) a[i] = i, b[i] = 2 * i;
  int64_t slots[] = {reinterpret_cast<int64_t>(out.data()), reinterpret_cast<int64_t>(a.data()),
                     reinterpret_cast<int64_t>(b.data())};
  code->entries()[0](slots, 0, 99, 0);
  for (int i = 0; i < 99; ++i) EXPECT_EQ(out[i], 3 * i);
  EXPECT_EQ(out[99], -1.f);
}
}  // namespace
}  // namespace flambeau
