#pragma once

#include <memory>

namespace llvm {
class OptPassGate;
class TargetMachine;
class raw_pwrite_stream;
enum class CodeGenFileType;
namespace legacy {
class PassManager;
}
}  // namespace llvm

namespace corrloom::codegen {

/// What turns LLVM IR into code for the host: LLVM's own list without what looks for improvements that schedules and
/// passes have made, which is a third of the time.
void add_host_passes(llvm::TargetMachine& machine, llvm::legacy::PassManager& passes, llvm::raw_pwrite_stream& out,
                     llvm::CodeGenFileType type);

/// Keeps the passes out that the list has no choice about. To be set in the context, which does not own it.
std::unique_ptr<llvm::OptPassGate> make_host_gate();

}  // namespace corrloom::codegen
