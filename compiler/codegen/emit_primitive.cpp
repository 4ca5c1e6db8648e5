#include "compiler/codegen/emit_primitive.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>

#include "ir/base/errors.h"
#include "ir/scalar/expand.h"

namespace corrloom::codegen {
namespace {

using llvm::CmpInst;
using llvm::Value;
using loop::Opcode;

bool is_comparison(Opcode opcode) {
  return opcode >= Opcode::Eq && opcode <= Opcode::Ge;
}

/// Only `ne` holds for a NaN.
CmpInst::Predicate float_predicate(Opcode opcode) {
  switch (opcode) {
    case Opcode::Eq:
      return CmpInst::FCMP_OEQ;
    case Opcode::Ne:
      return CmpInst::FCMP_UNE;
    case Opcode::Lt:
      return CmpInst::FCMP_OLT;
    case Opcode::Le:
      return CmpInst::FCMP_OLE;
    case Opcode::Gt:
      return CmpInst::FCMP_OGT;
    default:
      return CmpInst::FCMP_OGE;
  }
}

CmpInst::Predicate integer_predicate(Opcode opcode, bool is_signed) {
  switch (opcode) {
    case Opcode::Eq:
      return CmpInst::ICMP_EQ;
    case Opcode::Ne:
      return CmpInst::ICMP_NE;
    case Opcode::Lt:
      return is_signed ? CmpInst::ICMP_SLT : CmpInst::ICMP_ULT;
    case Opcode::Le:
      return is_signed ? CmpInst::ICMP_SLE : CmpInst::ICMP_ULE;
    case Opcode::Gt:
      return is_signed ? CmpInst::ICMP_SGT : CmpInst::ICMP_UGT;
    default:
      return is_signed ? CmpInst::ICMP_SGE : CmpInst::ICMP_UGE;
  }
}

Value* is_infinite(llvm::IRBuilderBase& builder, Value* x) {
  Value* magnitude = builder.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
  return builder.CreateFCmpOEQ(magnitude, llvm::ConstantFP::getInfinity(x->getType()));
}

/// The instruction takes one lane at a time.
Value* emit_approximation(llvm::IRBuilderBase& builder, Opcode opcode, const Operand& operand) {
  if (!operand.value->getType()->isVectorTy()) return emit_ptx_approximation(builder, opcode, operand.value);
  Value* result = llvm::PoisonValue::get(operand.value->getType());
  for (int lane = 0; lane < operand.type.lanes; ++lane) {
    Value* x = builder.CreateExtractElement(operand.value, static_cast<std::uint64_t>(lane));
    Value* y = emit_ptx_approximation(builder, opcode, x);
    result = builder.CreateInsertElement(result, y, static_cast<std::uint64_t>(lane));
  }
  return result;
}

}  // namespace

Value* emit_compare(llvm::IRBuilderBase& builder, Opcode opcode, std::span<const Operand> operands) {
  const DType dtype = operands[0].type.dtype;
  const auto predicate =
      is_float(dtype) ? float_predicate(opcode) : integer_predicate(opcode, is_signed_integer(dtype));
  return builder.CreateCmp(predicate, operands[0].value, operands[1].value);
}

Value* emit_primitive(llvm::IRBuilderBase& builder, const TargetTraits& traits, Opcode opcode,
                      std::span<const Operand> operands, loop::Type result) {
  const scalar::OpcodeInfo& row = scalar::info(opcode);
  const bool is_approximate = traits.has_approximations && scalar::is_approximable(opcode, result.dtype);
  CORRLOOM_CHECK(
      static_cast<int>(operands.size()) == row.arity && (row.kind == scalar::OpcodeKind::Primitive || is_approximate),
      row.text, " of ", operands.size(), " operands reached the code generator");
  if (is_approximate) return emit_approximation(builder, opcode, operands[0]);
  switch (opcode) {
    case Opcode::If:
    case Opcode::Select:
      return builder.CreateSelect(operands[0].value, operands[1].value, operands[2].value);
    case Opcode::Fence:
      return operands[0].value;
    case Opcode::Bitcast:
      return emit_bitcast(builder, operands[0], result);
    case Opcode::Cast:
      return emit_cast(builder, traits, operands[0], result);
    default:
      break;
  }
  const DType dtype = operands[0].type.dtype;
  CORRLOOM_CHECK(!is_narrow_float(dtype), row.text, " of ", name_of(dtype), " reached the code generator");
  if (is_comparison(opcode)) return emit_compare(builder, opcode, operands);
  if (opcode == Opcode::IsNan) return builder.CreateFCmpUNO(operands[0].value, operands[0].value);
  if (opcode == Opcode::IsInf) return is_infinite(builder, operands[0].value);
  if (opcode == Opcode::Scale) return emit_scale(builder, traits, operands);
  if (opcode == Opcode::Dot) return emit_dot(builder, traits, operands);
  return is_float(dtype) ? emit_float(builder, traits, opcode, operands) : emit_integer(builder, opcode, operands);
}

}  // namespace corrloom::codegen
