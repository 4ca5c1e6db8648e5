#include <algorithm>

#include "runtime/sim/driver/capture.h"
#include "runtime/sim/driver/export.h"
#include "runtime/sim/driver/memory.h"
#include "runtime/sim/driver/state.h"

/// Device, managed and host memory.
namespace corrloom::sim::driver {
namespace {

/// Takes out the block that starts at `address` if it is of one of these kinds; otherwise the address is not one the
/// client may free this way.
Block take_block(DeviceAddress address, std::initializer_list<MemoryKind> kinds, CUresult otherwise) {
  const auto wanted = [&](const Block& block) { return std::ranges::find(kinds, block.kind) != kinds.end(); };
  const std::optional<Block> block = driver().blocks.remove(address, wanted);
  require(block.has_value(), otherwise);
  return *block;
}

/// Freeing waits for all work of the context that owns the block, as the real driver does.
void finish_users(const Block& block) {
  if (const std::shared_ptr<Context> owner = driver().contexts.find(block.context)) owner->synchronise();
}

/// The block of host memory that contains a host pointer.
Block find_host_block(void* host) {
  const std::optional<Block> block = driver().blocks.find(reinterpret_cast<DeviceAddress>(host));
  require(block.has_value() && block->kind != MemoryKind::Device);
  return *block;
}

void check_range(DeviceAddress address, size_t bytes) {
  require(bytes != 0);
  const std::optional<Block> block = driver().find_block(address);
  require(block.has_value() && bytes <= block->bytes - (address - block->address));
}

/// Where managed memory may be wanted.
void check_location(CUmemLocation location) {
  if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
    driver().device(location.id);
  } else {
    require(location.type >= CU_MEM_LOCATION_TYPE_HOST && location.type <= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT);
  }
}

/// The location that the older calls name by a device number, or -1 for the host.
CUmemLocation location_of(CUdevice device) {
  return {device == -1 ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE, device};
}

}  // namespace

CUresult mem_get_info(size_t* free_bytes, size_t* total_bytes) {
  const std::shared_ptr<Context> context = current_context();
  if (free_bytes != nullptr) *free_bytes = context->device.memory.free_bytes();
  if (total_bytes != nullptr) *total_bytes = context->device.memory.total_bytes();
  return CUDA_SUCCESS;
}

CUresult mem_alloc(CUdeviceptr* out, size_t bytes) {
  require(out != nullptr);
  const std::shared_ptr<Context> context = current_context();
  forbid_while_capturing(*context);
  *out = allocate_device(*context, bytes);
  return CUDA_SUCCESS;
}

CUresult mem_alloc_pitch(CUdeviceptr* out, size_t* pitch, size_t width_bytes, size_t height, unsigned element_bytes) {
  constexpr size_t kPitchAlignment = 512;
  require(out != nullptr && pitch != nullptr && width_bytes != 0 && height != 0);
  require(element_bytes == 4 || element_bytes == 8 || element_bytes == 16);
  const std::shared_ptr<Context> context = current_context();
  forbid_while_capturing(*context);
  require(width_bytes < size_t(1) << 40 && height < size_t(1) << 40, CUDA_ERROR_OUT_OF_MEMORY);
  const size_t row = (width_bytes + kPitchAlignment - 1) / kPitchAlignment * kPitchAlignment;
  require(height <= context->device.memory.total_bytes() / row, CUDA_ERROR_OUT_OF_MEMORY);
  *out = allocate_device(*context, row * height);
  *pitch = row;
  return CUDA_SUCCESS;
}

CUresult mem_free(CUdeviceptr address) {
  const std::shared_ptr<Context> context = current_context();
  forbid_while_capturing(*context);
  if (address == 0) return CUDA_SUCCESS;
  const std::optional<Block> present = driver().blocks.find(address);
  require(present.has_value() && present->address == address && !present->freeing);
  finish_users(*present);
  release_block(take_block(address, {MemoryKind::Device, MemoryKind::Managed}, CUDA_ERROR_INVALID_VALUE));
  return CUDA_SUCCESS;
}

