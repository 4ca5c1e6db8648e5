#include "runtime/sim/exec/decoder.h"
#include "runtime/sim/exec/lanes.h"

/// mov, address conversion and space tests. Source: PTX ISA, "Data Movement and Conversion Instructions".
namespace corrloom::sim::exec {
namespace {

using ptx::OperandKind;
using ptx::Type;

template <class T>
void copy(Warp& warp, const Inst& inst, LaneMask mask) {
  const T* a = warp.at<T>(inst.a);
  T* d = warp.at<T>(inst.d);
  if (mask == kAllLanes) {
    std::memmove(d, a, sizeof(T) * kLanes);
  } else {
    blend(d, a, mask);
  }
}

struct Bits128 {
  uint64_t low, high;
};

void copy_predicate(Warp& warp, const Inst& inst, LaneMask mask) {
  set_predicate(warp, inst.d, mask, warp.predicate(inst.a));
}

/// A register's slot plus a constant: addresses in the frame, and cvta.
template <class D, class A>
void add_constant(Warp& warp, const Inst& inst, LaneMask mask) {
  const auto constant = uint64_t(inst.imm);
  unary<D, A>(warp, inst, mask, [constant](A a) { return D(a + constant); });
}

/// Vector moves. list: the elements, each `bytes` wide; m0: bytes of the whole register.
void pack(Warp& warp, const Inst& inst, LaneMask mask) {
  const uint32_t element = inst.bytes, whole = inst.m0;
  std::byte* d = warp.at<std::byte>(inst.d);
  std::byte buffer[16 * kLanes];
  for (uint32_t i = 0; i < inst.list_size; ++i) {
    const std::byte* a = warp.at<std::byte>(warp.program->slots[inst.list + i]);
    for (int lane = 0; lane < kLanes; ++lane) {
      std::memcpy(buffer + size_t(lane) * whole + i * element, a + size_t(lane) * element, element);
    }
  }
  for_lanes(mask, [&](int lane) { std::memcpy(d + size_t(lane) * whole, buffer + size_t(lane) * whole, whole); });
}

void unpack(Warp& warp, const Inst& inst, LaneMask mask) {
  const uint32_t element = inst.bytes, whole = inst.m0;
  std::byte buffer[16 * kLanes];  // an element may be the source itself
  std::memcpy(buffer, warp.at<std::byte>(inst.a), size_t(whole) * kLanes);
  for (uint32_t i = 0; i < inst.list_size; ++i) {
    std::byte* d = warp.at<std::byte>(warp.program->slots[inst.list + i]);
    for_lanes(mask, [&](int lane) {
      std::memcpy(d + size_t(lane) * element, buffer + size_t(lane) * whole + i * element, element);
    });
  }
}

Type untyped(int bits) {
  switch (bits) {
    case 8:
      return Type::B8;
    case 16:
      return Type::B16;
    case 32:
      return Type::B32;
    case 64:
      return Type::B64;
    default:
      return Type::B128;
  }
}

void decode_vector_mov(Decode& c, Type type, bool packs) {
  const auto parts = Decoder::elements(c.operand(packs ? 1 : 0));
  const int bits = ptx::type_bits(type);
  if (parts.empty() || parts.size() > 8 || bits % int(parts.size()) != 0 || bits < 16 || !ptx::is_untyped(type)) {
    c.fail("illegal vector operand of 'mov'");
  }
  const int element = bits / int(parts.size());
  if (element < 8 || (element & (element - 1)) != 0) c.fail("illegal vector operand of 'mov'");
  std::vector<Slot> slots;
  for (const ptx::Operand* part : parts) {
    slots.push_back(packs ? c.decoder.read_operand(*part, untyped(element), false, c.source.line)
                          : c.decoder.write_operand(*part, untyped(element), false, c.source.line));
  }
  c.inst.bytes = uint16_t(element / 8);
  c.inst.m0 = uint8_t(bits / 8);
  c.decoder.set_list(c.inst, slots);
  if (packs) {
    c.inst.d = c.writes(0, type);
    c.inst.fn = pack;
  } else {
    c.inst.a = c.reads(1, type);
    c.inst.fn = unpack;
  }
}

ExecFn copy_of(Decode& c, int bits) {
  switch (bits) {
    case 8:
      return copy<uint8_t>;
    case 16:
      return copy<uint16_t>;
    case 32:
      return copy<uint32_t>;
    case 64:
      return copy<uint64_t>;
    case 128:
      return copy<Bits128>;
    default:
      c.fail("illegal type for instruction 'mov'");
  }
}

/// mov d, variable: its address in its own space.
void decode_address_mov(Decode& c, Type type, const ptx::Operand& variable) {
  const Decoder::Place place = c.decoder.place(variable, c.source.line);
  const int bits = ptx::type_bits(type);
  if (bits != 64 && bits != 32) c.fail("an address needs a 32- or 64-bit register");
  const uint64_t value = place.value + uint64_t(variable.offset);
  c.inst.d = c.writes(0, type);
  const bool in_frame = place.space == ptx::Space::Local || (place.space == ptx::Space::Param && !place.kernel_param);
  if (!in_frame) {
    if (bits == 32 && (place.space == ptx::Space::Global || place.space == ptx::Space::Const)) {
      c.fail("the address of '" + variable.name + "' needs a 64-bit register");
    }
    c.inst.a = c.decoder.constant_slot(value, uint32_t(bits) / 8);
    c.inst.fn = copy_of(c, bits);
    return;
  }
  Inst probe = c.inst;
  ptx::Operand address;
  address.kind = OperandKind::Address;
  address.elements.push_back(variable);
  probe.space = place.space == ptx::Space::Local ? Space::Local : Space::Param;
  c.decoder.read_address(address, probe, c.source.line);
  c.inst.a = probe.a;
  c.inst.imm = int64_t(value);
  c.inst.follow = Follow::Spreads;
  c.inst.fn = bits == 64 ? add_constant<uint64_t, uint32_t> : add_constant<uint32_t, uint32_t>;
}

void decode_mov(Decode& c) {
  const Type type = c.mods.type();
  c.expect_operands(2);
  c.inst.klass = Class::Move;
  c.inst.follow = Follow::Moves;
  const ptx::Operand& source = c.operand(1);
  if (type == Type::Pred) {
    c.inst.d = c.writes_predicate(0);
    c.inst.a = c.reads_predicate(1);
    c.inst.fn = copy_predicate;
    return;
  }
  if (c.operand(0).kind == OperandKind::Vector) return decode_vector_mov(c, type, false);
  if (source.kind == OperandKind::Vector) return decode_vector_mov(c, type, true);
  if (source.kind == OperandKind::Variable) return decode_address_mov(c, type, source);
  const int bits = ptx::type_bits(type);
  c.inst.fn = copy_of(c, bits);
  if (source.kind == OperandKind::Function) {
    if (bits != 64) c.fail("the address of a function needs a 64-bit register");
    c.decoder.mark_indirect();
    c.inst.a = c.decoder.constant_slot(c.decoder.function_address(source.name, c.source.line), 8);
  } else {
    c.inst.a = c.reads(1, type);
  }
  c.inst.d = c.writes(0, type);
}

// -- cvta

/// Generic window of a space; 0 where generic addresses are the space's own.
DeviceAddress window_of(Decode& c, std::string_view name) {
  if (name == "global" || name == "const") return 0;
  if (name.starts_with("shared")) return kSharedWindow;
  if (name == "local") return kLocalWindow;
  if (name.starts_with("param")) return c.decoder.function().is_entry ? kParamWindow : kLocalWindow;
  c.fail("unknown state space ." + std::string(name));
}

std::string take_space(Decode& c) {
  for (const std::string_view name :
       {"global", "const", "shared", "shared::cta", "shared::cluster", "local", "param", "param::entry"}) {
    if (c.mods.take(name)) return std::string(name);
  }
  c.fail("missing state space");
}

void decode_cvta(Decode& c) {
  const bool to = c.mods.take("to");
  const DeviceAddress window = window_of(c, take_space(c));
  const Type type = c.mods.type();
  if (type != Type::U64 && type != Type::U32) c.fail("cvta works on .u64");
  c.expect_operands(2);
  c.inst.klass = Class::Move;
  if (type == Type::U32) c.fail("cvta.u32 needs 32-bit addressing");
  const ptx::Operand& source = c.operand(1);
  if (source.kind == OperandKind::Variable) {
    if (to) c.fail("cvta.to takes a register");
    decode_address_mov(c, type, source);
    if (c.inst.fn == copy<uint64_t>) {
      c.inst.fn = add_constant<uint64_t, uint64_t>;
      c.inst.imm = 0;
    }
    c.inst.imm += int64_t(window);
    return;
  }
  c.inst.d = c.writes(0, type);
  c.inst.a = c.reads(1, type);
  c.inst.imm = to ? -int64_t(window) : int64_t(window);
  c.inst.fn = add_constant<uint64_t, uint64_t>;
}

/// m0: 0 global, 1 shared, 2 shared::cluster, 3 local, 4 const, 5 param
bool lies_in(uint64_t address, int space, const Warp& warp) {
  const auto window = [&](DeviceAddress base) { return address - base < kWindowBytes; };
  switch (space) {
    case 0:
      return address < kSharedWindow;
    case 1: {
      if (!window(kSharedWindow)) return false;
      const uint64_t rank = (address - kSharedWindow) >> kClusterRankShift;
      return rank == 0 || rank == warp.block->rank + 1;
    }
    case 2:
      return window(kSharedWindow);
    case 3:
      return window(kLocalWindow);
    case 4:
      return false;
    default:
      return window(kParamWindow);
  }
}

void isspacep(Warp& warp, const Inst& inst, LaneMask mask) {
  const uint64_t* a = warp.at<uint64_t>(inst.a);
  set_predicate(warp, inst.d, mask, lanes_where([&](int lane) { return lies_in(a[lane], inst.m0, warp); }));
}

void decode_isspacep(Decode& c) {
  const std::string name = take_space(c);
  c.expect_operands(2);
  c.inst.klass = Class::Integer;
  c.inst.m0 = name == "global"             ? 0
              : name == "shared::cluster"  ? 2
              : name.starts_with("shared") ? 1
              : name == "local"            ? 3
              : name == "const"            ? 4
                                           : 5;
  c.inst.d = c.writes_predicate(0);
  c.inst.a = c.reads(1, Type::B64);
  c.inst.fn = isspacep;
}

// -- clusters

/// mapa: the address of the same place in another block's shared memory. m0: generic (adds the window), m1: 64 bits.
void mapa(Warp& warp, const Inst& inst, LaneMask mask) {
  const uint32_t* ranks = warp.at<uint32_t>(inst.b);
  const uint64_t base = inst.m0 ? kSharedWindow : 0;
  for_lanes(mask, [&](int lane) {
    const uint64_t a = inst.m1 ? warp.at<uint64_t>(inst.a)[lane] : warp.at<uint32_t>(inst.a)[lane];
    const uint64_t offset = (a + uint64_t(inst.imm) - base) & ((1u << kClusterRankShift) - 1);
    if (ranks[lane] >= warp.block->cluster->block_count) {
      warp.fault(LaunchError::IllegalInstruction, FindingKind::IllegalInstruction, inst, lane, a, 0,
                 "mapa to block rank " + std::to_string(ranks[lane]) + " of a cluster of " +
                     std::to_string(warp.block->cluster->block_count));
    }
    const uint64_t mapped = base + (uint64_t(ranks[lane] + 1) << kClusterRankShift | offset);
    if (inst.m1) {
      warp.at<uint64_t>(inst.d)[lane] = mapped;
    } else {
      warp.at<uint32_t>(inst.d)[lane] = uint32_t(mapped);
    }
  });
}

void decode_mapa(Decode& c) {
  c.require(78, 90);
  c.inst.m0 = !c.mods.take("shared::cluster");
  const Type type = c.mods.type();
  if (type != Type::U32 && type != Type::U64) c.fail("mapa works on .u32 and .u64");
  c.expect_operands(3);
  c.inst.klass = Class::Integer;
  c.inst.m1 = type == Type::U64;
  if (c.inst.m0 && !c.inst.m1) c.fail("a generic address has 64 bits");
  c.inst.d = c.writes(0, type);
  if (c.operand(1).kind == OperandKind::Variable) {
    const Decoder::Place place = c.decoder.place(c.operand(1), c.source.line);
    if (place.space != ptx::Space::Shared) c.fail("mapa takes a shared variable");
    const uint64_t base = c.inst.m0 ? kSharedWindow : 0;
    c.inst.a = c.decoder.constant_slot(base + place.value + uint64_t(c.operand(1).offset), c.inst.m1 ? 8 : 4);
  } else {
    c.inst.a = c.reads(1, type);
  }
  c.inst.b = c.reads(2, Type::U32);
  c.inst.fn = mapa;
}

void getctarank(Warp& warp, const Inst& inst, LaneMask mask) {
  for_lanes(mask, [&](int lane) {
    uint64_t a = inst.m1 ? warp.at<uint64_t>(inst.a)[lane] : warp.at<uint32_t>(inst.a)[lane];
    if (inst.m0) a -= kSharedWindow;
    const auto rank = uint32_t(a >> kClusterRankShift & 0xFF);
    warp.at<uint32_t>(inst.d)[lane] = rank == 0 ? warp.block->rank : rank - 1;
  });
}

void decode_getctarank(Decode& c) {
  c.require(78, 90);
  c.inst.m0 = !c.mods.take("shared::cluster");
  const Type type = c.mods.type();
  if (type != Type::U32 && type != Type::U64) c.fail("getctarank works on .u32 and .u64");
  c.expect_operands(2);
  c.inst.klass = Class::Integer;
  c.inst.m1 = type == Type::U64;
  c.inst.d = c.writes(0, Type::U32);
  if (c.operand(1).kind == OperandKind::Variable) {
    const Decoder::Place place = c.decoder.place(c.operand(1), c.source.line);
    if (place.space != ptx::Space::Shared) c.fail("getctarank takes a shared variable");
    const uint64_t base = c.inst.m0 ? kSharedWindow : 0;
    c.inst.a = c.decoder.constant_slot(base + place.value + uint64_t(c.operand(1).offset), c.inst.m1 ? 8 : 4);
  } else {
    c.inst.a = c.reads(1, type);
  }
  c.inst.fn = getctarank;
}

}  // namespace

void register_move(OpcodeTable& table) {
  table["mov"] = decode_mov;
  table["cvta"] = decode_cvta;
  table["isspacep"] = decode_isspacep;
  table["mapa"] = decode_mapa;
  table["getctarank"] = decode_getctarank;
}

}  // namespace corrloom::sim::exec
