// Loop-IR functions with masks, gathers, shuffles, stack memory and control flow, with the outputs
// that scalar C++ computes for them. Same convention as loop_samples.h.
#pragma once

#include "loop_samples.h"

namespace flambeau::samples {

inline Bytes random_bytes(size_t size, uint64_t seed) {
  Bytes out(size);
  for (char& c : out) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    c = static_cast<char>(seed >> 56);
  }
  return out;
}

// A copy with a mask from memory: masked-off lanes load zero, and store nothing where `store_too`.
// Indices are consecutive or, when `gathers`, come from memory and may repeat.
inline Sample masked_copy(Scalar s, int lanes, bool gathers, bool store_too) {
  Sample sample;
  sample.name = text("masked_", loop::name(s), gathers ? "_gather" : "", store_too ? "_store" : "",
                     "_", lanes);
  sample.count = kCount;
  // Patterns are compared as integers: no NaN is forgiven where nothing is computed.
  sample.out = s == Scalar::f32      ? Scalar::i32
               : s == Scalar::f64    ? Scalar::i64
               : loop::bits(s) == 16 ? Scalar::i16
                                     : s;
  Builder b(sample.name);
  const Value out = b.slot(0, Scalar::ptr);
  const Value in = b.slot(1, Scalar::ptr);
  const Value on = b.slot(2, Scalar::ptr);
  const Value indices = b.slot(3, Scalar::ptr);
  b.loop(b.begin(), b.end(), lanes, {}, [&](Value i, const std::vector<Value>&) {
    const Value mask = load_value(b, on, i, {Scalar::i1, lanes});
    const Value at = gathers ? b.load(indices, i, {Scalar::i64, lanes}) : i;
    const Value v = b.load(in, at, {s, lanes}, mask);
    // Scatters go to where they came from.
    if (store_too) {
      b.store(out, at, v, mask);
    } else {
      b.store(out, i, v);
    }
    return std::vector<Value>{};
  });
  sample.function = b.finish();
  const int size = stored_bytes(s);
  sample.inputs = {random_bytes(static_cast<size_t>(kCount * size), 1), random_bytes(kCount, 2),
                   Bytes(kCount * 8)};
  sample.expected.assign(static_cast<size_t>(kCount * size), '\x55');
  for (int i = 0; i < kCount; ++i) {
    // Whole vectors of ones and zeros too.
    const int row = i / lanes % 4;
    const char bit = row == 0   ? 1
                     : row == 1 ? 0
                                : static_cast<char>(sample.inputs[1][static_cast<size_t>(i)] & 1);
    sample.inputs[1][static_cast<size_t>(i)] = bit;
    const int64_t at = gathers ? (i * 37 + i / 5) % kCount : i;
    put<int64_t>(sample.inputs[2], i, at);
    const uint64_t value = get_bits(sample.inputs[0], at, size);
    if (store_too) {
      if (bit != 0) put_bits(sample.expected, at, size, value);
    } else {
      put_bits(sample.expected, i, size, bit != 0 ? value : 0);
    }
  }
  return sample;
}

// Unmasked gather and scatter through a permutation.
inline Sample permuted_copy(Scalar s, int lanes, bool scatters) {
  Sample sample;
  sample.name = text(scatters ? "scatter_" : "gather_", loop::name(s), "_", lanes);
  sample.count = kCount;
  const int size = stored_bytes(s);
  sample.out = size == 8   ? Scalar::i64
               : size == 4 ? Scalar::i32
               : size == 2 ? Scalar::i16
                           : Scalar::i8;
  Builder b(sample.name);
  const Value out = b.slot(0, Scalar::ptr);
  const Value in = b.slot(1, Scalar::ptr);
  b.loop(b.begin(), b.end(), lanes, {}, [&](Value i, const std::vector<Value>&) {
    const Type index{Scalar::i64, lanes};
    const Value lane = b.add(b.splat(i, lanes), b.lanes(index));
    const Value at =
        b.binary(Opcode::urem, b.mul(lane, b.integer(5, index)), b.integer(kCount, index));
    const Value v = b.load(in, scatters ? i : at, {s, lanes});
    b.store(out, scatters ? at : i, v);
    return std::vector<Value>{};
  });
  sample.function = b.finish();
  sample.inputs = {random_bytes(static_cast<size_t>(kCount * size), 3)};
  sample.expected.resize(static_cast<size_t>(kCount * size));
  for (int i = 0; i < kCount; ++i) {
    const int64_t at = i * 5 % kCount;
    put_bits(sample.expected, scatters ? at : i, size,
             get_bits(sample.inputs[0], scatters ? i : at, size));
  }
  return sample;
}

