// Environment settings, read once. Every name is listed in docs/settings.md.
#pragma once

#include <cstdint>
#include <string>

namespace flambeau {

/// Value of an environment variable, or `otherwise` if unset or empty.
std::string setting(const char* name, const std::string& otherwise);
/// Integer value; throws a value Error naming the variable when it is no integer.
int64_t setting_integer(const char* name, int64_t otherwise);
/// True when the comma-separated list FLAMBEAU_DUMP has `kind`.
bool dump_enabled(const char* kind);

}  // namespace flambeau
