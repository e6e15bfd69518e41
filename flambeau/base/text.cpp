#include "flambeau/base/text.h"

#include <charconv>

namespace flambeau {

namespace {
template <class T>
void append_number(std::string& out, T value) {
  char buffer[40];
  auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  out.append(buffer, result.ptr);
}
}  // namespace

void append(std::string& out, std::string_view part) { out.append(part); }
void append(std::string& out, bool part) { out.append(part ? "true" : "false"); }
void append(std::string& out, int64_t part) { append_number(out, part); }
void append(std::string& out, uint64_t part) { append_number(out, part); }
void append(std::string& out, double part) { append_number(out, part); }

}  // namespace flambeau
