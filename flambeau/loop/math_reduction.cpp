// Reduction of angles modulo pi/2. Up to 2^30: Cody & Waite with fused operations, pi/2 in three
// doubles. Beyond: the bits of 2/pi that matter for the argument's exponent times its integer
// significand, modulo 4, in integers (Payne & Hanek, Radian reduction for trigonometric functions,
// 1983). A branch keeps the second off the usual path; either gives the same for every lane.
#include <array>
#include <limits>
#include <vector>

#include "flambeau/loop/math_coefficients.h"
#include "flambeau/loop/math_term.h"

namespace flambeau::loop::math {
namespace {

// 64 zeros, then the binary digits of 2/pi.
constexpr uint64_t kTwoOverPiBits[] = {
    0x0000000000000000, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041,
    0xfe5163abdebbc561, 0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e,
    0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b,
    0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab,
};

Term to_real(Term small) {  // 0 <= small < 2^52
  return (small | 0x4330000000000000).as_real() - 0x1p52;
}

// Words number first .. first + 3 of the digits, `first` differing by lane and at most 16. Each
// step halves the candidates by one bit of `first`.
std::array<Term, 4> digits(Term first) {
  std::vector<Term> row;
  for (const uint64_t word : kTwoOverPiBits) {
    row.push_back(first.integer(static_cast<int64_t>(word)));
  }
  for (int step = 16; step > 0; step /= 2) {
    const Term up = (first & step) != 0;
    const size_t keep = static_cast<size_t>(step + 3);
    std::vector<Term> next;
    for (size_t i = 0; i < keep; ++i) {
      const size_t other = i + static_cast<size_t>(step);
      next.push_back(other < row.size() ? select(up, row[other], row[i]) : row[i]);
    }
    row = std::move(next);
  }
  return {row[0], row[1], row[2], row[3]};
}

Reduced reduce_large(Term x) {
  constexpr int64_t kLow32 = 0xffffffff;
  const Term bits = x.as_bits();
  const Term exponent = (bits >> 52) & 0x7ff;
  const Term significand = (bits & 0xfffffffffffff) | 0x10000000000000;
  // x = significand 2^(exponent - 1075); the first digit with weight 2 has the number:
  const Term position = at_most(at_least(exponent - 1013, 0), 16 * 64 + 63);
  const std::array<Term, 4> word = digits(position >> 6);
  const Term shift = position & 63;
  const Term back = 63 - shift;
  std::array<Term, 6> limb{bits, bits, bits, bits, bits, bits};  // 32 digits each, lowest first
  for (size_t i = 0; i < 3; ++i) {
    const Term window =
        word[i].binary(Opcode::shl, shift) | (word[i + 1] >> 1).binary(Opcode::lshr, back);
    limb[5 - 2 * i] = window >> 32;
    limb[4 - 2 * i] = window & kLow32;
  }
  // The product modulo 2^192 by columns of 32 bits; none of the sums overflows.
  const Term low = significand & kLow32;
  const Term high = significand >> 32;
  std::array<Term, 6> product = limb;
  Term carry = bits.integer(0);
  for (size_t i = 0; i < 6; ++i) {
    const Term lower = limb[i] * low;
    product[i] = (lower & kLow32) + carry;
    carry = lower >> 32;
    if (i > 0) product[i] = product[i] + limb[i - 1] * high;
    carry = carry + (product[i] >> 32);
    product[i] = product[i] & kLow32;
  }
  // Two digits before the point, then the fraction: to the nearest integer and a signed rest.
  const Term top = (product[5] << 32) | product[4];
  const Term next = (product[3] << 32) | product[2];
  const Term quadrant = (top + (int64_t{1} << 61)) >> 62;
  const Term rest = top - (quadrant << 62);
  const Term negative = rest < 0;
  const Term flip = select(negative, bits.integer(-1), bits.integer(0));
  const Term rest_top = rest ^ flip;  // the complement is short by 2^-126
  const Term rest_next = next ^ flip;
  const Pair front =
      fast_two_sum(to_real(rest_top >> 32) * 0x1p-30, to_real(rest_top & kLow32) * 0x1p-62);
  const Pair back_part =
      fast_two_sum(to_real(rest_next >> 32) * 0x1p-94, to_real(rest_next & kLow32) * 0x1p-126);
  const Pair sum = two_sum(front.high, back_part.high);
  const Pair turns = fast_two_sum(sum.high, sum.low + (front.low + back_part.low));
  const Pair r = turns * Pair{x.real(kHalfPi), x.real(kHalfPiLow)};
  const Term sign = (flip ^ bits) & INT64_MIN;
  const Term x_negative = (bits & INT64_MIN) != 0;
  return {{(r.high.as_bits() ^ sign).as_real(), (r.low.as_bits() ^ sign).as_real()},
          select(x_negative, 0 - quadrant, quadrant)};
}

// Whether any lane is set, as a scalar.
Value any(Term condition) {
  Builder& b = *condition.builder;
  const int lanes = condition.type().lanes;
  Value result = b.extract(condition.value, 0);
  for (int lane = 1; lane < lanes; ++lane) {
    result = b.bit_or(result, b.extract(condition.value, lane));
  }
  return result;
}

}  // namespace

Reduced reduce_angle(Term x) {
  const Rounded n = nearest(x * kTwoOverPi);
  // Exact: a multiple of 2^-53 below 1.
  const Term first = fma(-n.value, kHalfPi, x);
  const Pair second = two_product(n.value, x.real(-kHalfPiLow));
  const Pair sum = two_sum(first, second.high);
  const Pair r = fast_two_sum(sum.high, fma(-n.value, kHalfPiTail, sum.low + second.low));

  const Term magnitude = abs(x);
  const Term large = (magnitude >= 0x1p30) & (magnitude < std::numeric_limits<double>::infinity());
  const std::vector<Value> usual{r.high.value, r.low.value, n.bits.value};
  const std::vector<Value> results = x.builder->branch(
      any(large),
      [&]() -> std::vector<Value> {
        const Reduced other = reduce_large(x);
        return {select(large, other.r.high, r.high).value, select(large, other.r.low, r.low).value,
                select(large, other.quadrant, n.bits).value};
      },
      [&] { return usual; });
  return {{{x.builder, results[0]}, {x.builder, results[1]}}, {x.builder, results[2]}};
}

}  // namespace flambeau::loop::math
