// Loads and stores of the loop IR in LLVM IR. Whole vectors are one unaligned access. Masked
// accesses use the hardware's where it has them, else a function of the library (lanes.h): tails
// are short, and every block of code costs compile time. Gathers are one load a lane: as fast as
// the AVX2 instruction, and without its hazards. Masked-off lanes never touch memory.
#include <llvm/IR/Intrinsics.h>

#include "flambeau/base/error.h"
#include "flambeau/emit/llvm/lower.h"

namespace flambeau::emit {

using loop::Instruction;
using loop::Scalar;

llvm::Value* FunctionLowering::element(llvm::Value* pointer, llvm::Value* index, int bytes) {
  if (bytes == 1) return b_.CreateGEP(b_.getInt8Ty(), pointer, index);
  if (bytes == 2 || bytes == 4 || bytes == 8) {
    return b_.CreateGEP(b_.getIntNTy(static_cast<unsigned>(bytes) * 8), pointer, index);
  }
  return b_.CreateGEP(b_.getInt8Ty(), pointer,
                      b_.CreateMul(index, b_.getInt64(static_cast<uint64_t>(bytes))));
}

llvm::Value* FunctionLowering::stack_room(int64_t bytes) {
  llvm::BasicBlock& entry = function_->getEntryBlock();
  llvm::IRBuilder<> at_entry(&entry, entry.begin());
  auto* room =
      at_entry.CreateAlloca(at_entry.getInt8Ty(), at_entry.getInt64(static_cast<uint64_t>(bytes)));
  room->setAlignment(llvm::Align(64));
  return room;
}

llvm::Value* FunctionLowering::mask_bits(llvm::Value* mask, int lanes) {
  llvm::Value* word = mask;
  if (lanes > 1) word = b_.CreateBitCast(mask, b_.getIntNTy(static_cast<unsigned>(lanes)));
  return b_.CreateZExt(word, b_.getInt64Ty());
}

void FunctionLowering::call_lanes(const char* name, llvm::Value* packed, llvm::Value* pointer,
                                  llvm::Value* index, llvm::Value* mask, int lanes, int bytes) {
  llvm::Type* i64 = b_.getInt64Ty();
  llvm::Type* ptr = b_.getPtrTy();
  llvm::Value* indices = llvm::ConstantPointerNull::get(b_.getPtrTy());
  if (index->getType()->isVectorTy()) {
    indices = stack_room(8 * lanes);
    b_.CreateAlignedStore(index, indices, llvm::Align(1));
  } else {
    pointer = element(pointer, index, bytes);
  }
  llvm::FunctionCallee callee = module_.getOrInsertFunction(
      name, llvm::FunctionType::get(b_.getVoidTy(), {ptr, ptr, ptr, i64, i64}, false));
  auto* function = llvm::cast<llvm::Function>(callee.getCallee());
  function->addFnAttr(llvm::Attribute::NoUnwind);
  b_.CreateCall(callee, {packed, pointer, indices, mask_bits(mask, lanes),
                         b_.getInt64(static_cast<uint64_t>(bytes))});
}

llvm::Value* FunctionLowering::lower_load(const Instruction& instruction) {
  const loop::Type type = instruction.type;
  const int bytes = loop::bits(type.scalar) / 8;
  llvm::Type* scalar = scalar_of(type.scalar);
  llvm::Type* result = type_of(type);
  llvm::Value* pointer = operand(instruction, 0);
  llvm::Value* index = operand(instruction, 1);
  const llvm::Align align(1);
  const bool masked = instruction.operands.size() > 2;
  const bool gathers = type.lanes > 1 && operand_type(instruction, 1).lanes > 1;
  if (!masked && !gathers) {
    return b_.CreateAlignedLoad(result, element(pointer, index, bytes), align);
  }
  if (!masked) {
    llvm::Value* vector = llvm::PoisonValue::get(result);
    for (int i = 0; i < type.lanes; ++i) {
      const auto lane = static_cast<uint64_t>(i);
      llvm::Value* address = element(pointer, b_.CreateExtractElement(index, lane), bytes);
      vector = b_.CreateInsertElement(vector, b_.CreateAlignedLoad(scalar, address, align), lane);
    }
    return vector;
  }
  llvm::Value* mask = operand(instruction, 2);
  const bool native = bytes >= 4 || target_.features == "x86-64-v4";
  if (!gathers && native && type.lanes > 1) {
    return b_.CreateMaskedLoad(result, element(pointer, index, bytes), align, mask,
                               llvm::Constant::getNullValue(result));
  }
  // The lanes meet in memory, which starts as zeros.
  llvm::Value* room = stack_room(bytes * type.lanes);
  b_.CreateAlignedStore(llvm::Constant::getNullValue(result), room, align);
  call_lanes("flambeau_load_lanes", room, pointer, index, mask, type.lanes, bytes);
  return b_.CreateAlignedLoad(result, room, align);
}

void FunctionLowering::lower_store(const Instruction& instruction) {
  const loop::Type type = operand_type(instruction, 2);
  const int bytes = loop::bits(type.scalar) / 8;
  llvm::Type* scalar = scalar_of(type.scalar);
  llvm::Value* pointer = operand(instruction, 0);
  llvm::Value* index = operand(instruction, 1);
  llvm::Value* value = operand(instruction, 2);
  const llvm::Align align(1);
  const bool masked = instruction.operands.size() > 3;
  const bool scatters = type.lanes > 1 && operand_type(instruction, 1).lanes > 1;
  if (!masked && !scatters) {
    b_.CreateAlignedStore(value, element(pointer, index, bytes), align);
    return;
  }
  if (!masked) {
    // In ascending lanes, so that the last of equal indices wins.
    for (int i = 0; i < type.lanes; ++i) {
      const auto lane = static_cast<uint64_t>(i);
      llvm::Value* address = element(pointer, b_.CreateExtractElement(index, lane), bytes);
      b_.CreateAlignedStore(b_.CreateExtractElement(value, lane), address, align);
    }
    return;
  }
  llvm::Value* mask = operand(instruction, 3);
  const bool native = bytes >= 4 || target_.features == "x86-64-v4";
  if (!scatters && native && type.lanes > 1) {
    b_.CreateMaskedStore(value, element(pointer, index, bytes), align, mask);
    return;
  }
  llvm::Value* room = stack_room(bytes * type.lanes);
  b_.CreateAlignedStore(value, room, align);
  call_lanes("flambeau_store_lanes", room, pointer, index, mask, type.lanes, bytes);
}

}  // namespace flambeau::emit