// Sums of rows with carried vectors and a nested loop that also carries an integer; rows of no
// length keep what the loop was given.
inline Sample nested_loops(int lanes) {
  Sample sample;
  sample.name = text("nested_loops_", lanes);
  sample.count = 12;
  sample.out = Scalar::f32;
  Builder b(sample.name);
  const Type vector{Scalar::f32, lanes};
  const Value out = b.slot(0, Scalar::ptr);
  const Value in = b.slot(1, Scalar::ptr);
  const Value lengths = b.slot(2, Scalar::ptr);
  b.loop(b.begin(), b.end(), 1, {}, [&](Value row, const std::vector<Value>&) {
    const Value length = b.load(lengths, row, {Scalar::i64, 1});
    const auto sums =
        b.loop(b.integer(0), length, 2, {b.real(-0.0, vector), b.integer(0)},
               [&](Value i, const std::vector<Value>& carried) {
                 const Value at = b.mul(b.add(row, i), b.integer(lanes));
                 const Value x = b.load(in, at, vector);
                 return std::vector<Value>{b.add(b.mul(carried[0], b.real(0.75, vector)), x),
                                           b.add(carried[1], i)};
               });
    const Value extra = b.splat(b.cast(Opcode::sitofp, sums[1], Scalar::f32), lanes);
    b.store(
        out, b.mul(row, b.integer(lanes)),
        b.select(b.compare(Opcode::gt, extra, b.real(3, vector)), b.add(sums[0], extra), sums[0]));
    return std::vector<Value>{};
  });
  sample.function = b.finish();
  const int64_t rows = sample.count;
  sample.inputs = {Bytes(static_cast<size_t>(4 * 64 * lanes)),
                   Bytes(static_cast<size_t>(8 * rows))};
  for (int i = 0; i < 64 * lanes; ++i)
    put<float>(sample.inputs[0], i, 0.37f * static_cast<float>(i % 91 - 40));
  sample.expected.resize(static_cast<size_t>(4 * rows * lanes));
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t length = row - 1;
    put<int64_t>(sample.inputs[1], row, length);
    for (int lane = 0; lane < lanes; ++lane) {
      float sum = -0.0f;
      int64_t extra = 0;
      for (int64_t i = 0; i < length; i += 2) {
        const float product = sum * 0.75f;
        sum = product + get<float>(sample.inputs[0], (row + i) * lanes + lane);
        extra += i;
      }
      if (static_cast<float>(extra) > 3) sum += static_cast<float>(extra);
      put<float>(sample.expected, row * lanes + lane, sum);
    }
  }
  return sample;
}

// Branches that yield values, one inside the other, with an effect in one side.
inline Sample branches(int lanes) {
  Sample sample;
  sample.name = text("branches_", lanes);
  sample.count = 60;
  sample.out = Scalar::i32;
  Builder b(sample.name);
  const Type vector{Scalar::i32, lanes};
  const Value out = b.slot(0, Scalar::ptr);
  b.loop(b.begin(), b.end(), 1, {}, [&](Value i, const std::vector<Value>&) {
    const Value at = b.mul(i, b.integer(lanes));
    const Value x = b.add(b.splat(b.cast(Opcode::itrunc, i, Scalar::i32), lanes), b.lanes(vector));
    const Value third =
        b.compare(Opcode::eq, b.binary(Opcode::urem, i, b.integer(3)), b.integer(0));
    const auto chosen = b.branch(
        third, [&] { return std::vector<Value>{b.mul(x, x), b.integer(7, vector)}; },
        [&] {
          const Value small = b.compare(Opcode::lt, i, b.integer(30));
          b.branch(
              small,
              [&] {
                b.store(out, at, x);
                return std::vector<Value>{};
              },
              [&] { return std::vector<Value>{}; });
          return std::vector<Value>{x, b.select(b.splat(small, lanes), x, b.integer(-1, vector))};
        });
    b.store(out, at, b.sub(chosen[0], chosen[1]));
    return std::vector<Value>{};
  });
  sample.function = b.finish();
  sample.expected.resize(static_cast<size_t>(4 * sample.count * lanes));
  for (int32_t i = 0; i < sample.count; ++i) {
    for (int32_t lane = 0; lane < lanes; ++lane) {
      const int32_t x = i + lane;
      const int32_t value = i % 3 == 0 ? x * x - 7 : i < 30 ? 0 : x + 1;
      put<int32_t>(sample.expected, int64_t{i} * lanes + lane, value);
    }
  }
  return sample;
}

