#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/cuda/driver_api.h"

namespace corrloom::runtime::gpu {

/// A driver that has started. Immutable; any thread may use it.
class Driver {
 public:
  /// `library` keeps the functions loaded. `cuInit` has succeeded.
  Driver(const FunctionTable& functions, std::string name, std::shared_ptr<void> library = nullptr);

  const FunctionTable& functions() const { return functions_; }
  /// Where it came from: `libcuda.so.1`, a path.
  const std::string& name() const { return name_; }
  /// `13.0`.
  std::string version() const;
  /// A function of its library by name; null when it has none of that name or is no library.
  void* symbol(const char* name) const noexcept;

  /// False in a child that fork made after the driver had started, and once the process ends: no call may be made then.
  bool is_usable() const noexcept;
  /// Throws RuntimeError, which says why, when no call may be made.
  void require_usable() const;
  /// `CUDA_ERROR_OUT_OF_MEMORY (2): out of memory`.
  std::string describe(Result error) const;

 private:
  FunctionTable functions_;
  std::string name_;
  std::shared_ptr<void> library_;
  unsigned forks_;  ///< how often this process had been forked when the driver started
};

/// A driver, or why there is none.
struct DriverSearch {
  std::shared_ptr<const Driver> driver;
  std::string reason;
};

/// Starts the driver that `setting` names, the value of CORRLOOM_CUDA: `auto` or empty (the system's), `off`, `sim`
/// (the simulated one, which lies beside this library) or a path. Never throws: whatever is wrong is the reason.
DriverSearch find_driver(const std::string& setting) noexcept;

/// Initialises the driver behind a table of functions.
DriverSearch start_driver(const FunctionTable& functions, const std::string& name,
                          std::shared_ptr<void> library = nullptr);

}  // namespace corrloom::runtime::gpu
