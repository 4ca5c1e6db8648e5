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

/// The instruction that adds products of halves to so many lanes of f32, or none.
llvm::Intrinsic::ID pair_instruction_for(int lanes, const TargetTraits& traits) {
  if (4 * lanes > traits.pair_dot_bytes) return llvm::Intrinsic::not_intrinsic;
  switch (lanes) {
    case 16:
      return llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512;
    case 8:
      return llvm::Intrinsic::x86_avx512bf16_dpbf16ps_256;
    case 4:
      return llvm::Intrinsic::x86_avx512bf16_dpbf16ps_128;
    default:
      return llvm::Intrinsic::not_intrinsic;
  }
}

/// `like` with as many lanes of `element` as it has.
llvm::Type* with_element(llvm::Type* like, llvm::Type* element) {
  auto* vector = llvm::dyn_cast<llvm::VectorType>(like);
  return vector == nullptr ? element : llvm::VectorType::get(element, vector->getElementCount());
}

/// The bits of floats, denormals as zeros of their sign.
Value* flushed(llvm::IRBuilderBase& builder, Value* bits) {
  const auto word = [&](std::uint64_t value) { return llvm::ConstantInt::get(bits->getType(), value); };
  Value* small = builder.CreateICmpEQ(builder.CreateAnd(bits, word(0x7f800000)), word(0));
  Value* kept = builder.CreateSelect(small, builder.CreateAnd(bits, word(0x80000000)), bits);
  return builder.CreateBitCast(kept, with_element(bits->getType(), builder.getFloatTy()));
}

/// x * y + z of floats that products of halves are exact for, rounded once; what is too small for a normal number after
/// rounding, had it all exponents, is a zero of its sign.
Value* fma_of_halves(llvm::IRBuilderBase& builder, Value* x, Value* y, Value* z) {
  llvm::Type* bits = with_element(x->getType(), builder.getInt32Ty());
  Value *a = flushed(builder, x), *b = flushed(builder, y), *c = flushed(builder, builder.CreateBitCast(z, bits));
  Value* sum = builder.CreateIntrinsic(llvm::Intrinsic::fma, {a->getType()}, {a, b, c});
  llvm::Type* wide = with_element(a->getType(), builder.getDoubleTy());
  Value* product = builder.CreateFMul(builder.CreateFPExt(a, wide), builder.CreateFPExt(b, wide));
  Value* exact = builder.CreateFAdd(product, builder.CreateFPExt(c, wide));
  Value* size = builder.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, exact);
  Value* small = builder.CreateFCmpOLT(size, llvm::ConstantFP::get(wide, 0x1.ffffffp-127));
  Value* zero =
      builder.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, llvm::ConstantFP::get(sum->getType(), 0.0), sum);
  return builder.CreateSelect(small, zero, sum);
}

/// The upper halves first, then the lower ones.
Value* in_halves(llvm::IRBuilderBase& builder, Value* x, Value* y, Value* z) {
  const auto word = [&](std::uint64_t value) { return llvm::ConstantInt::get(x->getType(), value); };
  const auto upper = [&](Value* words) { return builder.CreateAnd(words, word(0xffff0000)); };
  const auto lower = [&](Value* words) { return builder.CreateShl(words, word(16)); };
  return fma_of_halves(builder, lower(x), lower(y), fma_of_halves(builder, upper(x), upper(y), z));
}

/// As many lanes of a scalar or vector from `first` on; those behind its end hold anything.
Value* lanes_of(llvm::IRBuilderBase& builder, Value* value, int first, int lanes) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  if (vector == nullptr)
    return builder.CreateInsertElement(
        llvm::PoisonValue::get(llvm::FixedVectorType::get(value->getType(), static_cast<unsigned>(lanes))), value,
        std::uint64_t{0});
  const int there = static_cast<int>(vector->getNumElements());
  if (first == 0 && there == lanes) return value;
  llvm::SmallVector<int, 16> mask;
  for (int k = first; k < first + lanes; ++k) mask.push_back(k < there ? k : -1);
  return builder.CreateShuffleVector(value, mask);
}

/// The instruction on the least vector that holds the lanes.
Value* with_instruction(llvm::IRBuilderBase& builder, const TargetTraits& traits, Value* x, Value* y, Value* z,
                        int lanes) {
  const int width = lanes <= 4 ? 4 : lanes <= 8 ? 8 : 16;
  const llvm::Intrinsic::ID id = pair_instruction_for(width, traits);
  llvm::Type* halves = llvm::FixedVectorType::get(builder.getBFloatTy(), static_cast<unsigned>(2 * width));
  const auto words = [&](Value* value) { return builder.CreateBitCast(lanes_of(builder, value, 0, width), halves); };
  Value* sum = builder.CreateIntrinsic(id, {}, {lanes_of(builder, z, 0, width), words(x), words(y)});
  if (!z->getType()->isVectorTy()) return builder.CreateExtractElement(sum, std::uint64_t{0});
  return lanes_of(builder, sum, 0, lanes);
}

Value* emit_dot_of_halves(llvm::IRBuilderBase& builder, const TargetTraits& traits, std::span<const Operand> operands) {
  Value *x = operands[0].value, *y = operands[1].value, *z = operands[2].value;
  const int lanes = operands[2].type.lanes;
  if (lanes > 16 || pair_instruction_for(16, traits) == llvm::Intrinsic::not_intrinsic)
    return in_halves(builder, x, y, z);
  return with_instruction(builder, traits, x, y, z, lanes);
}

}  // namespace

Value* emit_dot(llvm::IRBuilderBase& builder, const TargetTraits& traits, std::span<const Operand> operands) {
  const loop::Type type = operands[0].type;
  if (is_float(operands[2].type.dtype)) return emit_dot_of_halves(builder, traits, operands);
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
