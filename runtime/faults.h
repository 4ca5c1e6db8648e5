#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/backend.h"

namespace corrloom::runtime {

/// The data-dependent checks of one launch: its error slot, a word that the device writes and the host reads, and what
/// became of it. The device outlives it.
class FaultCheck {
 public:
  /// Makes a slot without a fault for a launch with those values of the symbols. Throws RuntimeError.
  FaultCheck(DeviceBackend& backend, std::shared_ptr<const kernel::CompiledProgram> program,
             std::vector<std::int64_t> symbols);
  /// The launch is done.
  ~FaultCheck();
  FaultCheck(const FaultCheck&) = delete;
  FaultCheck& operator=(const FaultCheck&) = delete;

  std::uint64_t* slot() const { return slot_; }
  /// All kernels that write the slot are launched, the last one on `stream`.
  void note_launched(Stream stream) { event_ = backend_.record(stream); }

  bool is_done() const { return backend_.is_done(event_); }
  /// Whether it is known that nothing failed.
  bool is_clean() const { return is_clean_.load(std::memory_order_acquire); }
  bool is_reported() const { return is_reported_.load(std::memory_order_acquire); }
  /// Waits for the launch. Whether a check failed.
  bool has_fault();
  /// Throws InputError, the failed check's message, when one failed.
  void raise();

 private:
  DeviceBackend& backend_;
  std::shared_ptr<const kernel::CompiledProgram> program_;
  std::vector<std::int64_t> symbols_;
  std::uint64_t* slot_;
  Event event_;
  std::atomic<bool> is_clean_{false}, is_reported_{false};
};
using FaultCheckRef = std::shared_ptr<FaultCheck>;

/// The message of a failed data-dependent check, with the offending value. `word` is what the slot holds, `symbols` are
/// the values of the program's symbols, where it has sizes that depend on them.
std::string fault_message(const kernel::CompiledProgram& program, std::uint64_t word,
                          const std::vector<std::int64_t>& symbols);

}  // namespace corrloom::runtime
