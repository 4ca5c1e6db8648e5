#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/Module.h>

#include "compiler/codegen/entry_arguments.h"
#include "compiler/codegen/target_description.h"
#include "compiler/codegen/types.h"
#include "ir/base/errors.h"

namespace corrloom::codegen {
namespace {

/// The lowest `.version` that has the architecture: drivers that know the chip know it.
struct PtxArch {
  std::string_view name;
  int ptx_version;
};
constexpr PtxArch kArchs[] = {{"sm_75", 63},   {"sm_80", 70},   {"sm_86", 71},  {"sm_87", 74},   {"sm_88", 90},
                              {"sm_89", 78},   {"sm_90", 78},   {"sm_90a", 80}, {"sm_100", 86},  {"sm_100a", 86},
                              {"sm_103", 88},  {"sm_103a", 88}, {"sm_110", 90}, {"sm_110a", 90}, {"sm_120", 87},
                              {"sm_120a", 87}, {"sm_121", 88},  {"sm_121a", 88}};

/// PTX's address spaces in LLVM.
constexpr unsigned kGlobalSpace = 1;
constexpr unsigned kSharedSpace = 3;
/// What the hardware grants a thread.
constexpr long long kPrivateBytes = 512 << 10;

llvm::Value* read_register(llvm::IRBuilderBase& builder, llvm::Intrinsic::ID id) {
  return builder.CreateZExt(builder.CreateIntrinsic(id, llvm::ArrayRef<llvm::Type*>{}, {}), builder.getInt64Ty());
}

}  // namespace

std::optional<TargetDescription> describe_ptx(const kernel::Target& target) {
  for (const PtxArch& arch : kArchs) {
    if (arch.name != target.name) continue;
    TargetDescription description;
    description.triple = "nvptx64-nvidia-cuda";
    description.cpu = target.name;
    description.features = "+ptx" + std::to_string(arch.ptx_version);
    description.ptx_version = arch.ptx_version;
    TargetTraits& traits = description.traits;
    traits.runs_threads = true;
    traits.has_vector_memory = false;
    traits.has_approximations = true;
    traits.has_minimum = target.compute_capability >= 80;
    traits.has_minimum_number = true;
    traits.global_space = kGlobalSpace;
    traits.shared_space = kSharedSpace;
    traits.private_bytes = kPrivateBytes;
    return description;
  }
  return std::nullopt;
}

Entry open_ptx_entry(llvm::Module& module, const KernelSource& kernel) {
  llvm::LLVMContext& context = module.getContext();
  std::vector<llvm::Type*> types;
  for (const EntryArgument& argument : entry_arguments(kernel)) {
    types.push_back(parameter_type(context, argument, kGlobalSpace));
  }
  auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), types, /*isVarArg=*/false);
  auto* function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, kernel.entry, module);
  function->setCallingConv(llvm::CallingConv::PTX_Kernel);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  function->addFnAttr("nvvm.reqntid", std::to_string(thread_count(*kernel.function)));
  llvm::IRBuilder<> builder(llvm::BasicBlock::Create(context, "entry", function));
  Entry entry = bind_arguments(builder, kernel, function);
  entry.first_block = read_register(builder, llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x);
  entry.thread = read_register(builder, llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x);
  return entry;
}

llvm::Value* emit_ptx_approximation(llvm::IRBuilderBase& builder, loop::Opcode function, llvm::Value* x) {
  const auto intrinsic = [&](llvm::Intrinsic::ID id) -> llvm::Value* {
    return builder.CreateIntrinsic(builder.getFloatTy(), id, {x});
  };
  switch (function) {
    case loop::Opcode::Exp2:
      return builder.CreateUnaryIntrinsic(llvm::Intrinsic::nvvm_ex2_approx, x);
    case loop::Opcode::Log2:
      return intrinsic(llvm::Intrinsic::nvvm_lg2_approx_f);
    case loop::Opcode::Sin:
      return intrinsic(llvm::Intrinsic::nvvm_sin_approx_f);
    case loop::Opcode::Cos:
      return intrinsic(llvm::Intrinsic::nvvm_cos_approx_f);
    case loop::Opcode::Rsqrt:
      return intrinsic(llvm::Intrinsic::nvvm_rsqrt_approx_f);
    default:
      break;
  }
  CORRLOOM_CHECK(function == loop::Opcode::Tanh, scalar::info(function).text, " has no approximate instruction");
  // The one intrinsic without a name of NVPTX's own: with the flag it is tanh.approx.
  llvm::CallInst* tanh = builder.CreateUnaryIntrinsic(llvm::Intrinsic::tanh, x);
  tanh->setHasApproxFunc(true);
  return tanh;
}

void emit_ptx_barrier(llvm::IRBuilderBase& builder) {
  builder.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cta_sync_aligned_all, llvm::ArrayRef<llvm::Type*>{},
                          {builder.getInt32(0)});
}

}  // namespace corrloom::codegen
