#include "runtime/sim/driver/virtual_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>

#include "runtime/sim/driver/state.h"

namespace corrloom::sim::driver {
namespace {

/// Bytes of race records for each byte of memory.
constexpr uint64_t kCellBytes = sizeof(DeviceMemory::RaceCell) / 4;
constexpr int kAccess = PROT_READ | PROT_WRITE;

constexpr uint64_t round_up(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// Zeros that cost nothing until they are touched; at a fixed place they take over from what is there.
void* map_nothing(void* at, uint64_t bytes) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at != nullptr ? MAP_FIXED : 0);
  void* mapped = ::mmap(at, bytes, kAccess, flags, -1, 0);
  return mapped == MAP_FAILED ? nullptr : mapped;
}

bool map_file(void* at, uint64_t bytes, int file, uint64_t offset) {
  return ::mmap(at, bytes, kAccess, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file, off_t(offset)) != MAP_FAILED;
}

template <class T>
T* advance(T* pointer, uint64_t bytes) {
  return reinterpret_cast<T*>(reinterpret_cast<std::byte*>(pointer) + bytes);
}

}  // namespace

PhysicalMemory::PhysicalMemory(DeviceMemory& owner, const CUmemAllocationProp& wanted, uint64_t size)
    : device(owner), properties(wanted), bytes(size), file_(::memfd_create("corrloom-sim", MFD_CLOEXEC)) {
  // The bytes, their shadow, and their race records, one behind the other.
  if (file_ >= 0 && ::ftruncate(file_, off_t(bytes * (2 + kCellBytes))) == 0) return;
  if (file_ >= 0) ::close(file_);
  throw std::bad_alloc();
}

PhysicalMemory::~PhysicalMemory() {
  ::close(file_);
  device.unbook(bytes);
}

DeviceAddress VirtualMemory::reserve(uint64_t bytes, uint64_t alignment, DeviceAddress wanted) {
  const std::lock_guard lock(mutex_);
  DeviceAddress address = round_up(next_, std::max(alignment, kVirtualGranularity));
  if (wanted >= next_ && wanted % std::max(alignment, kVirtualGranularity) == 0 &&
      wanted - kVirtualBase < uint64_t(1) << 46) {
    address = wanted;
  }
  Reservation made;
  made.bytes = bytes;
  made.host = static_cast<std::byte*>(map_nothing(nullptr, bytes * (2 + kCellBytes)));
  if (made.host == nullptr) return 0;
  made.shadow = reinterpret_cast<uint8_t*>(made.host + bytes);
  made.cells = reinterpret_cast<DeviceMemory::RaceCell*>(made.host + 2 * bytes);
  // A gap behind each range, so that running off its end is seen.
  next_ = address + bytes + kVirtualGranularity;
  reservations_.emplace(address, std::move(made));
  return address;
}

VirtualMemory::Entry& VirtualMemory::reservation_of(DeviceAddress address, uint64_t bytes) {
  auto it = reservations_.upper_bound(address);
  require(it != reservations_.begin());
  --it;
  const uint64_t offset = address - it->first;
  require(offset < it->second.bytes && bytes <= it->second.bytes - offset);
  return *it;
}

void VirtualMemory::release(DeviceAddress address, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto it = reservations_.find(address);
  require(it != reservations_.end() && it->second.bytes == bytes && it->second.mapped.empty());
  // The host's side stays reserved: a kernel may be at an access that began before.
  ::madvise(it->second.host, bytes * (2 + kCellBytes), MADV_DONTNEED);
  reservations_.erase(it);
}

void VirtualMemory::map(DeviceAddress address, uint64_t bytes, std::shared_ptr<PhysicalMemory> memory) {
  const std::lock_guard lock(mutex_);
  auto& [base, reservation] = reservation_of(address, bytes);
  require(bytes == memory->bytes);
  const uint64_t offset = address - base;
  for (const auto& [at, other] : reservation.mapped) require(at >= offset + bytes || at + other->bytes <= offset);
  const int file = memory->file();
  const bool done = map_file(reservation.host + offset, bytes, file, 0) &&
                    map_file(reservation.shadow + offset, bytes, file, bytes) &&
                    map_file(advance(reservation.cells, offset * kCellBytes), bytes * kCellBytes, file, 2 * bytes);
  require(done, CUDA_ERROR_OUT_OF_MEMORY);
  reservation.mapped.emplace(offset, std::move(memory));
}

std::vector<std::pair<uint64_t, std::shared_ptr<PhysicalMemory>>> VirtualMemory::mappings_in(Entry& entry,
                                                                                             DeviceAddress address,
                                                                                             uint64_t bytes) {
  std::vector<std::pair<uint64_t, std::shared_ptr<PhysicalMemory>>> found;
  uint64_t next = address - entry.first;
  const uint64_t end = next + bytes;
  while (next < end) {
    const auto it = entry.second.mapped.find(next);
    require(it != entry.second.mapped.end());
    found.emplace_back(*it);
    next += it->second->bytes;
  }
  require(next == end && bytes != 0);
  return found;
}

void VirtualMemory::unmap(DeviceAddress address, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  Entry& entry = reservation_of(address, bytes);
  Reservation& reservation = entry.second;
  for (const auto& [offset, memory] : mappings_in(entry, address, bytes)) {
    for (const std::unique_ptr<Device>& device : driver().devices) {
      device->memory.remove_range(entry.first + offset, memory->bytes);
    }
    map_nothing(reservation.host + offset, memory->bytes);
    map_nothing(reservation.shadow + offset, memory->bytes);
    map_nothing(advance(reservation.cells, offset * kCellBytes), memory->bytes * kCellBytes);
    reservation.mapped.erase(offset);
  }
}

void VirtualMemory::set_access(DeviceAddress address, uint64_t bytes, DeviceMemory& device, bool accessible) {
  const std::lock_guard lock(mutex_);
  Entry& entry = reservation_of(address, bytes);
  const Reservation& reservation = entry.second;
  for (const auto& [offset, memory] : mappings_in(entry, address, bytes)) {
    device.remove_range(entry.first + offset, memory->bytes);
    if (!accessible) continue;
    DeviceMemory::View view;
    view.base = entry.first + offset;
    view.bytes = memory->bytes;
    view.host = reservation.host + offset;
    view.shadow = reservation.shadow + offset;
    // Records belong to the launches of one device.
    if (&memory->device == &device) view.cells = advance(reservation.cells, offset * kCellBytes);
    view.all_allocated = true;
    device.add_range(view);
  }
}

std::shared_ptr<PhysicalMemory> VirtualMemory::find(DeviceAddress address) {
  const std::lock_guard lock(mutex_);
  auto& [base, reservation] = reservation_of(address, 1);
  auto it = reservation.mapped.upper_bound(address - base);
  if (it == reservation.mapped.begin()) return nullptr;
  --it;
  return address - base - it->first < it->second->bytes ? it->second : nullptr;
}

std::shared_ptr<PhysicalMemory> VirtualMemory::retain(DeviceAddress address) {
  std::shared_ptr<PhysicalMemory> memory = find(address);
  const std::lock_guard lock(mutex_);
  require(memory != nullptr);
  // The handle may have been given back while the memory is mapped: it is made valid again.
  ++memory->references;
  return memory;
}

bool VirtualMemory::drop_reference(PhysicalMemory& memory) {
  const std::lock_guard lock(mutex_);
  return --memory.references == 0;
}

}  // namespace corrloom::sim::driver
