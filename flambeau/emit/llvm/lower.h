// Loop IR to LLVM IR, one function at a time. Private to this folder.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <vector>

#include "flambeau/emit/code.h"
#include "flambeau/loop/ir.h"

namespace flambeau::emit {

/// Lowers one function. bf16 values are i16 in LLVM IR, since LLVM would call library functions
/// for their conversions; everything else has its natural type. Scalars are vectors without lanes.
class FunctionLowering {
 public:
  FunctionLowering(llvm::Module& module, const loop::Function& function, const Target& target);
  void run();

 private:
  // Any block of the loop IR; returns the values of its yield.
  std::vector<llvm::Value*> lower_block(const loop::Block& block);
  void lower(const loop::Instruction& instruction);
  llvm::Value* lower_value(const loop::Instruction& instruction);
  llvm::Value* lower_constant(loop::Type type, int64_t bits);
  llvm::Value* lower_compare(const loop::Instruction& instruction);
  llvm::Value* lower_cast(const loop::Instruction& instruction);
  void lower_loop(const loop::Instruction& instruction);
  void lower_branch(const loop::Instruction& instruction);

  // Memory (lower_memory.cpp).
  llvm::Value* lower_load(const loop::Instruction& instruction);
  void lower_store(const loop::Instruction& instruction);
  // Address of an element: pointer + index * bytes.
  llvm::Value* element(llvm::Value* pointer, llvm::Value* index, int bytes);
  // The mask as bits of an i64, lane 0 lowest.
  llvm::Value* mask_bits(llvm::Value* mask, int lanes);
  // Calls a function of lanes.h; `packed` holds the lanes side by side.
  void call_lanes(const char* name, llvm::Value* packed, llvm::Value* pointer, llvm::Value* index,
                  llvm::Value* mask, int lanes, int bytes);
  // Room on the stack of this call, in the entry block, 64-byte aligned.
  llvm::Value* stack_room(int64_t bytes);

  llvm::Type* type_of(loop::Type type);
  llvm::Type* scalar_of(loop::Scalar scalar);
  llvm::Type* with_lanes(llvm::Type* scalar, int lanes);
  llvm::Value* operand(const loop::Instruction& instruction, size_t number) {
    return values_[static_cast<size_t>(instruction.operands[number])];
  }
  loop::Type operand_type(const loop::Instruction& instruction, size_t number) const {
    return source_.types[static_cast<size_t>(instruction.operands[number])];
  }
  llvm::Value* bf16_to_f32(llvm::Value* bits, int lanes);
  llvm::Value* f32_to_bf16(llvm::Value* value, int lanes);

  llvm::Module& module_;
  llvm::LLVMContext& context_;
  const loop::Function& source_;
  const Target& target_;
  llvm::IRBuilder<> b_;
  llvm::Function* function_ = nullptr;
  std::vector<llvm::Value*> values_;  // by loop-IR value
};

}  // namespace flambeau::emit
