// Names from files in messages.
#pragma once

#include <string>
#include <string_view>

namespace flambeau::io {

/// The name in quotes; whatever is not printable ASCII or valid UTF-8 is shown as \xNN, and a long
/// name is cut.
std::string quote_name(std::string_view name);

}  // namespace flambeau::io
