#include <algorithm>

#include "runtime/sim/exec/access.h"
#include "runtime/sim/exec/async.h"
#include "runtime/sim/exec/decoder.h"
#include "runtime/sim/exec/formats.h"
#include "runtime/sim/exec/half.h"
#include "runtime/sim/exec/lanes.h"
#include "runtime/sim/exec/memory_modifiers.h"

/// atom, red, fence, membar. Source: PTX ISA, "Parallel Synchronization and Communication Instructions".
namespace corrloom::sim::exec {
namespace {

using ptx::Type;

enum class AtomicOp : uint8_t { Add, And, Or, Xor, Exch, Cas, Inc, Dec, Min, Max };

// Inst::m0: AtomicOp, m1: bit 0 acquire, bit 1 release, m2: returns a value, m3: Type of the elements.
// list: operands b of each element, then c of cas; d of each element follows when m2.

template <class T>
T apply_integer(AtomicOp op, T old, T b, T c) {
  using U = std::make_unsigned_t<T>;
  switch (op) {
    case AtomicOp::Add:
      return T(U(old) + U(b));
    case AtomicOp::And:
      return old & b;
    case AtomicOp::Or:
      return old | b;
    case AtomicOp::Xor:
      return old ^ b;
    case AtomicOp::Exch:
      return b;
    case AtomicOp::Cas:
      return old == b ? c : old;
    case AtomicOp::Inc:
      return U(old) >= U(b) ? T(0) : T(U(old) + 1);
    case AtomicOp::Dec:
      return old == 0 || U(old) > U(b) ? b : T(U(old) - 1);
    case AtomicOp::Min:
      return std::min(old, b);
    default:
      return std::max(old, b);
  }
}

template <class H>
uint16_t apply_half(AtomicOp op, uint16_t old, uint16_t b) {
  const double x = H::to_float(old), y = H::to_float(b);
  if (op == AtomicOp::Add) return H::from_double(x + y);
  if (x != x || y != y) return x != x && y != y ? kHalfNan : x != x ? b : old;
  return (op == AtomicOp::Min) == (x < y) ? old : b;
}

/// One element's new value, as bits. Sums of f32 in global memory flush denormals (`ftz`); in shared memory they do
/// not.
uint64_t apply(const Inst& inst, uint64_t old, uint64_t b, uint64_t c, bool ftz) {
  const auto op = AtomicOp(inst.m0);
  switch (Type(inst.m3)) {
    case Type::S32:
      return uint32_t(apply_integer(op, int32_t(old), int32_t(b), int32_t(c)));
    case Type::U32:
    case Type::B32:
      return apply_integer(op, uint32_t(old), uint32_t(b), uint32_t(c));
    case Type::S64:
      return uint64_t(apply_integer(op, int64_t(old), int64_t(b), int64_t(c)));
    case Type::U64:
    case Type::B64:
      return apply_integer(op, old, b, c);
    case Type::B16:
      return apply_integer(op, uint16_t(old), uint16_t(b), uint16_t(c));
    case Type::F32: {
      const auto x = std::bit_cast<float>(uint32_t(old)), y = std::bit_cast<float>(uint32_t(b));
      if (op == AtomicOp::Add) {
        const float sum = ftz ? flush(flush(x) + flush(y)) : x + y;
        return std::bit_cast<uint32_t>(canonical(sum));
      }
      return std::bit_cast<uint32_t>((op == AtomicOp::Min) == (x < y) ? x : y);
    }
    case Type::F64:
      return std::bit_cast<uint64_t>(std::bit_cast<double>(old) + std::bit_cast<double>(b));
    case Type::F16:
      return apply_half<HalfF16>(op, uint16_t(old), uint16_t(b));
    case Type::BF16:
      return apply_half<HalfBF16>(op, uint16_t(old), uint16_t(b));
    case Type::F16x2:
      return uint32_t(apply_half<HalfF16>(op, uint16_t(old >> 16), uint16_t(b >> 16))) << 16 |
             apply_half<HalfF16>(op, uint16_t(old), uint16_t(b));
    default:
      return uint32_t(apply_half<HalfBF16>(op, uint16_t(old >> 16), uint16_t(b >> 16))) << 16 |
             apply_half<HalfBF16>(op, uint16_t(old), uint16_t(b));
  }
}

template <class T>
uint64_t exchange(const Inst& inst, std::byte* host, uint64_t b, uint64_t c, bool ftz) {
  std::atomic_ref cell(*reinterpret_cast<T*>(host));
  T old = cell.load(std::memory_order_relaxed);
  while (!cell.compare_exchange_weak(old, T(apply(inst, old, b, c, ftz)), std::memory_order_acq_rel)) {
  }
  return old;
}

template <class T>
void atomic(Warp& warp, const Inst& inst, LaneMask mask) {
  const Slot* slots = warp.program->slots.data() + inst.list;
  const uint32_t elements = inst.bytes / sizeof(T);
  const bool is_cas = AtomicOp(inst.m0) == AtomicOp::Cas;
  if (inst.m1 & 2) race_fence(warp);
  race_strong_write(warp);  // published first: a block on another host thread may see the new value at once
  const Access access{.space = inst.space, .bytes = inst.bytes, .reads = true, .writes = true, .strong = true};
  uint64_t addresses[kLanes];
  for_lanes(mask, [&](int lane) {
    addresses[lane] = lane_address(warp, inst, lane);
    std::byte* host = resolve(warp, inst, lane, addresses[lane], access);
    const bool ftz = locate(inst.space, addresses[lane]).space == Space::Global;
    for (uint32_t i = 0; i < elements; ++i) {
      const uint64_t b = warp.at<T>(slots[i])[lane];
      const uint64_t c = is_cas ? warp.at<T>(slots[1])[lane] : 0;
      const uint64_t old = exchange<T>(inst, host + i * sizeof(T), b, c, ftz);
      if (inst.m2) warp.at<T>(slots[elements + is_cas + i])[lane] = T(old);
    }
  });
  if (inst.m2) race_strong_read(warp);
  if (inst.m1 & 1) race_fence(warp);
  warp.waited += 32;
  if (warp.worker->count) {
    const Space space = locate(inst.space, addresses[std::countr_zero(mask)]).space;
    auto& counters = warp.worker->counters;
    (space == Space::Global ? counters.global_atomics : counters.shared_atomics) += uint64_t(std::popcount(mask));
  }
}

struct Bits128 {
  uint64_t low, high;
};

/// 128-bit exch and cas: under one lock per launch, as hosts differ in what they can do at once.
void atomic128(Warp& warp, const Inst& inst, LaneMask mask) {
  const Slot* slots = warp.program->slots.data() + inst.list;
  const bool is_cas = AtomicOp(inst.m0) == AtomicOp::Cas;
  const Access access{.space = inst.space, .bytes = 16, .reads = true, .writes = true, .strong = true};
  for_lanes(mask, [&](int lane) {
    std::byte* host = resolve(warp, inst, lane, lane_address(warp, inst, lane), access);
    const std::lock_guard lock(warp.worker->launch.mutex);
    Bits128 old;
    std::memcpy(&old, host, 16);
    const Bits128 b = warp.at<Bits128>(slots[0])[lane];
    if (!is_cas) {
      std::memcpy(host, &b, 16);
    } else if (old.low == b.low && old.high == b.high) {
      std::memcpy(host, warp.at<Bits128>(slots[1]) + lane, 16);
    }
    if (inst.m2) warp.at<Bits128>(slots[1 + is_cas])[lane] = old;
  });
}

void check_type(Decode& c, AtomicOp op, Type type) {
  const bool ordered = op == AtomicOp::Min || op == AtomicOp::Max;
  bool legal = false;
  switch (type) {
    case Type::B16:
      legal = op == AtomicOp::Cas;
      break;
    case Type::B32:
    case Type::B64:
      legal = op == AtomicOp::And || op == AtomicOp::Or || op == AtomicOp::Xor || op == AtomicOp::Exch ||
              op == AtomicOp::Cas;
      break;
    case Type::B128:
      legal = op == AtomicOp::Exch || op == AtomicOp::Cas;
      break;
    case Type::U32:
      legal = op == AtomicOp::Add || op == AtomicOp::Inc || op == AtomicOp::Dec || ordered;
      break;
    case Type::U64:
    case Type::S32:
    case Type::S64:
      legal = op == AtomicOp::Add || ordered;
      break;
    case Type::F32:
    case Type::F64:
      legal = op == AtomicOp::Add;
      break;
    case Type::F16:
    case Type::BF16:
    case Type::F16x2:
    case Type::BF16x2:
      legal = op == AtomicOp::Add || ordered;
      break;
    default:
      break;
  }
  if (!legal) c.fail("illegal type ." + std::string(ptx::type_name(type)) + " for this atomic operation");
  if (type == Type::S64 && op == AtomicOp::Add) c.fail("atomic .add takes .u64, not .s64");
}

void decode_atomic(Decode& c) {
  const bool returns = c.source.opcode == "atom";
  if (!returns && c.mods.take("async")) return decode_remote_store(c, true);
  c.inst.klass = Class::Atomic;
  c.inst.strong = true;
  // The default of atom is relaxed at gpu scope; a scope may stand alone.
  const int order = c.mods.take_one({"relaxed", "acquire", "release", "acq_rel"});
  c.mods.take_one({"cta", "cluster", "gpu", "sys"});
  c.inst.m1 = uint8_t((order == 1 || order == 3 ? 1 : 0) | (order == 2 || order == 3 ? 2 : 0));
  c.inst.space = take_memory_space(c);
  if (c.inst.space != Space::Generic && c.inst.space != Space::Global && c.inst.space != Space::Shared &&
      c.inst.space != Space::SharedCluster) {
    c.fail("atomics work on global and shared memory");
  }
  const int op = c.mods.take_one({"add", "and", "or", "xor", "exch", "cas", "inc", "dec", "min", "max"});
  if (op < 0) c.fail("missing operation of '" + c.source.opcode + "'");
  c.mods.take("noftz");
  const bool hint = c.mods.take("L2::cache_hint");
  const int vector = c.mods.take_one({"v2", "v4", "v8"});
  const size_t width = vector < 0 ? 1 : size_t(2) << vector;
  const Type type = c.mods.type();
  check_type(c, AtomicOp(op), type);
  const bool is_cas = AtomicOp(op) == AtomicOp::Cas;
  if (is_cas && !returns) c.fail("red has no .cas");
  if (width > 1) c.require(81, 90);
  const size_t first = returns ? 1 : 0;
  c.expect_operands(first + 2 + is_cas + hint);
  c.inst.m0 = uint8_t(op);
  c.inst.m2 = returns;
  c.inst.m3 = uint8_t(type);
  c.decoder.read_address(c.operand(first), c.inst, c.source.line);
  const auto sources = Decoder::elements(c.operand(first + 1));
  if (sources.size() != width) c.fail("the vector operand must have " + std::to_string(width) + " elements");
  std::vector<Slot> slots;
  for (const ptx::Operand* source : sources)
    slots.push_back(c.decoder.read_operand(*source, type, false, c.source.line));
  if (is_cas) slots.push_back(c.reads(first + 2, type));
  if (hint) c.reads(first + 2 + is_cas, Type::B64);
  if (returns) {
    const auto results = Decoder::elements(c.operand(0));
    if (results.size() != width) c.fail("the vector operand must have " + std::to_string(width) + " elements");
    for (const ptx::Operand* result : results)
      slots.push_back(c.decoder.write_operand(*result, type, false, c.source.line));
  }
  c.decoder.set_list(c.inst, slots);
  const int bytes = ptx::type_bits(type) / 8;
  c.inst.bytes = uint16_t(size_t(bytes) * width);
  switch (bytes) {
    case 2:
      c.inst.fn = atomic<uint16_t>;
      break;
    case 4:
      c.inst.fn = atomic<uint32_t>;
      break;
    case 8:
      c.inst.fn = atomic<uint64_t>;
      break;
    default:
      c.inst.fn = atomic128;
      break;
  }
}

void fence(Warp& warp, const Inst&, LaneMask) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  race_fence(warp);
}

/// fence.proxy.async: what threads wrote to shared memory is now there for the async proxy.
void fence_proxy(Warp& warp, const Inst& inst, LaneMask mask) {
  fence(warp, inst, mask);
  Block& block = *warp.block;
  if (!block.generic_writes) return;
  block.generic_writes = false;
  for (uint8_t& state : block.shared_state) state = uint8_t(state & ~Block::kGeneric);
}

void decode_membar(Decode& c) {
  if (c.mods.has("proxy")) {
    c.mods.take("proxy");
    if (c.mods.take_one({"alias", "async"}) < 0) c.fail("illegal proxy");
    c.mods.take_one({"global", "shared::cta", "shared::cluster"});
    c.expect_operands(0);
    c.inst.klass = Class::Barrier;
    c.inst.fn = fence_proxy;
    return;
  }
  if (c.mods.take_one({"cta", "gl", "sys"}) < 0) c.fail("missing scope modifier");
  c.expect_operands(0);
  c.inst.klass = Class::Barrier;
  c.inst.fn = fence;
}

void decode_fence(Decode& c) {
  c.inst.klass = Class::Barrier;
  c.inst.fn = fence;
  if (c.mods.take("proxy")) {
    if (c.mods.take_one({"async", "alias", "tensormap::generic", "async::generic"}) == 0) c.inst.fn = fence_proxy;
    c.mods.take_one({"release", "acquire"});
    c.mods.take_one({"sync_restrict::shared::cta", "sync_restrict::shared::cluster"});
    c.mods.take_one({"global", "shared::cta", "shared::cluster"});
    c.mods.take_one({"cta", "cluster", "gpu", "sys"});
    c.expect_operands(0, 2);
    return;
  }
  const bool init = c.mods.take("mbarrier_init");
  c.mods.take_one({"sc", "acq_rel", "acquire", "release"});  // .acq_rel when absent
  c.mods.take_one({"sync_restrict::shared::cta", "sync_restrict::shared::cluster"});
  if (c.mods.take_one({"cta", "cluster", "gpu", "sys"}) < 0) c.fail("missing scope modifier");
  if (init) c.require(80, 90);
  c.expect_operands(0);
}

}  // namespace

bool is_compare_and_swap(const Inst& inst) {
  return inst.klass == Class::Atomic && AtomicOp(inst.m0) == AtomicOp::Cas;
}

void register_atomic(OpcodeTable& table) {
  table["atom"] = decode_atomic;
  table["red"] = decode_atomic;
  table["membar"] = decode_membar;
  table["fence"] = decode_fence;
}

}  // namespace corrloom::sim::exec
