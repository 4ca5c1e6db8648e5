#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "runtime/cuda/devices.h"
#include "runtime/cuda/driver.h"

namespace corrloom::runtime::test {

/// A CUDA driver made of host memory, behind the functions of the table. Work of a stream waits until somebody
/// synchronises, so what is not ordered is seen to be wrong; every call is counted, and the call of any number can be
/// made to fail. Runs the kernels of `test_programs.h`. One at a time.
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

  static cuda::FunctionTable table();
  /// Devices of it; a new primary context each time.
  static cuda::CudaDevices devices() { return cuda::devices_of(cuda::start_driver(table(), "fake")); }

  /// Calls so far, without those that only ask for texts.
  std::int64_t calls() const;
  /// Lets call number `calls() + ahead` (from 1) do nothing but return `error`; 0 ahead: none.
  void fail_call(std::int64_t ahead, cuda::Result error);
  /// Whether that call came.
  bool has_failed() const;
  /// From now on every call that needs a context returns `error`.
  void lose_devices(cuda::Result error);
  /// Of the last call that failed.
  std::string failed_call() const;

  /// What was made and not given back: `2 allocations, 1 event`; empty when nothing.
  std::string leaks() const;
  /// The context that is current for the calling thread.
  static cuda::ContextHandle current_context();
  static void set_current_context(cuda::ContextHandle context);
  /// A context of somebody else on device 0, which the application has made.
  cuda::ContextHandle foreign_context() const;

  struct State;
  State& state() const { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

}  // namespace corrloom::runtime::test
