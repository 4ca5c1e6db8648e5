#include <algorithm>
#include <cstring>

#include "runtime/sim/driver/capture.h"
#include "runtime/sim/driver/export.h"
#include "runtime/sim/driver/memory.h"
#include "runtime/sim/driver/state.h"

/// Stream-ordered allocation and its pools.
namespace corrloom::sim::driver {
namespace {

std::shared_ptr<MemoryPool> find_pool(CUmemoryPool handle) {
  std::shared_ptr<MemoryPool> pool = driver().pools.find(handle);
  require(pool != nullptr);
  return pool;
}

/// Books bytes that are about to be allocated from the pool.
void take_share(MemoryPool& pool, uint64_t bytes) {
  const std::lock_guard lock(pool.mutex);
  require(bytes <= driver().device(pool.device).memory.total_bytes(), CUDA_ERROR_OUT_OF_MEMORY);
  require(pool.max_bytes == 0 || pool.used_bytes + bytes <= pool.max_bytes, CUDA_ERROR_OUT_OF_MEMORY);
  pool.used_bytes += bytes;
  pool.used_high = std::max(pool.used_high, pool.used_bytes);
}

CUresult allocate(CUdeviceptr* out, size_t bytes, CUmemoryPool handle, CUstream stream_handle) {
  require(out != nullptr && bytes != 0);
  const std::shared_ptr<Stream> stream = find_stream(stream_handle);
  forbid_captured(*stream);
  const std::shared_ptr<MemoryPool> pool = find_pool(handle);
  Device& device = driver().device(pool->device);
  take_share(*pool, bytes);
  // The address is known at once; what the stream frees before this point in it is not waited for.
  DeviceAddress address = device.memory.allocate(bytes);
  if (address == 0) {
    // Frees that are queued may make room.
    stream->context().enqueue(*stream, Nothing{})->wait();
    address = device.memory.allocate(bytes);
  }
  if (address == 0) {
    const std::lock_guard lock(pool->mutex);
    pool->used_bytes -= bytes;
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  Block block;
  block.address = address;
  block.bytes = bytes;
  block.device = device.ordinal;
  block.context = stream->context().handle;
  block.pool = handle;
  driver().blocks.insert(block);
  *out = address;
  return CUDA_SUCCESS;
}

template <class T>
T get(const void* value) {
  T result;
  std::memcpy(&result, value, sizeof(T));
  return result;
}

template <class T>
void put(void* value, T number) {
  std::memcpy(value, &number, sizeof(T));
}

}  // namespace

CUresult device_get_default_mem_pool(CUmemoryPool* out, CUdevice ordinal) {
  require(out != nullptr);
  *out = driver().device(ordinal).default_pool;
  return CUDA_SUCCESS;
}

CUresult device_get_mem_pool(CUmemoryPool* out, CUdevice ordinal) {
  require(out != nullptr);
  *out = driver().device(ordinal).current_pool;
  return CUDA_SUCCESS;
}

CUresult device_set_mem_pool(CUdevice ordinal, CUmemoryPool handle) {
  Device& device = driver().device(ordinal);
  require(find_pool(handle)->device == device.ordinal);
  device.current_pool = handle;
  return CUDA_SUCCESS;
}

CUresult mem_alloc_async(CUdeviceptr* out, size_t bytes, CUstream handle) {
  const std::shared_ptr<Stream> stream = find_stream(handle);
  return allocate(out, bytes, stream->context().device.current_pool, handle);
}

CUresult mem_alloc_from_pool_async(CUdeviceptr* out, size_t bytes, CUmemoryPool pool, CUstream handle) {
  return allocate(out, bytes, pool, handle);
}

CUresult mem_free_async(CUdeviceptr address, CUstream handle) {
  const std::shared_ptr<Stream> stream = find_stream(handle);
  const std::optional<Block> block = driver().blocks.find(address);
  require(block.has_value() && block->address == address && block->kind == MemoryKind::Device);
  forbid_captured(*stream);
  require(driver().blocks.mark_freeing(address));
  submit(*stream, PoolFree{address});
  return CUDA_SUCCESS;
}

CUresult pool_create(CUmemoryPool* out, const CUmemPoolProps* properties) {
  require(out != nullptr && properties != nullptr && properties->allocType == CU_MEM_ALLOCATION_TYPE_PINNED);
  require(properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE);
  require(properties->handleTypes == CU_MEM_HANDLE_TYPE_NONE, CUDA_ERROR_NOT_SUPPORTED);
  const Device& device = driver().device(properties->location.id);
  *out = driver().pools.insert(std::make_shared<MemoryPool>(device.ordinal, properties->maxSize, false));
  return CUDA_SUCCESS;
}

CUresult pool_destroy(CUmemoryPool handle) {
  const std::shared_ptr<MemoryPool> pool = find_pool(handle);
  require(!pool->is_default);
  Device& device = driver().device(pool->device);
  CUmemoryPool current = handle;
  device.current_pool.compare_exchange_strong(current, device.default_pool);
  driver().pools.remove(handle);
  return CUDA_SUCCESS;
}

CUresult pool_trim_to(CUmemoryPool handle, size_t) {
  find_pool(handle);
  return CUDA_SUCCESS;
}

CUresult pool_set_attribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  const std::shared_ptr<MemoryPool> pool = find_pool(handle);
  require(value != nullptr);
  const std::lock_guard lock(pool->mutex);
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      pool->reuse[attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] = get<int>(value);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      pool->release_threshold = get<cuuint64_t>(value);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      require(get<cuuint64_t>(value) == 0);  // a high-water mark can only be reset
      pool->used_high = pool->used_bytes;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult pool_get_attribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  const std::shared_ptr<MemoryPool> pool = find_pool(handle);
  require(value != nullptr);
  const std::lock_guard lock(pool->mutex);
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      put(value, pool->reuse[attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES]);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      put<cuuint64_t>(value, pool->release_threshold);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      put<cuuint64_t>(value, pool->used_bytes);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      put<cuuint64_t>(value, pool->used_high);
      return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult pool_set_access(CUmemoryPool handle, const CUmemAccessDesc* accesses, size_t count) {
  const std::shared_ptr<MemoryPool> pool = find_pool(handle);
  require(count == 0 || accesses != nullptr);
  const std::lock_guard lock(pool->mutex);
  for (size_t i = 0; i < count; ++i) {
    require(accesses[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE);
    Device& device = driver().device(accesses[i].location.id);
    const bool reads = accesses[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
    require(accesses[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE || !reads);
    require(device.ordinal != pool->device || reads);  // the own device cannot be shut out
    pool->access[device.ordinal] = accesses[i].flags;
    if (device.ordinal != pool->device && reads) device.memory.add_peer(&driver().device(pool->device).memory);
  }
  return CUDA_SUCCESS;
}

CUresult pool_get_access(CUmemAccess_flags* flags, CUmemoryPool handle, CUmemLocation* location) {
  const std::shared_ptr<MemoryPool> pool = find_pool(handle);
  require(flags != nullptr && location != nullptr && location->type == CU_MEM_LOCATION_TYPE_DEVICE);
  const Device& device = driver().device(location->id);
  const std::lock_guard lock(pool->mutex);
  *flags = device.ordinal == pool->device ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : pool->access[device.ordinal];
  return CUDA_SUCCESS;
}

}  // namespace corrloom::sim::driver
