#include "runtime/sim/driver/memory.h"

#include <sys/mman.h>

#include <algorithm>

#include "runtime/sim/driver/state.h"

namespace corrloom::sim::driver {
namespace {

uint64_t whole_pages(uint64_t bytes) {
  constexpr uint64_t kPage = 4096;
  return (bytes + kPage - 1) / kPage * kPage;
}

/// All devices reach host memory under its own address. What the host wrote is not tracked: all of it counts as set.
void map_everywhere(void* host, uint64_t bytes, MemoryKind kind) {
  for (const std::unique_ptr<Device>& device : driver().devices) device->memory.map_host(host, bytes, kind, true);
}

void unmap_everywhere(void* host) {
  for (const std::unique_ptr<Device>& device : driver().devices) device->memory.unmap_host(host);
}

/// Books memory that leaves a pool.
void leave_pool(const Block& block) {
  if (block.pool == nullptr) return;
  if (const std::shared_ptr<MemoryPool> pool = driver().pools.find(block.pool)) {
    const std::lock_guard lock(pool->mutex);
    pool->used_bytes -= std::min(pool->used_bytes, block.bytes);
  }
}

Block block_of(Context& context, DeviceAddress address, uint64_t bytes, MemoryKind kind) {
  Block block;
  block.address = address;
  block.bytes = bytes;
  block.kind = kind;
  block.device = context.device.ordinal;
  block.context = context.handle;
  return block;
}

}  // namespace

DeviceAddress allocate_device(Context& context, uint64_t bytes, CUmemoryPool pool) {
  require(bytes != 0);
  const DeviceAddress address = context.device.memory.allocate(bytes);
  require(address != 0, CUDA_ERROR_OUT_OF_MEMORY);
  Block block = block_of(context, address, bytes, MemoryKind::Device);
  block.pool = pool;
  driver().blocks.insert(block);
  return address;
}

void* allocate_host(Context& context, uint64_t bytes, MemoryKind kind, unsigned flags) {
  require(bytes != 0);
  require(bytes < uint64_t(1) << 46, CUDA_ERROR_OUT_OF_MEMORY);
  void* host = ::mmap(nullptr, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(host != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
  try {
    map_everywhere(host, bytes, kind);
    Block block = block_of(context, reinterpret_cast<DeviceAddress>(host), bytes, kind);
    block.flags = flags;
    driver().blocks.insert(block);
  } catch (...) {
    unmap_everywhere(host);
    ::munmap(host, whole_pages(bytes));
    throw;
  }
  return host;
}

void register_host(Context& context, void* host, uint64_t bytes, unsigned flags) {
  const auto address = reinterpret_cast<DeviceAddress>(host);
  require(host != nullptr && bytes != 0 && !is_device_address(address) && !is_device_address(address + bytes));
  Driver& all = driver();
  require(!all.blocks.overlaps(address, bytes), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  Block block = block_of(context, address, bytes, MemoryKind::RegisteredHost);
  block.flags = flags;
  map_everywhere(host, bytes, MemoryKind::RegisteredHost);
  all.blocks.insert(block);
}

void release_block(const Block& block) {
  void* host = reinterpret_cast<void*>(block.address);
  switch (block.kind) {
    case MemoryKind::Device:
      driver().device(block.device).memory.release(block.address);
      leave_pool(block);
      break;
    case MemoryKind::Managed:
    case MemoryKind::PinnedHost:
      unmap_everywhere(host);
      ::munmap(host, whole_pages(block.bytes));
      break;
    case MemoryKind::RegisteredHost:
      unmap_everywhere(host);
      break;
  }
}

void free_block(const Block& block) {
  const auto same = [&](const Block& other) { return other.id == block.id; };
  if (const std::optional<Block> taken = driver().blocks.remove(block.address, same)) release_block(*taken);
}

void free_address(DeviceAddress address) {
  const auto any = [](const Block&) { return true; };
  if (const std::optional<Block> taken = driver().blocks.remove(address, any)) release_block(*taken);
}

}  // namespace corrloom::sim::driver
