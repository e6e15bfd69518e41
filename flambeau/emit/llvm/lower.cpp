// Arithmetic and control flow of the loop IR in LLVM IR. Loops are rotated (test before the first
// round and after each), their carried values are phis. No fast-math flag is ever set.
#include "flambeau/emit/llvm/lower.h"

#include <llvm/IR/Intrinsics.h>

#include "flambeau/base/error.h"

namespace flambeau::emit {

using loop::Instruction;
using loop::Opcode;
using loop::Scalar;

FunctionLowering::FunctionLowering(llvm::Module& module, const loop::Function& function,
                                   const Target& target)
    : module_(module),
      context_(module.getContext()),
      source_(function),
      target_(target),
      b_(context_),
      values_(function.types.size(), nullptr) {}

void FunctionLowering::run() {
  llvm::Type* i64 = b_.getInt64Ty();
  auto* type = llvm::FunctionType::get(b_.getVoidTy(), {b_.getPtrTy(), i64, i64, i64}, false);
  function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, source_.name, module_);
  function_->setDSOLocal(true);
  function_->addFnAttr(llvm::Attribute::NoUnwind);
  // The disk cache holds code for a target, so the widest registers are the target's, not the
  // CPU's.
  function_->addFnAttr("prefer-vector-width", std::to_string(target_.vector_bytes * 8));
  function_->addFnAttr("min-legal-vector-width", std::to_string(target_.vector_bytes * 8));
  // Slots are read once, before anything is written.
  function_->addParamAttr(0, llvm::Attribute::NoAlias);
  b_.SetInsertPoint(llvm::BasicBlock::Create(context_, "", function_));
  lower_block(source_.body);
  b_.CreateRetVoid();
}

llvm::Type* FunctionLowering::scalar_of(Scalar scalar) {
  switch (scalar) {
    case Scalar::i1:
      return b_.getInt1Ty();
    case Scalar::i8:
      return b_.getInt8Ty();
    case Scalar::bf16:
    case Scalar::i16:
      return b_.getInt16Ty();
    case Scalar::i32:
      return b_.getInt32Ty();
    case Scalar::i64:
      return b_.getInt64Ty();
    case Scalar::f16:
      return b_.getHalfTy();
    case Scalar::f32:
      return b_.getFloatTy();
    case Scalar::f64:
      return b_.getDoubleTy();
    case Scalar::ptr:
      return b_.getPtrTy();
  }
  fail(ErrorKind::internal, "internal error: loop IR scalar out of range");
}

llvm::Type* FunctionLowering::with_lanes(llvm::Type* scalar, int lanes) {
  return lanes == 1 ? scalar : llvm::FixedVectorType::get(scalar, static_cast<unsigned>(lanes));
}

llvm::Type* FunctionLowering::type_of(loop::Type type) {
  return with_lanes(scalar_of(type.scalar), type.lanes);
}

std::vector<llvm::Value*> FunctionLowering::lower_block(const loop::Block& block) {
  for (const Instruction& instruction : block.instructions) {
    if (instruction.opcode != Opcode::yield) {
      lower(instruction);
      continue;
    }
    std::vector<llvm::Value*> yielded;
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      yielded.push_back(operand(instruction, i));
    }
    return yielded;
  }
  fail(ErrorKind::internal, text("internal error: loop IR block without yield in ", source_.name));
}

void FunctionLowering::lower(const Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::loop:
      return lower_loop(instruction);
    case Opcode::branch:
      return lower_branch(instruction);
    case Opcode::store:
      return lower_store(instruction);
    case Opcode::prefetch: {
      llvm::Value* address = element(operand(instruction, 0), operand(instruction, 1),
                                     static_cast<int>(instruction.imm));
      // Read, keep in all levels, data.
      b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {b_.getPtrTy()},
                         {address, b_.getInt32(0), b_.getInt32(3), b_.getInt32(1)});
      return;
    }
    default:
      values_[static_cast<size_t>(instruction.results[0])] = lower_value(instruction);
  }
}

