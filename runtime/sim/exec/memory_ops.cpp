#include <algorithm>

#include "runtime/sim/exec/access.h"
#include "runtime/sim/exec/async.h"
#include "runtime/sim/exec/decoder.h"
#include "runtime/sim/exec/lanes.h"
#include "runtime/sim/exec/memory_modifiers.h"
#include "runtime/sim/exec/undefined.h"

/// ld, st and what goes with caches. Source: PTX ISA, "Data Movement and Conversion Instructions: ld, ld.global.nc,
/// st".
namespace corrloom::sim::exec {

using ptx::Type;

Space take_memory_space(Decode& c) {
  static constexpr std::pair<std::string_view, Space> kSpaces[] = {
      {"global", Space::Global},      {"shared", Space::Shared},
      {"shared::cta", Space::Shared}, {"shared::cluster", Space::SharedCluster},
      {"local", Space::Local},        {"const", Space::Const},
      {"param", Space::KernelParam},  {"param::entry", Space::KernelParam},
      {"param::func", Space::Param}};
  for (const auto& [name, space] : kSpaces) {
    if (!c.mods.take(name)) continue;
    // Inside functions, the parameter space is the caller's frame.
    if (space == Space::KernelParam && !c.decoder.function().is_entry) return Space::Param;
    return space;
  }
  return Space::Generic;
}

bool take_cache_modifiers(Decode& c) {
  c.mods.take_one({"ca", "cg", "cs", "lu", "cv", "wb", "wt"});
  c.mods.take_one({"L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate"});
  c.mods.take_one({"L2::evict_normal", "L2::evict_first", "L2::evict_last"});
  const bool hint = c.mods.take("L2::cache_hint");
  c.mods.take_one({"L2::64B", "L2::128B", "L2::256B"});
  if (c.mods.take("unified")) c.require(80, 70);
  return hint;
}

Ordering take_ordering(Decode& c) {
  Ordering ordering;
  if (c.mods.take("weak")) return ordering;
  if (c.mods.take("volatile")) {
    ordering.strong = true;
    return ordering;
  }
  const bool mmio = c.mods.take("mmio");
  const int found = c.mods.take_one({"relaxed", "acquire", "release", "acq_rel"});
  const int scope = c.mods.take_one({"cta", "cluster", "gpu", "sys"});
  if (found < 0) {
    if (scope >= 0) c.fail("a scope needs .relaxed, .acquire or .release");
    if (mmio) c.fail(".mmio needs .relaxed");
    return ordering;
  }
  if (scope < 0) c.fail("missing scope modifier");
  ordering.strong = true;
  ordering.acquire = found == 1 || found == 3;
  ordering.release = found == 2 || found == 3;
  return ordering;
}

namespace {

// Inst::m0 bit 0: acquire, bit 1: release, bit 2: read-only (ld.global.nc). list: the registers, `bytes` in all.

struct Bits128 {
  uint64_t low, high;
};

void gather_addresses(Warp& warp, const Inst& inst, uint64_t* addresses) {
  if (inst.wide_address) {
    const uint64_t* base = warp.at<uint64_t>(inst.a);
    for (int lane = 0; lane < kLanes; ++lane) addresses[lane] = base[lane] + uint64_t(inst.imm);
  } else {
    const uint32_t* base = warp.at<uint32_t>(inst.a);
    for (int lane = 0; lane < kLanes; ++lane) addresses[lane] = uint32_t(base[lane] + uint64_t(inst.imm));
  }
}

template <class T>
void strong_load(T* to, const std::byte* from) {
  if constexpr (sizeof(T) <= 8) {
    *to = std::atomic_ref(*reinterpret_cast<T*>(const_cast<std::byte*>(from))).load(std::memory_order_acquire);
  } else {
    std::memcpy(to, from, sizeof(T));
  }
}

template <class T>
void strong_store(std::byte* to, const T* from) {
  if constexpr (sizeof(T) <= 8) {
    std::atomic_ref(*reinterpret_cast<T*>(to)).store(*from, std::memory_order_release);
  } else {
    std::memcpy(to, from, sizeof(T));
  }
}

template <class T>
void load(Warp& warp, const Inst& inst, LaneMask mask) {
  uint64_t addresses[kLanes];
  gather_addresses(warp, inst, addresses);
  const Slot* slots = warp.program->slots.data() + inst.list;
  Access access{.space = inst.space,
                .bytes = inst.bytes,
                .reads = true,
                .strong = inst.strong,
                .read_only = (inst.m0 & 4) != 0,
                .defers = true};
  if (inst.list_size == 1 && !inst.strong) {
    T* d = warp.at<T>(slots[0]);
    for_lanes(mask,
              [&](int lane) { std::memcpy(d + lane, resolve(warp, inst, lane, addresses[lane], access), sizeof(T)); });
  } else {
    for_lanes(mask, [&](int lane) {
      const std::byte* host = resolve(warp, inst, lane, addresses[lane], access);
      for (uint32_t i = 0; i < inst.list_size; ++i) {
        T* d = warp.at<T>(slots[i]) + lane;
        if (inst.strong) {
          strong_load(d, host + i * sizeof(T));
        } else {
          std::memcpy(d, host + i * sizeof(T), sizeof(T));
        }
      }
    });
  }
  if (warp.holds_undefined) define_loaded(warp, inst, mask);
  if (inst.strong) {
    race_strong_read(warp);
    warp.waited += 32;  // may be the body of a spin loop
    if (inst.m0 & 1) race_fence(warp);
  }
  if (warp.worker->count) count_request(warp, inst.space, addresses, mask, inst.bytes, false);
}

template <class T>
void store(Warp& warp, const Inst& inst, LaneMask mask) {
  uint64_t addresses[kLanes];
  gather_addresses(warp, inst, addresses);
  const Slot* slots = warp.program->slots.data() + inst.list;
  if (inst.m0 & 2) race_fence(warp);
  if (inst.strong) race_strong_write(warp);  // before the value can be seen by a block on another host thread
  for_lanes(mask, [&](int lane) {
    T values[8];
    for (uint32_t i = 0; i < inst.list_size; ++i) values[i] = warp.at<T>(slots[i])[lane];
    const Access access{
        .space = inst.space, .bytes = inst.bytes, .writes = true, .strong = inst.strong, .stored = values};
    std::byte* host = resolve(warp, inst, lane, addresses[lane], access);
    if (inst.strong) {
      for (uint32_t i = 0; i < inst.list_size; ++i) strong_store(host + i * sizeof(T), values + i);
    } else {
      std::memcpy(host, values, inst.bytes);
    }
  });
  if (warp.holds_undefined) store_undefined(warp, inst, mask, addresses);
  if (warp.worker->count) count_request(warp, inst.space, addresses, mask, inst.bytes, true);
}

ExecFn load_of(int bits) {
  switch (bits) {
    case 8:
      return load<uint8_t>;
    case 16:
      return load<uint16_t>;
    case 32:
      return load<uint32_t>;
    case 64:
      return load<uint64_t>;
    default:
      return load<Bits128>;
  }
}
ExecFn store_of(int bits) {
  switch (bits) {
    case 8:
      return store<uint8_t>;
    case 16:
      return store<uint16_t>;
    case 32:
      return store<uint32_t>;
    case 64:
      return store<uint64_t>;
    default:
      return store<Bits128>;
  }
}

void check_vector(Decode& c, int width, size_t found, Type type) {
  if (found != size_t(width)) c.fail("the vector operand must have " + std::to_string(width) + " elements");
  const int bits = ptx::type_bits(type) * width;
  if (bits > 256 || (bits > 128 && type != Type::B128 && c.decoder.module().version < 88)) {
    c.fail("a vector access is at most 128 bits wide");
  }
  const bool is_half = ptx::is_float(type) && type != Type::F32 && type != Type::F64;
  if (type == Type::Pred || bits < 8 || is_half) c.fail("illegal type for instruction '" + c.source.opcode + "'");
}

int take_vector(Decode& c) {
  static constexpr int kWidths[] = {1, 2, 4, 8};
  return kWidths[c.mods.take_one({"v2", "v4", "v8"}) + 1];
}

void decode_ld(Decode& c) {
  c.inst.klass = Class::LoadStore;
  const Ordering ordering = take_ordering(c);
  c.inst.strong = ordering.strong;
  c.inst.m0 = ordering.acquire ? 1 : 0;
  c.inst.follow = Follow::Loads;
  if (ordering.release) c.fail("ld takes .acquire, not .release");
  c.inst.space = take_memory_space(c);
  if (c.mods.take("nc")) {
    if (c.inst.space != Space::Global) c.fail(".nc applies to .global only");
    c.inst.m0 |= 4;
  }
  const bool hint = take_cache_modifiers(c);
  const int width = take_vector(c);
  const Type type = c.mods.type();
  c.expect_operands(hint ? 3 : 2);
  const auto parts = Decoder::elements(c.operand(0));
  check_vector(c, width, parts.size(), type);
  c.decoder.read_address(c.operand(1), c.inst, c.source.line);
  if (hint) c.reads(2, Type::B64);
  std::vector<Slot> slots;
  for (const ptx::Operand* part : parts) slots.push_back(c.decoder.write_operand(*part, type, true, c.source.line));
  c.decoder.set_list(c.inst, slots);
  c.inst.bytes = uint16_t(ptx::type_bits(type) / 8 * width);
  c.inst.fn = load_of(ptx::type_bits(type));
}

void decode_ldu(Decode& c) {
  decode_ld(c);
}

void decode_st(Decode& c) {
  if (c.mods.take("async")) return decode_remote_store(c, false);
  c.inst.klass = Class::LoadStore;
  const Ordering ordering = take_ordering(c);
  c.inst.strong = ordering.strong;
  c.inst.m0 = ordering.release ? 2 : 0;
  c.inst.follow = Follow::Stores;
  if (ordering.acquire) c.fail("st takes .release, not .acquire");
  c.inst.space = take_memory_space(c);
  if (c.inst.space == Space::Const) c.fail("the .const space cannot be written");
  const bool hint = take_cache_modifiers(c);
  const int width = take_vector(c);
  const Type type = c.mods.type();
  c.expect_operands(hint ? 3 : 2);
  const auto parts = Decoder::elements(c.operand(1));
  check_vector(c, width, parts.size(), type);
  c.decoder.read_address(c.operand(0), c.inst, c.source.line);
  if (c.inst.space == Space::KernelParam) c.fail("kernel parameters cannot be written");
  if (hint) c.reads(2, Type::B64);
  std::vector<Slot> slots;
  for (const ptx::Operand* part : parts) slots.push_back(c.decoder.read_operand(*part, type, true, c.source.line));
  c.decoder.set_list(c.inst, slots);
  c.inst.bytes = uint16_t(ptx::type_bits(type) / 8 * width);
  c.inst.fn = store_of(ptx::type_bits(type));
}

void nothing(Warp&, const Inst&, LaneMask) {}

/// prefetch, prefetchu, discard, applypriority: no effect that a program can see.
void decode_cache_hint(Decode& c) {
  c.inst.klass = Class::LoadStore;
  c.inst.space = take_memory_space(c);
  c.mods.take_one({"L1", "L2", "L2::evict_last", "L2::evict_normal"});
  c.mods.take("tensormap");
  c.mods.take("L2::evict_normal");
  c.mods.take("128");
  c.expect_operands(1, 2);
  c.decoder.read_address(c.operand(0), c.inst, c.source.line);
  c.inst.fn = nothing;
}

void zero64(Warp& warp, const Inst& inst, LaneMask mask) {
  for_lanes(mask, [&](int lane) { warp.at<uint64_t>(inst.d)[lane] = 0; });
}

/// createpolicy: an opaque value that only cache hints read.
void decode_createpolicy(Decode& c) {
  c.require(74, 80);
  c.inst.klass = Class::Move;
  for (const std::string& modifier : c.mods.rest()) {
    if (modifier == "b64" || modifier == "fractional" || modifier == "range" || modifier == "cvt" || modifier == "L2" ||
        modifier == "global" || modifier.starts_with("L2::")) {
      c.mods.take(modifier);
    }
  }
  c.expect_operands(1, 4);
  c.inst.d = c.writes(0, Type::B64);
  c.inst.fn = zero64;
}

}  // namespace

void register_memory(OpcodeTable& table) {
  table["ld"] = decode_ld;
  table["ldu"] = decode_ldu;
  table["st"] = decode_st;
  table["prefetch"] = decode_cache_hint;
  table["prefetchu"] = decode_cache_hint;
  table["discard"] = decode_cache_hint;
  table["applypriority"] = decode_cache_hint;
  table["createpolicy"] = decode_createpolicy;
}

}  // namespace corrloom::sim::exec
