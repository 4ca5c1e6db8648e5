#include "runtime/sim/driver/memory_blocks.h"

#include <mutex>

namespace corrloom::sim::driver {

void MemoryBlocks::insert(Block block) {
  const std::unique_lock lock(mutex_);
  block.id = next_id_++;
  blocks_[block.address] = block;
}

bool MemoryBlocks::mark_freeing(DeviceAddress address) {
  const std::unique_lock lock(mutex_);
  const auto it = blocks_.find(address);
  if (it == blocks_.end() || it->second.freeing) return false;
  return it->second.freeing = true;
}

std::optional<Block> MemoryBlocks::find(DeviceAddress address) const {
  const std::shared_lock lock(mutex_);
  auto it = blocks_.upper_bound(address);
  if (it == blocks_.begin()) return std::nullopt;
  --it;
  if (address - it->first >= it->second.bytes) return std::nullopt;
  return it->second;
}

bool MemoryBlocks::overlaps(DeviceAddress address, uint64_t bytes) const {
  const std::shared_lock lock(mutex_);
  const auto next = blocks_.lower_bound(address);
  if (next != blocks_.end() && next->first - address < bytes) return true;
  if (next == blocks_.begin()) return false;
  const Block& before = std::prev(next)->second;
  return address - before.address < before.bytes;
}

std::vector<Block> MemoryBlocks::all() const {
  const std::shared_lock lock(mutex_);
  std::vector<Block> list;
  for (const auto& [address, block] : blocks_) list.push_back(block);
  return list;
}

}  // namespace corrloom::sim::driver
