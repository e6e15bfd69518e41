// The bounds of loop/math.h, sampled: tools/check_math.cpp goes over all float32 arguments.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "math_reference.h"

namespace flambeau::loop::math {
namespace {

constexpr int kLanes = 8;
constexpr size_t kSamples = 1 << 16;

/// Bit patterns of all kinds, and values where functions have their zeros and poles.
template <class T, class Bits>
std::vector<T> arguments() {
  std::mt19937_64 engine(11);
  std::vector<T> x;
  for (T v : {0.0, 1.0, 0.5, 2.0, 3.0, 1e-30, 1e30, 0.75, 1.5, 4.0, 10.0, 88.0, 710.0, 1e-8}) {
    for (T s : {v, -v}) {
      x.push_back(s);
      x.push_back(std::nextafter(s, T(100)));
      x.push_back(std::nextafter(s, T(-100)));
    }
  }
  for (T v : {std::numeric_limits<T>::infinity(), std::numeric_limits<T>::quiet_NaN(),
              std::numeric_limits<T>::max(), std::numeric_limits<T>::min(),
              std::numeric_limits<T>::denorm_min()}) {
    x.push_back(v);
    x.push_back(-v);
  }
  while (x.size() < kSamples / 2) x.push_back(std::bit_cast<T>(static_cast<Bits>(engine())));
  std::normal_distribution<T> normal(0, 3);
  while (x.size() < kSamples) x.push_back(normal(engine));
  return x;
}

template <class T, class Bits, class Exact>
void check(double Unary::* bound, Exact Unary::* exact) {
  std::vector<T> x = arguments<T, Bits>(), out(x.size());
  for (const Unary& f : kUnary) {
    Evaluator<T> evaluate(f, kLanes);
    evaluate(x, out);
    double worst = 0;
    T at = 0, got = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      // Near zeros of lgamma and digamma of negative arguments no bound is promised.
      bool unbounded = x[i] < 0 && (f.name == "lgamma" || f.name == "digamma") &&
                       std::abs((f.*exact)(x[i])) < 0.5;
      if (unbounded) continue;
      bool negative_gamma =
          x[i] < 0 && sizeof(T) == 8 && (f.name == "lgamma" || f.name == "digamma");
      double error = (negative_gamma ? 0.25 : 1) *
                     ulps(out[i], (f.*exact)(x[i]), sizeof(T) == 8 ? f.absolute : 0);
      if (error > worst) {
        worst = error;
        at = x[i];
        got = out[i];
      }
    }
    EXPECT_LE(worst, f.*bound) << f.name << " of " << std::hexfloat << at << " gives " << got;
  }
}

TEST(VectorMathematics, Float32) { check<float, uint32_t>(&Unary::single_bound, &Unary::quick); }
TEST(VectorMathematics, Float64) { check<double, uint64_t>(&Unary::double_bound, &Unary::exact); }

template <class T, class Bits>
void check_two(const char* name, Value (*build)(Builder&, Value, Value),
               long double (*exact)(long double, long double)) {
  std::vector<T> x = arguments<T, Bits>(), y = x, out(x.size());
  std::shuffle(y.begin(), y.end(), std::mt19937(3));
  Evaluator<T> evaluate(build, kLanes);
  evaluate(x, y, out);
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_LE(ulps(out[i], exact(x[i], y[i])), 2)
        << name << " of " << std::hexfloat << x[i] << " and " << y[i] << " gives " << out[i];
  }
}

TEST(VectorMathematics, TwoArguments) {
  auto power = [](long double x, long double y) -> long double { return std::pow(x, y); };
  auto angle = [](long double y, long double x) -> long double { return std::atan2(y, x); };
  check_two<float, uint32_t>("pow", pow, power);
  check_two<double, uint64_t>("pow", pow, power);
  check_two<float, uint32_t>("atan2", atan2, angle);
  check_two<double, uint64_t>("atan2", atan2, angle);
}

TEST(VectorMathematics, ALaneDependsOnItsValueAlone) {
  std::vector<float> x = arguments<float, uint32_t>(), wide(x.size()), narrow(x.size());
  for (const Unary& f : kUnary) {
    Evaluator<float>(f, 16)(x, wide);
    Evaluator<float>(f, 4)(x, narrow);
    for (size_t i = 0; i < x.size(); ++i) {
      bool both_nan = std::isnan(wide[i]) && std::isnan(narrow[i]);
      ASSERT_TRUE(both_nan ||
                  std::bit_cast<uint32_t>(wide[i]) == std::bit_cast<uint32_t>(narrow[i]))
          << f.name << " of " << x[i];
    }
  }
}

}  // namespace
}  // namespace flambeau::loop::math
