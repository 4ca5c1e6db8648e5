#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "compiler/codegen/emit_primitive.h"
#include "ir/base/errors.h"

namespace corrloom::codegen {
namespace {

using llvm::Value;
using loop::Opcode;

/// Min and max in the four flavours of the language. Written out, because `llvm.maximum` is six instructions where the
/// machine only has "x > y ? x : y": two of those with the operands in either order (x, y and y, x) differ exactly for
/// a NaN and for zeros of two signs, and what they differ in says how to join them.
class FloatOrder {
 public:
  FloatOrder(llvm::IRBuilderBase& builder, const TargetTraits& traits, const Operand& x, const Operand& y)
      : builder_(builder), traits_(traits), x_(x), y_(y), is_double_(x.type.dtype == DType::F64) {}

  /// A NaN propagates.
  Value* propagating(bool is_max) {
    if (is_double_ ? traits_.has_minimum_f64 : traits_.has_minimum) {
      return intrinsic(is_max ? llvm::Intrinsic::maximum : llvm::Intrinsic::minimum);
    }
    if (const Operand* known = known_number()) return propagating_with(other_than(known), known, is_max);
    // Of the lesser in either order one is the NaN, and its bits outlast an or. The and of a max could lose them.
    if (!is_max) return joined(false);
    Value* greatest = has_range() ? range_max() : joined(true);
    Value* nan = llvm::ConstantFP::getQNaN(x_.value->getType());
    return builder_.CreateSelect(builder_.CreateFCmpUNO(x_.value, y_.value), nan, greatest);
  }

  /// A NaN is ignored.
  Value* ignoring(bool is_max) {
    if (traits_.has_minimum_number) {
      return intrinsic(is_max ? llvm::Intrinsic::maximumnum : llvm::Intrinsic::minimumnum);
    }
    // A NaN gives its place to the other operand; two of them stay.
    Value* x = builder_.CreateSelect(is_nan(x_.value), y_.value, x_.value);
    Value* y = builder_.CreateSelect(is_nan(y_.value), x, y_.value);
    return builder_.CreateSelect(is_nan(x), x, joined(x, y, is_max));
  }

 private:
  Value* intrinsic(llvm::Intrinsic::ID id) { return builder_.CreateBinaryIntrinsic(id, x_.value, y_.value); }
  Value* is_nan(Value* value) { return builder_.CreateFCmpUNO(value, value); }

  /// x < y ? x : y (or >): one instruction on x86; y when they are equal or unordered.
  Value* lesser(Value* x, Value* y, bool is_max) {
    Value* takes_x = is_max ? builder_.CreateFCmpOGT(x, y) : builder_.CreateFCmpOLT(x, y);
    return builder_.CreateSelect(takes_x, x, y);
  }

  /// The lesser or greater in either order: equal bits stay; of -0 and +0 the lesser has the sign.
  Value* joined(bool is_max) { return joined(x_.value, y_.value, is_max); }
  Value* joined(Value* x, Value* y, bool is_max) {
    Value* one = lesser(x, y, is_max);
    Value* two = lesser(y, x, is_max);
    llvm::Type* bits = one->getType()->getWithNewType(builder_.getIntNTy(is_double_ ? 64 : 32));
    Value* a = builder_.CreateBitCast(one, bits);
    Value* b = builder_.CreateBitCast(two, bits);
    return builder_.CreateBitCast(is_max ? builder_.CreateAnd(a, b) : builder_.CreateOr(a, b), one->getType());
  }

  bool has_range() const {
    const int bits = x_.type.lanes * (is_double_ ? 64 : 32);
    return traits_.has_range && (bits == 128 || bits == 256 || bits == 512);
  }

