#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PatternMatch.h>

#include <numeric>

#include "compiler/codegen/emit_primitive.h"

namespace corrloom::codegen {
namespace {

using llvm::Value;

/// The shuffle that picks every second lane of two vectors, from `first` on, or null.
llvm::ShuffleVectorInst* picks_every_second(Value* value, int first) {
  auto* cast = llvm::dyn_cast<llvm::BitCastInst>(value);
  auto* shuffle = llvm::dyn_cast<llvm::ShuffleVectorInst>(cast == nullptr ? value : cast->getOperand(0));
  if (shuffle == nullptr || shuffle->changesLength()) return nullptr;
  for (std::size_t k = 0; k < shuffle->getShuffleMask().size(); ++k) {
    if (shuffle->getShuffleMask()[k] != 2 * static_cast<int>(k) + first) return nullptr;
  }
  return shuffle;
}

/// The element that a plain load begins with, as bytes from something; null for anything else.
Value* start_of(Value* value, const llvm::DataLayout& layout, std::int64_t& bytes) {
  auto* load = llvm::dyn_cast<llvm::LoadInst>(value);
  if (load == nullptr || !load->isSimple()) return nullptr;
  llvm::APInt offset(layout.getIndexTypeSizeInBits(load->getPointerOperandType()), 0);
  Value* base = load->getPointerOperand()->stripAndAccumulateConstantOffsets(layout, offset, true);
  bytes = offset.getSExtValue();
  return base;
}

/// Two vectors beside each other: one load where they are loaded from there.
Value* joined_vectors(llvm::IRBuilderBase& builder, Value* first, Value* second) {
  const llvm::DataLayout& layout = builder.GetInsertBlock()->getModule()->getDataLayout();
  auto* type = llvm::cast<llvm::FixedVectorType>(first->getType());
  auto* whole = llvm::FixedVectorType::getDoubleElementsVectorType(type);
  std::int64_t at = 0, next = 0;
  Value *base = start_of(first, layout, at), *other = start_of(second, layout, next);
  const auto size = static_cast<std::int64_t>(layout.getTypeStoreSize(type).getFixedValue());
  if (base != nullptr && base == other && next == at + size) {
    auto* load = llvm::cast<llvm::LoadInst>(first);
    const llvm::IRBuilderBase::InsertPointGuard guard(builder);
    builder.SetInsertPoint(llvm::cast<llvm::LoadInst>(second));
    return builder.CreateAlignedLoad(whole, load->getPointerOperand(), load->getAlign());
  }
  llvm::SmallVector<int, 64> all(whole->getNumElements());
  std::iota(all.begin(), all.end(), 0);
  return builder.CreateShuffleVector(first, second, all);
}

}  // namespace

Value* emit_joined_halves(llvm::IRBuilderBase& builder, Value* x, Value* y) {
  using namespace llvm::PatternMatch;
  Value *lower = nullptr, *upper = nullptr;
  if (!x->getType()->isVectorTy() || !x->getType()->isIntOrIntVectorTy(32) || !match(x, m_ZExt(m_Value(lower))) ||
      !match(y, m_Shl(m_ZExt(m_Value(upper)), m_SpecificInt(16))))
    return nullptr;
  if (lower->getType()->getScalarSizeInBits() != 16 || upper->getType() != lower->getType()) return nullptr;
  const llvm::ShuffleVectorInst *even = picks_every_second(lower, 0), *odd = picks_every_second(upper, 1);
  if (even == nullptr || odd == nullptr || even->getOperand(0) != odd->getOperand(0) ||
      even->getOperand(1) != odd->getOperand(1))
    return nullptr;
  return builder.CreateBitCast(joined_vectors(builder, even->getOperand(0), even->getOperand(1)), x->getType());
}

}  // namespace corrloom::codegen
