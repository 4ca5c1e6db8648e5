#include "compiler/codegen/entry_arguments.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include "compiler/codegen/types.h"
#include "ir/base/errors.h"

namespace corrloom::codegen {
namespace {

using Kind = kernel::Argument::Kind;

/// The symbol that a size is, if it is just one.
scalar::SymbolId symbol_of(const kernel::SizeExpr& size) {
  const bool is_symbol = size.code.size() == 1 && size.code[0].kind == kernel::SizeOp::Kind::Symbol;
  return is_symbol ? scalar::SymbolId{static_cast<std::int32_t>(size.code[0].operand)} : scalar::SymbolId{};
}

std::vector<loop::BufferId> global_buffers(const loop::Function& function) {
  std::vector<loop::BufferId> ids;
  for (std::size_t k = 0; k < function.buffers.size(); ++k) {
    if (function.buffers[k].space == loop::Space::Global) ids.push_back({static_cast<std::int32_t>(k)});
  }
  return ids;
}

/// `noalias` is what lets loads move across stores; with `readonly` a PTX load takes the read-only path.
void annotate_pointer(llvm::Argument* pointer, const KernelSource& kernel, const loop::Buffer& buffer) {
  llvm::LLVMContext& context = pointer->getContext();
  if (kernel.exclusive_buffers) {
    pointer->addAttr(llvm::Attribute::NoAlias);
    if (!buffer.written) pointer->addAttr(llvm::Attribute::ReadOnly);
  }
  const auto alignment = static_cast<std::uint64_t>(std::max(kernel.alignment_bytes, byte_size(buffer.dtype)));
  pointer->addAttr(llvm::Attribute::getWithAlignment(context, llvm::Align(alignment)));
}

}  // namespace

std::vector<EntryArgument> entry_arguments(const KernelSource& kernel) {
  const loop::Function& function = *kernel.function;
  const std::vector<loop::BufferId> globals = global_buffers(function);
  std::vector<EntryArgument> arguments;
  std::size_t buffers = 0;
  for (const kernel::Argument& argument : kernel.arguments) {
    EntryArgument entry{argument.kind, {}, {}};
    if (argument.kind == Kind::Buffer) {
      CORRLOOM_CHECK(buffers < globals.size(), kernel.entry, " is given more than its ", globals.size(), " buffers");
      entry.buffer = globals[buffers++];
    }
    if (argument.kind == Kind::Scalar) entry.symbol = {argument.index};
    if (argument.kind == Kind::Size) entry.symbol = symbol_of(argument.size);
    const auto symbol = static_cast<std::size_t>(entry.symbol.index);
    CORRLOOM_CHECK(!entry.symbol || symbol < function.symbols.size(), kernel.entry, " has no symbol ", symbol);
    if (argument.kind == Kind::Scalar) {
      CORRLOOM_CHECK(entry.symbol, kernel.entry, " has a scalar argument without a symbol");
      entry.dtype = function.symbols[symbol].dtype;
    }
    arguments.push_back(entry);
  }
  CORRLOOM_CHECK(buffers == globals.size(), kernel.entry, " is given ", buffers, " of its ", globals.size(),
                 " buffers");
  return arguments;
}

llvm::Type* parameter_type(llvm::LLVMContext& context, const EntryArgument& argument, unsigned pointer_space) {
  if (argument.is_pointer()) return llvm::PointerType::get(context, pointer_space);
  return memory_type(context, {argument.dtype, 1});
}

Entry bind_arguments(llvm::IRBuilderBase& builder, const KernelSource& kernel, llvm::Function* function) {
  Entry entry;
  entry.function = function;
  entry.buffers.resize(kernel.function->buffers.size());
  entry.symbols.resize(kernel.function->symbols.size());
  unsigned position = 0;
  for (const EntryArgument& argument : entry_arguments(kernel)) {
    llvm::Argument* parameter = function->getArg(position++);
    if (argument.buffer) {
      const loop::Buffer& buffer = kernel.function->buffer(argument.buffer);
      annotate_pointer(parameter, kernel, buffer);
      parameter->setName(buffer.name);
      entry.buffers[static_cast<std::size_t>(argument.buffer.index)] = parameter;
    } else if (argument.kind == Kind::ErrorSlot) {
      parameter->setName("error_slot");
      entry.error_slot = parameter;
    } else if (argument.symbol) {
      const auto symbol = static_cast<std::size_t>(argument.symbol.index);
      parameter->setName(kernel.function->symbols[symbol].name);
      entry.symbols[symbol] = from_memory(builder, parameter, argument.dtype);
    }
  }
  return entry;
}

}  // namespace corrloom::codegen
