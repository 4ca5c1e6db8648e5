#include <algorithm>
#include <cstdio>
#include <cstring>

#include "runtime/sim/driver/export.h"
#include "runtime/sim/driver/state.h"

/// Initialisation, errors, devices.
namespace corrloom::sim::driver {
namespace {

/// The value of an attribute; empty for numbers that no driver knows.
std::optional<int> attribute_of(const Device& device, unsigned attribute) {
  [[maybe_unused]] const DeviceLimits& limits = device.limits;
  [[maybe_unused]] const Arch& arch = device.arch;
  [[maybe_unused]] const int ordinal = device.ordinal;
  switch (attribute) {
#define ATTRIBUTE(name, number, value) \
  case number:                         \
    return int(value);
#include "runtime/sim/driver/device_attributes.def"
#undef ATTRIBUTE
    default:
      return std::nullopt;
  }
}

/// The bus the device pretends to be on.
std::string pci_bus_id(int ordinal) {
  char text[32];
  std::snprintf(text, sizeof(text), "0000:%02X:00.0", ordinal + 1);
  return text;
}

}  // namespace

CUresult init(unsigned flags) {
  require(flags == 0);
  return initialise();
}

CUresult driver_get_version(int* version) {
  require(version != nullptr);
  *version = kDriverVersion;
  return CUDA_SUCCESS;
}

CUresult get_error_name(CUresult error, const char** text) {
  require(text != nullptr);
  *text = nullptr;
  switch (error) {
#define ERROR(name, number, message) \
  case CUDA_##name:                  \
    *text = "CUDA_" #name;           \
    return CUDA_SUCCESS;
#include "runtime/sim/driver/errors.def"
#undef ERROR
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult get_error_string(CUresult error, const char** text) {
  require(text != nullptr);
  *text = nullptr;
  switch (error) {
#define ERROR(name, number, message) \
  case CUDA_##name:                  \
    *text = message;                 \
    return CUDA_SUCCESS;
#include "runtime/sim/driver/errors.def"
#undef ERROR
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult device_get(CUdevice* device, int ordinal) {
  require(device != nullptr);
  *device = driver().device(ordinal).ordinal;
  return CUDA_SUCCESS;
}

CUresult device_get_count(int* count) {
  require(count != nullptr);
  *count = int(driver().devices.size());
  return CUDA_SUCCESS;
}

CUresult device_get_name(char* name, int length, CUdevice ordinal) {
  const Device& device = driver().device(ordinal);
  require(name != nullptr && length > 0);
  std::snprintf(name, size_t(length), "Corrloom simulated GPU (%s)", device.arch.name().c_str());
  return CUDA_SUCCESS;
}

CUresult device_get_uuid(CUuuid* uuid, CUdevice ordinal) {
  require(uuid != nullptr);
  const Device& device = driver().device(ordinal);
  std::memcpy(uuid->bytes, "corrloom-sim\0\0\0", 16);
  uuid->bytes[15] = char(device.ordinal);
  return CUDA_SUCCESS;
}

CUresult device_total_mem(size_t* bytes, CUdevice ordinal) {
  require(bytes != nullptr);
  *bytes = driver().device(ordinal).memory.total_bytes();
  return CUDA_SUCCESS;
}

CUresult device_get_attribute(int* value, CUdevice_attribute attribute, CUdevice ordinal) {
  require(value != nullptr);
  const std::optional<int> found = attribute_of(driver().device(ordinal), attribute);
  require(found.has_value());
  *value = *found;
  return CUDA_SUCCESS;
}

CUresult device_get_properties(CUdevprop* properties, CUdevice ordinal) {
  require(properties != nullptr);
  const DeviceLimits& limits = driver().device(ordinal).limits;
  *properties = {};
  properties->maxThreadsPerBlock = limits.max_threads_per_block;
  for (int i = 0; i < 3; ++i) {
    properties->maxThreadsDim[i] = limits.max_block_dim[i];
    properties->maxGridSize[i] = int(limits.max_grid_dim[i]);
  }
  properties->sharedMemPerBlock = limits.shared_bytes_per_block;
  properties->totalConstantMemory = limits.const_bytes;
  properties->SIMDWidth = limits.warp_size;
  properties->memPitch = 2147483647;
  properties->regsPerBlock = limits.registers_per_block;
  properties->clockRate = limits.clock_khz;
  properties->textureAlign = 512;
  return CUDA_SUCCESS;
}

CUresult device_compute_capability(int* major, int* minor, CUdevice ordinal) {
  require(major != nullptr && minor != nullptr);
  const Arch& arch = driver().device(ordinal).arch;
  *major = arch.major();
  *minor = arch.minor();
  return CUDA_SUCCESS;
}

CUresult device_get_pci_bus_id(char* text, int length, CUdevice ordinal) {
  const std::string id = pci_bus_id(driver().device(ordinal).ordinal);
  require(text != nullptr && length > int(id.size()));
  std::memcpy(text, id.c_str(), id.size() + 1);
  return CUDA_SUCCESS;
}

CUresult device_get_by_pci_bus_id(CUdevice* device, const char* text) {
  require(device != nullptr && text != nullptr);
  unsigned domain = 0, bus = 0, slot = 0, function = 0;
  const bool full = std::sscanf(text, "%x:%x:%x.%x", &domain, &bus, &slot, &function) == 4;
  if (!full && std::sscanf(text, "%x:%x.%x", &bus, &slot, &function) != 3)
    require(std::sscanf(text, "%x:%x:%x", &domain, &bus, &slot) == 3);
  require(domain == 0 && slot == 0 && function == 0 && bus >= 1 && bus <= driver().devices.size(),
          CUDA_ERROR_INVALID_DEVICE);
  *device = int(bus) - 1;
  return CUDA_SUCCESS;
}

CUresult device_can_access_peer(int* can, CUdevice ordinal, CUdevice peer) {
  require(can != nullptr);
  *can = &driver().device(ordinal) != &driver().device(peer);
  return CUDA_SUCCESS;
}

CUresult device_get_p2p_attribute(int* value, CUdevice_P2PAttribute attribute, CUdevice source, CUdevice target) {
  require(value != nullptr);
  require(&driver().device(source) != &driver().device(target), CUDA_ERROR_INVALID_DEVICE);
  switch (attribute) {
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED:
      *value = 0;
      return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
      *value = 1;
      return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace corrloom::sim::driver
