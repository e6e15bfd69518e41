#include "flambeau/io/quote.h"

#include <cstddef>
#include <cstdint>

namespace flambeau::io {

namespace {

constexpr size_t kLongest = 200;

// Bytes of the well-formed UTF-8 sequence at the start (Unicode 15, table 3-7); 0: there is none.
size_t sequence_length(std::string_view s) {
  auto byte = [&](size_t i) { return i < s.size() ? static_cast<uint8_t>(s[i]) : uint8_t{0}; };
  auto tail = [&](size_t i) { return byte(i) >= 0x80 && byte(i) <= 0xBF; };
  uint8_t first = byte(0), second = byte(1);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return tail(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if (first == 0xE0 && second < 0xA0) return 0;
    if (first == 0xED && second > 0x9F) return 0;
    return tail(1) && tail(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (first == 0xF0 && second < 0x90) return 0;
    if (first == 0xF4 && second > 0x8F) return 0;
    return tail(1) && tail(2) && tail(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::string quote_name(std::string_view name) {
  std::string out = "'";
  size_t at = 0;
  while (at < name.size() && at < kLongest) {
    size_t length = sequence_length(name.substr(at));
    auto first = static_cast<uint8_t>(name[at]);
    if (length == 0 || first < 0x20 || first == 0x7F) {
      constexpr char kDigits[] = "0123456789abcdef";
      out += {'\\', 'x', kDigits[first >> 4], kDigits[first & 15]};
      ++at;
    } else {
      out.append(name.substr(at, length));
      at += length;
    }
  }
  out += at < name.size() ? "...'" : "'";
  return out;
}

}  // namespace flambeau::io
