#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "compiler/codegen/target_description.h"

namespace llvm {
class TargetMachine;
}

namespace corrloom::codegen {

/// Registers LLVM's targets and takes over its fatal errors, once per process.
void initialise_llvm();

/// Runs LLVM code that may end in one of LLVM's fatal errors; then returns its message, else nothing. What `body` had
/// under construction is not destroyed on an error: the caller must not touch it again, nor free it.
/// What `body` throws itself passes through.
std::optional<std::string> run_guarded(const std::function<void()>& body);

/// Ends in one of LLVM's fatal errors, as an instruction that cannot be selected does: for the test of `run_guarded`.
[[noreturn]] void fail_inside_llvm(const char* message);

/// A target machine for code that goes into objects or PTX text. Throws InternalError when LLVM has none.
std::unique_ptr<llvm::TargetMachine> make_target_machine(const TargetDescription& description);

}  // namespace corrloom::codegen
