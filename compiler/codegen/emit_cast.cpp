#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>

#include <cmath>

#include "compiler/codegen/emit_primitive.h"
#include "compiler/codegen/types.h"
#include "ir/base/errors.h"

namespace corrloom::codegen {
namespace {

using llvm::Value;

llvm::Constant* bits(llvm::Type* like, std::uint64_t value) {
  return llvm::ConstantInt::get(like, value);
}

/// f16 to f32 in bit operations, for processors without the instruction: the fields move to their new places. Normal
/// numbers get the difference of the biases; denormal ones are scaled by an exact product; infinity and NaN get the
/// highest exponent.
Value* widen_half_by_bits(llvm::IRBuilderBase& builder, Value* half, loop::Type result) {
  llvm::Type* integer = register_type(builder.getContext(), {DType::U32, result.lanes});
  llvm::Type* single = register_type(builder.getContext(), result);
  Value* wide = builder.CreateZExt(half, integer);
  Value* magnitude = builder.CreateAnd(wide, bits(integer, 0x7fff));
  Value* sign = builder.CreateShl(builder.CreateAnd(wide, bits(integer, 0x8000)), bits(integer, 16));
  Value* moved = builder.CreateShl(magnitude, bits(integer, 13));
  Value* normal = builder.CreateAdd(moved, bits(integer, 112u << 23));
  Value* special = builder.CreateOr(moved, bits(integer, 0x7f800000));
  // magnitude * 2^-24, exact in f32 for every magnitude below 2^10.
  Value* scaled = builder.CreateFMul(builder.CreateUIToFP(magnitude, single), llvm::ConstantFP::get(single, 0x1p-24));
  Value* denormal = builder.CreateBitCast(scaled, integer);
  Value* is_denormal = builder.CreateICmpULT(magnitude, bits(integer, 0x0400));
  Value* is_special = builder.CreateICmpUGE(magnitude, bits(integer, 0x7c00));
  Value* finite = builder.CreateSelect(is_denormal, denormal, normal);
  return builder.CreateBitCast(builder.CreateOr(sign, builder.CreateSelect(is_special, special, finite)), single);
}

/// f32 to f16 in bit operations, to nearest even. A normal result: half of the last place kept, less one for a tie that
/// is even, is added, and a carry moves up as far as it must. A denormal one: the sum with 0.5 has its last place where
/// the result has, so the addition itself rounds.
Value* narrow_to_half_by_bits(llvm::IRBuilderBase& builder, Value* single, int lanes) {
  llvm::Type* integer = register_type(builder.getContext(), {DType::U32, lanes});
  Value* all = builder.CreateBitCast(single, integer);
  Value* magnitude = builder.CreateAnd(all, bits(integer, 0x7fffffff));
  Value* sign = builder.CreateLShr(builder.CreateAnd(all, bits(integer, 0x80000000)), bits(integer, 16));
  Value* is_odd = builder.CreateAnd(builder.CreateLShr(magnitude, bits(integer, 13)), bits(integer, 1));
  Value* rebiased = builder.CreateSub(magnitude, bits(integer, 112u << 23));
  Value* rounded = builder.CreateAdd(builder.CreateAdd(rebiased, bits(integer, 0x0fff)), is_odd);
  Value* normal = builder.CreateLShr(rounded, bits(integer, 13));
  llvm::Constant* one_half = llvm::ConstantFP::get(single->getType(), 0.5);
  Value* shifted = builder.CreateFAdd(builder.CreateBitCast(magnitude, single->getType()), one_half);
  Value* denormal = builder.CreateSub(builder.CreateBitCast(shifted, integer), bits(integer, 0x3f000000));
  Value* is_denormal = builder.CreateICmpULT(magnitude, bits(integer, 113u << 23));
  Value* is_nan = builder.CreateICmpUGT(magnitude, bits(integer, 0x7f800000));
  Value* overflows = builder.CreateICmpUGE(magnitude, bits(integer, 143u << 23));
  Value* finite = builder.CreateSelect(is_denormal, denormal, normal);
  Value* bounded = builder.CreateSelect(overflows, bits(integer, 0x7c00), finite);
  Value* result = builder.CreateOr(sign, builder.CreateSelect(is_nan, bits(integer, 0x7e00), bounded));
  return builder.CreateTrunc(result, register_type(builder.getContext(), {DType::U16, lanes}));
}

llvm::Type* half_type(llvm::Type* like) {
  return like->getWithNewType(llvm::Type::getHalfTy(like->getContext()));
}

Value* widen_half(llvm::IRBuilderBase& builder, const TargetTraits& traits, Value* half, loop::Type result) {
  if (!traits.has_half) return widen_half_by_bits(builder, half, result);
  Value* as_half = builder.CreateBitCast(half, half_type(half->getType()));
  return builder.CreateFPExt(as_half, register_type(builder.getContext(), result));
}

Value* narrow_to_half(llvm::IRBuilderBase& builder, const TargetTraits& traits, Value* single, int lanes) {
  if (!traits.has_half) return narrow_to_half_by_bits(builder, single, lanes);
  Value* as_half = builder.CreateFPTrunc(single, half_type(single->getType()));
  return builder.CreateBitCast(as_half, register_type(builder.getContext(), {DType::F16, lanes}));
}

/// A bf16 is the upper half of an f32.
Value* widen_bfloat(llvm::IRBuilderBase& builder, Value* narrow, loop::Type result) {
  llvm::Type* integer = register_type(builder.getContext(), {DType::U32, result.lanes});
  Value* moved = builder.CreateShl(builder.CreateZExt(narrow, integer), bits(integer, 16));
  return builder.CreateBitCast(moved, register_type(builder.getContext(), result));
}

bool is_wide_float(DType dtype) {
  return dtype == DType::F32 || dtype == DType::F64;
}

Value* cast_integer(llvm::IRBuilderBase& builder, const Operand& operand, loop::Type result, llvm::Type* type) {
  const bool is_signed = is_signed_integer(operand.type.dtype);
  if (is_integer(result.dtype)) return builder.CreateIntCast(operand.value, type, is_signed);
  return is_signed ? builder.CreateSIToFP(operand.value, type) : builder.CreateUIToFP(operand.value, type);
}

/// A vector of floats to integers, with x86's instructions: LLVM takes the saturating conversion apart into lanes. What
/// lies outside gets its value by comparison, and its lane of the plain conversion is never looked at.
class SaturatingCast {
 public:
  SaturatingCast(llvm::IRBuilderBase& builder, const Operand& operand, loop::Type result)
      : builder_(builder), x_(operand.value), result_(result), is_signed_(is_signed_integer(result.dtype)) {
    const int width = bit_width(result.dtype);
    const int precision = operand.type.dtype == DType::F64 ? 53 : 24;
    below_ = is_signed_ ? -std::ldexp(1.0, width - 1) : 0.0;
    behind_ = std::ldexp(1.0, is_signed_ ? width - 1 : width);
    is_exact_ = width - (is_signed_ ? 1 : 0) <= precision;
  }

