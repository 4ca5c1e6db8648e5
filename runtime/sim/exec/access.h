#pragma once

#include "runtime/sim/exec/engine.h"

/// How lanes reach memory: address to host pointer, with the sanitizer's checks on the way.
namespace corrloom::sim::exec {

/// What an instruction does at an address.
struct Access {
  Space space = Space::Generic;
  uint32_t bytes = 4;
  bool reads = false;
  bool writes = false;
  bool strong = false;           ///< atomic or ordered: never races with another strong access
  bool read_only = false;        ///< ld.global.nc: the data must not change while the kernel runs
  uint32_t alignment = 0;        ///< 0: `bytes`
  bool async_proxy = false;      ///< wgmma and bulk copies: they see what threads wrote only after a proxy fence
  bool defers = false;           ///< undefined bytes are noted for `define_loaded`, not reported
  const void* stored = nullptr;  ///< the bytes a plain store is about to write; equal bytes do not race
};

/// Host memory for one lane's access. Throws Fault on what a device would not survive; other findings are reported.
std::byte* resolve(Warp& warp, const Inst& inst, int lane, uint64_t address, const Access& access);

/// The lane's address: base register, or constant, plus the instruction's offset.
inline uint64_t lane_address(Warp& warp, const Inst& inst, int lane) {
  if (inst.wide_address) return warp.at<uint64_t>(inst.a)[lane] + uint64_t(inst.imm);
  return uint32_t(warp.at<uint32_t>(inst.a)[lane] + uint64_t(inst.imm));  // 32-bit addresses wrap
}

/// The space a generic address lies in, and the address there.
struct Located {
  Space space;
  uint64_t address;
};
Located locate(Space space, uint64_t address);

/// Counts one warp-wide request to memory. `addresses` holds 32 entries; only those of the mask count.
void count_request(Warp& warp, Space space, const uint64_t* addresses, LaneMask mask, uint32_t bytes, bool store);

/// Block, and offset within it, of a shared::cluster address; faults when the rank does not exist.
Block& shared_owner(Warp& warp, const Inst& inst, int lane, uint64_t address, uint32_t& offset);

// -- ordering, for the race detector --

/// Whether an instruction is atom.cas: what it compares with comes from a read before it.
bool is_compare_and_swap(const Inst& inst);

/// A fence, or an acquire or release by qualifier.
void race_fence(Warp& warp);
/// A strong read (acquires), a strong write (publishes what the last fence ordered).
void race_strong_read(Warp& warp);
void race_strong_write(Warp& warp);
/// The time of the warp's last recorded access: what others have seen of it when they are ordered behind it now.
uint32_t race_time(const Warp& warp);
/// Takes over what another party published.
void race_acquire(Warp& warp, const std::vector<uint32_t>& published);
/// Adds everything this warp knows to `published`, then starts a new epoch.
void race_release(Warp& warp, std::vector<uint32_t>& published);
/// bar.warp.sync and every collective instruction: orders the warp's own lanes.
void race_sync_lanes(Warp& warp);

/// `(x, y, z)`
std::string print(const Dim3& dim);
/// A number in hexadecimal.
std::string hex(uint64_t value);
/// The coordinates of a thread by its number in the block.
Dim3 thread_coordinates(const Dim3& block, uint32_t thread);

}  // namespace corrloom::sim::exec
