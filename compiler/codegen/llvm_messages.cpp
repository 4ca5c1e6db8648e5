#include "compiler/codegen/llvm_messages.h"

#include <llvm/CodeGen/MachineBasicBlock.h>
#include <llvm/CodeGen/MachineOptimizationRemarkEmitter.h>
#include <llvm/IR/DiagnosticHandler.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/Support/raw_ostream.h>

#include <memory>

namespace corrloom::codegen {
namespace {

/// Takes errors, and the remarks of the register allocator, which has one for each loop with what it moved to the
/// stack and back in it.
class Collector : public llvm::DiagnosticHandler {
 public:
  explicit Collector(Messages& messages) : messages_(messages) {}

  bool handleDiagnostics(const llvm::DiagnosticInfo& info) override {
    if (const auto* remark = llvm::dyn_cast<llvm::MachineOptimizationRemarkMissed>(&info)) count_spills(*remark);
    if (info.getSeverity() != llvm::DS_Error) return true;
    llvm::raw_string_ostream out(messages_.errors);
    llvm::DiagnosticPrinterRawOStream printer(out);
    info.print(printer);
    out << '\n';
    return true;
  }
  bool isMissedOptRemarkEnabled(llvm::StringRef pass) const override { return pass == "regalloc"; }
  bool isAnalysisRemarkEnabled(llvm::StringRef) const override { return false; }
  bool isPassedOptRemarkEnabled(llvm::StringRef) const override { return false; }
  bool isAnyRemarkEnabled() const override { return true; }

 private:
  void count_spills(const llvm::MachineOptimizationRemarkMissed& remark) {
    if (!remark.getBlock()->getName().starts_with(kInnermostLoop)) return;
    for (const auto& argument : remark.getArgs()) {
      int count = 0;
      if (argument.Key == "NumSpills" && llvm::to_integer(argument.Val, count)) messages_.spills += count;
    }
  }

  Messages& messages_;
};

}  // namespace

void collect_messages(llvm::LLVMContext& context, Messages& messages) {
  context.setDiagnosticHandler(std::make_unique<Collector>(messages));
}

}  // namespace corrloom::codegen
