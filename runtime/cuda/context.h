#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

#include "ir/base/errors.h"
#include "runtime/cuda/driver.h"
#include "runtime/device.h"

namespace corrloom::runtime::gpu {

/// The primary context of one device, retained, and whether the device is lost. All parts of the backend make their
/// calls through it.
class Context {
 public:
  /// Throws RuntimeError when the device does not answer.
  Context(std::shared_ptr<const Driver> driver, int index);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Driver& driver() const { return *driver_; }
  const FunctionTable& api() const { return driver_->functions(); }
  Device device() const { return {DeviceKind::Cuda, index_}; }
  DeviceHandle handle() const { return device_; }
  ContextHandle context() const { return context_; }

  /// Whether calls make sense: the driver is usable and the device not lost.
  bool is_usable() const noexcept { return driver_->is_usable() && !lost_.load(std::memory_order_relaxed); }
  /// Throws RuntimeError, which says why, when they do not.
  void require_usable() const;

  /// Throws RuntimeError for a failed call, `name(arguments) on cuda:0: what the driver says`. An error that ruins the
  /// context marks the device as lost.
  template <class... Arguments>
  void check(Result result, const char* name, const Arguments&... arguments) const {
    if (result == kSuccess) [[likely]]
      return;
    std::string list;
    ((list += (list.empty() ? "" : ", ") + detail::concat(arguments)), ...);
    fail(result, std::string(name) + "(" + list + ")");
  }
  /// The same for a call that is written out already; `more` follows on lines of its own.
  [[noreturn]] void fail(Result result, const std::string& call, const std::string& more = {}) const;
  /// Remembers a launch: an error that ruins the context names the last ones.
  void note_launch(const std::shared_ptr<const std::string>& label) const;
  /// A number that the driver knows of the device; 0 when it does not know that one.
  int attribute(int attribute) const;

 private:
  std::shared_ptr<const Driver> driver_;
  int index_;
  DeviceHandle device_ = 0;
  ContextHandle context_ = nullptr;
  mutable std::atomic<bool> lost_{false};
  mutable std::mutex mutex_;
  mutable std::string lost_reason_;
  mutable std::array<std::shared_ptr<const std::string>, 4> last_launches_;
  mutable std::size_t launches_ = 0;

  std::string last_launches() const;
};

/// Makes the context current for the calling thread, and leaves the thread with the context that it had.
class ContextScope {
 public:
  /// Throws RuntimeError when the device cannot be used.
  explicit ContextScope(const Context& context);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  const Context& context_;
  ContextHandle previous_ = nullptr;
};

}  // namespace corrloom::runtime::gpu
