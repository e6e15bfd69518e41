// The same bits: vector width, threads and the layout of operands change nothing.
#include <gtest/gtest.h>

#include <cstring>

#include "flambeau/base/threads.h"
#include "flambeau/emit/code.h"
#include "flambeau/run/executable.h"
#include "ops_samples.h"

namespace flambeau {
namespace {

std::vector<char> bytes_of(const Tensor& t) {
  Tensor c = std::get<Tensor>(samples::call_named("clone", "", {t}));
  return {c.data(), c.data() + c.numel() * itemsize(c.dtype())};
}

/// The same values with the dims in memory in reverse order.
Tensor transposed_in_memory(const Tensor& t) {
  Dims sizes = t.sizes(), reversed(sizes.size());
  for (int64_t d = 0; d < sizes.size(); ++d) reversed[d] = sizes[sizes.size() - 1 - d];
  Tensor memory = empty_tensor(reversed, t.dtype());
  Dims strides(sizes.size());
  for (int64_t d = 0; d < sizes.size(); ++d) strides[d] = memory.strides()[sizes.size() - 1 - d];
  Tensor view = view_tensor(memory, sizes, strides, 0);
  run::copy_into(view, t);
  return view;
}

/// The same values in every other element of memory.
Tensor spaced_in_memory(const Tensor& t) {
  Dims strides = contiguous_strides(t.sizes());
  for (int64_t d = 0; d < strides.size(); ++d) strides[d] *= 2;
  Tensor memory = empty_tensor({2 * t.numel() + 1}, t.dtype());
  Tensor view = view_tensor(memory, t.sizes(), strides, 1);
  run::copy_into(view, t);
  return view;
}

void expect_same_bits(const samples::Sample& s, DType dtype) {
  std::vector<Tensor> operands, transposed, spaced;
  for (const Dims& sizes : s.sizes) {
    operands.push_back(samples::random_tensor(sizes, dtype));
    transposed.push_back(transposed_in_memory(operands.back()));
    spaced.push_back(spaced_in_memory(operands.back()));
  }
  std::vector<char> wanted = bytes_of(s.run(operands));
  EXPECT_EQ(bytes_of(s.run(transposed)), wanted) << s.name << ", transposed operands";
  EXPECT_EQ(bytes_of(s.run(spaced)), wanted) << s.name << ", spaced operands";
  int threads = num_threads();
  set_num_threads(1);
  EXPECT_EQ(bytes_of(s.run(operands)), wanted) << s.name << ", 1 thread";
  set_num_threads(3);
  EXPECT_EQ(bytes_of(s.run(operands)), wanted) << s.name << ", 3 threads";
  set_num_threads(threads);
  emit::Target best = emit::target();
  for (int width : {16, 32, 64}) {
    emit::set_target({best.features, width});
    EXPECT_EQ(bytes_of(s.run(operands)), wanted) << s.name << ", vectors of " << width << " bytes";
  }
  emit::set_target(best);
}

TEST(SameBits, Float32) {
  for (const auto& s : samples::all()) expect_same_bits(s, DType::float32);
}
TEST(SameBits, Float64) {
  for (const auto& s : samples::all()) expect_same_bits(s, DType::float64);
}
TEST(SameBits, BFloat16) {
  for (const auto& s : samples::all()) expect_same_bits(s, DType::bfloat16);
}
TEST(SameBits, Float16) {
  for (const auto& s : samples::all()) expect_same_bits(s, DType::float16);
}

TEST(SameBits, ARowOfAProductDoesNotDependOnItsBatch) {
  Tensor x = samples::random_tensor({70, 600}), w = samples::random_tensor({600, 45});
  std::vector<char> whole = bytes_of(std::get<Tensor>(samples::call_named("matmul", "", {x, w})));
  size_t row_bytes = 45 * sizeof(float);
  for (int64_t row : {0, 5, 6, 47, 69}) {
    for (int64_t rows : {1, 2, 7}) {
      if (row + rows > 70) continue;
      Tensor part = view_tensor(x, {rows, 600}, x.strides(), row * 600);
      std::vector<char> y =
          bytes_of(std::get<Tensor>(samples::call_named("matmul", "", {part, w})));
      EXPECT_EQ(
          std::memcmp(y.data(), whole.data() + static_cast<size_t>(row) * row_bytes, y.size()), 0)
          << row << " " << rows;
    }
  }
}

}  // namespace
}  // namespace flambeau
