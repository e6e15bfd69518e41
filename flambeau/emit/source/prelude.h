// What the printed C++ starts with: types and one function template for each kind of instruction.
#pragma once

#include <string_view>

namespace flambeau::emit {

std::string_view source_prelude();

}  // namespace flambeau::emit
