#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/sim/machine.h"

/// PTX in the dense form that the warp engine runs.
namespace corrloom::sim::exec {

inline constexpr int kLanes = 32;
/// Bit l stands for lane l.
using LaneMask = uint32_t;
inline constexpr LaneMask kAllLanes = 0xFFFFFFFFu;

struct Warp;
struct Inst;
/// Executes one instruction for the lanes of a mask, which is not empty.
using ExecFn = void (*)(Warp&, const Inst&, LaneMask);

/// Where a value lives: the top two bits choose the base (Warp::bases), the rest is a byte offset. A register of n
/// bytes takes n * 32 bytes, lane 0 first; a predicate is one LaneMask. A constant is stored as if it were a register.
using Slot = uint32_t;
inline constexpr int kSlotBaseShift = 30;
inline constexpr Slot kSlotOffsetMask = (1u << kSlotBaseShift) - 1;
enum class Base : uint32_t { Frame = 0, Constant = 1, Special = 2 };
inline constexpr Slot kNoSlot = ~Slot(0);
constexpr Slot make_slot(Base base, uint32_t offset) {
  return uint32_t(base) << kSlotBaseShift | offset;
}

/// What the engine does with an instruction besides calling its function.
enum class Flow : uint8_t {
  Next,           ///< call `fn`, go on
  Jump,           ///< unconditional, to `target`; only layout, never in the PTX
  Branch,         ///< to `target` for the lanes the guard selects
  BranchIndexed,  ///< brx.idx
  Call,
  CallIndirect,
  Return,
  Exit,
  Collective,    ///< waits for the lanes of its membermask, then `fn` for each party
  WarpBarrier,   ///< bar.warp.sync
  BlockBarrier,  ///< bar, barrier: see exec/barrier.cpp
  ClusterBarrier,
  Trap,
  Yield,  ///< call `fn`, then let other warps run
};

/// What the counters call it.
enum class Class : uint8_t {
  None,  ///< not an instruction of the PTX (inserted by the decoder)
  Fp16,
  Fp32,
  Fp64,
  Integer,
  Conversion,
  SpecialFunction,
  Control,
  Move,
  LoadStore,
  Barrier,
  ShuffleVote,
  Atomic,
  TensorCore,
  AsyncCopy,
};

/// How an instruction treats operands whose values are undefined; see exec/undefined.h.
enum class Follow : uint8_t {
  ByClass,       ///< Uses for what touches memory, control or other lanes, else Spreads; settled by the decoder
  Spreads,       ///< results are undefined in the lanes where an operand is
  SpreadsBits,   ///< bits of results are undefined where a bit in the same place of an operand is
  SpreadsPairs,  ///< a half of the result is undefined where that half of an operand is
  Moves,         ///< all operands are data that it moves: executed on the undefined bits themselves
  MovesFirst,    ///< the same, but operands b and c say where to
  MovesTwo,      ///< a and b are moved, c says which
  And,           ///< a defined 0 decides
  Or,            ///< a defined 1 decides
  Compares,      ///< a comparison combined with a predicate
  SpreadsWide,   ///< a value of one lane reaches all lanes
  Ballots,       ///< one bit for each lane reaches all lanes
  Loads,         ///< ld: address only, the rest when it executes
  Stores,        ///< st: likewise
  Uses,          ///< an undefined operand decides something: a finding
};

/// A register that an instruction reads or writes.
struct Operand {
  enum class Role : uint8_t { Read, Write, Address };
  Slot slot = kNoSlot;  ///< kNoSlot ends a list
  uint16_t bytes = 0;   ///< per lane; 0 for predicates
  Role role = Role::Read;
};

enum class Space : uint8_t { Generic, Global, Shared, SharedCluster, Local, Const, Param, KernelParam };

/// One decoded instruction. Fields whose meaning depends on the operation say so where it is decoded.
struct Inst {
  ExecFn fn = nullptr;
  Slot d = kNoSlot, a = kNoSlot, b = kNoSlot, c = kNoSlot;
  Slot guard = kNoSlot;
  int32_t target = -1;  ///< code index; for calls an index into Program::calls
  int64_t imm = 0;      ///< address offset, or an operation's own constant
  uint32_t list = 0;    ///< start of this instruction's slots in Program::slots
  uint16_t list_size = 0;
  Flow flow = Flow::Next;
  Class klass = Class::None;
  Space space = Space::Generic;
  bool guard_negated = false;
  bool aligned = false;                    ///< all lanes of the warp must execute it together
  bool leader = false;                     ///< control may arrive here from elsewhere
  bool wide_address = true;                ///< the address operand has 64 bits
  bool strong = false;                     ///< volatile, relaxed, acquire, release, atomic: synchronises, never races
  uint8_t flops = 0;                       ///< floating-point operations per lane
  uint8_t m0 = 0, m1 = 0, m2 = 0, m3 = 0;  ///< an operation's own modes
  Follow follow = Follow::ByClass;
  uint16_t bytes = 0;  ///< memory: bytes per lane
  int32_t line = 0;
  uint32_t text = 0;      ///< index into Program::texts
  uint32_t operands = 0;  ///< start of a list in Program::operands
};

/// Where an argument, a result or a parameter lives: a register of the frame, or bytes of its local memory.
struct Passed {
  Slot slot = kNoSlot;  ///< kNoSlot: in local memory
  uint32_t offset = 0;  ///< in the local frame
  uint32_t bytes = 0;   ///< per lane; 0 for predicates
};

/// A call site: what the caller passes, in order; the callee says where it goes.
struct CallSite {
  int function = -1;  ///< into Program::functions; -1 when indirect
  std::vector<Passed> arguments, results;
};

struct DecodedFunction {
  std::string name;
  int entry = -1;  ///< code index
  uint32_t register_bytes = 0;
  uint32_t local_bytes = 0;  ///< of one frame, per thread; multiple of 16
  std::vector<Passed> params, returns;
  int intrinsic = -1;  ///< vprintf and friends: see exec/calls.h
};

/// A special register that a program reads; its lanes stand at `offset` of the special base.
struct SpecialUse {
  uint16_t which = 0;  ///< exec::Special
  uint32_t offset = 0;
};

/// Everything one kernel needs to run.
struct KernelProgram {
  KernelInfo info;
  int function = 0;
  uint32_t dynamic_shared_alignment = 16;
  uint32_t dynamic_shared_offset = 0;  ///< where .extern .shared arrays start
  std::vector<Inst> code;
  std::vector<Slot> slots;
  std::vector<Operand> operands{{}};  ///< lists of registers; the first is empty
  std::vector<CallSite> calls;
  std::vector<int> branch_tables;  ///< concatenated; Inst::imm is the start, list_size the number
  std::vector<DecodedFunction> functions;
  std::map<DeviceAddress, int> function_addresses;
  std::vector<std::byte> constants;  ///< the constant base
  std::vector<SpecialUse> specials;
  uint32_t special_bytes = 0;
  std::vector<std::string> texts;  ///< instruction texts for reports
  bool recursive = false;          ///< the call graph has a cycle or indirect calls
  bool dynamic_stack = false;      ///< uses alloca; then `recursive` is set as well
  uint32_t stack_bytes = 0;        ///< per thread when not recursive
  bool uses_clusters = false;
  bool uses_reserved_shared = false;  ///< reads where the system's part of shared memory lies
};

struct Program {
  int ptx_version = 0;
  std::vector<KernelProgram> kernels;
  std::map<std::string, int, std::less<>> kernel_names;
};

// Generic address windows. All lie above every device arena and every host pointer.
inline constexpr DeviceAddress kSharedWindow = 0x0003'0000'0000'0000;
inline constexpr DeviceAddress kLocalWindow = 0x0003'0001'0000'0000;
inline constexpr DeviceAddress kParamWindow = 0x0003'0002'0000'0000;
inline constexpr DeviceAddress kFunctionWindow = 0x0003'0003'0000'0000;
/// The part of shared memory that the system keeps for itself, behind the program's; cooperative groups of several
/// warps use the second half. It exists for kernels that ask where it is.
inline constexpr uint32_t kReservedSharedBytes = 1024;
inline constexpr uint64_t kWindowBytes = uint64_t(1) << 32;
/// A shared::cluster address holds (rank + 1) << 24 for the block of that rank, 0 there for the executing block.
inline constexpr int kClusterRankShift = 24;

}  // namespace corrloom::sim::exec