llvm::Value* FunctionLowering::lower_constant(loop::Type type, int64_t bits) {
  const int width = loop::bits(type.scalar);
  llvm::Constant* scalar;
  if (type.scalar == Scalar::ptr) {
    scalar =
        llvm::ConstantExpr::getIntToPtr(b_.getInt64(static_cast<uint64_t>(bits)), b_.getPtrTy());
  } else {
    const llvm::APInt pattern(static_cast<unsigned>(width), static_cast<uint64_t>(bits), true);
    if (loop::is_integer(type.scalar) || type.scalar == Scalar::bf16) {
      scalar = llvm::ConstantInt::get(context_, pattern);
    } else {
      const llvm::fltSemantics& format = scalar_of(type.scalar)->getFltSemantics();
      scalar = llvm::ConstantFP::get(context_, llvm::APFloat(format, pattern));
    }
  }
  if (type.lanes == 1) return scalar;
  return llvm::ConstantVector::getSplat(
      llvm::ElementCount::getFixed(static_cast<unsigned>(type.lanes)), scalar);
}

llvm::Value* FunctionLowering::lower_value(const Instruction& instruction) {
  const loop::Type type = instruction.type;
  llvm::Type* result = type_of(type);
  const bool real = loop::is_float(type.scalar);
  auto x = [&](size_t number) { return operand(instruction, number); };
  auto intrinsic = [&](llvm::Intrinsic::ID id, llvm::ArrayRef<llvm::Value*> arguments) {
    return b_.CreateIntrinsic(id, {result}, arguments);
  };
  switch (instruction.opcode) {
    case Opcode::constant:
      return lower_constant(type, instruction.imm);
    case Opcode::lanes: {
      std::vector<llvm::Constant*> lanes;
      for (int i = 0; i < type.lanes; ++i) {
        lanes.push_back(llvm::ConstantInt::get(scalar_of(type.scalar), static_cast<uint64_t>(i)));
      }
      return type.lanes == 1 ? lanes[0] : llvm::ConstantVector::get(lanes);
    }
    case Opcode::slot: {
      llvm::Value* address = b_.CreateConstGEP1_64(b_.getInt64Ty(), function_->getArg(0),
                                                   static_cast<uint64_t>(instruction.imm));
      return b_.CreateAlignedLoad(result, address, llvm::Align(8));
    }
    case Opcode::param:
      return function_->getArg(static_cast<unsigned>(instruction.imm) + 1);

    case Opcode::add:
      return real ? b_.CreateFAdd(x(0), x(1)) : b_.CreateAdd(x(0), x(1));
    case Opcode::sub:
      return real ? b_.CreateFSub(x(0), x(1)) : b_.CreateSub(x(0), x(1));
    case Opcode::mul:
      return real ? b_.CreateFMul(x(0), x(1)) : b_.CreateMul(x(0), x(1));
    case Opcode::fdiv:
      return b_.CreateFDiv(x(0), x(1));
    case Opcode::sdiv:
      return b_.CreateSDiv(x(0), x(1));
    case Opcode::udiv:
      return b_.CreateUDiv(x(0), x(1));
    case Opcode::srem:
      return b_.CreateSRem(x(0), x(1));
    case Opcode::urem:
      return b_.CreateURem(x(0), x(1));
    case Opcode::frem:
      return b_.CreateFRem(x(0), x(1));
    case Opcode::fma:
      return intrinsic(llvm::Intrinsic::fma, {x(0), x(1), x(2)});
    case Opcode::neg:
      return real ? b_.CreateFNeg(x(0)) : b_.CreateNeg(x(0));
    case Opcode::abs:
      return intrinsic(llvm::Intrinsic::fabs, {x(0)});
    case Opcode::sqrt:
      return intrinsic(llvm::Intrinsic::sqrt, {x(0)});
    case Opcode::floor:
      return intrinsic(llvm::Intrinsic::floor, {x(0)});
    case Opcode::ceil:
      return intrinsic(llvm::Intrinsic::ceil, {x(0)});
    case Opcode::trunc:
      return intrinsic(llvm::Intrinsic::trunc, {x(0)});
    case Opcode::round_even:
      return intrinsic(llvm::Intrinsic::roundeven, {x(0)});
    case Opcode::bit_and:
      return b_.CreateAnd(x(0), x(1));
    case Opcode::bit_or:
      return b_.CreateOr(x(0), x(1));
    case Opcode::bit_xor:
      return b_.CreateXor(x(0), x(1));
    case Opcode::bit_not:
      return b_.CreateNot(x(0));
    case Opcode::shl:
      return b_.CreateShl(x(0), x(1));
    case Opcode::lshr:
      return b_.CreateLShr(x(0), x(1));
    case Opcode::ashr:
      return b_.CreateAShr(x(0), x(1));

    case Opcode::eq:
    case Opcode::ne:
    case Opcode::lt:
    case Opcode::le:
    case Opcode::gt:
    case Opcode::ge:
    case Opcode::ult:
    case Opcode::ule:
      return lower_compare(instruction);
    case Opcode::select:
      return b_.CreateSelect(x(0), x(1), x(2));

    case Opcode::sext:
    case Opcode::zext:
    case Opcode::itrunc:
    case Opcode::sitofp:
    case Opcode::uitofp:
    case Opcode::fptosi:
    case Opcode::fptoui:
    case Opcode::fpext:
    case Opcode::fptrunc:
    case Opcode::bitcast:
      return lower_cast(instruction);

    case Opcode::splat:
      return type.lanes == 1 ? x(0) : b_.CreateVectorSplat(static_cast<unsigned>(type.lanes), x(0));
    case Opcode::extract:
      return operand_type(instruction, 0).lanes == 1
                 ? x(0)
                 : b_.CreateExtractElement(x(0), static_cast<uint64_t>(instruction.imm));
    case Opcode::insert:
      return type.lanes == 1
                 ? x(1)
                 : b_.CreateInsertElement(x(0), x(1), static_cast<uint64_t>(instruction.imm));
    case Opcode::shuffle: {
      auto as_vector = [&](size_t number) -> llvm::Value* {
        llvm::Value* v = x(number);
        if (v->getType()->isVectorTy()) return v;
        return b_.CreateBitCast(v, llvm::FixedVectorType::get(v->getType(), 1));
      };
      llvm::Value* shuffled = b_.CreateShuffleVector(as_vector(0), as_vector(1), instruction.mask);
      return type.lanes == 1 ? b_.CreateExtractElement(shuffled, uint64_t{0}) : shuffled;
    }
    case Opcode::load:
      return lower_load(instruction);
    case Opcode::offset:
      return element(x(0), x(1), static_cast<int>(instruction.imm));
    case Opcode::stack:
      return stack_room(instruction.imm);
    default:
      fail(ErrorKind::internal,
           text("internal error: loop IR ", loop::name(instruction.opcode), " is no value"));
  }
}

