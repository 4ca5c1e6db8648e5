#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/sim/driver/cuda_types.h"
#include "runtime/sim/machine.h"

/// Virtual memory management: addresses that are reserved, and memory of devices that is mapped there.
namespace corrloom::sim::driver {

/// Sizes and addresses are multiples of this, as on devices with pages of 2 MiB.
inline constexpr uint64_t kVirtualGranularity = uint64_t(2) << 20;
/// Reserved addresses lie behind the arenas of all devices.
inline constexpr DeviceAddress kVirtualBase = uint64_t(1) << 49;

/// What cuMemCreate makes. It is a file without a name, so that it can be mapped at several addresses, together with
/// what the sanitizer knows of it.
class PhysicalMemory {
 public:
  /// Throws std::bad_alloc when the host has no room. `bytes` are booked on the device.
  PhysicalMemory(DeviceMemory& device, const CUmemAllocationProp& properties, uint64_t bytes);
  ~PhysicalMemory();
  PhysicalMemory(const PhysicalMemory&) = delete;
  PhysicalMemory& operator=(const PhysicalMemory&) = delete;

  DeviceMemory& device;
  const CUmemAllocationProp properties;
  const uint64_t bytes;
  CUmemGenericAllocationHandle handle = 0;
  int references = 1;  ///< of the handle; guarded by VirtualMemory
  int file() const { return file_; }

 private:
  int file_;
};

/// The reservations of the process and what is mapped there. The methods fail with INVALID_VALUE where the API does.
class VirtualMemory {
 public:
  /// An address range; 0 when the host has no room. `wanted` is taken when it is free.
  DeviceAddress reserve(uint64_t bytes, uint64_t alignment, DeviceAddress wanted);
  void release(DeviceAddress address, uint64_t bytes);
  void map(DeviceAddress address, uint64_t bytes, std::shared_ptr<PhysicalMemory> memory);
  /// Takes whole mappings away. Kernels that still run there fault.
  void unmap(DeviceAddress address, uint64_t bytes);
  /// Lets a device reach mapped memory, or not.
  void set_access(DeviceAddress address, uint64_t bytes, DeviceMemory& device, bool accessible);
  /// What is mapped at the address; null when nothing is.
  std::shared_ptr<PhysicalMemory> find(DeviceAddress address);
  /// Counts the handle of what is mapped at the address once more.
  std::shared_ptr<PhysicalMemory> retain(DeviceAddress address);
  /// Gives a reference to the handle back; true when it was the last.
  bool drop_reference(PhysicalMemory& memory);

 private:
  /// Host storage stands for the addresses one to one: their bytes, shadow and race records.
  struct Reservation {
    uint64_t bytes = 0;
    std::byte* host = nullptr;
    uint8_t* shadow = nullptr;
    DeviceMemory::RaceCell* cells = nullptr;
    std::map<uint64_t, std::shared_ptr<PhysicalMemory>> mapped;  ///< by offset
  };
  using Entry = std::pair<const DeviceAddress, Reservation>;

  Entry& reservation_of(DeviceAddress address, uint64_t bytes);
  std::vector<std::pair<uint64_t, std::shared_ptr<PhysicalMemory>>> mappings_in(Entry& entry, DeviceAddress address,
                                                                                uint64_t bytes);

  std::mutex mutex_;
  std::map<DeviceAddress, Reservation> reservations_;
  DeviceAddress next_ = kVirtualBase;
};

}  // namespace corrloom::sim::driver
