#include "compiler/codegen/types.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/IRBuilder.h>

namespace corrloom::codegen {
namespace {

llvm::Type* in_lanes(llvm::Type* element, int lanes) {
  return lanes == 1 ? element : llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes));
}

int lanes_of(llvm::Value* value) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  return vector == nullptr ? 1 : static_cast<int>(vector->getNumElements());
}

}  // namespace

llvm::Type* register_type(llvm::LLVMContext& context, loop::Type type) {
  const auto integer = [&](int width) { return llvm::Type::getIntNTy(context, static_cast<unsigned>(width)); };
  switch (type.dtype) {
    case DType::F32:
      return in_lanes(llvm::Type::getFloatTy(context), type.lanes);
    case DType::F64:
      return in_lanes(llvm::Type::getDoubleTy(context), type.lanes);
    default:
      return in_lanes(integer(bit_width(type.dtype)), type.lanes);
  }
}

llvm::Type* memory_type(llvm::LLVMContext& context, loop::Type type) {
  if (type.dtype == DType::Bool) return in_lanes(llvm::Type::getInt8Ty(context), type.lanes);
  return register_type(context, type);
}

llvm::Constant* constant_of(llvm::LLVMContext& context, const scalar::Value& value, int lanes) {
  llvm::Type* type = register_type(context, {value.dtype, lanes});
  const unsigned width = static_cast<unsigned>(bit_width(value.dtype));
  const llvm::APInt bits(width, value.bits, /*isSigned=*/false, /*implicitTrunc=*/true);
  if (value.dtype == DType::F32) return llvm::ConstantFP::get(type, llvm::APFloat(llvm::APFloat::IEEEsingle(), bits));
  if (value.dtype == DType::F64) return llvm::ConstantFP::get(type, llvm::APFloat(llvm::APFloat::IEEEdouble(), bits));
  return llvm::ConstantInt::get(type, bits);
}

llvm::Constant* constant_i64(llvm::LLVMContext& context, std::int64_t value) {
  return constant_of(context, scalar::Value::i64(value), 1);
}

llvm::Value* to_memory(llvm::IRBuilderBase& builder, llvm::Value* value, DType dtype) {
  if (dtype != DType::Bool) return value;
  return builder.CreateZExt(value, memory_type(builder.getContext(), {dtype, lanes_of(value)}));
}

llvm::Value* from_memory(llvm::IRBuilderBase& builder, llvm::Value* value, DType dtype) {
  if (dtype != DType::Bool) return value;
  return builder.CreateICmpNE(value, llvm::Constant::getNullValue(value->getType()));
}

}  // namespace corrloom::codegen
