// Text from parts: text("expected ", n, " dims"). Overload `append` in a type's own header to make
// the type printable.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace flambeau {

void append(std::string& out, std::string_view part);
void append(std::string& out, bool part);
void append(std::string& out, int64_t part);
void append(std::string& out, uint64_t part);
void append(std::string& out, double part);  // shortest form that reads back to the same value
inline void append(std::string& out, const char* part) { append(out, std::string_view(part)); }
inline void append(std::string& out, const std::string& part) {
  append(out, std::string_view(part));
}
inline void append(std::string& out, char part) { out.push_back(part); }
template <std::signed_integral T>
  requires(!std::same_as<T, int64_t> && !std::same_as<T, char>)
void append(std::string& out, T part) {
  append(out, static_cast<int64_t>(part));
}
template <std::unsigned_integral T>
  requires(!std::same_as<T, uint64_t> && !std::same_as<T, bool>)
void append(std::string& out, T part) {
  append(out, static_cast<uint64_t>(part));
}

template <class T>
void append(std::string& out, const std::vector<T>& parts) {
  out.push_back('[');
  bool first = true;
  for (const auto& part : parts) {
    if (!first) out.append(", ");
    first = false;
    append(out, part);
  }
  out.push_back(']');
}

template <class... Parts>
std::string text(const Parts&... parts) {
  std::string out;
  (append(out, parts), ...);
  return out;
}

}  // namespace flambeau
