#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>

#include <bit>
#include <optional>

#include "compiler/codegen/emit_primitive.h"
#include "ir/base/errors.h"

namespace corrloom::codegen {
namespace {

using llvm::Value;
using loop::Opcode;

/// The pieces that the operations below are built from, in one width.
class IntegerEmitter {
 public:
  IntegerEmitter(llvm::IRBuilderBase& builder, const Operand& first)
      : builder_(builder),
        type_(first.value->getType()),
        width_(bit_width(first.type.dtype)),
        is_signed_(is_signed_integer(first.type.dtype)) {}

  /// The quotient and the remainder of division towards minus infinity; only what is asked for is used.
  struct Division {
    Value* quotient;
    Value* remainder;
  };

  Value* floor_divide(Value* x, const Operand& y) {
    if (const auto shift = power_of_two(y)) {
      return is_signed_ ? builder_.CreateAShr(x, number(*shift)) : builder_.CreateLShr(x, number(*shift));
    }
    return divide(x, y).quotient;
  }

  Value* modulo(Value* x, const Operand& y) {
    if (const auto shift = power_of_two(y))
      return builder_.CreateAnd(x, llvm::ConstantInt::get(type_, (std::uint64_t{1} << *shift) - 1));
    return divide(x, y).remainder;
  }

  /// A count beyond the width would be poison, which the select does not pass on.
  Value* shift_left(Value* x, const Operand& y) {
    if (is_known_inside(y)) return builder_.CreateShl(x, y.value);
    return builder_.CreateSelect(is_inside(y.value), builder_.CreateShl(x, low_count(y.value)), number(0));
  }

  Value* shift_right(Value* x, const Operand& y) {
    if (!is_signed_)
      return builder_.CreateSelect(is_inside(y.value), builder_.CreateLShr(x, low_count(y.value)), number(0));
    return builder_.CreateAShr(x, builder_.CreateSelect(is_inside(y.value), y.value, number(width_ - 1)));
  }

  Value* absolute(Value* x) {
    if (!is_signed_) return x;
    return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x, builder_.getFalse());
  }

  Value* minimum(Value* x, Value* y) {
    return builder_.CreateBinaryIntrinsic(is_signed_ ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, x, y);
  }
  Value* maximum(Value* x, Value* y) {
    return builder_.CreateBinaryIntrinsic(is_signed_ ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, x, y);
  }

 private:
  llvm::Constant* number(std::int64_t value) { return llvm::ConstantInt::getSigned(type_, value); }
  /// The count of a shift whose result is only used when the count is inside the width. LLVM 22 takes select and shift
  /// together for PTX's clamping shift, whose count has 32 bits: one of 2^32 becomes 0. A masked count keeps them
  /// apart.
  Value* low_count(Value* count) { return width_ == 64 ? builder_.CreateAnd(count, number(63)) : count; }
  bool is_known_inside(const Operand& count) const {
    return count.known != nullptr && count.known->bits < static_cast<std::uint64_t>(width_);
  }
  Value* is_inside(Value* count) { return builder_.CreateICmpULT(count, number(width_)); }

  /// log2 of a constant divisor that is a positive power of two.
  std::optional<int> power_of_two(const Operand& y) const {
    if (y.known == nullptr) return std::nullopt;
    const bool is_positive = !is_signed_ || y.known->as_i64() > 0;
    if (!is_positive || !std::has_single_bit(y.known->bits)) return std::nullopt;
    return std::countr_zero(y.known->bits);
  }

  Division divide(Value* x, const Operand& y) {
    if (!is_signed_) return divide_unsigned(x, y);
    if (y.known != nullptr && y.known->as_i64() > 0) return divide_by_positive(x, y.value);
    return divide_signed(x, y.value);
  }

  Division divide_unsigned(Value* x, const Operand& y) {
    if (y.known != nullptr && y.known->bits != 0) {
      return {builder_.CreateUDiv(x, y.value), builder_.CreateURem(x, y.value)};
    }
    Value* is_zero = builder_.CreateICmpEQ(y.value, number(0));
    Value* divisor = builder_.CreateSelect(is_zero, number(1), y.value);
    // By 1 the remainder is 0, as it is to be for 0.
    return {builder_.CreateSelect(is_zero, number(0), builder_.CreateUDiv(x, divisor)),
            builder_.CreateURem(x, divisor)};
  }

