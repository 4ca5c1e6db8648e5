#include <cstring>

#include "runtime/sim/driver/export.h"
#include "runtime/sim/driver/state.h"

/// What is known about an address.
namespace corrloom::sim::driver {
namespace {

template <class T>
void put(void* data, const T& value) {
  std::memcpy(data, &value, sizeof(T));
}

bool on_host(const Block& block) {
  return is_page_locked(block.kind) && block.kind != MemoryKind::Managed;
}

/// Writes one attribute; INVALID_VALUE for those that the block or this driver does not have.
CUresult write_attribute(void* data, unsigned attribute, const Block& block, DeviceAddress address) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      // Memory of a pool belongs to no context.
      put(data, block.pool != nullptr ? nullptr : block.context);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      put(data, on_host(block) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      put(data, CUdeviceptr(address));
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (block.kind == MemoryKind::Device) return CUDA_ERROR_INVALID_VALUE;
      put(data, reinterpret_cast<void*>(address));
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      put(data, 0u);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      put(data, static_cast<unsigned long long>(block.id));
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      put(data, unsigned(block.kind == MemoryKind::Managed));
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      put(data, block.device);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      put(data, CUdeviceptr(block.address));
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      put(data, size_t(block.bytes));
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      put(data, 1u);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      put(data, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      put(data, block.pool);
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

/// Bytes an attribute takes; 0 for those that do not exist.
size_t attribute_bytes(unsigned attribute) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return 8;
    default:
      return attribute >= CU_POINTER_ATTRIBUTE_CONTEXT && attribute <= CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE
                 ? 4
                 : 0;
  }
}

}  // namespace

CUresult pointer_get_attribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  require(data != nullptr);
  const std::optional<Block> block = driver().find_block(address);
  require(block.has_value());
  return write_attribute(data, attribute, *block, address);
}

CUresult pointer_get_attributes(unsigned count, CUpointer_attribute* attributes, void** data, CUdeviceptr address) {
  require(count != 0 && attributes != nullptr && data != nullptr);
  for (unsigned i = 0; i < count; ++i)
    require(data[i] != nullptr && attribute_bytes(attributes[i]) != 0 &&
            attributes[i] != CU_POINTER_ATTRIBUTE_P2P_TOKENS);
  // An address that nobody allocated is no error here: every attribute gets its null.
  const std::optional<Block> block = driver().find_block(address);
  for (unsigned i = 0; i < count; ++i) {
    std::memset(data[i], 0, attribute_bytes(attributes[i]));
    if (block) {
      write_attribute(data[i], attributes[i], *block, address);
    } else if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) {
      put(data[i], -2);
    }
  }
  return CUDA_SUCCESS;
}

CUresult pointer_set_attribute(const void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  require(value != nullptr && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS);
  require(driver().find_block(address).has_value());
  return CUDA_SUCCESS;
}

}  // namespace corrloom::sim::driver
