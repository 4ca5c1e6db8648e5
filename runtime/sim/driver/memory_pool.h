#pragma once

#include <atomic>
#include <mutex>

#include "runtime/sim/driver/cuda_types.h"

namespace corrloom::sim::driver {

/// A pool of stream-ordered allocations (CUmemoryPool). Freed memory goes back to the device at once, so what a pool
/// reserves is what is in use; the release threshold and the reuse policies are kept for those who ask.
class MemoryPool {
 public:
  MemoryPool(int device, uint64_t max_bytes, bool is_default)
      : device(device), max_bytes(max_bytes), is_default(is_default) {}

  const int device;
  const uint64_t max_bytes;  ///< 0: no limit
  const bool is_default;

  std::mutex mutex;
  uint64_t used_bytes = 0, used_high = 0;
  uint64_t release_threshold = 0;
  int reuse[3] = {1, 1, 1};           ///< the attributes REUSE_*
  CUmemAccess_flags access[64] = {};  ///< by device; the own device always reads and writes
};

}  // namespace corrloom::sim::driver
