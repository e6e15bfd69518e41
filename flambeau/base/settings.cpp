#include "flambeau/base/settings.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "flambeau/base/error.h"

namespace flambeau {

std::string setting(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? std::string(value) : otherwise;
}

int64_t setting_integer(const char* name, int64_t otherwise) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return otherwise;
  std::string_view digits(value);
  int64_t result = 0;
  auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), result);
  check(code == std::errc() && end == digits.data() + digits.size(), ErrorKind::value, name,
        " must be an integer of 64 bits; got '", digits, "'");
  return result;
}

bool dump_enabled(const char* kind) {
  static const std::string* list = new std::string("," + setting("FLAMBEAU_DUMP", "") + ",");
  return list->size() > 2 && list->find("," + std::string(kind) + ",") != std::string::npos;
}

}  // namespace flambeau