  Value* emit() { return is_exact_ ? clamped() : selected(); }

 private:
  /// Both limits are floats: what is beyond takes their place. A NaN becomes the lower one, which is 0 of the unsigned.
  Value* clamped() {
    Value* above = builder_.CreateSelect(builder_.CreateFCmpOGT(x_, real(below_)), x_, real(below_));
    Value* inside = builder_.CreateSelect(builder_.CreateFCmpOLT(above, real(behind_ - 1)), above, real(behind_ - 1));
    // Narrow integers, unsigned ones too, lie within those of 32 bits.
    const bool is_narrow = bit_width(result_.dtype) < 32;
    const loop::Type wide{is_narrow ? DType::I32 : result_.dtype, result_.lanes};
    Value* converted = convert(inside, register_type(builder_.getContext(), wide), is_narrow || is_signed_);
    if (is_signed_) converted = zero_for_nan(converted);
    return builder_.CreateTrunc(converted, register_type(builder_.getContext(), result_));
  }

  /// The upper limit is no float: the first float behind the integers tells.
  Value* selected() {
    llvm::Type* type = register_type(builder_.getContext(), result_);
    const auto width = static_cast<unsigned>(bit_width(result_.dtype));
    const auto limit = [&](bool is_max) {
      return llvm::ConstantInt::get(
          type, is_max ? (is_signed_ ? llvm::APInt::getSignedMaxValue(width) : llvm::APInt::getMaxValue(width))
                       : llvm::APInt::getSignedMinValue(width));
    };
    Value* converted = convert(x_, type, is_signed_);
    converted = builder_.CreateSelect(builder_.CreateFCmpOGE(x_, real(behind_)), limit(true), converted);
    if (!is_signed_) {
      Value* is_above = builder_.CreateFCmpOGT(x_, real(0));
      return builder_.CreateSelect(is_above, converted, llvm::Constant::getNullValue(type));
    }
    converted = builder_.CreateSelect(builder_.CreateFCmpOLT(x_, real(below_)), limit(false), converted);
    return zero_for_nan(converted);
  }

