#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "runtime/sim/machine.h"

namespace corrloom::sim {
namespace {

constexpr DeviceAddress kFirstArena = uint64_t(1) << 47;
constexpr uint64_t kArenaStride = uint64_t(1) << 40;
constexpr uint64_t kGranule = 256;
constexpr int kPoison = 0xFD;
/// Poisoning writes every byte; beyond this size fresh memory is left as the host gives it.
constexpr uint64_t kMostPoisoned = uint64_t(64) << 20;

/// Reserves address space whose pages appear, as zeros, when touched.
std::byte* reserve(uint64_t bytes) {
  void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(address);
}

/// Gives the whole pages inside a range back; they read as zeros afterwards.
void forget(void* address, uint64_t bytes) {
  const auto first = (reinterpret_cast<uintptr_t>(address) + 4095) & ~uintptr_t(4095);
  const auto last = (reinterpret_cast<uintptr_t>(address) + bytes) & ~uintptr_t(4095);
  if (last > first) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

constexpr uint64_t round_up(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

DeviceMemory::DeviceMemory(int device, uint64_t total_bytes)
    : device_(device), total_bytes_(round_up(total_bytes, kGranule)) {
  arena_.base = kFirstArena + uint64_t(device) * kArenaStride;
  arena_.bytes = total_bytes_;
  arena_.host = reserve(total_bytes_ + 4096);
  try {
    arena_.shadow = reinterpret_cast<uint8_t*>(reserve(total_bytes_ + 4096));
    arena_.cells = reinterpret_cast<RaceCell*>(reserve(total_bytes_ / 4 * sizeof(RaceCell) + 4096));
  } catch (...) {
    if (arena_.shadow != nullptr) ::munmap(arena_.shadow, total_bytes_ + 4096);
    ::munmap(arena_.host, total_bytes_ + 4096);
    throw;
  }
  holes_[0] = total_bytes_;
}

DeviceMemory::~DeviceMemory() {
  ::munmap(arena_.host, total_bytes_ + 4096);
  ::munmap(arena_.shadow, total_bytes_ + 4096);
  ::munmap(arena_.cells, total_bytes_ / 4 * sizeof(RaceCell) + 4096);
}

uint64_t DeviceMemory::free_bytes() const {
  const std::shared_lock lock(mutex_);
  return total_bytes_ - used_bytes_;
}

DeviceAddress DeviceMemory::allocate(uint64_t bytes, uint64_t alignment) {
  if (bytes == 0 || bytes > total_bytes_) return 0;
  alignment = std::max(alignment, kGranule);
  const uint64_t taken = round_up(bytes, kGranule);
  const std::unique_lock lock(mutex_);
  if (taken > total_bytes_ - used_bytes_) return 0;
  // First behind the last allocation, also in the middle of a hole, then anywhere.
  const auto place = [&](const auto& hole, uint64_t from) {
    const uint64_t begin = round_up(std::max(hole.first, from), alignment), end = hole.first + hole.second;
    return begin <= end && end - begin >= taken ? std::optional(begin) : std::nullopt;
  };
  auto hole = holes_.end();
  std::optional<uint64_t> found;
  for (const uint64_t from : {cursor_, uint64_t(0)}) {
    for (auto it = holes_.begin(); it != holes_.end() && !found; ++it) {
      found = place(*it, from);
      hole = it;
    }
  }
  if (!found) return 0;
  const uint64_t front = hole->first, end = hole->first + hole->second;
  const uint64_t begin = *found;
  holes_.erase(hole);
  if (begin > front) holes_[front] = begin - front;
  if (end > begin + taken) holes_[begin + taken] = end - begin - taken;
  cursor_ = begin + taken;
  const DeviceAddress address = arena_.base + begin;
  live_[address] = {address, bytes, MemoryKind::Device, next_serial_++};
  used_bytes_ += taken;
  std::memset(arena_.shadow + begin, kAllocated, bytes);
  std::memset(arena_.shadow + begin + bytes, 0, taken - bytes);
  if (bytes <= kMostPoisoned) std::memset(arena_.host + begin, kPoison, bytes);
  return address;
}

bool DeviceMemory::release(DeviceAddress address) {
  const std::unique_lock lock(mutex_);
  const auto it = live_.find(address);
  if (it == live_.end()) return false;
  const uint64_t taken = round_up(it->second.bytes, kGranule);
  uint64_t begin = address - arena_.base;
  std::memset(arena_.shadow + begin, kFreed, it->second.bytes);
  if (taken >= (1u << 20)) {
    forget(arena_.host + begin, taken);
    forget(arena_.cells + begin / 4, taken / 4 * sizeof(RaceCell));
  }
  used_bytes_ -= taken;
  live_.erase(it);
  uint64_t end = begin + taken;
  auto next = holes_.lower_bound(begin);
  if (next != holes_.end() && next->first == end) {
    end += next->second;
    next = holes_.erase(next);
  }
  if (next != holes_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == begin) {
      begin = before->first;
      holes_.erase(before);
    }
  }
  holes_[begin] = end - begin;
  return true;
}

void DeviceMemory::map_host(void* host, uint64_t bytes, MemoryKind kind, bool initialised) {
  const auto address = reinterpret_cast<DeviceAddress>(host);
  const std::unique_lock lock(mutex_);
  HostRange range;
  range.allocation = {address, bytes, kind, next_serial_++};
  if (!initialised) {
    range.shadow.get_deleter().bytes = bytes + 16;
    range.shadow.reset(reinterpret_cast<uint8_t*>(reserve(bytes + 16)));
  }
  host_ranges_[address] = std::move(range);
}

bool DeviceMemory::unmap_host(void* host) {
  const std::unique_lock lock(mutex_);
  return host_ranges_.erase(reinterpret_cast<DeviceAddress>(host)) != 0;
}

bool DeviceMemory::book(uint64_t bytes) {
  const std::unique_lock lock(mutex_);
  if (bytes > total_bytes_ - used_bytes_) return false;
  used_bytes_ += bytes;
  return true;
}

void DeviceMemory::unbook(uint64_t bytes) {
  const std::unique_lock lock(mutex_);
  used_bytes_ -= bytes;
}

namespace {

/// Whether `second` begins where `first` ends, in all that it consists of.
bool continues(const DeviceMemory::View& first, const DeviceMemory::View& second) {
  return first.base + first.bytes == second.base && first.host + first.bytes == second.host &&
         first.shadow + first.bytes == second.shadow && (first.cells == nullptr) == (second.cells == nullptr) &&
         (first.cells == nullptr || first.cells + first.bytes / 4 == second.cells);
}

/// The part of a view from an offset on.
DeviceMemory::View part_of(const DeviceMemory::View& view, uint64_t offset, uint64_t bytes) {
  DeviceMemory::View part = view;
  part.base += offset;
  part.bytes = bytes;
  part.host += offset;
  part.shadow += offset;
  if (part.cells != nullptr) part.cells += offset / 4;
  return part;
}

}  // namespace

void DeviceMemory::add_range(const View& view) {
  const std::unique_lock lock(mutex_);
  View added = view;
  auto next = ranges_.lower_bound(view.base);
  if (next != ranges_.end() && continues(added, next->second)) {
    added.bytes += next->second.bytes;
    next = ranges_.erase(next);
  }
  if (next != ranges_.begin() && continues(std::prev(next)->second, added)) {
    std::prev(next)->second.bytes += added.bytes;
  } else {
    ranges_[added.base] = added;
  }
  for (auto it = removed_.begin(); it != removed_.end();) {
    const bool overlaps = it->first < view.base + view.bytes && view.base < it->second;
    it = overlaps ? removed_.erase(it) : std::next(it);
  }
}

void DeviceMemory::remove_range(DeviceAddress address, uint64_t bytes) {
  const std::unique_lock lock(mutex_);
  const DeviceAddress end = address + bytes;
  auto it = ranges_.upper_bound(address);
  if (it != ranges_.begin()) --it;
  while (it != ranges_.end() && it->first < end) {
    const View view = it->second;
    const DeviceAddress view_end = view.base + view.bytes;
    if (view_end <= address) {
      ++it;
      continue;
    }
    it = ranges_.erase(it);
    if (view.base < address) ranges_[view.base] = part_of(view, 0, address - view.base);
    if (view_end > end) ranges_[end] = part_of(view, end - view.base, view_end - end);
    removed_[address] = std::max(removed_[address], end);
  }
}

bool DeviceMemory::was_removed(DeviceAddress address) const {
  const std::shared_lock lock(mutex_);
  auto it = removed_.upper_bound(address);
  return it != removed_.begin() && address < std::prev(it)->second;
}

void DeviceMemory::add_peer(DeviceMemory* peer) {
  const std::unique_lock lock(mutex_);
  if (std::ranges::find(peers_, peer) == peers_.end()) peers_.push_back(peer);
}

void DeviceMemory::remove_peer(DeviceMemory* peer) {
  const std::unique_lock lock(mutex_);
  std::erase(peers_, peer);
}

std::optional<Allocation> DeviceMemory::find(DeviceAddress address) const {
  const std::shared_lock lock(mutex_);
  if (auto it = live_.upper_bound(address); it != live_.begin()) {
    --it;
    if (address - it->first < it->second.bytes) return it->second;
  }
  if (auto it = host_ranges_.upper_bound(address); it != host_ranges_.begin()) {
    --it;
    if (address - it->first < it->second.allocation.bytes) return it->second.allocation;
  }
  if (auto it = ranges_.upper_bound(address); it != ranges_.begin()) {
    --it;
    if (address - it->first < it->second.bytes) return Allocation{it->first, it->second.bytes, MemoryKind::Device, 0};
  }
  return std::nullopt;
}

std::vector<Allocation> DeviceMemory::live() const {
  const std::shared_lock lock(mutex_);
  std::vector<Allocation> list;
  for (const auto& [address, allocation] : live_) list.push_back(allocation);
  return list;
}

std::optional<DeviceMemory::View> DeviceMemory::view_of(DeviceAddress address) const {
  if (address - arena_.base < arena_.bytes) return arena_;
  const std::shared_lock lock(mutex_);
  for (const DeviceMemory* peer : peers_) {
    if (address - peer->arena_.base < peer->arena_.bytes) {
      View view = peer->arena_;
      view.cells = nullptr;  // its records belong to the launches of the peer
      return view;
    }
  }
  if (auto it = host_ranges_.upper_bound(address); it != host_ranges_.begin()) {
    --it;
    const Allocation& range = it->second.allocation;
    if (address - range.address < range.bytes) {
      return View{range.address,           range.bytes, reinterpret_cast<std::byte*>(range.address),
                  it->second.shadow.get(), nullptr,     true};
    }
  }
  if (auto it = ranges_.upper_bound(address); it != ranges_.begin()) {
    --it;
    if (address - it->first < it->second.bytes) return it->second;
  }
  return std::nullopt;
}

std::byte* DeviceMemory::host_pointer(DeviceAddress address, uint64_t bytes) const {
  std::optional<Allocation> found = find(address);
  const DeviceMemory* owner = this;
  if (!found) {
    std::vector<DeviceMemory*> peers;
    {
      const std::shared_lock lock(mutex_);
      peers = peers_;
    }
    for (const DeviceMemory* peer : peers) {
      if (address - peer->arena_.base >= peer->arena_.bytes) continue;
      found = peer->find(address);
      owner = peer;
    }
  }
  if (!found || bytes > found->bytes - (address - found->address)) return nullptr;
  if (const std::optional<View> outside = view_of(address); outside && outside->all_allocated) {
    return outside->host + (address - outside->base);
  }
  if (found->kind != MemoryKind::Device) return reinterpret_cast<std::byte*>(address);
  return owner->arena_.host + (address - owner->arena_.base);
}

void DeviceMemory::mark_initialised(DeviceAddress address, uint64_t bytes) {
  const std::optional<View> view = view_of(address);
  if (!view || view->shadow == nullptr) return;
  const uint64_t offset = address - view->base;
  bytes = std::min(bytes, view->bytes - offset);
  for (uint64_t i = 0; i < bytes; ++i) view->shadow[offset + i] |= kInitialised;
}

void DeviceMemory::copy_initialised(DeviceAddress to, DeviceAddress from, uint64_t bytes) {
  const std::optional<View> target = view_of(to), source = view_of(from);
  if (!target || target->shadow == nullptr) return;
  if (!source || source->shadow == nullptr) return mark_initialised(to, bytes);
  const uint64_t a = to - target->base, b = from - source->base;
  bytes = std::min({bytes, target->bytes - a, source->bytes - b});
  for (uint64_t i = 0; i < bytes; ++i) {
    target->shadow[a + i] = uint8_t((target->shadow[a + i] & ~kInitialised) | (source->shadow[b + i] & kInitialised));
  }
}

std::optional<DeviceAddress> DeviceMemory::first_uninitialised(DeviceAddress address, uint64_t bytes) const {
  const std::optional<View> view = view_of(address);
  if (!view || view->shadow == nullptr) return std::nullopt;
  const uint64_t offset = address - view->base;
  bytes = std::min(bytes, view->bytes - offset);
  for (uint64_t i = 0; i < bytes; ++i) {
    if (!(view->shadow[offset + i] & kInitialised)) return address + i;
  }
  return std::nullopt;
}

uint32_t DeviceMemory::begin_launch() {
  const std::unique_lock lock(mutex_);
  if (++running_ == 1 && used_tags_ == ~uint64_t(0)) {
    used_tags_ = 1;
    forget(arena_.cells, total_bytes_ / 4 * sizeof(RaceCell) + 4096);
    for (const auto& [base, view] : ranges_) {
      if (view.cells != nullptr) std::memset(view.cells, 0, view.bytes / 4 * sizeof(RaceCell));
    }
  }
  const int tag = std::countr_one(used_tags_);
  if (tag == 64) return 0;
  used_tags_ |= uint64_t(1) << tag;
  return uint32_t(tag);
}

void DeviceMemory::end_launch() {
  const std::unique_lock lock(mutex_);
  --running_;
}

void DeviceMemory::HostRange::Unmap::operator()(uint8_t* shadow) const {
  ::munmap(shadow, bytes);
}

}  // namespace corrloom::sim
