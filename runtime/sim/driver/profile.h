#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/sim/machine.h"

namespace corrloom::sim::driver {

/// One launch that has ended.
struct LaunchRecord {
  uint64_t number = 0;  ///< counts the launches of the device from 1
  std::string kernel;
  Dim3 grid, block;
  uint32_t shared_bytes = 0;
  uint32_t registers = 0;
  bool assembled = false;  ///< an assembler gave the registers and what follows; otherwise they are an estimate
  uint32_t spill_store_bytes = 0, spill_load_bytes = 0;
  int resident_blocks = 0;  ///< of one multiprocessor: the theoretical occupancy
  int resident_warps = 0, max_resident_warps = 0;
  double host_seconds = 0;  ///< of this machine; says nothing about a real device
  LaunchError error = LaunchError::None;
  Counters counters;
};

/// What the launches of a device did and what the sanitizer found.
class Profile {
 public:
  void add(LaunchRecord record, std::vector<Finding> findings);
  uint64_t launches() const;
  /// The record `back` launches before the last; empty when it is not kept (the last 1024 are).
  std::optional<LaunchRecord> record(uint64_t back) const;
  /// Launches and summed counters of the kernel, or of all when the name is empty.
  std::pair<uint64_t, Counters> total(const std::string& kernel) const;
  /// All records kept, oldest first.
  std::vector<LaunchRecord> records() const;
  /// The names of all kernels that were launched.
  std::vector<std::string> kernels() const;
  /// The findings kept so far (the first 1024), oldest first.
  std::vector<Finding> findings() const;
  void clear();

 private:
  mutable std::mutex mutex_;
  uint64_t launches_ = 0;
  std::deque<LaunchRecord> records_;
  std::map<std::string, std::pair<uint64_t, Counters>> totals_;
  std::vector<Finding> findings_;
};

}  // namespace corrloom::sim::driver
