// Measures the vector mathematics: `check_math NAME...` evaluates each named function (all: every
// one) for all 2^32 float32 arguments against the double functions of the C library and for random
// float64 arguments against the long double ones, in two threads, and prints the largest errors in
// ulp with their arguments and the time per element. Options before the names: --fast takes one
// float32 in 61, --only-f32 and --only-f64 leave out the other, --time measures time alone.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/math_reference.h"

namespace flambeau::loop::math {
namespace {

constexpr int kThreads = 2;
constexpr int kLanes = 8;
constexpr size_t kBlock = 4096;

struct Worst {
  double ulp = 0;
  double x = 0, y = 0, got = 0;
  void take(const Worst& other) {
    if (other.ulp > ulp) *this = other;
  }
};

template <class Work>
Worst in_threads(Work work) {
  Worst worst[kThreads];
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] { worst[t] = work(static_cast<uint64_t>(t)); });
  }
  for (auto& t : threads) t.join();
  for (int t = 1; t < kThreads; ++t) worst[0].take(worst[t]);
  return worst[0];
}

Worst check_single(const Unary& f, uint64_t stride) {
  const Evaluator<float> evaluate(f, kLanes);
  return in_threads([&](uint64_t thread) {
    Worst worst;
    std::vector<float> x(kBlock), out(kBlock);
    const uint64_t end = uint64_t{1} << 32;
    for (uint64_t first = thread * kBlock * stride; first < end;
         first += kThreads * kBlock * stride) {
      for (size_t i = 0; i < kBlock; ++i) {
        x[i] = std::bit_cast<float>(static_cast<uint32_t>(first + i * stride));
      }
      evaluate(x, out);
      for (size_t i = 0; i < kBlock; ++i) {
        const double exact = f.quick(static_cast<double>(x[i]));
        worst.take({ulps(out[i], exact), x[i], 0, out[i]});
      }
    }
    return worst;
  });
}

// Half of the arguments have random bits, half are moderate.
Worst check_double(const Unary& f, uint64_t blocks) {
  const Evaluator<double> evaluate(f, kLanes);
  return in_threads([&](uint64_t thread) {
    Worst worst;
    std::mt19937_64 random(thread + 1);
    std::vector<double> x(kBlock), out(kBlock);
    for (uint64_t block = 0; block < blocks; ++block) {
      for (size_t i = 0; i < kBlock; ++i) {
        const uint64_t bits = random();
        const auto exponent = static_cast<int>(random() % 24) - 16;
        const double unit = std::bit_cast<double>((bits >> 12) | 0x3ff0000000000000);
        x[i] = i % 2 ? std::bit_cast<double>(bits) : std::ldexp(bits & 1 ? -unit : unit, exponent);
      }
      evaluate(x, out);
      for (size_t i = 0; i < kBlock; ++i) {
        worst.take({ulps(out[i], f.exact(x[i]), f.absolute), x[i], 0, out[i]});
      }
    }
    return worst;
  });
}

// pow and atan2: random signs and significands, exponents that keep most results finite.
template <class T, class Exact>
Worst check_binary(Value (*build)(Builder&, Value, Value), Exact exact, bool is_pow,
                   uint64_t blocks) {
  const Evaluator<T> evaluate(build, kLanes);
  return in_threads([&](uint64_t thread) {
    Worst worst;
    std::mt19937_64 random(thread + 1);
    std::vector<T> x(kBlock), y(kBlock), out(kBlock);
    const int range = std::numeric_limits<T>::max_exponent;
    const auto draw = [&](int low, int high) {
      const double unit = std::bit_cast<double>((random() >> 12) | 0x3ff0000000000000);
      const int exponent = low + static_cast<int>(random() % static_cast<uint64_t>(high - low));
      return static_cast<T>(std::ldexp(random() & 1 ? -unit : unit, exponent));
    };
    for (uint64_t block = 0; block < blocks; ++block) {
      for (size_t i = 0; i < kBlock; ++i) {
        const bool wide = random() % 4 == 0;
        x[i] = wide ? draw(-range, range) : draw(-8, 9);
        y[i] = wide && !is_pow ? draw(-range, range) : draw(-8, 9);
        if (is_pow && x[i] < 0 && random() % 2) x[i] = -x[i];
        if (is_pow && random() % 4 == 0) {
          // Near 1 with a large exponent, the hardest case of pow.
          x[i] = 1 + static_cast<T>(draw(-20, -4));
          y[i] = static_cast<T>(draw(2, 20));
        }
        if (is_pow && x[i] < 0) y[i] = std::nearbyint(y[i]);
      }
      evaluate(x, y, out);
      for (size_t i = 0; i < kBlock; ++i) {
        worst.take({ulps(out[i], exact(x[i], y[i])), x[i], y[i], out[i]});
      }
    }
    return worst;
  });
}

