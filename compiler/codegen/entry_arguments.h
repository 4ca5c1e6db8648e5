#pragma once

#include <vector>

#include "compiler/codegen/target_description.h"

namespace llvm {
class Function;
class IRBuilderBase;
class LLVMContext;
class Type;
}  // namespace llvm

namespace corrloom::codegen {

/// An argument of an entry with what it is to the function.
struct EntryArgument {
  kernel::Argument::Kind kind;
  loop::BufferId buffer;    ///< of a Buffer
  scalar::SymbolId symbol;  ///< of a Scalar, and of a Size that is one symbol; may name nothing
  DType dtype = DType::I64;

  /// The address is the argument, not what is stored there.
  bool is_pointer() const {
    return kind == kernel::Argument::Kind::Buffer || kind == kernel::Argument::Kind::ErrorSlot;
  }
};

/// The kernel's arguments in order. Throws InternalError when they do not fit its function.
std::vector<EntryArgument> entry_arguments(const KernelSource& kernel);

/// A parameter's type: a pointer for buffers and the error slot, else the dtype in its memory form.
llvm::Type* parameter_type(llvm::LLVMContext& context, const EntryArgument& argument, unsigned pointer_space);

/// Takes the parameters of `function`, which begin with the kernel's arguments: binds buffers and symbols, and states
/// what is known of the pointers.
Entry bind_arguments(llvm::IRBuilderBase& builder, const KernelSource& kernel, llvm::Function* function);

}  // namespace corrloom::codegen
