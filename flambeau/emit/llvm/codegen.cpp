// LLVM IR to machine code: target machines for the two feature levels, strict floating point, no
// optimisation pipeline before code generation (the loop IR says what is to be done).
#include "flambeau/emit/llvm/codegen.h"

#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/SmallVectorMemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Target/TargetOptions.h>

#include <mutex>

#include "flambeau/base/error.h"
#include "flambeau/emit/llvm/lower.h"

namespace flambeau::emit {
namespace {

constexpr const char* kTriple = "x86_64-unknown-linux-gnu";

std::unique_ptr<llvm::TargetMachine> make_machine(const Target& target) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
  std::string error;
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(kTriple, error);
  internal_check(found != nullptr, "LLVM has no x86-64 target: ", error);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(found->createTargetMachine(
      kTriple, target.features, "", options, llvm::Reloc::PIC_, llvm::CodeModel::Small,
      llvm::CodeGenOptLevel::Default, /*JIT=*/false));
  internal_check(machine != nullptr, "LLVM made no machine for ", target.features);
  return machine;
}

void lower_module(llvm::Module& out, const loop::Module& module, const Target& target) {
  for (const loop::Function& function : module.functions) {
    FunctionLowering(out, function, target).run();
  }
#ifndef NDEBUG
  std::string message;
  llvm::raw_string_ostream stream(message);
  internal_check(!llvm::verifyModule(out, &stream), "LLVM IR is not valid: ", message);
#endif
}

std::string generate(const loop::Module& module, const Target& target, llvm::CodeGenFileType kind) {
  std::unique_ptr<llvm::TargetMachine> machine = make_machine(target);
  llvm::LLVMContext context;
  llvm::Module ir("flambeau", context);
  ir.setTargetTriple(kTriple);
  ir.setDataLayout(machine->createDataLayout());
  lower_module(ir, module, target);
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  const bool refused = machine->addPassesToEmitFile(passes, stream, nullptr, kind,
                                                    /*DisableVerify=*/true);
  internal_check(!refused, "LLVM cannot emit this kind of file");
  passes.run(ir);
  return std::string(bytes.data(), bytes.size());
}

}  // namespace

std::string compile_object(const loop::Module& module, const Target& target) {
  return generate(module, target, llvm::CodeGenFileType::ObjectFile);
}

std::string compile_assembly(const loop::Module& module, const Target& target) {
  return generate(module, target, llvm::CodeGenFileType::AssemblyFile);
}

std::string print_llvm(const loop::Module& module, const Target& target) {
  llvm::LLVMContext context;
  llvm::Module ir("flambeau", context);
  ir.setTargetTriple(kTriple);
  lower_module(ir, module, target);
  std::string out;
  llvm::raw_string_ostream stream(out);
  ir.print(stream, nullptr);
  return out;
}

}  // namespace flambeau::emit
