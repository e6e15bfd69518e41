// Relocatable x86-64 ELF objects made executable. Knows nothing of LLVM, so that code from the disk
// cache runs without it.
#pragma once

#include <memory>
#include <string_view>

#include "flambeau/emit/code.h"
#include "flambeau/loop/ir.h"

namespace flambeau::emit {

/// Maps the object's sections, connects fmod and fmodf, and
/// finds the module's functions. Throws an internal Error when the object is not one that the
/// emitter makes, before anything of it runs.
std::shared_ptr<const Code> load_object(std::string_view object, const loop::Module& module);

}  // namespace flambeau::emit
