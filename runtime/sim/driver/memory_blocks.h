#pragma once

#include <map>
#include <optional>
#include <shared_mutex>
#include <vector>

#include "runtime/sim/driver/cuda_types.h"
#include "runtime/sim/machine.h"

namespace corrloom::sim::driver {

/// One range of memory that the client allocated or registered.
struct Block {
  DeviceAddress address = 0;
  uint64_t bytes = 0;
  MemoryKind kind = MemoryKind::Device;
  int device = 0;               ///< ordinal of the device it lies on, or whose context made it
  CUcontext context = nullptr;  ///< the context that frees it at the latest
  CUmemoryPool pool = nullptr;  ///< set for stream-ordered allocations
  unsigned flags = 0;           ///< of host memory: as given to cuMemHostAlloc or cuMemHostRegister
  uint64_t id = 0;              ///< unique in the process
  bool freeing = false;         ///< a stream will free it: the client must not any more
};

/// All blocks of the process, by address. Device, pinned and managed memory share one address space (unified
/// addressing).
class MemoryBlocks {
 public:
  /// Adds a block and gives it an id.
  void insert(Block block);
  /// Takes out the block that starts at `address`, provided `wanted(block)` holds.
  template <class Predicate>
  std::optional<Block> remove(DeviceAddress address, Predicate wanted) {
    const std::unique_lock lock(mutex_);
    const auto it = blocks_.find(address);
    if (it == blocks_.end() || !wanted(it->second)) return std::nullopt;
    const Block block = it->second;
    blocks_.erase(it);
    return block;
  }
  /// Notes that the block that starts at `address` will be freed by a stream; false when it already is, or is none.
  bool mark_freeing(DeviceAddress address);
  /// The block that contains `address`.
  std::optional<Block> find(DeviceAddress address) const;
  /// True when a block shares a byte with [address, address + bytes).
  bool overlaps(DeviceAddress address, uint64_t bytes) const;
  /// All blocks in address order.
  std::vector<Block> all() const;

 private:
  mutable std::shared_mutex mutex_;
  std::map<DeviceAddress, Block> blocks_;
  uint64_t next_id_ = 1;
};

/// True for addresses that only devices have; everything below is a host pointer of this process.
constexpr bool is_device_address(uint64_t address) {
  return address >= uint64_t(1) << 47;
}

/// True for page-locked memory of any origin, which copies reach without staging.
constexpr bool is_page_locked(MemoryKind kind) {
  return kind != MemoryKind::Device;
}

}  // namespace corrloom::sim::driver
