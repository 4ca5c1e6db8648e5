#pragma once

#include <memory>
#include <string>

#include "compiler/codegen/target_description.h"

namespace llvm {
class Module;
class OptPassGate;
class TargetMachine;
}  // namespace llvm

namespace corrloom::codegen {

/// What turns LLVM IR into code for the host: LLVM's own list of passes without what looks for improvements that
/// schedules and passes have made, which is a third of the time. It can be used again and again.
class HostPipeline {
 public:
  enum class Output : std::uint8_t { Object, Assembly };

  HostPipeline(const TargetDescription& description, Output output, bool breaks_up_arrays);
  ~HostPipeline();
  HostPipeline(const HostPipeline&) = delete;
  HostPipeline& operator=(const HostPipeline&) = delete;

  llvm::TargetMachine& machine() const;
  /// The code of the module, which is used up.
  std::string run(llvm::Module& module);
  /// Whether a pipeline with these properties is one like this.
  bool is_for(const TargetDescription& description, bool breaks_up_arrays) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// A pipeline for objects: one that waits, or a new one. Making one, with all that LLVM finds out about a processor,
/// takes a millisecond, as long as what it is made for when that is small.
std::unique_ptr<HostPipeline> take_host_pipeline(const TargetDescription& description, bool breaks_up_arrays);
/// Lets it wait for the next kernel.
void give_back(std::unique_ptr<HostPipeline> pipeline);

/// Keeps the passes out that the list has no choice about. To be set in the context, which does not own it.
std::unique_ptr<llvm::OptPassGate> make_host_gate();

}  // namespace corrloom::codegen
