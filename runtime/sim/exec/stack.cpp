#include "runtime/sim/exec/access.h"
#include "runtime/sim/exec/decoder.h"
#include "runtime/sim/exec/lanes.h"

/// Memory that a function takes from its thread's stack while it runs. Frames grow from the bottom of a thread's local
/// memory, these allocations from its top; they go when their function returns. Source: PTX ISA, "Stack Manipulation
/// Instructions".
namespace corrloom::sim::exec {
namespace {

using ptx::Type;

/// a: bytes, imm: alignment
template <class T>
void allocate(Warp& warp, const Inst& inst, LaneMask mask) {
  const uint64_t floor = uint64_t(warp.frame->local_base) + warp.frame->function->local_bytes;
  for_lanes(mask, [&](int lane) {
    uint32_t& top = warp.stack_top[size_t(lane)];
    const uint64_t bytes = warp.at<T>(inst.a)[lane];
    const uint64_t start = bytes > top ? 0 : (top - bytes) / uint64_t(inst.imm) * uint64_t(inst.imm);
    if (bytes > top || start < floor) {
      warp.fault(LaunchError::StackOverflow, FindingKind::StackOverflow, inst, lane, 0, 0,
                 "alloca of " + std::to_string(bytes) + " bytes exceeds the stack of " +
                     std::to_string(warp.local_stride) + " bytes");
    }
    top = uint32_t(start);
    warp.at<T>(inst.d)[lane] = T(start);
  });
}

template <class T>
void save(Warp& warp, const Inst& inst, LaneMask mask) {
  for_lanes(mask, [&](int lane) { warp.at<T>(inst.d)[lane] = warp.stack_top[size_t(lane)]; });
}

template <class T>
void restore(Warp& warp, const Inst& inst, LaneMask mask) {
  for_lanes(mask, [&](int lane) {
    const uint64_t saved = warp.at<T>(inst.a)[lane];
    if (saved < warp.stack_top[size_t(lane)] || saved > warp.local_stride) {
      warp.fault(LaunchError::IllegalInstruction, FindingKind::IllegalInstruction, inst, lane, 0, 0,
                 hex(saved) + " is not a stack pointer that stacksave gave");
    }
    warp.stack_top[size_t(lane)] = uint32_t(saved);
  });
}

/// The checks that the three instructions share; true for 64-bit stack pointers.
bool decode_common(Decode& c, size_t least, size_t most) {
  c.require(73, 52);
  const Type type = c.mods.type();
  if (type != Type::U64 && type != Type::U32) c.fail(c.source.opcode + " works on .u32 and .u64");
  c.expect_operands(least, most);
  c.inst.klass = Class::Integer;
  c.decoder.mark_dynamic_stack();
  return type == Type::U64;
}

void decode_alloca(Decode& c) {
  const bool wide = decode_common(c, 2, 3);
  const uint64_t alignment = c.operand_count() == 3 ? c.constant(2) : 8;
  if (alignment == 0 || alignment > 1u << 23 || (alignment & (alignment - 1)) != 0)
    c.fail("the alignment must be a power of two");
  c.inst.imm = int64_t(alignment);
  c.inst.d = c.writes(0, wide ? Type::U64 : Type::U32);
  c.inst.a = c.reads(1, wide ? Type::U64 : Type::U32);
  c.inst.fn = wide ? allocate<uint64_t> : allocate<uint32_t>;
}

void decode_stacksave(Decode& c) {
  const bool wide = decode_common(c, 1, 1);
  c.inst.d = c.writes(0, wide ? Type::U64 : Type::U32);
  c.inst.fn = wide ? save<uint64_t> : save<uint32_t>;
}

void decode_stackrestore(Decode& c) {
  const bool wide = decode_common(c, 1, 1);
  c.inst.a = c.reads(0, wide ? Type::U64 : Type::U32);
  c.inst.fn = wide ? restore<uint64_t> : restore<uint32_t>;
}

}  // namespace

void register_stack(OpcodeTable& table) {
  table["alloca"] = decode_alloca;
  table["stacksave"] = decode_stacksave;
  table["stackrestore"] = decode_stackrestore;
}

}  // namespace corrloom::sim::exec
