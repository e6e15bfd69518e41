// Loads and stores of the loop IR in LLVM IR. Whole vectors are one unaligned access. Masked
// accesses use the hardware's where it has them; else only set lanes are visited, in a small loop
// (tails are short, and code size is compile time). Gathers are one load a lane: as fast as the
// AVX2 instruction, and without its hazards. Masked-off lanes never touch memory.
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

llvm::Value* FunctionLowering::stack_room(int64_t bytes, int alignment) {
  llvm::BasicBlock& entry = function_->getEntryBlock();
  llvm::IRBuilder<> at_entry(&entry, entry.begin());
  auto* room = at_entry.CreateAlloca(at_entry.getInt8Ty(),
                                     at_entry.getInt64(static_cast<uint64_t>(bytes)));
  room->setAlignment(llvm::Align(static_cast<uint64_t>(alignment)));
  return room;
}

template <class Body>
void FunctionLowering::for_set_lanes(llvm::Value* mask, int lanes, Body body) {
  llvm::IntegerType* word = b_.getIntNTy(static_cast<unsigned>(lanes));
  llvm::Value* set = lanes == 1 ? b_.CreateZExt(mask, b_.getInt64Ty())
                                : b_.CreateZExtOrTrunc(b_.CreateBitCast(mask, word), b_.getInt64Ty());
  llvm::BasicBlock* before = b_.GetInsertBlock();
  llvm::BasicBlock* inside = llvm::BasicBlock::Create(context_, "", function_);
  llvm::BasicBlock* after = llvm::BasicBlock::Create(context_, "", function_);
  llvm::Value* zero = b_.getInt64(0);
  b_.CreateCondBr(b_.CreateICmpNE(set, zero), inside, after);
  b_.SetInsertPoint(inside);
  llvm::PHINode* left = b_.CreatePHI(b_.getInt64Ty(), 2);
  left->addIncoming(set, before);
  llvm::Value* lane =
      b_.CreateIntrinsic(llvm::Intrinsic::cttz, {b_.getInt64Ty()}, {left, b_.getTrue()});
  body(lane);
  llvm::Value* rest = b_.CreateAnd(left, b_.CreateSub(left, b_.getInt64(1)));
  left->addIncoming(rest, inside);
  b_.CreateCondBr(b_.CreateICmpNE(rest, zero), inside, after);
  b_.SetInsertPoint(after);
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
  llvm::Value* room = stack_room(bytes * type.lanes, 64);
  b_.CreateAlignedStore(llvm::Constant::getNullValue(result), room, align);
  llvm::Value* indices = nullptr;
  if (gathers) {
    indices = stack_room(8 * type.lanes, 64);
    b_.CreateAlignedStore(index, indices, align);
  }
  for_set_lanes(mask, type.lanes, [&](llvm::Value* lane) {
    llvm::Value* at =
        gathers ? b_.CreateAlignedLoad(b_.getInt64Ty(), element(indices, lane, 8), align)
                : b_.CreateAdd(index, lane);
    llvm::Value* value = b_.CreateAlignedLoad(scalar, element(pointer, at, bytes), align);
    b_.CreateAlignedStore(value, element(room, lane, bytes), align);
  });
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
  llvm::Value* room = stack_room(bytes * type.lanes, 64);
  b_.CreateAlignedStore(value, room, align);
  llvm::Value* indices = nullptr;
  if (scatters) {
    indices = stack_room(8 * type.lanes, 64);
    b_.CreateAlignedStore(index, indices, align);
  }
  for_set_lanes(mask, type.lanes, [&](llvm::Value* lane) {
    llvm::Value* at =
        scatters ? b_.CreateAlignedLoad(b_.getInt64Ty(), element(indices, lane, 8), align)
                 : b_.CreateAdd(index, lane);
    llvm::Value* one = b_.CreateAlignedLoad(scalar, element(room, lane, bytes), align);
    b_.CreateAlignedStore(one, element(pointer, at, bytes), align);
  });
}

}  // namespace flambeau::emit
