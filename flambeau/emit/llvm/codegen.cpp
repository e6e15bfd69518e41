// LLVM IR to machine code: strict floating point, and no optimisation pipeline before code
// generation, since the loop IR says what is to be done.
#include "flambeau/emit/llvm/codegen.h"

#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/SmallVectorMemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Target/TargetOptions.h>

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "flambeau/base/error.h"
#include "flambeau/emit/llvm/lower.h"

namespace flambeau::emit {
namespace {

constexpr const char* kTriple = "x86_64-unknown-linux-gnu";

std::unique_ptr<llvm::TargetMachine> make_machine(const std::string& features) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    // The order of the IR is the one that was meant: moving loads up to hide their latency, which
    // the CPU does by itself, spills a product's sums.
    auto& options = llvm::cl::getRegisteredOptions();
    if (auto it = options.find("enable-misched"); it != options.end())
      it->second->addOccurrence(0, "enable-misched", "false");
  });
  std::string error;
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(kTriple, error);
  internal_check(found != nullptr, "LLVM has no x86-64 target: ", error);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(found->createTargetMachine(
      kTriple, features, "", options, llvm::Reloc::PIC_, llvm::CodeModel::Small,
      llvm::CodeGenOptLevel::Default, /*JIT=*/false));
  internal_check(machine != nullptr, "LLVM made no machine for ", features);
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

// A context with everything that is made once for many modules: setting up the machine and its
// hundred passes costs 0.8 ms, as much as compiling a small kernel. Code does not depend on what
// was compiled before.
class Compiler {
 public:
  Compiler(const std::string& features, llvm::CodeGenFileType kind)
      : machine_(make_machine(features)), stream_(bytes_) {
    const bool refused =
        machine_->addPassesToEmitFile(passes_, stream_, nullptr, kind, /*DisableVerify=*/true);
    internal_check(!refused, "LLVM cannot emit this kind of file");
  }

  std::string run(const loop::Module& module, const Target& target) {
    ++uses_;
    llvm::Module ir("flambeau", context_);
    ir.setTargetTriple(kTriple);
    ir.setDataLayout(machine_->createDataLayout());
    lower_module(ir, module, target);
    bytes_.clear();
    passes_.run(ir);
    return std::string(bytes_.data(), bytes_.size());
  }

  // The context keeps every constant it has seen.
  bool worn_out() const { return uses_ >= 256; }

 private:
  llvm::LLVMContext context_;
  std::unique_ptr<llvm::TargetMachine> machine_;
  llvm::SmallVector<char, 0> bytes_;
  llvm::raw_svector_ostream stream_;
  llvm::legacy::PassManager passes_;
  int uses_ = 0;
};

struct IdleCompilers {
  std::mutex mutex;
  std::map<std::string, std::vector<std::unique_ptr<Compiler>>> by_features;
};

// Lives for ever: threads may compile while the process exits.
IdleCompilers& idle_compilers() {
  static auto* idle = new IdleCompilers;
  return *idle;
}

}  // namespace

std::string compile_object(const loop::Module& module, const Target& target) {
  IdleCompilers& idle = idle_compilers();
  std::unique_ptr<Compiler> compiler;
  {
    std::lock_guard lock(idle.mutex);
    auto& list = idle.by_features[target.features];
    if (!list.empty()) {
      compiler = std::move(list.back());
      list.pop_back();
    }
  }
  if (compiler == nullptr) {
    compiler = std::make_unique<Compiler>(target.features, llvm::CodeGenFileType::ObjectFile);
  }
  // A compiler whose run threw is not used again.
  std::string object = compiler->run(module, target);
  if (!compiler->worn_out()) {
    std::lock_guard lock(idle.mutex);
    idle.by_features[target.features].push_back(std::move(compiler));
  }
  return object;
}

std::string compile_assembly(const loop::Module& module, const Target& target) {
  return Compiler(target.features, llvm::CodeGenFileType::AssemblyFile).run(module, target);
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