  /// The greater of two numbers, +0 being greater than -0, in one instruction. With a NaN it is anything.
  Value* range_max() {
    const int bits = x_.type.lanes * (is_double_ ? 64 : 32);
    constexpr int kGreaterWithItsSign = 5, kCurrentRounding = 4;
    Value* all = builder_.getIntN(static_cast<unsigned>(std::max(x_.type.lanes, 8)), ~std::uint64_t{0});
    std::vector<Value*> args = {x_.value, y_.value, builder_.getInt32(kGreaterWithItsSign), x_.value, all};
    if (bits == 512) args.push_back(builder_.getInt32(kCurrentRounding));
    const llvm::Intrinsic::ID id = is_double_ ? (bits == 512   ? llvm::Intrinsic::x86_avx512_mask_range_pd_512
                                                 : bits == 256 ? llvm::Intrinsic::x86_avx512_mask_range_pd_256
                                                               : llvm::Intrinsic::x86_avx512_mask_range_pd_128)
                                              : (bits == 512   ? llvm::Intrinsic::x86_avx512_mask_range_ps_512
                                                 : bits == 256 ? llvm::Intrinsic::x86_avx512_mask_range_ps_256
                                                               : llvm::Intrinsic::x86_avx512_mask_range_ps_128);
    return builder_.CreateIntrinsic(id, args);
  }

  const Operand* known_number() const {
    const auto is_number = [](const Operand& operand) {
      return operand.known != nullptr && operand.known->as_f64() == operand.known->as_f64();
    };
    return is_number(y_) ? &y_ : is_number(x_) ? &x_ : nullptr;
  }
  const Operand& other_than(const Operand* operand) const { return operand == &x_ ? y_ : x_; }

  /// With a constant that is no NaN the variable stays where it is equal or NaN, which is right for every constant but
  /// the greater zero of a max and the lesser zero of a min.
  Value* propagating_with(const Operand& variable, const Operand* known, bool is_max) {
    const bool is_negative = (known->known->bits >> (is_double_ ? 63 : 31)) != 0;
    const bool wins_ties = known->known->as_f64() == 0 && is_negative != is_max;
    Value* x = variable.value;
    Value* c = known->value;
    if (!wins_ties) return lesser(c, x, is_max);
    // Unordered comparisons: a NaN stays.
    Value* keeps_x = is_max ? builder_.CreateFCmpUGT(x, c) : builder_.CreateFCmpULT(x, c);
    return builder_.CreateSelect(keeps_x, x, c);
  }

  llvm::IRBuilderBase& builder_;
  const TargetTraits& traits_;
  const Operand& x_;
  const Operand& y_;
  bool is_double_;
};

}  // namespace

Value* emit_float(llvm::IRBuilderBase& builder, const TargetTraits& traits, Opcode opcode,
                  std::span<const Operand> operands) {
  Value* x = operands[0].value;
  const Operand& second = operands.size() > 1 ? operands[1] : operands[0];
  Value* y = second.value;
  FloatOrder order(builder, traits, operands[0], second);
  const auto unary = [&](llvm::Intrinsic::ID id) { return builder.CreateUnaryIntrinsic(id, x); };
  switch (opcode) {
    case Opcode::Neg:
      return builder.CreateFNeg(x);
    case Opcode::Abs:
      return unary(llvm::Intrinsic::fabs);
    case Opcode::Add:
      return builder.CreateFAdd(x, y);
    case Opcode::Sub:
      return builder.CreateFSub(x, y);
    case Opcode::Mul:
      return builder.CreateFMul(x, y);
    case Opcode::Div:
      return builder.CreateFDiv(x, y);
    case Opcode::Fma:
      return builder.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, operands[2].value});
    case Opcode::Sqrt:
      return unary(llvm::Intrinsic::sqrt);
    case Opcode::Floor:
      return unary(llvm::Intrinsic::floor);
    case Opcode::Ceil:
      return unary(llvm::Intrinsic::ceil);
    case Opcode::Round:
      return unary(llvm::Intrinsic::roundeven);
    case Opcode::Trunc:
      return unary(llvm::Intrinsic::trunc);
    case Opcode::Min:
      return order.propagating(/*is_max=*/false);
    case Opcode::Max:
      return order.propagating(/*is_max=*/true);
    case Opcode::Fmin:
      return order.ignoring(/*is_max=*/false);
    case Opcode::Fmax:
      return order.ignoring(/*is_max=*/true);
    default:
      break;
  }
  CORRLOOM_CHECK(false, scalar::info(opcode).text, " of floats has no code");
  return nullptr;
}

}  // namespace corrloom::codegen