  /// The machine's division rounds towards 0, so its remainder is negative exactly where it must be corrected.
  Division divide_by_positive(Value* x, Value* y) {
    Value* quotient = builder_.CreateSDiv(x, y);
    Value* remainder = builder_.CreateSub(x, builder_.CreateMul(quotient, y));
    Value* is_above = builder_.CreateICmpSLT(remainder, number(0));
    return {builder_.CreateSub(quotient, builder_.CreateZExt(is_above, type_)),
            builder_.CreateAdd(remainder, builder_.CreateSelect(is_above, y, number(0)))};
  }

  /// Any divisor. 0 and -1 divide as 1 does, since the machine would trap on 0 and on the lowest integer by -1; the
  /// remainder is then 0, as it is to be, and the quotient is put right.
  Division divide_signed(Value* x, Value* y) {
    Value* is_zero = builder_.CreateICmpEQ(y, number(0));
    Value* is_minus_one = builder_.CreateICmpEQ(y, number(-1));
    Value* divisor = builder_.CreateSelect(builder_.CreateOr(is_zero, is_minus_one), number(1), y);
    Value* quotient = builder_.CreateSDiv(x, divisor);
    Value* remainder = builder_.CreateSub(x, builder_.CreateMul(quotient, divisor));
    Value* is_inexact = builder_.CreateICmpNE(remainder, number(0));
    Value* differs = builder_.CreateICmpSLT(builder_.CreateXor(remainder, divisor), number(0));
    Value* is_above = builder_.CreateAnd(is_inexact, differs);
    Value* floored = builder_.CreateSub(quotient, builder_.CreateZExt(is_above, type_));
    Value* negated = builder_.CreateSelect(is_minus_one, builder_.CreateNeg(x), floored);
    return {builder_.CreateSelect(is_zero, number(0), negated),
            builder_.CreateAdd(remainder, builder_.CreateSelect(is_above, divisor, number(0)))};
  }

  llvm::IRBuilderBase& builder_;
  llvm::Type* type_;
  int width_;
  bool is_signed_;
};

}  // namespace

Value* emit_integer(llvm::IRBuilderBase& builder, Opcode opcode, std::span<const Operand> operands) {
  IntegerEmitter emitter(builder, operands[0]);
  Value* x = operands[0].value;
  const Operand& second = operands.size() > 1 ? operands[1] : operands[0];
  Value* y = second.value;
  switch (opcode) {
    case Opcode::Neg:
      return builder.CreateNeg(x);
    case Opcode::Not:
      return builder.CreateNot(x);
    case Opcode::Add:
      return builder.CreateAdd(x, y);
    case Opcode::Sub:
      return builder.CreateSub(x, y);
    case Opcode::Mul:
      return builder.CreateMul(x, y);
    case Opcode::And:
    case Opcode::LazyAnd:
      return builder.CreateAnd(x, y);
    case Opcode::Or:
    case Opcode::LazyOr:
      if (Value* words = emit_joined_halves(builder, x, y)) return words;
      return builder.CreateOr(x, y);
    case Opcode::Xor:
      return builder.CreateXor(x, y);
    case Opcode::FloorDiv:
      return emitter.floor_divide(x, second);
    case Opcode::Mod:
      return emitter.modulo(x, second);
    case Opcode::Shl:
      return emitter.shift_left(x, second);
    case Opcode::Shr:
      return emitter.shift_right(x, second);
    case Opcode::Abs:
      return emitter.absolute(x);
    case Opcode::Min:
      return emitter.minimum(x, y);
    case Opcode::Max:
      return emitter.maximum(x, y);
    default:
      break;
  }
  CORRLOOM_CHECK(false, scalar::info(opcode).text, " of integers has no code");
  return nullptr;
}

}  // namespace corrloom::codegen