  llvm::Constant* real(double value) { return llvm::ConstantFP::get(x_->getType(), value); }
  Value* convert(Value* x, llvm::Type* type, bool is_signed) {
    return is_signed ? builder_.CreateFPToSI(x, type) : builder_.CreateFPToUI(x, type);
  }
  Value* zero_for_nan(Value* converted) {
    return builder_.CreateSelect(builder_.CreateFCmpORD(x_, x_), converted,
                                 llvm::Constant::getNullValue(converted->getType()));
  }

  llvm::IRBuilderBase& builder_;
  Value* x_;
  loop::Type result_;
  bool is_signed_;
  double below_ = 0;   ///< the least integer
  double behind_ = 0;  ///< one more than the greatest
  bool is_exact_ = false;
};

Value* cast_float(llvm::IRBuilderBase& builder, const TargetTraits& traits, const Operand& operand, loop::Type result,
                  llvm::Type* type) {
  if (is_float(result.dtype)) return builder.CreateFPCast(operand.value, type);
  if (!traits.runs_threads && result.lanes > 1) return SaturatingCast(builder, operand, result).emit();
  const bool is_signed = is_signed_integer(result.dtype);
  const auto id = is_signed ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat;
  return builder.CreateIntrinsic(id, {type, operand.value->getType()}, {operand.value});
}

}  // namespace

Value* emit_cast(llvm::IRBuilderBase& builder, const TargetTraits& traits, const Operand& operand, loop::Type result) {
  const DType from = operand.type.dtype;
  const DType to = result.dtype;
  llvm::Type* type = register_type(builder.getContext(), result);
  if (from == to) return operand.value;
  if (from == DType::F16 && to == DType::F32) return widen_half(builder, traits, operand.value, result);
  if (from == DType::F32 && to == DType::F16) return narrow_to_half(builder, traits, operand.value, result.lanes);
  if (from == DType::BF16 && to == DType::F32) return widen_bfloat(builder, operand.value, result);
  if (from == DType::Bool && is_integer(to)) return builder.CreateZExt(operand.value, type);
  const bool is_wide = is_integer(to) || is_wide_float(to);
  if (is_integer(from) && is_wide) return cast_integer(builder, operand, result, type);
  if (is_wide_float(from) && is_wide) return cast_float(builder, traits, operand, result, type);
  CORRLOOM_CHECK(false, "a cast from ", name_of(from), " to ", name_of(to), " reached the code generator");
  return nullptr;
}

Value* emit_bitcast(llvm::IRBuilderBase& builder, const Operand& operand, loop::Type result) {
  CORRLOOM_CHECK(bit_width(operand.type.dtype) == bit_width(result.dtype), "a bitcast from ",
                 name_of(operand.type.dtype), " to ", name_of(result.dtype));
  return builder.CreateBitCast(operand.value, register_type(builder.getContext(), result));
}

}  // namespace corrloom::codegen
