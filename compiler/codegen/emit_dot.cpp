#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>

#include "compiler/codegen/emit_primitive.h"
#include "compiler/codegen/types.h"

namespace corrloom::codegen {
namespace {

using llvm::Value;

/// The instruction for vectors of so many bytes, or none.
llvm::Intrinsic::ID instruction_for(int bytes, const TargetTraits& traits) {
  if (bytes > traits.dot_bytes) return llvm::Intrinsic::not_intrinsic;
  switch (bytes) {
    case 64:
      return llvm::Intrinsic::x86_avx512_vpdpbusd_512;
    case 32:
      return llvm::Intrinsic::x86_avx512_vpdpbusd_256;
    case 16:
      return llvm::Intrinsic::x86_avx512_vpdpbusd_128;
    default:
      return llvm::Intrinsic::not_intrinsic;
  }
}

/// A product for each place, as wide as the operands.
Value* in_parts(llvm::IRBuilderBase& builder, Value* x, Value* y, Value* z, int width) {
  llvm::Type* type = x->getType();
  const auto number = [&](int value) { return llvm::ConstantInt::get(type, static_cast<std::uint64_t>(value)); };
  for (int place = 0; place < width; place += 8) {
    Value* left = builder.CreateAnd(builder.CreateLShr(x, number(place)), number(255));
    Value* right = builder.CreateAShr(builder.CreateShl(y, number(width - 8 - place)), number(width - 8));
    z = builder.CreateAdd(z, builder.CreateMul(left, right));
  }
  return z;
}

}  // namespace

Value* emit_dot(llvm::IRBuilderBase& builder, const TargetTraits& traits, std::span<const Operand> operands) {
  const loop::Type type = operands[0].type;
  Value *x = operands[0].value, *y = operands[1].value, *z = operands[2].value;
  const llvm::Intrinsic::ID id =
      bit_width(type.dtype) == 32 ? instruction_for(4 * type.lanes, traits) : llvm::Intrinsic::not_intrinsic;
  if (id == llvm::Intrinsic::not_intrinsic) return in_parts(builder, x, y, z, bit_width(type.dtype));
  llvm::Module* module = builder.GetInsertBlock()->getModule();
  llvm::Function* instruction = llvm::Intrinsic::getOrInsertDeclaration(module, id);
  // Some versions of LLVM see bytes, others words.
  llvm::Type* bytes = instruction->getFunctionType()->getParamType(1);
  return builder.CreateCall(instruction, {z, builder.CreateBitCast(x, bytes), builder.CreateBitCast(y, bytes)});
}

}  // namespace corrloom::codegen
