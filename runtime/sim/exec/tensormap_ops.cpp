#include "runtime/sim/exec/access.h"
#include "runtime/sim/exec/async.h"
#include "runtime/sim/exec/lanes.h"
#include "runtime/sim/exec/memory_modifiers.h"

/// Tensor maps that kernels change: tensormap.replace and tensormap.cp_fenceproxy. Source: PTX ISA,
/// "tensormap.replace", "tensormap.cp_fenceproxy".
namespace corrloom::sim::exec {
namespace {

using ptx::Type;
using MapBytes = std::array<std::byte, 128>;

enum class Field : uint8_t {
  GlobalAddress,
  Rank,
  BoxDim,
  GlobalDim,
  GlobalStride,
  ElementStride,
  ElementType,
  Interleave,
  Swizzle,
  Fill
};

// replace. Inst::m0: Field, m1: dimension or, of the last four, the new value; b: the new value, m2: it has 64 bits.

/// The numbers of element types in this instruction, as those of the encoding functions.
constexpr TensorType kTypes[] = {TensorType::U8,     TensorType::U16, TensorType::U32,  TensorType::S32,
                                 TensorType::U64,    TensorType::S64, TensorType::F16,  TensorType::F32,
                                 TensorType::F32Ftz, TensorType::F64, TensorType::BF16, TensorType::TF32,
                                 TensorType::TF32Ftz};

/// The bytes of a map, 16 at a time.
template <class F>
void for_pieces(Warp& warp, const Inst& inst, int lane, Space space, uint64_t address, bool writes, F&& visit) {
  for (uint32_t i = 0; i < sizeof(MapBytes); i += 16) {
    const Access access{.space = space, .bytes = 16, .reads = !writes, .writes = writes, .strong = true};
    visit(i, resolve(warp, inst, lane, address + i, access));
  }
}

MapBytes read_map(Warp& warp, const Inst& inst, int lane, Space space, uint64_t address) {
  MapBytes bytes;
  for_pieces(warp, inst, lane, space, address, false,
             [&](uint32_t i, const std::byte* from) { std::memcpy(bytes.data() + i, from, 16); });
  return bytes;
}

void write_map(Warp& warp, const Inst& inst, int lane, Space space, uint64_t address, const MapBytes& bytes) {
  for_pieces(warp, inst, lane, space, address, true,
             [&](uint32_t i, std::byte* to) { std::memcpy(to, bytes.data() + i, 16); });
}

void change(TensorMapDescription& map, const Inst& inst, uint64_t value) {
  const size_t d = inst.m1;
  switch (Field(inst.m0)) {
    case Field::GlobalAddress:
      map.address = value;
      break;
    case Field::Rank:
      map.rank = uint32_t(value) + 1;
      break;
    case Field::BoxDim:
      map.box[d] = uint32_t(value);
      break;
    case Field::GlobalDim:
      map.extent[d] = uint32_t(value);
      break;
    case Field::GlobalStride:
      map.stride_bytes[d] = value;
      break;
    case Field::ElementStride:
      map.element_stride[d] = uint32_t(value);
      break;
    case Field::ElementType:
      map.type = kTypes[d];
      break;
    case Field::Interleave:
      map.interleave = TensorInterleave(d);
      break;
    case Field::Swizzle:
      map.swizzle = TensorSwizzle(d);
      break;
    case Field::Fill:
      map.fill = TensorFill(d);
      break;
  }
}

void replace(Warp& warp, const Inst& inst, LaneMask mask) {
  for_lanes(mask, [&](int lane) {
    const uint64_t address = lane_address(warp, inst, lane);
    MapBytes bytes = read_map(warp, inst, lane, inst.space, address);
    std::optional<TensorMapDescription> map = decode_tensor_map(bytes);
    if (!map) {
      warp.fault(LaunchError::IllegalInstruction, FindingKind::IllegalInstruction, inst, lane, address, 128,
                 "the 128 bytes at " + hex(address) + " are not a tensor map");
    }
    uint64_t value = 0;
    if (inst.b != kNoSlot) value = inst.m2 ? warp.at<uint64_t>(inst.b)[lane] : warp.at<uint32_t>(inst.b)[lane];
    change(*map, inst, value);
    write_tensor_map(*map, bytes);
    write_map(warp, inst, lane, inst.space, address, bytes);
  });
}

/// cp_fenceproxy. a: where to, in global memory; b, m0: where from, in shared memory, and whether that has 64 bits.
void copy_and_fence(Warp& warp, const Inst& inst, LaneMask mask) {
  const int lane = std::countr_zero(mask);
  const uint64_t from = inst.m0 ? warp.at<uint64_t>(inst.b)[lane] : warp.at<uint32_t>(inst.b)[lane];
  const uint64_t shared = locate(Space::SharedCluster, from).address;
  write_map(warp, inst, lane, Space::Generic, lane_address(warp, inst, lane),
            read_map(warp, inst, lane, Space::Shared, shared));
  race_fence(warp);
}

void decode_replace(Decode& c) {
  c.require(83, 90, true);
  if (!c.mods.take("tile")) c.fail("tensormap.replace needs .tile");
  const int field = c.mods.take_one({"global_address", "rank", "box_dim", "global_dim", "global_stride",
                                     "element_stride", "elemtype", "interleave_layout", "swizzle_mode", "fill_mode"});
  if (field < 0) c.fail("missing field of 'tensormap.replace'");
  c.inst.m0 = uint8_t(field);
  c.inst.space = take_memory_space(c);
  if (!c.mods.take("b1024")) c.fail("tensormap.replace needs .b1024");
  const Type type = c.mods.type();
  const bool wide = Field(field) == Field::GlobalAddress || Field(field) == Field::GlobalStride;
  if (type != (wide ? Type::B64 : Type::B32)) c.fail("illegal type of the new value");
  c.inst.klass = Class::LoadStore;
  const bool has_dimension = Field(field) >= Field::BoxDim && Field(field) <= Field::ElementStride;
  const bool is_constant = Field(field) >= Field::ElementType;
  c.expect_operands(has_dimension ? 3 : 2);
  if (c.inst.space == Space::Generic && c.decoder.is_narrow(c.operand(0))) c.inst.space = Space::Shared;
  c.decoder.read_address(c.operand(0), c.inst, c.source.line);
  if (has_dimension) {
    if (c.constant(1) >= (wide ? 4u : 5u)) c.fail("there is no such dimension");
    c.inst.m1 = uint8_t(c.constant(1));
  }
  if (is_constant) {
    static constexpr uint64_t kValues[] = {std::size(kTypes), 3, 4, 2};
    const uint64_t value = c.constant(1);
    if (value >= kValues[field - int(Field::ElementType)]) c.fail("illegal new value");
    c.inst.m1 = uint8_t(value);
  } else {
    c.inst.b = c.reads(has_dimension ? 2 : 1, type);
    c.inst.m2 = wide;
  }
  c.inst.fn = replace;
}

void decode_copy(Decode& c) {
  c.require(83, 90);
  const bool complete = c.mods.take("global") && c.mods.take("shared::cta") && c.mods.take("tensormap::generic") &&
                        c.mods.take("release") && c.mods.take_one({"cta", "cluster", "gpu", "sys"}) >= 0 &&
                        c.mods.take("sync") && c.mods.take("aligned");
  if (!complete) c.fail("needs .global.shared::cta.tensormap::generic.release, a scope, and .sync.aligned");
  c.expect_operands(3);
  if (c.constant(2) != 128) c.fail("a tensor map has 128 bytes");
  c.inst.klass = Class::LoadStore;
  c.inst.flow = Flow::Collective;
  c.inst.aligned = true;
  c.inst.b = c.decoder.address_register(c.operand(1), Space::Shared, c.source.line);
  c.inst.m0 = 1;
  c.inst.space = Space::Global;
  c.decoder.read_address(c.operand(0), c.inst, c.source.line);
  c.inst.fn = copy_and_fence;
}

}  // namespace

void register_tensormap(OpcodeTable& table) {
  table["tensormap"] = [](Decode& c) {
    if (c.mods.take("replace")) return decode_replace(c);
    if (c.mods.take("cp_fenceproxy")) return decode_copy(c);
    c.fail("unknown operation of 'tensormap'");
  };
}

}  // namespace corrloom::sim::exec