llvm::Value* FunctionLowering::lower_compare(const Instruction& instruction) {
  llvm::Value* a = operand(instruction, 0);
  llvm::Value* b = operand(instruction, 1);
  using Predicate = llvm::CmpInst::Predicate;
  const bool real = loop::is_float(operand_type(instruction, 0).scalar);
  auto predicate = [&](Predicate of_float, Predicate of_integer) {
    return real ? of_float : of_integer;
  };
  Predicate chosen;
  switch (instruction.opcode) {
    case Opcode::eq:
      chosen = predicate(Predicate::FCMP_OEQ, Predicate::ICMP_EQ);
      break;
    case Opcode::ne:
      chosen = predicate(Predicate::FCMP_UNE, Predicate::ICMP_NE);
      break;
    case Opcode::lt:
      chosen = predicate(Predicate::FCMP_OLT, Predicate::ICMP_SLT);
      break;
    case Opcode::le:
      chosen = predicate(Predicate::FCMP_OLE, Predicate::ICMP_SLE);
      break;
    case Opcode::gt:
      chosen = predicate(Predicate::FCMP_OGT, Predicate::ICMP_SGT);
      break;
    case Opcode::ge:
      chosen = predicate(Predicate::FCMP_OGE, Predicate::ICMP_SGE);
      break;
    case Opcode::ult:
      chosen = Predicate::ICMP_ULT;
      break;
    default:
      chosen = Predicate::ICMP_ULE;
      break;
  }
  return b_.CreateCmp(chosen, a, b);
}

