// Small loop-IR functions with inputs and the outputs that scalar C++ computes for them: every
// opcode on every type, masks, gathers and control flow. Shared by the tests of all code
// generators. Convention: slot 0 is the output, slots 1, 2, ... the inputs; the range of tasks
// counts elements.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "flambeau/base/text.h"
#include "flambeau/emit/code.h"
#include "flambeau/loop/builder.h"

namespace flambeau::samples {

using loop::Builder;
using loop::Opcode;
using loop::Scalar;
using loop::Type;
using loop::Value;

using Bytes = std::vector<char>;

struct Sample {
  std::string name;
  loop::Function function;
  std::vector<Bytes> inputs;
  int64_t count = 0;  // elements of the range of tasks
  Scalar out = Scalar::i64;
  Bytes expected;
};

constexpr int kCount = 192;  // a multiple of all lane counts

inline int stored_bytes(Scalar s) { return s == Scalar::i1 ? 1 : loop::bits(s) / 8; }

template <class T>
T get(const Bytes& bytes, int64_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * static_cast<int64_t>(sizeof(T)), sizeof value);
  return value;
}
template <class T>
void put(Bytes& bytes, int64_t i, T value) {
  std::memcpy(bytes.data() + i * static_cast<int64_t>(sizeof(T)), &value, sizeof value);
}
inline uint64_t get_bits(const Bytes& bytes, int64_t i, int size) {
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + i * size, static_cast<size_t>(size));
  return bits;
}
inline void put_bits(Bytes& bytes, int64_t i, int size, uint64_t bits) {
  std::memcpy(bytes.data() + i * size, &bits, static_cast<size_t>(size));
}

// The value of 16-bit patterns, by the definition of the formats.
inline double decode(uint16_t bits, int fraction) {
  const int exponent_bits = 15 - fraction;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits & 0x7FFF) >> fraction;
  const int mantissa = bits & ((1 << fraction) - 1);
  double value;
  if (exponent == (1 << exponent_bits) - 1) {
    value = mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                          : std::numeric_limits<double>::infinity();
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - bias - fraction);
  } else {
    value = std::ldexp(mantissa + (1 << fraction), exponent - bias - fraction);
  }
  return bits & 0x8000 ? -value : value;
}

// The nearest 16-bit pattern, by search; ties go to the even pattern.
inline uint16_t encode(double value, int fraction) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const int exponent_bits = 15 - fraction;
  const auto infinity = static_cast<uint16_t>(((1 << exponent_bits) - 1) << fraction);
  if (std::isnan(value)) return static_cast<uint16_t>(sign | infinity | (1 << (fraction - 1)));
  const double magnitude = std::fabs(value);
  // Infinity counts as the number that would follow the greatest one.
  auto at = [&](int pattern) {
    return pattern == infinity ? std::ldexp(1.0, 1 << (exponent_bits - 1))
                               : decode(static_cast<uint16_t>(pattern), fraction);
  };
  if (magnitude >= at(infinity)) return static_cast<uint16_t>(sign | infinity);
  int low = 0;
  int high = infinity;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (at(middle) <= magnitude ? low : high) = middle;
  }
  const double below = magnitude - at(low);
  const double above = at(high) - magnitude;
  const bool up = above < below || (above == below && (low & 1) != 0);
  return static_cast<uint16_t>(sign | (up ? high : low));
}

