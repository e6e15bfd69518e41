// Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011) in loop IR, one block a lane. Words are kept in
// 64-bit lanes, so that a 32x32 product is one multiplication. Same counter layout as
// base/philox.h.
#include "flambeau/kernel/emitter.h"

namespace flambeau::kernel {

using loop::Opcode;
using loop::Value;

Value philox_word(loop::Builder& b, Value seed, Value offset, Value index, int word) {
  loop::Type type = b.type(index);
  auto constant = [&](int64_t v) { return b.integer(v, type); };
  Value low32 = constant(0xFFFFFFFF), half = constant(32);
  auto low = [&](Value v) { return b.bit_and(v, low32); };
  auto high = [&](Value v) { return b.lshr(v, half); };
  Value counter[4] = {low(index), high(index), low(offset), high(offset)};
  Value key[2] = {low(seed), high(seed)};
  for (int round = 0; round < 10; ++round) {
    Value p0 = b.mul(counter[0], constant(0xD2511F53)),
          p1 = b.mul(counter[2], constant(0xCD9E8D57));
    Value next[4] = {b.bit_xor(b.bit_xor(high(p1), counter[1]), key[0]), low(p1),
                     b.bit_xor(b.bit_xor(high(p0), counter[3]), key[1]), low(p0)};
    for (int i = 0; i < 4; ++i) counter[i] = next[i];
    key[0] = low(b.add(key[0], constant(0x9E3779B9)));
    key[1] = low(b.add(key[1], constant(0xBB67AE85)));
  }
  return counter[word];
}

}  // namespace flambeau::kernel
