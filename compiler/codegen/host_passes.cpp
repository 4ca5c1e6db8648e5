#include "compiler/codegen/host_passes.h"

#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/CodeGen/MachineModuleInfo.h>
#include <llvm/CodeGen/Passes.h>
#include <llvm/CodeGen/TargetPassConfig.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/OptBisect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/Scalar.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "ir/base/errors.h"

namespace corrloom::codegen {
namespace {

/// Opens the step of the list that only targets may call.
struct PassList : llvm::TargetPassConfig {
  using TargetPassConfig::addCoreISelPasses;
};

/// Finds nothing in code like ours.
constexpr std::array<std::string_view, 11> kLeftOut = {
    "x86-domain-reassignment",
    "x86-avoid-sfb",
    "x86-cmov-conversion",
    "tailduplication",
    "early-tailduplication",
    "early-ifcvt",
    "machine-latecleanup",
    "postra-machine-sink",
    "shrink-wrap",
    "x86-fixup-leas",
    "lrshrink",
};

class HostGate : public llvm::OptPassGate {
 public:
  bool shouldRunPass(llvm::StringRef name, llvm::StringRef) const override {
    return std::find(kLeftOut.begin(), kLeftOut.end(), std::string_view(name)) == kLeftOut.end();
  }
  bool isEnabled() const override { return true; }
};

/// Of the passes over LLVM IR those without which code generation fails somewhere. Left out above all: strength
/// reduction, for addresses are emitted as a part that moves and a displacement.
void add_ir_passes(llvm::TargetMachine& machine, llvm::legacy::PassManager& passes) {
  passes.add(llvm::createTargetTransformInfoWrapperPass(machine.getTargetIRAnalysis()));
  passes.add(llvm::createPreISelIntrinsicLoweringPass());
  passes.add(llvm::createAtomicExpandLegacyPass());
  passes.add(llvm::createUnreachableBlockEliminationPass());
  passes.add(llvm::createScalarizeMaskedMemIntrinLegacyPass());
  passes.add(llvm::createExpandReductionsPass());
}

}  // namespace

void add_host_passes(llvm::TargetMachine& machine, llvm::legacy::PassManager& passes, llvm::raw_pwrite_stream& out,
                     llvm::CodeGenFileType type) {
  auto* const info = new llvm::MachineModuleInfoWrapperPass(&machine);  // the pass manager owns what is added
  llvm::TargetPassConfig* const list = machine.createPassConfig(passes);
  list->setDisableVerify(true);
  passes.add(list);
  passes.add(info);
  add_ir_passes(machine, passes);
  list->addCodeGenPrepare();
  list->addPassesToHandleExceptions();
  list->addISelPrepare();
  const bool fails = (list->*(&PassList::addCoreISelPasses))();
  list->addMachinePasses();
  list->setInitialized();
  CORRLOOM_CHECK(!fails && !machine.addAsmPrinter(passes, out, nullptr, type, info->getMMI().getContext()),
                 "LLVM writes no such file for ", machine.getTargetTriple().str());
  passes.add(llvm::createFreeMachineFunctionPass());
}

std::unique_ptr<llvm::OptPassGate> make_host_gate() {
  return std::make_unique<HostGate>();
}

}  // namespace corrloom::codegen
