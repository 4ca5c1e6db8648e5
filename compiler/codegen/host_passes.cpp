#include "compiler/codegen/host_passes.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/CodeGen/MachineModuleInfo.h>
#include <llvm/CodeGen/Passes.h>
#include <llvm/CodeGen/TargetPassConfig.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/OptBisect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/Scalar.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <string_view>
#include <vector>

#include "compiler/codegen/llvm_session.h"
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

struct HostPipeline::Parts {
  std::string cpu, features;
  bool breaks_up_arrays;
  std::unique_ptr<llvm::TargetMachine> machine;
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out{bytes};
  llvm::legacy::PassManager passes;
};

HostPipeline::HostPipeline(const TargetDescription& description, Output output, bool breaks_up_arrays)
    : parts_(new Parts{description.cpu, description.features, breaks_up_arrays, make_target_machine(description)}) {
  llvm::TargetMachine& machine = *parts_->machine;
  llvm::legacy::PassManager& passes = parts_->passes;
  if (breaks_up_arrays) passes.add(llvm::createSROAPass());
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
  const auto type = output == Output::Object ? llvm::CodeGenFileType::ObjectFile : llvm::CodeGenFileType::AssemblyFile;
  CORRLOOM_CHECK(!fails && !machine.addAsmPrinter(passes, parts_->out, nullptr, type, info->getMMI().getContext()),
                 "LLVM writes no such file for ", machine.getTargetTriple().str());
  passes.add(llvm::createFreeMachineFunctionPass());
}

HostPipeline::~HostPipeline() = default;

llvm::TargetMachine& HostPipeline::machine() const {
  return *parts_->machine;
}

std::string HostPipeline::run(llvm::Module& module) {
  parts_->bytes.clear();
  parts_->passes.run(module);
  return {parts_->bytes.data(), parts_->bytes.size()};
}

bool HostPipeline::is_for(const TargetDescription& description, bool breaks_up_arrays) const {
  return parts_->cpu == description.cpu && parts_->features == description.features &&
         parts_->breaks_up_arrays == breaks_up_arrays;
}

namespace {

/// Those that wait, no more than may soon be wanted at once.
struct Waiting {
  static constexpr std::size_t kMost = 8;
  std::mutex mutex;
  std::vector<std::unique_ptr<HostPipeline>> pipelines;
};

Waiting& waiting() {
  static Waiting all;
  return all;
}

}  // namespace

std::unique_ptr<HostPipeline> take_host_pipeline(const TargetDescription& description, bool breaks_up_arrays) {
  {
    Waiting& all = waiting();
    const std::lock_guard lock(all.mutex);
    const auto found = std::find_if(all.pipelines.begin(), all.pipelines.end(),
                                    [&](const auto& one) { return one->is_for(description, breaks_up_arrays); });
    if (found != all.pipelines.end()) {
      std::unique_ptr<HostPipeline> pipeline = std::move(*found);
      all.pipelines.erase(found);
      return pipeline;
    }
  }
  return std::make_unique<HostPipeline>(description, HostPipeline::Output::Object, breaks_up_arrays);
}

void give_back(std::unique_ptr<HostPipeline> pipeline) {
  Waiting& all = waiting();
  const std::lock_guard lock(all.mutex);
  if (all.pipelines.size() == Waiting::kMost) all.pipelines.erase(all.pipelines.begin());
  all.pipelines.push_back(std::move(pipeline));
}

std::unique_ptr<llvm::OptPassGate> make_host_gate() {
  return std::make_unique<HostGate>();
}

}  // namespace corrloom::codegen
