#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/cuda/devices.h"
#include "runtime/cuda/driver.h"

namespace corrloom::runtime::test {

/// A CUDA driver made of host memory, behind the functions of the table. Work of a stream waits until somebody
/// synchronises, so what is not ordered is seen to be wrong; every call is counted, and the call of any number can be
/// made to fail. Runs the kernels of `test_programs.h`. The driver that was made last answers.
class FakeDriver {
 public:
  struct Options {
    int devices = 2;
    std::size_t memory = std::size_t{256} << 20;  ///< of each device
    int major = 9, minor = 0;
  };
  FakeDriver() : FakeDriver(Options{}) {}
  explicit FakeDriver(Options options);
  ~FakeDriver();
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  static gpu::FunctionTable table();
  /// Devices of it; a new primary context each time.
  static gpu::CudaDevices devices() { return gpu::devices_of(gpu::start_driver(table(), "fake")); }

  /// Calls so far, without those that only ask for texts.
  std::int64_t calls() const;
  /// Lets call number `calls() + ahead` (from 1) do nothing but return `error`; 0 ahead: none.
  void fail_call(std::int64_t ahead, gpu::Result error);
  /// From call number `ahead` of those that allocate memory on, all of them are out of memory.
  void fail_allocations(std::int64_t ahead);
  /// Whether the call that was to fail came.
  bool has_failed() const;
  /// From now on every call that needs a context returns `error`.
  void lose_devices(gpu::Result error);
  /// Of the last call that failed.
  std::string failed_call() const;

  /// What was made and not given back: `2 allocations, 1 event`; empty when nothing.
  std::string leaks() const;
  /// The memory of devices and the modules that are there.
  std::string allocations() const;
  /// The context that is current for the calling thread.
  static gpu::ContextHandle current_context();
  static void set_current_context(gpu::ContextHandle context);
  /// A context of somebody else on device 0, which the application has made.
  gpu::ContextHandle foreign_context() const;

  struct State;

 private:
  std::unique_ptr<State> state_;
  State* previous_ = nullptr;  ///< of the driver that answers again after this one
};

}  // namespace corrloom::runtime::test
