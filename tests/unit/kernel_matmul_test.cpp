// Products against the definition, computed element by element with scalars.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "flambeau/emit/code.h"
#include "flambeau/kernel/matmul.h"
#include "flambeau/run/executable.h"
#include "ops_samples.h"

namespace flambeau {
namespace {

constexpr int64_t kBlock = kernel::kContractionBlock;

float flushed(float x) { return std::abs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }
float from_bfloat16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

/// a [k] times b [k] in the order of the definition.
template <class T>
T chain(const std::vector<T>& a, const std::vector<T>& b) {
  T total = 0;
  for (size_t lo = 0; lo < a.size(); lo += kBlock) {
    T sum = 0;
    for (size_t k = lo; k < std::min<size_t>(a.size(), lo + kBlock); ++k) {
      if constexpr (std::is_floating_point_v<T>)
        sum = std::fma(a[k], b[k], sum);
      else
        sum = static_cast<T>(static_cast<std::make_unsigned_t<T>>(sum) +
                             static_cast<std::make_unsigned_t<T>>(a[k]) *
                                 static_cast<std::make_unsigned_t<T>>(b[k]));
    }
    if constexpr (std::is_floating_point_v<T>)
      total = lo == 0 ? sum : total + sum;
    else
      total = static_cast<T>(static_cast<std::make_unsigned_t<T>>(total) +
                             static_cast<std::make_unsigned_t<T>>(sum));
  }
  return total;
}

/// bfloat16: pairs, the odd element first, denormals flushed.
float chain_bfloat16(std::vector<float> a, std::vector<float> b) {
  if (a.size() % 2) {
    a.push_back(0);
    b.push_back(0);
  }
  float total = 0;
  for (size_t lo = 0; lo < a.size(); lo += kBlock) {
    float sum = 0;
    for (size_t k = lo; k < std::min<size_t>(a.size(), lo + kBlock); k += 2) {
      sum = flushed(std::fma(flushed(a[k + 1]), flushed(b[k + 1]), sum));
      sum = flushed(std::fma(flushed(a[k]), flushed(b[k]), sum));
    }
    total = lo == 0 ? sum : flushed(total + sum);
  }
  return total;
}

struct Case {
  int64_t m, n, k;
};
const Case kCases[] = {{1, 1, 1},    {1, 40, 7},   {6, 16, 256}, {7, 17, 257},
                       {13, 5, 600}, {50, 33, 31}, {3, 100, 0},  {97, 260, 20}};

Tensor product(const Tensor& a, const Tensor& b) {
  return std::get<Tensor>(samples::call_named("mm", "", {a, b}));
}

/// All layouts of the operands: row-major or transposed.
std::vector<Tensor> layouts(const Tensor& t) {
  Tensor memory = empty_tensor({t.size(1), t.size(0)}, t.dtype());
  Tensor view = view_tensor(memory, t.sizes(), {1, t.size(0)}, 0);
  run::copy_into(view, t);
  return {t, view};
}

template <class T>
void check_type(DType dtype, const std::function<T()>& draw) {
  for (const Case& c : kCases) {
    Tensor a = empty_tensor({c.m, c.k}, dtype), b = empty_tensor({c.k, c.n}, dtype);
    for (int64_t i = 0; i < a.numel(); ++i) a.data_as<T>()[i] = draw();
    for (int64_t i = 0; i < b.numel(); ++i) b.data_as<T>()[i] = draw();
    std::vector<T> wanted;
    for (int64_t i = 0; i < c.m; ++i) {
      for (int64_t j = 0; j < c.n; ++j) {
        std::vector<T> x, y;
        for (int64_t k = 0; k < c.k; ++k) {
          x.push_back(a.data_as<T>()[i * c.k + k]);
          y.push_back(b.data_as<T>()[k * c.n + j]);
        }
        wanted.push_back(chain(x, y));
      }
    }
    for (const Tensor& left : layouts(a)) {
      for (const Tensor& right : layouts(b)) {
        Tensor r = product(left, right);
        EXPECT_EQ(std::memcmp(r.data(), wanted.data(), wanted.size() * sizeof(T)), 0)
            << name(dtype) << " " << c.m << " " << c.n << " " << c.k;
      }
    }
  }
}

std::mt19937 engine(5);

TEST(Matmul, Float32) {
  check_type<float>(DType::float32, [] { return std::normal_distribution<float>()(engine); });
}
TEST(Matmul, Float64) {
  check_type<double>(DType::float64, [] { return std::normal_distribution<double>()(engine); });
}
TEST(Matmul, IntegersWrap) {
  check_type<int32_t>(DType::int32, [] { return static_cast<int32_t>(engine()); });
  check_type<int64_t>(DType::int64, [] {
    return static_cast<int64_t>((static_cast<uint64_t>(engine()) << 32) | engine());
  });
}

TEST(Matmul, BFloat16AsTheInstructionDoes) {
  for (const Case& c : kCases) {
    Tensor a = empty_tensor({c.m, c.k}, DType::bfloat16),
           b = empty_tensor({c.k, c.n}, DType::bfloat16);
    // All exponents occur, denormal ones too; infinities and NaN do not.
    auto draw = [] {
      for (;;) {
        auto bits = static_cast<uint16_t>(engine());
        if (engine() % 3) bits = static_cast<uint16_t>((bits & 0x80FF) | 0x3F00);
        if ((bits & 0x7F80) != 0x7F80 && std::abs(from_bfloat16(bits)) < 1e15f) return bits;
      }
    };
    for (int64_t i = 0; i < a.numel(); ++i) a.data_as<uint16_t>()[i] = draw();
    for (int64_t i = 0; i < b.numel(); ++i) b.data_as<uint16_t>()[i] = draw();
    // prim::dot gives float32; the operator rounds it to bfloat16.
    Tensor r = product(a, b);
    for (int64_t i = 0; i < c.m; ++i) {
      for (int64_t j = 0; j < c.n; ++j) {
        std::vector<float> x, y;
        for (int64_t k = 0; k < c.k; ++k) {
          x.push_back(from_bfloat16(a.data_as<uint16_t>()[i * c.k + k]));
          y.push_back(from_bfloat16(b.data_as<uint16_t>()[k * c.n + j]));
        }
        auto bits = std::bit_cast<uint32_t>(chain_bfloat16(x, y));
        auto rounded = static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
        ASSERT_EQ(r.data_as<uint16_t>()[i * c.n + j], rounded)
            << c.m << " " << c.n << " " << c.k << " at " << i << " " << j;
      }
    }
  }
}

TEST(Matmul, OtherVectors) {
  emit::Target best = emit::target();
  for (int width : {16, 64}) {
    emit::set_target({best.features, width});
    check_type<float>(DType::float32, [] { return std::normal_distribution<float>()(engine); });
    check_type<double>(DType::float64, [] { return std::normal_distribution<double>()(engine); });
  }
  emit::set_target(best);
}

TEST(Matmul, NothingFromNothing) {
  Tensor r = product(samples::random_tensor({3, 0}), samples::random_tensor({0, 4}));
  for (int64_t i = 0; i < 12; ++i) EXPECT_EQ(r.data_as<float>()[i], 0);
  EXPECT_EQ(product(samples::random_tensor({0, 5}), samples::random_tensor({5, 4})).numel(), 0);
  EXPECT_EQ(product(samples::random_tensor({2, 5}), samples::random_tensor({5, 0})).numel(), 0);
}

}  // namespace
}  // namespace flambeau