template <class T>
T as(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
template <class T>
uint64_t to_bits(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

// Reads a pattern of the scalar as a number: exact for all but i64, which has its own cases.
inline double number(Scalar s, uint64_t bits) {
  switch (s) {
    case Scalar::f16:
      return decode(static_cast<uint16_t>(bits), 10);
    case Scalar::bf16:
      return decode(static_cast<uint16_t>(bits), 7);
    case Scalar::f32:
      return as<float>(bits);
    default:
      return as<double>(bits);
  }
}

inline int64_t sign_extended(Scalar s, uint64_t bits) {
  const int unused = 64 - loop::bits(s);
  return static_cast<int64_t>(bits << unused) >> unused;
}
inline uint64_t cut(Scalar s, uint64_t bits) {
  const int unused = 64 - loop::bits(s);
  return bits << unused >> unused;
}

// Patterns that matter, then random ones; deterministic.
inline std::vector<uint64_t> interesting(Scalar s, uint64_t seed) {
  std::vector<uint64_t> out;
  auto f32 = [&](float x) { out.push_back(to_bits(x)); };
  auto f64 = [&](double x) { out.push_back(to_bits(x)); };
  switch (s) {
    case Scalar::f32:
      for (float x : {0.0f,           -0.0f,         1.0f,          -1.0f,
                      0.5f,           1.5f,          2.5f,          -2.5f,
                      3.0e38f,        1.0e-40f,      -1.0e-45f,     1.17549435e-38f,
                      127.5f,         128.0f,        255.7f,        2147483648.0f,
                      -2147483648.0f, 4294967296.0f, 9.2233720e18f, 1.8446744e19f,
                      65504.0f,       65520.0f,      65519.996f,    5.9604645e-8f,
                      2.9802322e-8f,  1.00390625f,   1.01171875f,   3.3895314e38f}) {
        f32(x);
      }
      f32(INFINITY);
      f32(-INFINITY);
      out.insert(out.end(), {0x7FC00000, 0xFFC12345, 0x7F800001, 0x3F808000, 0x3F818000});
      break;
    case Scalar::f64:
      for (double x : {0.0,
                       -0.0,
                       1.0,
                       -1.0,
                       0.5,
                       1.5,
                       2.5,
                       -3.5,
                       1e308,
                       5e-324,
                       -1e-310,
                       1e-46,
                       3.5e38,
                       127.5,
                       -128.9,
                       255.99,
                       2147483647.5,
                       -2147483649.0,
                       4294967295.5,
                       9.3e18,
                       1.8446744073709552e19,
                       -9223372036854775808.0,
                       1.0000000596046448}) {
        f64(x);
      }
      f64(INFINITY);
      f64(-INFINITY);
      out.insert(out.end(), {0x7FF8000000000000, 0xFFF8000000012345, 0x7FF0000000000001});
      break;
    case Scalar::f16:
      out = {0,      0x8000, 0x3C00, 0x0001, 0x83FF, 0x0400,
             0x7BFF, 0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x7C01};
      break;
    case Scalar::bf16:
      out = {0,      0x8000, 0x3F80, 0x0001, 0x807F, 0x0080,
             0x7F7F, 0x7F80, 0xFF80, 0x7FC0, 0xFFC1, 0x7F81};
      break;
    case Scalar::i1:
      out = {0, 1};
      break;
    default: {
      const uint64_t top = uint64_t{1} << (loop::bits(s) - 1);
      out = {0, 1, 2, 3, 7, top - 1, top, top + 1, ~uint64_t{0}, ~uint64_t{1}, 100, ~uint64_t{99}};
    }
  }
  uint64_t state = seed * 2 + 1;
  while (out.size() < kCount * 2) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    const uint64_t high = state >> 33 | state << 31;
    if (s == Scalar::f32 && out.size() % 2 == 0) {
      out.push_back(to_bits(static_cast<float>(static_cast<int32_t>(high)) / 65536.0f));
    } else if (s == Scalar::f64 && out.size() % 2 == 0) {
      out.push_back(to_bits(static_cast<double>(static_cast<int64_t>(high)) / 4294967296.0));
    } else {
      out.push_back(high);
    }
  }
  for (uint64_t& bits : out) bits = cut(s, bits);
  // Other pairings of operands for other seeds.
  for (size_t i = out.size(); seed != 0 && i > 1; --i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    std::swap(out[i - 1], out[(state >> 33) % i]);
  }
  out.resize(kCount);
  return out;
}

using Evaluate = std::function<uint64_t(const uint64_t* operands)>;

struct Case {
  std::string name;
  Opcode op;
  std::vector<Scalar> in;
  Scalar out;
  Evaluate evaluate;
  std::function<void(uint64_t*)> allow;  // makes operands obey the opcode's conditions
};

template <class T>
void float_cases(std::vector<Case>& cases, Scalar s) {
  const std::string suffix = "_" + std::string(loop::name(s));
  auto one = [&](Opcode op, T (*f)(T)) {
    cases.push_back({std::string(loop::name(op)) + suffix,
                     op,
                     {s},
                     s,
                     [f](const uint64_t* x) { return to_bits(f(as<T>(x[0]))); },
                     {}});
  };
  auto two = [&](Opcode op, T (*f)(T, T)) {
    cases.push_back({std::string(loop::name(op)) + suffix,
                     op,
                     {s, s},
                     s,
                     [f](const uint64_t* x) { return to_bits(f(as<T>(x[0]), as<T>(x[1]))); },
                     {}});
  };
  auto test = [&](Opcode op, bool (*f)(T, T)) {
    cases.push_back({std::string(loop::name(op)) + suffix,
                     op,
                     {s, s},
                     Scalar::i1,
                     [f](const uint64_t* x) -> uint64_t { return f(as<T>(x[0]), as<T>(x[1])); },
                     {}});
  };
  two(Opcode::add, [](T a, T b) { return a + b; });
  two(Opcode::sub, [](T a, T b) { return a - b; });
  two(Opcode::mul, [](T a, T b) { return a * b; });
  two(Opcode::fdiv, [](T a, T b) { return a / b; });
  two(Opcode::frem, [](T a, T b) { return std::fmod(a, b); });
  cases.push_back(
      {"fma" + suffix,
       Opcode::fma,
       {s, s, s},
       s,
       [](const uint64_t* x) { return to_bits(std::fma(as<T>(x[0]), as<T>(x[1]), as<T>(x[2]))); },
       {}});
  const uint64_t sign = uint64_t{1} << (loop::bits(s) - 1);
  cases.push_back(
      {"neg" + suffix, Opcode::neg, {s}, s, [sign](const uint64_t* x) { return x[0] ^ sign; }, {}});
  cases.push_back({"abs" + suffix,
                   Opcode::abs,
                   {s},
                   s,
                   [sign](const uint64_t* x) { return x[0] & ~sign; },
                   {}});
  one(Opcode::sqrt, [](T a) { return std::sqrt(a); });
  one(Opcode::floor, [](T a) { return std::floor(a); });
  one(Opcode::ceil, [](T a) { return std::ceil(a); });
  one(Opcode::trunc, [](T a) { return std::trunc(a); });
  one(Opcode::round_even, [](T a) { return std::nearbyint(a); });
  test(Opcode::eq, [](T a, T b) { return a == b; });
  test(Opcode::ne, [](T a, T b) { return a != b; });
  test(Opcode::lt, [](T a, T b) { return a < b; });
  test(Opcode::le, [](T a, T b) { return a <= b; });
  test(Opcode::gt, [](T a, T b) { return a > b; });
  test(Opcode::ge, [](T a, T b) { return a >= b; });
}

inline void integer_cases(std::vector<Case>& cases, Scalar s) {
  const std::string suffix = "_" + std::string(loop::name(s));
  const auto width = static_cast<uint64_t>(loop::bits(s));
  const bool bit = s == Scalar::i1;
  auto two = [&](Opcode op, uint64_t (*f)(uint64_t, uint64_t),
                 std::function<void(uint64_t*)> allow = {}) {
    cases.push_back({std::string(loop::name(op)) + suffix,
                     op,
                     {s, s},
                     s,
                     [f](const uint64_t* x) { return f(x[0], x[1]); },
                     std::move(allow)});
  };
  // On sign-extended operands.
  auto two_signed = [&](Opcode op, int64_t (*f)(int64_t, int64_t),
                        std::function<void(uint64_t*)> allow, bool test = false) {
    cases.push_back({std::string(loop::name(op)) + suffix,
                     op,
                     {s, s},
                     test ? Scalar::i1 : s,
                     [f, s](const uint64_t* x) {
                       return static_cast<uint64_t>(
                           f(sign_extended(s, x[0]), sign_extended(s, x[1])));
                     },
                     std::move(allow)});
  };
  two(Opcode::bit_and, [](uint64_t a, uint64_t b) { return a & b; });
  two(Opcode::bit_or, [](uint64_t a, uint64_t b) { return a | b; });
  two(Opcode::bit_xor, [](uint64_t a, uint64_t b) { return a ^ b; });
  cases.push_back(
      {"bit_not" + suffix, Opcode::bit_not, {s}, s, [](const uint64_t* x) { return ~x[0]; }, {}});
  two_signed(Opcode::eq, [](int64_t a, int64_t b) -> int64_t { return a == b; }, {}, true);
  two_signed(Opcode::ne, [](int64_t a, int64_t b) -> int64_t { return a != b; }, {}, true);
  if (bit) return;
  two(Opcode::add, [](uint64_t a, uint64_t b) { return a + b; });
  two(Opcode::sub, [](uint64_t a, uint64_t b) { return a - b; });
  two(Opcode::mul, [](uint64_t a, uint64_t b) { return a * b; });
  cases.push_back(
      {"neg" + suffix, Opcode::neg, {s}, s, [](const uint64_t* x) { return 0 - x[0]; }, {}});
  auto no_zero = [](uint64_t* x) { x[1] = x[1] == 0 ? 3 : x[1]; };
  auto no_overflow = [s](uint64_t* x) {
    if (x[1] == 0 || sign_extended(s, x[1]) == -1) x[1] = 3;
  };
  auto in_width = [width](uint64_t* x) { x[1] %= width; };
  two(Opcode::udiv, [](uint64_t a, uint64_t b) { return a / b; }, no_zero);
  two(Opcode::urem, [](uint64_t a, uint64_t b) { return a % b; }, no_zero);
  two_signed(Opcode::sdiv, [](int64_t a, int64_t b) { return a / b; }, no_overflow);
  two_signed(Opcode::srem, [](int64_t a, int64_t b) { return a % b; }, no_overflow);
  two(Opcode::shl, [](uint64_t a, uint64_t b) { return a << b; }, in_width);
  two(Opcode::lshr, [](uint64_t a, uint64_t b) { return a >> b; }, in_width);
  two_signed(Opcode::ashr, [](int64_t a, int64_t b) { return a >> b; }, in_width);
  two_signed(Opcode::lt, [](int64_t a, int64_t b) -> int64_t { return a < b; }, {}, true);
  two_signed(Opcode::le, [](int64_t a, int64_t b) -> int64_t { return a <= b; }, {}, true);
  two_signed(Opcode::gt, [](int64_t a, int64_t b) -> int64_t { return a > b; }, {}, true);
  two_signed(Opcode::ge, [](int64_t a, int64_t b) -> int64_t { return a >= b; }, {}, true);
  cases.push_back({"ult" + suffix,
                   Opcode::ult,
                   {s, s},
                   Scalar::i1,
                   [](const uint64_t* x) -> uint64_t { return x[0] < x[1]; },
                   {}});
  cases.push_back({"ule" + suffix,
                   Opcode::ule,
                   {s, s},
                   Scalar::i1,
                   [](const uint64_t* x) -> uint64_t { return x[0] <= x[1]; },
                   {}});
}

// Towards zero and saturating, in wide integers.
inline uint64_t to_integer(double x, int width, bool is_signed) {
  if (std::isnan(x)) return 0;
  const double limit = std::ldexp(1.0, is_signed ? width - 1 : width);
  if (x >= limit) return is_signed ? (uint64_t{1} << (width - 1)) - 1 : ~uint64_t{0};
  if (is_signed) {
    if (x <= -limit) return uint64_t{1} << (width - 1);
    return static_cast<uint64_t>(static_cast<int64_t>(x));
  }
  return x <= 0 ? 0 : static_cast<uint64_t>(x);
}

inline void cast_cases(std::vector<Case>& cases) {
  const Scalar integers[] = {Scalar::i1, Scalar::i8, Scalar::i16, Scalar::i32, Scalar::i64};
  auto add = [&](Opcode op, Scalar from, Scalar to, std::function<uint64_t(uint64_t)> f) {
    cases.push_back({std::string(loop::name(op)) + "_" + std::string(loop::name(from)) + "_" +
                         std::string(loop::name(to)),
                     op,
                     {from},
                     to,
                     [f](const uint64_t* x) { return f(x[0]); },
                     {}});
  };
  for (Scalar from : integers) {
    for (Scalar to : integers) {
      if (loop::bits(from) < loop::bits(to)) {
        add(Opcode::zext, from, to, [](uint64_t x) { return x; });
        add(Opcode::sext, from, to,
            [from](uint64_t x) { return static_cast<uint64_t>(sign_extended(from, x)); });
      } else if (loop::bits(from) > loop::bits(to)) {
        add(Opcode::itrunc, from, to, [](uint64_t x) { return x; });
      }
    }
    add(Opcode::sitofp, from, Scalar::f32,
        [from](uint64_t x) { return to_bits(static_cast<float>(sign_extended(from, x))); });
    add(Opcode::sitofp, from, Scalar::f64,
        [from](uint64_t x) { return to_bits(static_cast<double>(sign_extended(from, x))); });
    add(Opcode::uitofp, from, Scalar::f32,
        [](uint64_t x) { return to_bits(static_cast<float>(x)); });
    add(Opcode::uitofp, from, Scalar::f64,
        [](uint64_t x) { return to_bits(static_cast<double>(x)); });
    if (from == Scalar::i1) continue;
    for (Scalar real : {Scalar::f32, Scalar::f64}) {
      const int width = loop::bits(from);
      add(Opcode::fptosi, real, from,
          [=](uint64_t x) { return to_integer(number(real, x), width, true); });
      add(Opcode::fptoui, real, from,
          [=](uint64_t x) { return to_integer(number(real, x), width, false); });
    }
  }
  for (Scalar half : {Scalar::f16, Scalar::bf16}) {
    add(Opcode::fpext, half, Scalar::f32,
        [half](uint64_t x) { return to_bits(static_cast<float>(number(half, x))); });
    add(Opcode::fpext, half, Scalar::f64, [half](uint64_t x) { return to_bits(number(half, x)); });
    add(Opcode::fptrunc, Scalar::f32, half, [half](uint64_t x) -> uint64_t {
      return encode(as<float>(x), half == Scalar::f16 ? 10 : 7);
    });
    add(Opcode::bitcast, half, Scalar::i16, [](uint64_t x) { return x; });
    add(Opcode::bitcast, Scalar::i16, half, [](uint64_t x) { return x; });
  }
  add(Opcode::fpext, Scalar::f32, Scalar::f64,
      [](uint64_t x) { return to_bits(static_cast<double>(as<float>(x))); });
  add(Opcode::fptrunc, Scalar::f64, Scalar::f32,
      [](uint64_t x) { return to_bits(static_cast<float>(as<double>(x))); });
  add(Opcode::bitcast, Scalar::f32, Scalar::i32, [](uint64_t x) { return x; });
  add(Opcode::bitcast, Scalar::i32, Scalar::f32, [](uint64_t x) { return x; });
  add(Opcode::bitcast, Scalar::f64, Scalar::i64, [](uint64_t x) { return x; });
  add(Opcode::bitcast, Scalar::i64, Scalar::f64, [](uint64_t x) { return x; });
}

inline std::vector<Case> all_cases() {
  std::vector<Case> cases;
  float_cases<float>(cases, Scalar::f32);
  float_cases<double>(cases, Scalar::f64);
  for (Scalar s : {Scalar::i1, Scalar::i8, Scalar::i16, Scalar::i32, Scalar::i64}) {
    integer_cases(cases, s);
  }
  for (Scalar s : {Scalar::i1, Scalar::i8, Scalar::i16, Scalar::i32, Scalar::i64, Scalar::f16,
                   Scalar::bf16, Scalar::f32, Scalar::f64}) {
    cases.push_back({"select_" + std::string(loop::name(s)),
                     Opcode::select,
                     {Scalar::i1, s, s},
                     s,
                     [](const uint64_t* x) { return x[0] != 0 ? x[1] : x[2]; },
                     {}});
  }
  cast_cases(cases);
  return cases;
}

// i1 travels through memory as bytes of 0 and 1.
inline Value load_value(Builder& b, Value pointer, Value index, Type type) {
  if (type.scalar != Scalar::i1) return b.load(pointer, index, type);
  const Type byte{Scalar::i8, type.lanes};
  return b.compare(Opcode::ne, b.load(pointer, index, byte), b.integer(0, byte));
}
inline void store_value(Builder& b, Value pointer, Value index, Value value) {
  if (b.type(value).scalar == Scalar::i1) value = b.cast(Opcode::zext, value, Scalar::i8);
  b.store(pointer, index, value);
}

inline Value apply(Builder& b, const Case& c, const std::vector<Value>& x) {
  if (c.op >= Opcode::sext && c.op <= Opcode::bitcast) return b.cast(c.op, x[0], c.out);
  if (c.op >= Opcode::eq && c.op <= Opcode::ule) return b.compare(c.op, x[0], x[1]);
  if (c.op == Opcode::select) return b.select(x[0], x[1], x[2]);
  if (x.size() == 3) return b.fma(x[0], x[1], x[2]);
  return x.size() == 2 ? b.binary(c.op, x[0], x[1]) : b.unary(c.op, x[0]);
}

inline Sample make(const Case& c, int lanes) {
  Sample sample;
  sample.name = c.name + "_" + std::to_string(lanes);
  Builder b(sample.name);
  const Value out = b.slot(0, Scalar::ptr);
  b.loop(b.begin(), b.end(), lanes, {}, [&](Value i, const std::vector<Value>&) {
    std::vector<Value> x;
    for (size_t n = 0; n < c.in.size(); ++n) {
      const Value in = b.slot(static_cast<int>(n) + 1, Scalar::ptr);
      x.push_back(load_value(b, in, i, {c.in[n], lanes}));
    }
    store_value(b, out, i, apply(b, c, x));
    return std::vector<Value>{};
  });
  sample.function = b.finish();
  sample.count = kCount;
  sample.out = c.out;
  std::vector<std::vector<uint64_t>> operands;
  for (size_t n = 0; n < c.in.size(); ++n) {
    operands.push_back(interesting(c.in[n], n));
    sample.inputs.emplace_back(kCount * static_cast<size_t>(stored_bytes(c.in[n])));
  }
  const int size = stored_bytes(c.out);
  sample.expected.resize(static_cast<size_t>(kCount * size));
  for (int i = 0; i < kCount; ++i) {
    uint64_t x[3] = {};
    for (size_t n = 0; n < c.in.size(); ++n) x[n] = operands[n][static_cast<size_t>(i)];
    if (c.allow) c.allow(x);
    for (size_t n = 0; n < c.in.size(); ++n)
      put_bits(sample.inputs[n], i, stored_bytes(c.in[n]), x[n]);
    put_bits(sample.expected, i, size, cut(c.out, c.evaluate(x)));
  }
  return sample;
}

// Empty when the bits agree (NaN equals NaN), else the first difference.
inline std::string difference(const Sample& sample, const Bytes& got) {
  const int size = stored_bytes(sample.out);
  for (int64_t i = 0; i * size < static_cast<int64_t>(sample.expected.size()); ++i) {
    const uint64_t want = get_bits(sample.expected, i, size);
    const uint64_t have = get_bits(got, i, size);
    if (want == have) continue;
    if (loop::is_float(sample.out) && std::isnan(number(sample.out, want)) &&
        std::isnan(number(sample.out, have))) {
      continue;
    }
    return text(sample.name, ": element ", i, " is ", have, ", expected ", want);
  }
  return "";
}

inline Bytes run(const Sample& sample, emit::Entry entry) {
  Bytes out(sample.expected.size(), '\x55');
  std::vector<int64_t> slots{reinterpret_cast<int64_t>(out.data())};
  for (const Bytes& in : sample.inputs) slots.push_back(reinterpret_cast<int64_t>(in.data()));
  entry(slots.data(), 0, sample.count, 0);
  return out;
}

}  // namespace flambeau::samples
