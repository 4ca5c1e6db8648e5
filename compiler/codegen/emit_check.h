#pragma once

namespace llvm {
class IRBuilderBase;
class Value;
}  // namespace llvm

namespace corrloom::codegen {

/// A check in registers: `index` and `extent` are i64, `mask` bool (null: all lanes), each in the lanes of the check or
/// a scalar together.
struct IndexCheck {
  int site;
  llvm::Value* index;
  llvm::Value* extent;
  llvm::Value* mask;
};

/// Writes a check; gives where the index is inside and the mask holds. The way of a failure, one atomic minimum of the
/// word at `error_slot`, lies in a block of its own that is marked unlikely.
llvm::Value* emit_check(llvm::IRBuilderBase& builder, const IndexCheck& check, llvm::Value* error_slot);

}  // namespace corrloom::codegen
