// The same bits: vector width, threads and the layout of operands change nothing.
#include <gtest/gtest.h>

#include <cstring>

#include "flambeau/autograd/autograd.h"
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
  // The least that there must be, whatever the machine has.
  emit::set_target({"x86-64-v3", 32});
  EXPECT_EQ(bytes_of(s.run(operands)), wanted) << s.name << ", x86-64-v3";
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

TEST(SameBits, CotangentsOfConvolutions) {
  // Both ways of the weight's cotangent: few and many channels.
  for (int64_t channels : {2, 50}) {
    Tensor x = samples::random_tensor({3, channels, 7, 9}),
           w = samples::random_tensor({4, channels, 3, 3});
    auto gradients = [&] {
      Tensor a = autograd::detach(x), b = autograd::detach(w);
      autograd::set_requires_grad(a, true);
      autograd::set_requires_grad(b, true);
      Tensor y = std::get<Tensor>(samples::call_named(
          "convolution", "",
          {a, b, std::monostate(), DimList{1}, DimList{1}, DimList{1}, false, DimList{0}, Dim(1)}));
      Tensor c = std::get<Tensor>(samples::call_named("sin", "", {autograd::detach(y)}));
      std::vector<char> all;
      for (const Tensor& g : autograd::gradients({y}, {a, b}, {c}, false, false, false)) {
        std::vector<char> bytes = bytes_of(g);
        all.insert(all.end(), bytes.begin(), bytes.end());
      }
      return all;
    };
    std::vector<char> wanted = gradients();
    int threads = num_threads();
    set_num_threads(1);
    EXPECT_EQ(gradients(), wanted) << channels << " channels, 1 thread";
    set_num_threads(threads);
    emit::Target best = emit::target();
    emit::set_target({"x86-64-v3", 32});
    EXPECT_EQ(gradients(), wanted) << channels << " channels, x86-64-v3";
    emit::set_target(best);
  }
}

TEST(SameBits, AnImageDoesNotDependOnItsBatch) {
  Tensor x = samples::random_tensor({5, 3, 8, 8}), w = samples::random_tensor({4, 3, 3, 3});
  auto run = [&](const Tensor& input) {
    return bytes_of(
        std::get<Tensor>(samples::call_named("convolution", "",
                                             {input, w, std::monostate(), DimList{1}, DimList{1},
                                              DimList{1}, false, DimList{0}, Dim(1)})));
  };
  std::vector<char> whole = run(x), one = run(view_tensor(x, {1, 3, 8, 8}, x.strides(), 2 * 192));
  EXPECT_EQ(std::memcmp(one.data(), whole.data() + 2 * one.size(), one.size()), 0);
}

}  // namespace
}  // namespace flambeau