llvm::Value* FunctionLowering::bf16_to_f32(llvm::Value* bits, int lanes) {
  llvm::Value* wide = b_.CreateZExt(bits, with_lanes(b_.getInt32Ty(), lanes));
  return b_.CreateBitCast(b_.CreateShl(wide, 16), with_lanes(b_.getFloatTy(), lanes));
}

llvm::Value* FunctionLowering::f32_to_bf16(llvm::Value* value, int lanes) {
  // Adding 0x7FFF plus the lowest kept bit rounds the upper half to nearest even, and a carry moves
  // into the exponent; a NaN keeps sign and upper payload and is made quiet instead.
  llvm::Type* i32 = with_lanes(b_.getInt32Ty(), lanes);
  auto number = [&](uint64_t n) { return llvm::ConstantInt::get(i32, n); };
  llvm::Value* bits = b_.CreateBitCast(value, i32);
  llvm::Value* upper = b_.CreateLShr(bits, number(16));
  llvm::Value* even = b_.CreateAnd(upper, number(1));
  llvm::Value* rounded =
      b_.CreateLShr(b_.CreateAdd(b_.CreateAdd(bits, even), number(0x7FFF)), number(16));
  llvm::Value* quiet = b_.CreateOr(upper, number(0x40));
  llvm::Value* nan = b_.CreateFCmpUNO(value, value);
  return b_.CreateTrunc(b_.CreateSelect(nan, quiet, rounded), with_lanes(b_.getInt16Ty(), lanes));
}

llvm::Value* FunctionLowering::lower_cast(const Instruction& instruction) {
  llvm::Value* x = operand(instruction, 0);
  const loop::Type from = operand_type(instruction, 0);
  const loop::Type to = instruction.type;
  llvm::Type* result = type_of(to);
  switch (instruction.opcode) {
    case Opcode::sext:
      return b_.CreateSExt(x, result);
    case Opcode::zext:
      return b_.CreateZExt(x, result);
    case Opcode::itrunc:
      return b_.CreateTrunc(x, result);
    case Opcode::sitofp:
      return b_.CreateSIToFP(x, result);
    case Opcode::uitofp:
      return b_.CreateUIToFP(x, result);
    case Opcode::fptosi:
      return b_.CreateIntrinsic(llvm::Intrinsic::fptosi_sat, {result, x->getType()}, {x});
    case Opcode::fptoui:
      return b_.CreateIntrinsic(llvm::Intrinsic::fptoui_sat, {result, x->getType()}, {x});
    case Opcode::fpext: {
      // Through f32: exact, and the only step the hardware has for the 16-bit formats.
      if (from.scalar == Scalar::bf16) x = bf16_to_f32(x, from.lanes);
      if (from.scalar == Scalar::f16) x = b_.CreateFPExt(x, with_lanes(b_.getFloatTy(), to.lanes));
      return x->getType() == result ? x : b_.CreateFPExt(x, result);
    }
    case Opcode::fptrunc:
      if (to.scalar == Scalar::bf16) return f32_to_bf16(x, to.lanes);
      return b_.CreateFPTrunc(x, result);
    default:  // bitcast
      if (from.scalar == Scalar::ptr && to.scalar != Scalar::ptr) {
        return b_.CreateBitCast(b_.CreatePtrToInt(x, b_.getInt64Ty()), result);
      }
      if (to.scalar == Scalar::ptr && from.scalar != Scalar::ptr) {
        return b_.CreateIntToPtr(b_.CreateBitCast(x, b_.getInt64Ty()), result);
      }
      return x->getType() == result ? x : b_.CreateBitCast(x, result);
  }
}

