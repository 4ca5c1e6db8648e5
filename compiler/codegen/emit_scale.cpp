#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicsX86.h>

#include "compiler/codegen/emit_primitive.h"

namespace corrloom::codegen {
namespace {

using llvm::Value;

/// The instruction for a vector of so many bytes, or none.
llvm::Intrinsic::ID instruction_for(int bytes, bool is_double, const TargetTraits& traits) {
  if (!(bytes == 64 ? traits.has_scale : traits.has_short_scale)) return llvm::Intrinsic::not_intrinsic;
  switch (bytes) {
    case 64:
      return is_double ? llvm::Intrinsic::x86_avx512_mask_scalef_pd_512
                       : llvm::Intrinsic::x86_avx512_mask_scalef_ps_512;
    case 32:
      return is_double ? llvm::Intrinsic::x86_avx512_mask_scalef_pd_256
                       : llvm::Intrinsic::x86_avx512_mask_scalef_ps_256;
    case 16:
      return is_double ? llvm::Intrinsic::x86_avx512_mask_scalef_pd_128
                       : llvm::Intrinsic::x86_avx512_mask_scalef_ps_128;
    default:
      return llvm::Intrinsic::not_intrinsic;
  }
}

Value* by_instruction(llvm::IRBuilderBase& builder, llvm::Intrinsic::ID id, int bytes, Value* x, Value* y) {
  // Every lane, whatever the mask's width: masks of short vectors have 8 bits.
  const llvm::FunctionType* type = llvm::Intrinsic::getType(builder.getContext(), id);
  std::vector<Value*> arguments = {x, y, llvm::PoisonValue::get(x->getType()),
                                   llvm::ConstantInt::getAllOnesValue(type->getParamType(3))};
  constexpr int kCurrentRounding = 4;
  if (bytes == 64) arguments.push_back(builder.getInt32(kCurrentRounding));
  return builder.CreateIntrinsic(id, llvm::ArrayRef<llvm::Type*>{}, arguments);
}

/// 2^n itself may be out of range, so half of n is applied at a time. The first product is exact; only the second
/// rounds, once.
Value* by_products(llvm::IRBuilderBase& builder, bool is_double, Value* x, Value* y) {
  llvm::Type* type = x->getType();
  llvm::Type* bits = type->getWithNewType(builder.getIntNTy(is_double ? 64 : 32));
  const std::uint64_t fraction_bits = is_double ? 52 : 23;
  const auto integer = [&](std::int64_t value) {
    return llvm::ConstantInt::get(bits, static_cast<std::uint64_t>(value), /*IsSigned=*/true);
  };
  // A sum with 1.5 * 2^fraction_bits has the whole number in its low bits. The shift leaves it in the exponent's place.
  Value* rounder = llvm::ConstantFP::get(type, is_double ? 0x1.8p52 : 0x1.8p23);
  Value* n = builder.CreateShl(builder.CreateBitCast(builder.CreateFAdd(y, rounder), bits), fraction_bits);
  Value* half = builder.CreateAnd(builder.CreateAShr(n, 1), integer(-(std::int64_t{1} << fraction_bits)));
  Value* one = builder.CreateBitCast(llvm::ConstantFP::get(type, 1.0), bits);
  const auto times_power = [&](Value* value, Value* exponent) {
    return builder.CreateFMul(value, builder.CreateBitCast(builder.CreateAdd(exponent, one), type));
  };
  return times_power(times_power(x, half), builder.CreateSub(n, half));
}

}  // namespace

Value* emit_scale(llvm::IRBuilderBase& builder, const TargetTraits& traits, std::span<const Operand> operands) {
  const loop::Type type = operands[0].type;
  Value *x = operands[0].value, *y = operands[1].value;
  const bool is_double = type.dtype == DType::F64;
  const int bytes = bit_width(type.dtype) / 8 * type.lanes;
  const llvm::Intrinsic::ID id = instruction_for(bytes, is_double, traits);
  return id == llvm::Intrinsic::not_intrinsic ? by_products(builder, is_double, x, y)
                                              : by_instruction(builder, id, bytes, x, y);
}

}  // namespace corrloom::codegen