// Reverse by shuffle, swap of halves of two vectors, extract and insert, through stack memory and
// `offset`.
inline Sample lane_moves(int lanes) {
  Sample sample;
  sample.name = text("lane_moves_", lanes);
  sample.count = kCount;
  sample.out = Scalar::i16;
  Builder b(sample.name);
  const Type vector{Scalar::i16, lanes};
  const Value out = b.slot(0, Scalar::ptr);
  const Value in = b.slot(1, Scalar::ptr);
  const Value room = b.stack(2 * lanes);
  b.loop(b.begin(), b.end(), lanes, {}, [&](Value i, const std::vector<Value>&) {
    const Value x = b.load(in, i, vector);
    b.prefetch(in, b.add(i, b.integer(lanes)), 2);
    std::vector<int32_t> reverse;
    std::vector<int32_t> halves;
    for (int32_t n = 0; n < lanes; ++n) {
      reverse.push_back(lanes - 1 - n);
      halves.push_back(n % 2 == 0 ? n : n + lanes);
    }
    const Value reversed = b.shuffle(x, x, reverse);
    const Value mixed = b.shuffle(x, reversed, halves);
    b.store(room, b.integer(0), mixed);
    const Value last = b.extract(x, lanes - 1);
    Value y = b.load(room, b.integer(0), vector);
    y = b.insert(y, b.add(last, b.integer(1000, {Scalar::i16, 1})), 0);
    b.store(b.offset(out, i, 2), b.integer(0), y);
    return std::vector<Value>{};
  });
  sample.function = b.finish();
  sample.inputs = {random_bytes(2 * (kCount + 64), 5)};
  sample.expected.resize(2 * kCount);
  for (int i = 0; i < kCount; i += lanes) {
    auto x = [&](int lane) { return get<int16_t>(sample.inputs[0], i + lane); };
    for (int lane = 0; lane < lanes; ++lane) {
      int16_t y = lane % 2 == 0 ? x(lane) : x(lanes - 1 - lane);
      if (lane == 0) y = static_cast<int16_t>(x(lanes - 1) + 1000);
      put<int16_t>(sample.expected, i + lane, y);
    }
  }
  return sample;
}

// Vectors of conditions that live across blocks and go through shuffle, extract, insert and splat.
inline Sample conditions(int lanes) {
  Sample sample;
  sample.name = text("conditions_", lanes);
  sample.count = kCount;
  sample.out = Scalar::i8;
  Builder b(sample.name);
  const Type vector{Scalar::f32, lanes};
  const Value out = b.slot(0, Scalar::ptr);
  const Value in = b.slot(1, Scalar::ptr);
  const Value zero = b.real(0, vector);
  const auto seen = b.loop(b.begin(), b.end(), lanes, {b.compare(Opcode::lt, zero, zero)},
                           [&](Value i, const std::vector<Value>& carried) {
                             const Value x = b.load(in, i, vector);
                             // Whether this lane was ever negative, then mixed with the neighbour's
                             // condition.
                             const Value now = b.bit_or(carried[0], b.compare(Opcode::lt, x, zero));
                             std::vector<int32_t> turn;
                             for (int32_t n = 0; n < lanes; ++n) turn.push_back((n + 1) % lanes);
                             const Value turned = b.shuffle(now, now, turn);
                             const Value first = b.extract(now, 0);
                             Value mixed = b.bit_and(b.bit_xor(turned, b.splat(first, lanes)),
                                                     b.unary(Opcode::bit_not, now));
                             mixed = b.insert(mixed, b.unary(Opcode::bit_not, first), lanes - 1);
                             store_value(b, out, i, mixed);
                             return std::vector<Value>{now};
                           });
  (void)seen;
  sample.function = b.finish();
  sample.inputs = {Bytes(4 * kCount)};
  sample.expected.resize(kCount);
  for (int i = 0; i < kCount; ++i) put<float>(sample.inputs[0], i, i % 11 == 7 ? -1.0f : 1.0f);
  std::vector<bool> now(static_cast<size_t>(lanes));
  for (int i = 0; i < kCount; i += lanes) {
    for (int lane = 0; lane < lanes; ++lane) {
      if (get<float>(sample.inputs[0], i + lane) < 0) now[static_cast<size_t>(lane)] = true;
    }
    for (int lane = 0; lane < lanes; ++lane) {
      const bool turned = now[static_cast<size_t>((lane + 1) % lanes)];
      bool mixed = (turned != now[0]) && !now[static_cast<size_t>(lane)];
      if (lane == lanes - 1) mixed = !now[0];
      put<int8_t>(sample.expected, i + lane, mixed);
    }
  }
  return sample;
}

inline std::vector<Sample> flow_samples(int lanes) {
  std::vector<Sample> all;
  for (Scalar s : {Scalar::i8, Scalar::i16, Scalar::i32, Scalar::i64, Scalar::f16, Scalar::bf16,
                   Scalar::f32, Scalar::f64}) {
    for (bool store_too : {false, true}) {
      all.push_back(masked_copy(s, lanes, false, store_too));
      all.push_back(masked_copy(s, lanes, true, store_too));
    }
    all.push_back(permuted_copy(s, lanes, false));
    all.push_back(permuted_copy(s, lanes, true));
  }
  all.push_back(nested_loops(lanes));
  all.push_back(branches(lanes));
  all.push_back(lane_moves(lanes));
  all.push_back(conditions(lanes));
  return all;
}

}  // namespace flambeau::samples
