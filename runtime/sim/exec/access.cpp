#include "runtime/sim/exec/access.h"

#include <algorithm>
#include <cstdio>

#include "runtime/sim/exec/undefined.h"

namespace corrloom::sim::exec {
namespace {

// A race record is one 64-bit word, so that host threads can share cells without locks.
//   bits  0-3   the bytes of the word that were touched
//   bit   4     strong
//   bits  5-14  thread of the block
//   shared memory: 15-33 instruction, 34-57 epoch;  global memory: 15-28 instruction, 29-39 epoch, 40-57 block
//   bits 58-63  tag: of the launch, or of the block for shared memory
struct Record {
  uint64_t bits;
  bool global;

  uint32_t mask() const { return bits & 15; }
  bool strong() const { return bits >> 4 & 1; }
  uint32_t thread() const { return bits >> 5 & 1023; }
  uint32_t instruction() const { return global ? bits >> 15 & kGlobalPc : bits >> 15 & kSharedPc; }
  uint32_t epoch() const { return global ? bits >> 29 & kGlobalEpoch : bits >> 34 & kSharedEpoch; }
  uint32_t block() const { return bits >> 40 & kBlock; }
  uint32_t tag() const { return uint32_t(bits >> 58); }

  static constexpr uint32_t kGlobalPc = (1 << 14) - 1, kSharedPc = (1 << 19) - 1;
  static constexpr uint32_t kGlobalEpoch = (1 << 11) - 1, kSharedEpoch = (1 << 24) - 1;
  static constexpr uint32_t kBlock = (1 << 18) - 1;
};

struct Party {
  Warp& warp;
  const Inst& inst;
  int lane;
  bool global;
  uint32_t tag;
  uint32_t thread() const { return uint32_t(warp.index * kLanes + lane); }
  uint64_t record(uint32_t mask, bool strong) const {
    const uint64_t base = mask | uint64_t(strong) << 4 | uint64_t(thread()) << 5 | uint64_t(tag) << 58;
    if (!global) {
      return base | uint64_t(std::min<uint32_t>(uint32_t(warp.pc), Record::kSharedPc)) << 15 |
             uint64_t(std::min(warp.race.now, Record::kSharedEpoch)) << 34;
    }
    return base | uint64_t(std::min<uint32_t>(uint32_t(warp.pc), Record::kGlobalPc)) << 15 |
           uint64_t(std::min(warp.race.now, Record::kGlobalEpoch)) << 29 | (warp.block->linear & Record::kBlock) << 40;
  }
};

/// Whether a recorded access happened before the present one. Errs on the side of yes.
bool happened_before(const Record& record, const Party& now) {
  const Block& block = *now.warp.block;
  if (record.global && record.block() != (block.linear & Record::kBlock)) {
    const LaunchState& launch = *block.launch;
    if (record.block() >= launch.first_release.size()) return true;
    const uint64_t released = launch.first_release[record.block()].load(std::memory_order_relaxed);
    return released != 0 && released < block.last_acquire;
  }
  const uint32_t thread = record.thread();
  if (thread == now.thread()) return true;
  const uint32_t epoch = record.epoch();
  if (epoch == (record.global ? Record::kGlobalEpoch : Record::kSharedEpoch)) return true;  // time saturated
  const auto warp = int(thread / kLanes);
  const RaceClock& clock = now.warp.race;
  if (warp == now.warp.index) return epoch < clock.synced;
  return size_t(warp) >= clock.seen.size() || epoch <= clock.seen[size_t(warp)];
}

void report_race(const Party& now, const Record& record, uint64_t address, uint32_t bytes, bool writes,
                 bool recorded_write) {
  const Block& block = *now.warp.block;
  const KernelProgram& program = *now.warp.program;
  const uint32_t pc = record.instruction();
  const bool known = pc != (record.global ? Record::kGlobalPc : Record::kSharedPc) && pc < program.code.size();
  Dim3 other_block = block.index;
  if (record.global) {
    const Dim3& grid = block.launch->request.grid;
    const uint64_t linear = record.block();
    other_block = {uint32_t(linear % grid.x), uint32_t(linear / grid.x % grid.y), uint32_t(linear / grid.x / grid.y)};
  }
  std::string other = recorded_write ? "write" : "read";
  other += " by thread " + print(thread_coordinates(block.launch->request.block, record.thread())) + " of block " +
           print(other_block);
  if (known) other += " at line " + std::to_string(program.code[pc].line) + ": " + program.texts[program.code[pc].text];
  now.warp.find(FindingKind::Race, now.inst, now.lane, address, bytes,
                std::string(writes ? "write" : "read") + " of " + (record.global ? "global" : "shared") +
                    " memory that another thread " + (recorded_write ? "wrote" : "read") +
                    " without synchronisation in between",
                std::move(other));
}

uint64_t load_cell(const uint64_t& cell) {
  return std::atomic_ref(const_cast<uint64_t&>(cell)).load(std::memory_order_relaxed);
}
void store_cell(uint64_t& cell, uint64_t value) {
  std::atomic_ref(cell).store(value, std::memory_order_relaxed);
}

/// A plain read and a compare-and-swap of the same place: the loop around one begins with such a read, and what it read
/// is checked when it swaps.
bool is_checked_by_swap(const Party& now, const Record& record, const Access& access, bool recorded_write) {
  if (!recorded_write) return !record.strong() && access.writes && is_compare_and_swap(now.inst);
  const std::vector<Inst>& code = now.warp.program->code;
  return !access.writes && !access.strong && record.instruction() < code.size() &&
         is_compare_and_swap(code[record.instruction()]);
}

/// Checks and records one access to up to 16 bytes.
void track(const Party& now, DeviceMemory::RaceCell* cells, uint64_t offset, uint64_t address, const Access& access,
           const std::byte* host) {
  const uint64_t end = offset + access.bytes;
  const bool harmless = access.writes && !access.reads && access.stored != nullptr && !access.strong &&
                        std::memcmp(host, access.stored, access.bytes) == 0;
  for (uint64_t word = offset / 4; word * 4 < end; ++word) {
    uint32_t mask = 15;
    if (word * 4 < offset) mask &= 15u << (offset - word * 4);
    if (word * 4 + 4 > end) mask &= 15u >> (word * 4 + 4 - end);
    DeviceMemory::RaceCell& cell = cells[word];
    const Record write{load_cell(cell.write), now.global};
    const auto conflicts = [&](const Record& record) {
      return record.tag() == now.tag && (record.mask() & mask) && !(record.strong() && access.strong) &&
             !happened_before(record, now);
    };
    if (access.read_only && write.tag() == now.tag && (write.mask() & mask)) {
      now.warp.find(FindingKind::StaleReadOnlyLoad, now.inst, now.lane, address, access.bytes,
                    "ld.global.nc of memory that this kernel has written");
    }
    if (conflicts(write) && !harmless) {
      if (!is_checked_by_swap(now, write, access, true)) {
        report_race(now, write, address, access.bytes, access.writes, true);
      }
    } else if (access.writes && !harmless) {
      const Record read{load_cell(cell.read), now.global};
      if (conflicts(read) && !is_checked_by_swap(now, read, access, false))
        report_race(now, read, address, access.bytes, true, false);
    }
    if (access.writes) {
      store_cell(cell.write, now.record(mask, access.strong));
    } else {
      store_cell(cell.read, now.record(mask, access.strong));
    }
  }
  now.warp.race.touched = true;
}

const Checks& checks(const Warp& warp) {
  return warp.worker->launch.options.checks;
}

void check_alignment(Warp& warp, const Inst& inst, int lane, uint64_t address, const Access& access) {
  const uint32_t alignment = access.alignment ? access.alignment : access.bytes;
  if ((address & (alignment - 1)) == 0) return;
  warp.fault(LaunchError::MisalignedAddress, FindingKind::Misaligned, inst, lane, address, access.bytes,
             "address " + hex(address) + " is not a multiple of " + std::to_string(alignment));
}

[[noreturn]] void fault_global(Warp& warp, const Inst& inst, int lane, uint64_t address, const Access& access,
                               bool freed) {
  std::string message = std::string(access.writes ? "write" : "read") + " of " + std::to_string(access.bytes) +
                        " bytes at " + hex(address);
  const DeviceMemory& memory = warp.worker->launch.memory;
  if (freed) {
    message += ", which has been freed";
  } else {
    const Allocation* nearest = nullptr;
    const std::vector<Allocation> live = memory.live();
    for (const Allocation& candidate : live) {
      if (candidate.address <= address) nearest = &candidate;
    }
    if (address < 4096) {
      message += ": a null pointer";
    } else if (nearest != nullptr && address - nearest->address < uint64_t(1) << 32) {
      const uint64_t at = address - nearest->address;
      message += at < nearest->bytes ? ", the last bytes of which are outside"
                                     : ", " + std::to_string(at - nearest->bytes) + " bytes after the end of";
      message += " the allocation of " + std::to_string(nearest->bytes) + " bytes at " + hex(nearest->address);
    } else {
      message += ", which is in no allocation";
    }
  }
  warp.fault(LaunchError::IllegalAddress, freed ? FindingKind::UseAfterFree : FindingKind::OutOfBounds, inst, lane,
             address, access.bytes, message);
}

/// Shadow bytes are shared by host threads: they are read and written as relaxed atomics, words where possible.
template <class T>
T load_shadow(const uint8_t* shadow) {
  return std::atomic_ref(*reinterpret_cast<T*>(const_cast<uint8_t*>(shadow))).load(std::memory_order_relaxed);
}

bool is_word(const uint8_t* shadow, uint32_t bytes) {
  return bytes == 4 && reinterpret_cast<uintptr_t>(shadow) % 4 == 0;
}

/// All bytes of the shadow have the bit.
bool all_have(const uint8_t* shadow, uint32_t bytes, uint8_t bit) {
  if (is_word(shadow, bytes)) {
    const uint32_t wanted = 0x01010101u * bit;
    return (load_shadow<uint32_t>(shadow) & wanted) == wanted;
  }
  for (uint32_t i = 0; i < bytes; ++i) {
    if (!(load_shadow<uint8_t>(shadow + i) & bit)) return false;
  }
  return true;
}

bool any_has(const uint8_t* shadow, uint32_t bytes, uint8_t bit) {
  uint8_t all = 0;
  for (uint32_t i = 0; i < bytes; ++i) all |= shadow[i];
  return all & bit;
}

/// Sets a bit in every byte. Setting it twice is harmless, so no read-modify-write is needed.
void mark(uint8_t* shadow, uint32_t bytes, uint8_t bit) {
  if (is_word(shadow, bytes)) {
    const uint32_t bits = 0x01010101u * bit, word = load_shadow<uint32_t>(shadow);
    if ((word & bits) != bits) {
      std::atomic_ref(*reinterpret_cast<uint32_t*>(shadow)).store(word | bits, std::memory_order_relaxed);
    }
    return;
  }
  for (uint32_t i = 0; i < bytes; ++i) {
    const auto byte = load_shadow<uint8_t>(shadow + i);
    if (!(byte & bit)) std::atomic_ref(shadow[i]).store(uint8_t(byte | bit), std::memory_order_relaxed);
  }
}

std::byte* resolve_global(Warp& warp, const Inst& inst, int lane, uint64_t address, const Access& access) {
  check_alignment(warp, inst, lane, address, access);
  const LaunchState& launch = warp.worker->launch;
  const DeviceMemory::View* view = &launch.memory.arena();
  DeviceMemory::View elsewhere;
  uint64_t offset = address - view->base;
  if (offset >= view->bytes || access.bytes > view->bytes - offset) {
    const std::optional<DeviceMemory::View> found = launch.memory.view_of(address);
    if (!found || access.bytes > found->bytes - (address - found->base))
      fault_global(warp, inst, lane, address, access, launch.memory.was_removed(address));
    elsewhere = *found;
    view = &elsewhere;
    offset = address - view->base;
  }
  uint8_t* shadow = view->shadow == nullptr ? nullptr : view->shadow + offset;
  const Checks& on = launch.options.checks;
  if (!view->all_allocated && !all_have(shadow, on.bounds ? access.bytes : 1, DeviceMemory::kAllocated)) {
    fault_global(warp, inst, lane, address, access, shadow[0] & DeviceMemory::kFreed);
  }
  std::byte* host = view->host + offset;
  if (shadow != nullptr && access.reads && on.uninitialised &&
      !all_have(shadow, access.bytes, DeviceMemory::kInitialised)) {
    if (access.defers) {
      note_undefined(warp, lane, address, true, shadow, access.bytes, DeviceMemory::kInitialised);
    } else {
      warp.find(FindingKind::UninitialisedRead, inst, lane, address, access.bytes,
                "read of global memory that nothing has written");
      mark(shadow, access.bytes, DeviceMemory::kInitialised);
    }
  }
  if (on.races && view->cells != nullptr && launch.launch_tag != 0) {
    track({warp, inst, lane, true, launch.launch_tag}, view->cells, offset, address, access, host);
  }
  if (access.writes && shadow != nullptr) mark(shadow, access.bytes, DeviceMemory::kInitialised);
  return host;
}

std::byte* resolve_shared(Warp& warp, const Inst& inst, int lane, uint64_t address, const Access& access) {
  check_alignment(warp, inst, lane, address, access);
  uint32_t offset = 0;
  Block& block = shared_owner(warp, inst, lane, address, offset);
  if (offset + uint64_t(access.bytes) > block.launch->addressable_shared) {
    warp.fault(LaunchError::IllegalAddress, FindingKind::SharedOutOfBounds, inst, lane, address, access.bytes,
               std::string(access.writes ? "write" : "read") + " of " + std::to_string(access.bytes) +
                   " bytes at shared offset " + std::to_string(offset) + "; the block has " +
                   std::to_string(block.launch->shared_bytes) + " bytes");
  }
  std::byte* host = block.shared.data() + offset;
  uint8_t* state = block.shared_state.data() + offset;
  const Checks& on = checks(warp);
  if (on.uninitialised) {
    if (access.reads && !all_have(state, access.bytes, Block::kWritten)) {
      if (access.defers) {
        note_undefined(warp, lane, address, false, state, access.bytes, Block::kWritten);
      } else {
        warp.find(FindingKind::UninitialisedRead, inst, lane, address, access.bytes,
                  "read of shared memory that nothing has written");
        mark(state, access.bytes, Block::kWritten);
      }
    }
    if (access.writes) mark(state, access.bytes, Block::kWritten);
  }
  if (on.races && access.writes && !access.async_proxy) {
    mark(state, access.bytes, Block::kGeneric);
    block.generic_writes = true;
  }
  if (on.races && access.async_proxy && access.reads && any_has(state, access.bytes, Block::kGeneric)) {
    warp.find(FindingKind::MissingProxyFence, inst, lane, address, access.bytes,
              "the async proxy reads shared memory that threads wrote without a fence.proxy.async after it");
  }
  if (on.races) {
    if (!access.strong && (access.reads || access.writes)) {
      for (uint32_t i = 0; i < access.bytes; ++i) {
        if (!(state[i] & Block::kPending)) continue;
        warp.find(FindingKind::UnsynchronisedAsyncCopy, inst, lane, address, access.bytes,
                  "access to shared memory that an asynchronous copy is still writing");
        break;
      }
    }
    // Blocks of a cluster are told apart by their barriers only; accesses from afar are not tracked.
    if (&block == warp.block)
      track({warp, inst, lane, false, block.shared_tag}, block.shared_cells.data(), offset, address, access, host);
  }
  return host;
}

std::byte* resolve_local(Warp& warp, const Inst& inst, int lane, uint64_t address, const Access& access) {
  check_alignment(warp, inst, lane, address, access);
  if (address + access.bytes > warp.local_stride || address + access.bytes < address) {
    warp.fault(
        LaunchError::IllegalAddress, FindingKind::LocalOutOfBounds, inst, lane, address, access.bytes,
        "local address " + hex(address) + " is outside the thread's " + std::to_string(warp.local_stride) + " bytes");
  }
  if (warp.holds_undefined && access.reads) read_local(warp, inst, lane, address, access);
  return warp.local.get() + size_t(lane) * warp.local_stride + address;
}

std::byte* resolve_param(Warp& warp, const Inst& inst, int lane, uint64_t address, const Access& access) {
  check_alignment(warp, inst, lane, address, access);
  const std::span<const std::byte> params = warp.worker->launch.request.params;
  if (address > params.size() || access.bytes > params.size() - address) {
    warp.fault(LaunchError::IllegalAddress, FindingKind::ConstOutOfBounds, inst, lane, address, access.bytes,
               "offset " + std::to_string(address) + " is outside the kernel's " + std::to_string(params.size()) +
                   " bytes of parameters");
  }
  if (access.writes) {
    warp.fault(LaunchError::IllegalAddress, FindingKind::ReadOnlyWrite, inst, lane, address, access.bytes,
               "write to kernel parameters");
  }
  return const_cast<std::byte*>(params.data()) + address;
}

}  // namespace

std::string hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::string print(const Dim3& dim) {
  return "(" + std::to_string(dim.x) + ", " + std::to_string(dim.y) + ", " + std::to_string(dim.z) + ")";
}

Dim3 thread_coordinates(const Dim3& block, uint32_t thread) {
  return {thread % block.x, thread / block.x % block.y, thread / block.x / block.y};
}

Located locate(Space space, uint64_t address) {
  if (space != Space::Generic) return {space, address};
  if (address < kSharedWindow) return {Space::Global, address};
  if (address - kSharedWindow < kWindowBytes) return {Space::SharedCluster, address - kSharedWindow};
  if (address - kLocalWindow < kWindowBytes) return {Space::Local, address - kLocalWindow};
  if (address - kParamWindow < kWindowBytes) return {Space::KernelParam, address - kParamWindow};
  return {Space::Global, address};
}

Block& shared_owner(Warp& warp, const Inst& inst, int lane, uint64_t address, uint32_t& offset) {
  const uint64_t rank = address >> kClusterRankShift;
  offset = uint32_t(address & ((1u << kClusterRankShift) - 1));
  if (rank == 0) return *warp.block;
  Cluster& cluster = *warp.block->cluster;
  if (rank > cluster.block_count) {
    warp.fault(LaunchError::IllegalAddress, FindingKind::SharedOutOfBounds, inst, lane, address, 0,
               "shared address " + hex(address) + " is outside the block and its cluster");
  }
  Block& owner = *cluster.blocks[rank - 1];
  if (owner.finished) {
    warp.fault(LaunchError::IllegalAddress, FindingKind::SharedOutOfBounds, inst, lane, address, 0,
               "access to the shared memory of a block of the cluster that has exited");
  }
  return owner;
}

std::byte* resolve(Warp& warp, const Inst& inst, int lane, uint64_t address, const Access& access) {
  const Located at = locate(access.space, address);
  switch (at.space) {
    case Space::Shared:
    case Space::SharedCluster:
      return resolve_shared(warp, inst, lane, at.address, access);
    case Space::Local:
    case Space::Param:
      return resolve_local(warp, inst, lane, at.address, access);
    case Space::KernelParam:
      return resolve_param(warp, inst, lane, at.address, access);
    default:
      return resolve_global(warp, inst, lane, at.address, access);
  }
}

// -- counters

namespace {

uint32_t count_sectors(const uint64_t* addresses, LaneMask mask, uint32_t bytes) {
  uint64_t sectors[kLanes * 2];
  uint32_t count = 0;
  bool ascending = true;
  for (; mask != 0; mask &= mask - 1) {
    const uint64_t first = addresses[std::countr_zero(mask)] / 32;
    const uint64_t last = (addresses[std::countr_zero(mask)] + bytes - 1) / 32;
    for (uint64_t sector = first; sector <= last; ++sector) {
      if (count > 0 && sectors[count - 1] == sector) continue;
      if (count > 0 && sectors[count - 1] > sector) ascending = false;
      sectors[count++] = sector;
    }
  }
  if (ascending) return count;
  std::sort(sectors, sectors + count);
  return uint32_t(std::unique(sectors, sectors + count) - sectors);
}

/// Wavefronts of one group of lanes: the most distinct words that fall in one bank.
uint32_t count_wavefronts(const uint64_t* addresses, LaneMask mask, uint32_t bytes) {
  uint32_t words[32][32];
  uint8_t used[32] = {};
  uint32_t most = 0;
  for (; mask != 0; mask &= mask - 1) {
    const uint64_t address = addresses[std::countr_zero(mask)];
    for (uint64_t word = address / 4; word * 4 < address + bytes; ++word) {
      const auto bank = size_t(word & 31);
      bool known = false;
      for (uint8_t i = 0; i < used[bank] && !known; ++i) known = words[bank][i] == uint32_t(word);
      if (known) continue;
      words[bank][used[bank]++] = uint32_t(word);
      most = std::max<uint32_t>(most, used[bank]);
    }
  }
  return most;
}

}  // namespace

void count_request(Warp& warp, Space space, const uint64_t* addresses, LaneMask mask, uint32_t bytes, bool store) {
  Counters& counters = warp.worker->counters;
  if (space == Space::Generic) space = locate(space, addresses[std::countr_zero(mask)]).space;
  const auto active = uint64_t(std::popcount(mask));
  switch (space) {
    case Space::Global: {
      const uint32_t sectors = count_sectors(addresses, mask, bytes);
      (store ? counters.global_store_requests : counters.global_load_requests) += 1;
      (store ? counters.global_store_sectors : counters.global_load_sectors) += sectors;
      (store ? counters.global_store_bytes : counters.global_load_bytes) += active * bytes;
      return;
    }
    case Space::Shared:
    case Space::SharedCluster: {
      // Wide accesses are served by half or quarter warps.
      const int groups = bytes > 8 ? 4 : bytes > 4 ? 2 : 1;
      uint32_t wavefronts = 0, needed = 0;
      for (int group = 0; group < groups; ++group) {
        const LaneMask part = mask & (kAllLanes >> (32 - 32 / groups)) << (32 / groups * group);
        if (part == 0) continue;
        wavefronts += count_wavefronts(addresses, part, bytes);
        ++needed;
      }
      (store ? counters.shared_store_requests : counters.shared_load_requests) += 1;
      (store ? counters.shared_store_wavefronts : counters.shared_load_wavefronts) += wavefronts;
      counters.shared_bank_conflicts += wavefronts - needed;
      return;
    }
    case Space::Local:
    case Space::Param:
      (store ? counters.local_store_requests : counters.local_load_requests) += 1;
      return;
    default:
      return;
  }
}

// -- ordering

namespace {

void join(std::vector<uint32_t>& into, const std::vector<uint32_t>& from) {
  if (into.size() < from.size()) into.resize(from.size(), 0);
  for (size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

/// What the warp has seen, itself included up to the last recorded access.
std::vector<uint32_t> knowledge(const Warp& warp) {
  std::vector<uint32_t> known = warp.race.seen;
  known[size_t(warp.index)] = race_time(warp);
  return known;
}

/// Later accesses get a later time. Time is scarce in the records, so it passes only when it must.
void advance(RaceClock& clock) {
  clock.now += clock.touched;
  clock.touched = false;
}

}  // namespace

uint32_t race_time(const Warp& warp) {
  return warp.race.touched ? warp.race.now : warp.race.now - 1;
}

void race_sync_lanes(Warp& warp) {
  advance(warp.race);
  warp.race.synced = warp.race.now;
}

void race_release(Warp& warp, std::vector<uint32_t>& published) {
  join(published, knowledge(warp));
  advance(warp.race);
}

void race_acquire(Warp& warp, const std::vector<uint32_t>& published) {
  join(warp.race.seen, published);
  race_sync_lanes(warp);
}

void race_fence(Warp& warp) {
  if (!checks(warp).races) return;
  warp.race.at_fence = knowledge(warp);
  warp.race.fenced = true;
  race_sync_lanes(warp);
}

void race_strong_read(Warp& warp) {
  if (!checks(warp).races) return;
  // The ISA asks for a fence behind the read. Code that polls a flag or takes a lock rarely has one, and what it then
  // reads for the first time is what was released: no finding.
  race_acquire(warp, warp.block->strong_released);
  warp.block->last_acquire = warp.block->launch->release_ticks.load(std::memory_order_relaxed);
}

void race_strong_write(Warp& warp) {
  if (!checks(warp).races || !warp.race.fenced) return;
  join(warp.block->strong_released, warp.race.at_fence);
  LaunchState& launch = *warp.block->launch;
  const uint64_t linear = warp.block->linear & Record::kBlock;
  if (linear < launch.first_release.size() && launch.first_release[linear].load(std::memory_order_relaxed) == 0) {
    launch.first_release[linear].store(launch.release_ticks.fetch_add(1, std::memory_order_relaxed),
                                       std::memory_order_relaxed);
  }
}

}  // namespace corrloom::sim::exec