void FunctionLowering::lower_loop(const Instruction& instruction) {
  llvm::Value* lo = operand(instruction, 0);
  llvm::Value* hi = operand(instruction, 1);
  const loop::Block& body = instruction.blocks[0];
  llvm::BasicBlock* before = b_.GetInsertBlock();
  llvm::BasicBlock* inside = llvm::BasicBlock::Create(context_, "", function_);
  llvm::BasicBlock* after = llvm::BasicBlock::Create(context_, "", function_);
  b_.CreateCondBr(b_.CreateICmpSLT(lo, hi), inside, after);

  b_.SetInsertPoint(inside);
  llvm::PHINode* index = b_.CreatePHI(b_.getInt64Ty(), 2);
  index->addIncoming(lo, before);
  values_[static_cast<size_t>(body.arguments[0])] = index;
  std::vector<llvm::PHINode*> carried;
  for (size_t i = 2; i < instruction.operands.size(); ++i) {
    llvm::Value* init = operand(instruction, i);
    carried.push_back(b_.CreatePHI(init->getType(), 2));
    carried.back()->addIncoming(init, before);
    values_[static_cast<size_t>(body.arguments[i - 1])] = carried.back();
  }
  std::vector<llvm::Value*> next = lower_block(body);
  llvm::BasicBlock* last = b_.GetInsertBlock();
  llvm::Value* advanced = b_.CreateAdd(index, b_.getInt64(static_cast<uint64_t>(instruction.imm)));
  index->addIncoming(advanced, last);
  for (size_t i = 0; i < carried.size(); ++i) carried[i]->addIncoming(next[i], last);
  b_.CreateCondBr(b_.CreateICmpSLT(advanced, hi), inside, after);

  after->moveAfter(last);
  b_.SetInsertPoint(after);
  for (size_t i = 0; i < carried.size(); ++i) {
    llvm::PHINode* result = b_.CreatePHI(carried[i]->getType(), 2);
    result->addIncoming(operand(instruction, i + 2), before);
    result->addIncoming(next[i], last);
    values_[static_cast<size_t>(instruction.results[i])] = result;
  }
}

void FunctionLowering::lower_branch(const Instruction& instruction) {
  llvm::BasicBlock* sides[2] = {llvm::BasicBlock::Create(context_, "", function_),
                                llvm::BasicBlock::Create(context_, "", function_)};
  llvm::BasicBlock* after = llvm::BasicBlock::Create(context_, "", function_);
  b_.CreateCondBr(operand(instruction, 0), sides[0], sides[1]);
  std::vector<llvm::Value*> yielded[2];
  llvm::BasicBlock* ends[2];
  for (int side = 0; side < 2; ++side) {
    if (side == 1) sides[1]->moveAfter(ends[0]);
    b_.SetInsertPoint(sides[side]);
    yielded[side] = lower_block(instruction.blocks[static_cast<size_t>(side)]);
    ends[side] = b_.GetInsertBlock();
    b_.CreateBr(after);
  }
  after->moveAfter(ends[1]);
  b_.SetInsertPoint(after);
  for (size_t i = 0; i < instruction.results.size(); ++i) {
    llvm::PHINode* result = b_.CreatePHI(yielded[0][i]->getType(), 2);
    for (int side = 0; side < 2; ++side) result->addIncoming(yielded[side][i], ends[side]);
    values_[static_cast<size_t>(instruction.results[i])] = result;
  }
}

}  // namespace flambeau::emit
