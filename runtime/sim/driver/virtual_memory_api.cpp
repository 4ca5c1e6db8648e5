#include <new>

#include "runtime/sim/driver/export.h"
#include "runtime/sim/driver/state.h"
#include "runtime/sim/driver/virtual_memory.h"

/// Virtual memory management. Memory is of one kind: pinned, on one device, not shared with other processes.
namespace corrloom::sim::driver {
namespace {

constexpr uint64_t kMostBytes = uint64_t(1) << 44;

bool is_granular(uint64_t value) {
  return value % kVirtualGranularity == 0;
}

/// The device that properties ask for.
Device& device_of(const CUmemAllocationProp* properties) {
  require(properties != nullptr && properties->type == CU_MEM_ALLOCATION_TYPE_PINNED);
  require(properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
              properties->requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE,
          CUDA_ERROR_NOT_SUPPORTED);
  return driver().device(properties->location.id);
}

PhysicalMemory* as_key(CUmemGenericAllocationHandle handle) {
  return reinterpret_cast<PhysicalMemory*>(uintptr_t(handle));
}

std::shared_ptr<PhysicalMemory> find_physical(CUmemGenericAllocationHandle handle) {
  std::shared_ptr<PhysicalMemory> memory = driver().physical.find(as_key(handle));
  require(memory != nullptr);
  return memory;
}

}  // namespace

CUresult memory_get_granularity(size_t* out, const CUmemAllocationProp* properties,
                                CUmemAllocationGranularity_flags option) {
  require(out != nullptr && option <= CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  device_of(properties);
  *out = kVirtualGranularity;
  return CUDA_SUCCESS;
}

CUresult address_reserve(CUdeviceptr* out, size_t bytes, size_t alignment, CUdeviceptr wanted,
                         unsigned long long flags) {
  require(out != nullptr && bytes != 0 && is_granular(bytes) && flags == 0);
  require((alignment & (alignment - 1)) == 0 && alignment <= kMostBytes && bytes <= kMostBytes);
  *out = driver().virtual_memory.reserve(bytes, alignment, wanted);
  return *out != 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult address_free(CUdeviceptr address, size_t bytes) {
  driver().virtual_memory.release(address, bytes);
  return CUDA_SUCCESS;
}

CUresult memory_create(CUmemGenericAllocationHandle* out, size_t bytes, const CUmemAllocationProp* properties,
                       unsigned long long flags) {
  require(out != nullptr && flags == 0 && bytes != 0 && is_granular(bytes));
  Device& device = device_of(properties);
  require(device.memory.book(bytes), CUDA_ERROR_OUT_OF_MEMORY);
  std::shared_ptr<PhysicalMemory> memory;
  try {
    memory = std::make_shared<PhysicalMemory>(device.memory, *properties, bytes);
  } catch (const std::bad_alloc&) {
    device.memory.unbook(bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  PhysicalMemory* const key = driver().physical.reserve();
  memory->handle = CUmemGenericAllocationHandle(reinterpret_cast<uintptr_t>(key));
  driver().physical.set(key, memory);
  *out = memory->handle;
  return CUDA_SUCCESS;
}

CUresult memory_release(CUmemGenericAllocationHandle handle) {
  const std::shared_ptr<PhysicalMemory> memory = find_physical(handle);
  if (driver().virtual_memory.drop_reference(*memory)) driver().physical.remove(as_key(handle));
  return CUDA_SUCCESS;
}

CUresult memory_map(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                    unsigned long long flags) {
  require(flags == 0 && offset == 0 && bytes != 0 && is_granular(address) && is_granular(bytes));
  driver().virtual_memory.map(address, bytes, find_physical(handle));
  return CUDA_SUCCESS;
}

CUresult memory_unmap(CUdeviceptr address, size_t bytes) {
  driver().virtual_memory.unmap(address, bytes);
  return CUDA_SUCCESS;
}

CUresult memory_set_access(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* descriptions, size_t count) {
  require(descriptions != nullptr && count != 0);
  for (size_t i = 0; i < count; ++i) {
    const CUmemAccessDesc& wanted = descriptions[i];
    require(wanted.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
                (wanted.flags == CU_MEM_ACCESS_FLAGS_PROT_NONE || wanted.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
            CUDA_ERROR_NOT_SUPPORTED);
    driver().virtual_memory.set_access(address, bytes, driver().device(wanted.location.id).memory,
                                       wanted.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  }
  return CUDA_SUCCESS;
}

CUresult memory_get_access(unsigned long long* out, const CUmemLocation* location, CUdeviceptr address) {
  require(out != nullptr && location != nullptr && location->type == CU_MEM_LOCATION_TYPE_DEVICE);
  require(driver().virtual_memory.find(address) != nullptr);
  const bool reached = driver().device(location->id).memory.find(address).has_value();
  *out = reached ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

CUresult memory_get_properties(CUmemAllocationProp* out, CUmemGenericAllocationHandle handle) {
  require(out != nullptr);
  *out = find_physical(handle)->properties;
  return CUDA_SUCCESS;
}

CUresult memory_retain_handle(CUmemGenericAllocationHandle* out, void* address) {
  require(out != nullptr);
  const std::shared_ptr<PhysicalMemory> memory =
      driver().virtual_memory.retain(CUdeviceptr(reinterpret_cast<uintptr_t>(address)));
  driver().physical.set(as_key(memory->handle), memory);
  *out = memory->handle;
  return CUDA_SUCCESS;
}

}  // namespace corrloom::sim::driver
