#include "compiler/codegen/emit_check.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/MDBuilder.h>

#include "ir/kernel/error_slot.h"

namespace corrloom::codegen {
namespace {

using llvm::Value;

/// The word of `kernel::encode_fault`, lane by lane.
Value* encode(llvm::IRBuilderBase& builder, int site, Value* index) {
  const auto number = [&](std::int64_t value) { return llvm::ConstantInt::getSigned(index->getType(), value); };
  Value* value = builder.CreateBinaryIntrinsic(llvm::Intrinsic::smax, index, number(-kernel::kFaultValueBias));
  value = builder.CreateBinaryIntrinsic(llvm::Intrinsic::smin, value, number(kernel::kFaultValueBias - 1));
  // The lowest word of the site is that of the lowest value; the rest is what the value is above it.
  const std::uint64_t lowest = kernel::encode_fault(site, -kernel::kFaultValueBias);
  value = builder.CreateAdd(value, number(kernel::kFaultValueBias));
  return builder.CreateAdd(value, number(static_cast<std::int64_t>(lowest)));
}

}  // namespace

Value* emit_check(llvm::IRBuilderBase& builder, const IndexCheck& check, Value* error_slot) {
  // A negative index is a large one without its sign.
  Value* inside = builder.CreateICmpULT(check.index, check.extent);
  Value* failed = builder.CreateNot(inside);
  if (check.mask != nullptr) failed = builder.CreateAnd(check.mask, failed);
  const bool has_lanes = failed->getType()->isVectorTy();
  Value* any = has_lanes ? builder.CreateOrReduce(failed) : failed;

  llvm::LLVMContext& context = builder.getContext();
  llvm::Function* function = builder.GetInsertBlock()->getParent();
  auto* report = llvm::BasicBlock::Create(context, "outside", function);
  auto* after = llvm::BasicBlock::Create(context, "checked", function);
  builder.CreateCondBr(any, report, after, llvm::MDBuilder(context).createUnlikelyBranchWeights());
  builder.SetInsertPoint(report);
  Value* word = encode(builder, check.site, check.index);
  if (has_lanes) {
    word = builder.CreateSelect(failed, word, llvm::Constant::getAllOnesValue(word->getType()));
    word = builder.CreateIntMinReduce(word, /*IsSigned=*/false);
  }
  builder.CreateAtomicRMW(llvm::AtomicRMWInst::UMin, error_slot, word, llvm::Align(8), llvm::AtomicOrdering::Monotonic);
  builder.CreateBr(after);
  builder.SetInsertPoint(after);
  return check.mask != nullptr ? builder.CreateAnd(check.mask, inside) : inside;
}

}  // namespace corrloom::codegen
