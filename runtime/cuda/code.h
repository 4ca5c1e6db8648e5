#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/backend.h"
#include "runtime/cuda/context.h"

namespace corrloom::runtime::gpu {

/// A program's PTX, compiled by the driver.
class LoadedCudaCode final : public LoadedCode {
 public:
  /// One kernel of the module.
  struct Entry {
    FunctionHandle function = nullptr;
    unsigned threads = 1, cluster = 1, shared_bytes = 0;
    std::shared_ptr<const std::string> label;  ///< op, kernel and place, for messages
  };

  /// Throws InternalError for code that is not for such a device or that the driver finds malformed, RuntimeError for
  /// what the device cannot do.
  LoadedCudaCode(const Context& context, const kernel::CompiledProgram& program);
  ~LoadedCudaCode() override;
  LoadedCudaCode(const LoadedCudaCode&) = delete;
  LoadedCudaCode& operator=(const LoadedCudaCode&) = delete;

  const Entry& entry(int kernel) const { return entries_[static_cast<std::size_t>(kernel)]; }

 private:
  void load_module(const kernel::CompiledProgram& program);
  Entry find_entry(const kernel::CompiledProgram& program, const kernel::Kernel& kernel) const;

  const Context& context_;
  ModuleHandle module_ = nullptr;
  std::vector<Entry> entries_;
};

}  // namespace corrloom::runtime::gpu