template <class T, class Run>
double nanoseconds(Run run) {
  std::vector<T> x(kBlock), y(kBlock), out(kBlock);
  for (size_t i = 0; i < kBlock; ++i) {
    x[i] = static_cast<T>(0.02 + 0.96 * static_cast<double>(i) / kBlock);
    y[i] = static_cast<T>(3.0 - 2.0 * static_cast<double>(i) / kBlock);
  }
  double best = 1e9;
  for (int repeat = 0; repeat < 20; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 20; ++i) run(x, y, std::span<T>(out));
    const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
    best = std::min(best, taken.count() / 20 / kBlock);
  }
  return best;
}

void report(const char* type, const Worst& w, double time, double seconds) {
  std::printf("  %s %8.4f ulp at %a", type, w.ulp, w.x);
  if (w.y != 0) std::printf(", %a", w.y);
  std::printf(" (%.9g -> %.9g)  %6.2f ns  [%.0f s]", w.x, w.got, time, seconds);
}

struct Options {
  uint64_t stride = 1;
  bool single = true, wide = true, measure = true;
};

void check(const std::string& name, const Options& options) {
  const auto clock = [start = std::chrono::steady_clock::now()] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  std::printf("%-8s", name.c_str());
  const uint64_t blocks = options.measure ? (options.stride > 1 ? 300 : 3000) : 0;
  if (name == "pow" || name == "atan2") {
    const bool is_pow = name == "pow";
    const auto build = is_pow ? pow : atan2;
    if (options.single) {
      const auto exact = [&](float x, float y) {
        return is_pow ? std::pow(double{x}, double{y}) : std::atan2(double{x}, double{y});
      };
      const Worst w = check_binary<float>(build, exact, is_pow, blocks);
      const Evaluator<float> run(build, kLanes);
      report("f32", w, nanoseconds<float>(run), clock());
    }
    if (options.wide) {
      const auto exact = [&](long double x, long double y) {
        return is_pow ? std::pow(x, y) : std::atan2(x, y);
      };
      const Worst w = check_binary<double>(build, exact, is_pow, blocks);
      const Evaluator<double> run(build, kLanes);
      report("f64", w, nanoseconds<double>(run), clock());
    }
  } else {
    const Unary* f = nullptr;
    for (const Unary& u : kUnary) {
      if (u.name == name) f = &u;
    }
    if (f == nullptr) {
      std::printf("  no such function\n");
      return;
    }
    if (options.single) {
      const Worst w = options.measure ? check_single(*f, options.stride) : Worst{};
      const Evaluator<float> run(*f, kLanes);
      const auto timed = [&](auto& x, auto&, std::span<float> out) { run(x, out); };
      report("f32", w, nanoseconds<float>(timed), clock());
    }
    if (options.wide) {
      const Worst w = check_double(*f, blocks);
      const Evaluator<double> run(*f, kLanes);
      const auto timed = [&](auto& x, auto&, std::span<double> out) { run(x, out); };
      report("f64", w, nanoseconds<double>(timed), clock());
    }
  }
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace
}  // namespace flambeau::loop::math

int main(int argc, char** argv) {
  namespace math = flambeau::loop::math;
  math::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--fast") {
      options.stride = 61;
    } else if (word == "--only-f32") {
      options.wide = false;
    } else if (word == "--only-f64") {
      options.single = false;
    } else if (word == "--time") {
      options.measure = false;
    } else if (word == "all") {
      for (const auto& f : math::kUnary) math::check(std::string(f.name), options);
      math::check("pow", options);
      math::check("atan2", options);
    } else {
      math::check(word, options);
    }
  }
}
