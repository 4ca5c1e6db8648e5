#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "ir/kernel/kernel.h"
#include "runtime/layout.h"

namespace corrloom::runtime {

class DeviceBackend;
class LoadedCode;
struct Stream;

/// Copies between layouts within a GPU, by a kernel that is loaded when it is needed first. Any thread may call.
class StridedCopy {
 public:
  StridedCopy();
  ~StridedCopy();
  StridedCopy(const StridedCopy&) = delete;
  StridedCopy& operator=(const StridedCopy&) = delete;

  /// Enqueues the copy of elements of `element_bytes` (1, 2, 4 or 8) along `axes`, outermost first. The layouts do not
  /// overlap.
  void run(DeviceBackend& backend, void* to, const void* from, std::span<const CopyAxis> axes, int element_bytes,
           Stream stream);
  /// Unloads the kernel; all launches of it are done.
  void clear() noexcept;

 private:
  std::mutex mutex_;
  std::unique_ptr<const kernel::CompiledProgram> program_;
  std::unique_ptr<LoadedCode> code_;
};

/// The kernel's text, for tests.
std::string strided_copy_ptx();

}  // namespace corrloom::runtime
