#include "compiler/codegen/llvm_session.h"

#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Target/TargetOptions.h>
#include <llvm/TargetParser/Triple.h>

#include <csetjmp>
#include <exception>
#include <mutex>

#include "ir/base/errors.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

namespace corrloom::codegen {
namespace {

/// Where a fatal error of LLVM goes on this thread.
struct Recovery {
  std::jmp_buf where;
  std::string message;
  std::exception_ptr thrown;
};
thread_local Recovery* current_recovery = nullptr;

/// LLVM aborts or exits when this returns, so it must not, and LLVM's frames know no exceptions: they are left by a
/// jump.
void leave_llvm(void*, const char* reason, bool) {
  Recovery* recovery = current_recovery;
  if (recovery == nullptr) return;
  recovery->message = reason;
  std::longjmp(recovery->where, 1);
}

void register_everything() {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  llvm::install_fatal_error_handler(leave_llvm);
  llvm::install_bad_alloc_error_handler(leave_llvm);
}

/// Keeps what a jump leaves behind out of a leak checker's report.
class LeaksForgiven {
 public:
#if defined(__SANITIZE_ADDRESS__)
  LeaksForgiven() {
    __lsan_disable();
  }
  ~LeaksForgiven() {
    __lsan_enable();
  }
#else
  LeaksForgiven() {}
#endif
  LeaksForgiven(const LeaksForgiven&) = delete;
};

/// Our own exceptions end here, below LLVM's frames, and are thrown again above them.
void run_catching(const std::function<void()>& body, Recovery& recovery) {
  try {
    body();
  } catch (...) {
    recovery.thrown = std::current_exception();
  }
}

/// False when the body was left by a jump. Holds no object that needs destruction.
bool run_recoverable(const std::function<void()>& body, Recovery& recovery) {
  if (setjmp(recovery.where) != 0) return false;
  run_catching(body, recovery);
  return true;
}

}  // namespace

void initialise_llvm() {
  static std::once_flag once;
  std::call_once(once, register_everything);
}

std::optional<std::string> run_guarded(const std::function<void()>& body) {
  const LeaksForgiven forgiven;
  Recovery recovery;
  Recovery* const outer = current_recovery;
  current_recovery = &recovery;
  const bool finished = run_recoverable(body, recovery);
  current_recovery = outer;
  if (!finished) return recovery.message;
  if (recovery.thrown) std::rethrow_exception(recovery.thrown);
  return std::nullopt;
}

void fail_inside_llvm(const char* message) {
  initialise_llvm();
  llvm::reportFatalInternalError(message);
}

std::unique_ptr<llvm::TargetMachine> make_target_machine(const TargetDescription& description) {
  const llvm::Triple triple(description.triple);
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
  CORRLOOM_CHECK(target != nullptr, "LLVM has no target ", description.triple, ": ", error);
  llvm::TargetOptions options;
  // Only `llvm.fma` may fuse: results must not depend on what the selector finds.
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  options.MCOptions.AsmVerbose = false;
  const bool is_ptx = description.ptx_version != 0;
  const auto relocation = is_ptx ? std::nullopt : std::optional(llvm::Reloc::PIC_);
  std::unique_ptr<llvm::TargetMachine> machine(
      target->createTargetMachine(triple, description.cpu, description.features, options, relocation, std::nullopt,
                                  llvm::CodeGenOptLevel::Default));
  CORRLOOM_CHECK(machine != nullptr, "LLVM makes no code for ", description.triple, " ", description.cpu);
  return machine;
}

}  // namespace corrloom::codegen
