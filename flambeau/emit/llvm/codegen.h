// The gate to LLVM: from loop IR to a relocatable x86-64 ELF object. LLVM is set up at the first
// call. Safe from many threads; nothing is cached here.
#pragma once

#include <string>

#include "flambeau/emit/code.h"
#include "flambeau/loop/ir.h"

namespace flambeau::emit {

/// The object's bytes; one global function per function of the module, under its name.
std::string compile_object(const loop::Module& module, const Target& target);
/// The same code as assembly text.
std::string compile_assembly(const loop::Module& module, const Target& target);
/// The LLVM IR that code is made from.
std::string print_llvm(const loop::Module& module, const Target& target);

}  // namespace flambeau::emit
