#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/Triple.h>

#include "compiler/codegen/entry_arguments.h"
#include "compiler/codegen/target_description.h"
#include "compiler/codegen/types.h"

namespace corrloom::codegen {
namespace {

/// Threads of a pool have small stacks.
constexpr long long kPrivateBytes = 512 << 10;

bool has_feature(const kernel::Target& target, std::string_view name) {
  const std::string all = "," + target.features + ",";
  return all.find(",+" + std::string(name) + ",") != std::string::npos;
}

int widest_dot(const kernel::Target& target) {
  if (has_feature(target, "avx512vnni")) return has_feature(target, "avx512vl") ? 64 : 0;
  return has_feature(target, "avxvnni") ? 32 : 0;
}

/// `void body(buffers and scalars..., i64 first_block, i64 last_block)`.
llvm::Function* declare_body(llvm::Module& module, const KernelSource& kernel) {
  llvm::LLVMContext& context = module.getContext();
  std::vector<llvm::Type*> types;
  for (const EntryArgument& argument : entry_arguments(kernel)) types.push_back(parameter_type(context, argument, 0));
  types.insert(types.end(), 2, llvm::Type::getInt64Ty(context));
  auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), types, /*isVarArg=*/false);
  return llvm::Function::Create(type, llvm::Function::InternalLinkage, kernel.entry + ".body", module);
}

/// The entry itself: loads what `args` points at and calls the body.
void write_wrapper(llvm::Module& module, const KernelSource& kernel, llvm::Function* body) {
  llvm::LLVMContext& context = module.getContext();
  llvm::Type* pointer = llvm::PointerType::get(context, 0);
  llvm::Type* i64 = llvm::Type::getInt64Ty(context);
  auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), {pointer, i64, i64}, /*isVarArg=*/false);
  auto* entry = llvm::Function::Create(type, llvm::Function::ExternalLinkage, kernel.entry, module);
  entry->addFnAttr(llvm::Attribute::NoUnwind);
  llvm::IRBuilder<> builder(llvm::BasicBlock::Create(context, "entry", entry));
  std::vector<llvm::Value*> values;
  unsigned position = 0;
  for (const EntryArgument& argument : entry_arguments(kernel)) {
    llvm::Value* slot = builder.CreateConstGEP1_64(pointer, entry->getArg(0), position++);
    llvm::Value* value = builder.CreateLoad(pointer, slot);
    if (!argument.is_pointer()) {
      value = builder.CreateLoad(parameter_type(context, argument, 0), value);
    }
    values.push_back(value);
  }
  values.push_back(entry->getArg(1));
  values.push_back(entry->getArg(2));
  builder.CreateCall(body, values);
  builder.CreateRetVoid();
}

/// All registers that the widest vectors use.
std::string vector_clobbers(const kernel::Target& target) {
  const bool wide = has_feature(target, "avx512f");
  if (!wide && !has_feature(target, "avx")) return "";
  std::string clobbers;
  for (int number = 0; number < (wide ? 32 : 16); ++number)
    clobbers += (number > 0 ? ",~{" : "~{") + std::string(wide ? "zmm" : "ymm") + std::to_string(number) + "}";
  return clobbers;
}

}  // namespace

std::optional<TargetDescription> describe_host(const kernel::Target& target) {
  TargetDescription description;
  description.triple = llvm::sys::getProcessTriple();
  description.cpu = target.cpu;
  description.features = target.features;
  TargetTraits& traits = description.traits;
  traits.private_bytes = kPrivateBytes;
  const llvm::Triple triple(description.triple);
  if (triple.isX86()) {
    traits.has_half = has_feature(target, "f16c");
    traits.dot_bytes = widest_dot(target);
    traits.pair_dot_bytes = has_feature(target, "avx512bf16") && has_feature(target, "avx512vl") ? 64 : 0;
    traits.has_scale = has_feature(target, "avx512f");
    traits.has_short_scale = traits.has_scale && has_feature(target, "avx512vl");
    traits.has_range = has_feature(target, "avx512dq") && has_feature(target, "avx512vl");
    traits.has_streaming = has_feature(target, "avx");
    traits.vector_clobbers = vector_clobbers(target);
    return description;
  }
  if (!triple.isAArch64()) return std::nullopt;
  traits.has_minimum = traits.has_minimum_f64 = traits.has_minimum_number = true;
  return description;
}

Entry open_host_entry(llvm::Module& module, const KernelSource& kernel) {
  llvm::Function* body = declare_body(module, kernel);
  write_wrapper(module, kernel, body);
  body->addFnAttr(llvm::Attribute::NoUnwind);
  llvm::IRBuilder<> builder(llvm::BasicBlock::Create(module.getContext(), "entry", body));
  Entry entry = bind_arguments(builder, kernel, body);
  entry.first_block = body->getArg(static_cast<unsigned>(body->arg_size()) - 2);
  entry.last_block = body->getArg(static_cast<unsigned>(body->arg_size()) - 1);
  return entry;
}

void emit_host_fence(llvm::IRBuilderBase& builder) {
  builder.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {});
}

}  // namespace corrloom::codegen
