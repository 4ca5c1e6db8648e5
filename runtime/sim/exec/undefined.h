#pragma once

#include "runtime/sim/exec/access.h"

/// Follows values that come from memory which nothing has written, as Valgrind does: loading or moving one is no fault,
/// and what arithmetic makes of it is undefined as well; a finding is where it decides something: an address, a branch,
/// what other blocks or the host can see. Costs nothing until a warp loads such a value.
namespace corrloom::sim::exec {

/// What a warp knows about its undefined values besides the bits in RegisterShadow.
struct UndefinedState {
  /// A load that found memory unwritten.
  struct Origin {
    int pc = 0;
    bool global = false;
    std::array<uint64_t, kLanes> addresses{};
  };
  std::vector<Origin> origins;  ///< the origin n of RegisterShadow is entry n - 1
  /// Undefined bytes that the load in progress has found so far, by lane: a bit for each byte.
  std::array<uint32_t, kLanes> found{};
  LaneMask found_lanes = 0;
  uint16_t found_origin = 0;
  std::unique_ptr<std::byte[]> local;  ///< which bits of the warp's local memory are undefined; null: none
  uint16_t local_origin = 0;
};

/// Before an instruction executes: what becomes of its results; findings where an undefined operand decides something.
/// `mask` holds the lanes that are there, `active` those that the guard let through.
void follow_undefined(Warp& warp, const Inst& inst, LaneMask mask, LaneMask active);

/// Notes that a lane's load reads bytes whose shadow lacks `bit`.
void note_undefined(Warp& warp, int lane, uint64_t address, bool global, const uint8_t* shadow, uint32_t bytes,
                    uint8_t bit);
/// A read of the thread's local memory: notes undefined bytes for a load, reports them for everything else.
void read_local(Warp& warp, const Inst& inst, int lane, uint64_t address, const Access& access);
/// After ld: marks its destinations.
void define_loaded(Warp& warp, const Inst& inst, LaneMask mask);
/// After st: shared and local memory take undefined bytes; elsewhere they are a finding.
void store_undefined(Warp& warp, const Inst& inst, LaneMask mask, const uint64_t* addresses);
/// A function begins: its local memory holds nothing of what others left there.
void clear_local(Warp& warp, LaneMask mask, const Frame& frame);
/// After a value was passed between frames.
void pass_undefined(Warp& warp, LaneMask mask, Frame& from, const Passed& source, Frame& to, const Passed& target);

}  // namespace corrloom::sim::exec