CUresult mem_get_address_range(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  current_context();
  const std::optional<Block> block = driver().find_block(address);
  require(block.has_value(), CUDA_ERROR_NOT_FOUND);
  if (base != nullptr) *base = block->address;
  if (bytes != nullptr) *bytes = block->bytes;
  return CUDA_SUCCESS;
}

CUresult mem_alloc_managed(CUdeviceptr* out, size_t bytes, unsigned flags) {
  require(out != nullptr && (flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST));
  const std::shared_ptr<Context> context = current_context();
  forbid_while_capturing(*context);
  *out = reinterpret_cast<CUdeviceptr>(allocate_host(*context, bytes, MemoryKind::Managed, flags));
  return CUDA_SUCCESS;
}

CUresult mem_host_alloc(void** out, size_t bytes, unsigned flags) {
  require(out != nullptr && (flags & ~kHostAllocFlags) == 0);
  const std::shared_ptr<Context> context = current_context();
  forbid_while_capturing(*context);
  *out = allocate_host(*context, bytes, MemoryKind::PinnedHost, flags);
  return CUDA_SUCCESS;
}

CUresult mem_alloc_host(void** out, size_t bytes) {
  return mem_host_alloc(out, bytes, 0);
}

CUresult mem_free_host(void* host) {
  const std::shared_ptr<Context> context = current_context();
  forbid_while_capturing(*context);
  if (host == nullptr) return CUDA_SUCCESS;
  finish_users(find_host_block(host));
  release_block(take_block(reinterpret_cast<DeviceAddress>(host), {MemoryKind::PinnedHost}, CUDA_ERROR_INVALID_VALUE));
  return CUDA_SUCCESS;
}

CUresult mem_host_register(void* host, size_t bytes, unsigned flags) {
  require((flags & ~kHostRegisterFlags) == 0);
  const std::shared_ptr<Context> context = current_context();
  forbid_while_capturing(*context);
  register_host(*context, host, bytes, flags);
  return CUDA_SUCCESS;
}

CUresult mem_host_unregister(void* host) {
  const std::shared_ptr<Context> context = current_context();
  forbid_while_capturing(*context);
  const auto address = reinterpret_cast<DeviceAddress>(host);
  if (const std::optional<Block> block = driver().blocks.find(address)) finish_users(*block);
  release_block(take_block(address, {MemoryKind::RegisteredHost}, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED));
  return CUDA_SUCCESS;
}

CUresult mem_host_get_device_pointer(CUdeviceptr* out, void* host, unsigned flags) {
  require(out != nullptr && flags == 0);
  current_context();
  find_host_block(host);
  *out = reinterpret_cast<CUdeviceptr>(host);
  return CUDA_SUCCESS;
}

CUresult mem_host_get_flags(unsigned* flags, void* host) {
  require(flags != nullptr);
  current_context();
  *flags = find_host_block(host).flags;
  return CUDA_SUCCESS;
}

CUresult mem_advise_v2(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUmemLocation location) {
  current_context();
  require(advice >= CU_MEM_ADVISE_SET_READ_MOSTLY && advice <= CU_MEM_ADVISE_UNSET_ACCESSED_BY);
  check_range(address, bytes);
  if (advice > 2) check_location(location);  // read-mostly has no location
  return CUDA_SUCCESS;
}

CUresult mem_advise(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice device) {
  return mem_advise_v2(address, bytes, advice, location_of(device));
}

CUresult mem_prefetch_async_v2(CUdeviceptr address, size_t bytes, CUmemLocation location, unsigned flags,
                               CUstream handle) {
  require(flags == 0);
  const std::shared_ptr<Stream> stream = find_stream(handle);
  check_range(address, bytes);
  check_location(location);
  submit(*stream, Nothing{});
  return CUDA_SUCCESS;
}

CUresult mem_prefetch_async(CUdeviceptr address, size_t bytes, CUdevice device, CUstream handle) {
  return mem_prefetch_async_v2(address, bytes, location_of(device), 0, handle);
}

}  // namespace corrloom::sim::driver
