#include <algorithm>
#include <limits>

#include "runtime/sim/exec/access.h"
#include "runtime/sim/exec/async.h"
#include "runtime/sim/exec/half.h"
#include "runtime/sim/exec/lanes.h"

/// cp.async.bulk, cp.async.bulk.tensor, their reductions, prefetches and groups.
/// Source: PTX ISA, "Bulk copies" and "Tensor copies"; swizzling: "Tensors: Swizzling modes".
namespace corrloom::sim::exec {
namespace {

using ptx::Type;

// Inst::m0: Direction, m1: tensor rank (0: plain bulk), m2: reduction + 1 (0: copy), m3: Type of the reduction or
// multicast. list: see the Layout below. imm, a: the address that the first bracket names.
enum class Direction : uint8_t { GlobalToShared, SharedToShared, SharedToGlobal, Prefetch };

/// Positions in Inst's list of slots; each address is a base slot and a constant slot.
enum Layout : uint32_t {
  kDst = 0,
  kSrc = 2,
  kMbarrier = 4,
  kBytes = 6,
  kMask = 7,
  kCoordinates = 8,
  kOffsets = 13,
  kListSize = 16
};

uint64_t slot_address(Warp& warp, const Inst& inst, uint32_t which, int lane) {
  const Slot* slots = warp.program->slots.data() + inst.list;
  return warp.at<uint64_t>(slots[which])[lane] + warp.at<uint64_t>(slots[which + 1])[lane];
}
Slot list_slot(Warp& warp, const Inst& inst, uint32_t which) {
  return warp.program->slots[inst.list + which];
}

[[noreturn]] void illegal(Warp& warp, const Inst& inst, int lane, uint64_t address, const std::string& message) {
  warp.fault(LaunchError::IllegalInstruction, FindingKind::IllegalInstruction, inst, lane, address, 0, message);
}

void require_aligned(Warp& warp, const Inst& inst, int lane, uint64_t address, uint32_t alignment, const char* what) {
  if (address % alignment == 0) return;
  warp.fault(LaunchError::MisalignedAddress, FindingKind::Misaligned, inst, lane, address, 0,
             std::string(what) + " " + hex(address) + " is not a multiple of " + std::to_string(alignment));
}

/// Shared memory as the async proxy sees it: bounds only.
std::byte* shared_bytes(Warp& warp, const Inst& inst, int lane, Block& block, uint64_t offset, uint64_t bytes) {
  if (offset + bytes > block.launch->addressable_shared) {
    warp.fault(LaunchError::IllegalAddress, FindingKind::SharedOutOfBounds, inst, lane, offset, uint32_t(bytes),
               "a bulk copy of " + std::to_string(bytes) + " bytes at shared offset " + std::to_string(offset) +
                   "; the block has " + std::to_string(block.launch->shared_bytes) + " bytes");
  }
  return block.shared.data() + offset;
}

std::byte* global_bytes(Warp& warp, const Inst& inst, int lane, uint64_t address, uint32_t bytes, bool write) {
  const bool reduces = inst.m2 != 0;  // atomic, element by element
  return resolve(warp, inst, lane, address,
                 {.space = Space::Generic,
                  .bytes = bytes,
                  .reads = !write || reduces,
                  .writes = write,
                  .strong = reduces,
                  .alignment = 1});
}

// -- reductions: 0 add, 1 min, 2 max, 3 inc, 4 dec, 5 and, 6 or, 7 xor

template <class T>
void reduce_as(std::byte* to, const std::byte* from, int op) {
  T a, b;
  std::memcpy(&a, to, sizeof(T));
  std::memcpy(&b, from, sizeof(T));
  if constexpr (std::is_integral_v<T>) {
    switch (op) {
      case 0:
        a = T(std::make_unsigned_t<T>(a) + std::make_unsigned_t<T>(b));
        break;
      case 1:
        a = std::min(a, b);
        break;
      case 2:
        a = std::max(a, b);
        break;
      case 3:
        a = a >= b ? T(0) : T(a + 1);
        break;
      case 4:
        a = a == 0 || a > b ? b : T(a - 1);
        break;
      case 5:
        a = a & b;
        break;
      case 6:
        a = a | b;
        break;
      default:
        a = a ^ b;
        break;
    }
  } else {
    a = op == 0 ? a + b : op == 1 ? std::min(a, b) : std::max(a, b);
  }
  std::memcpy(to, &a, sizeof(T));
}

template <class H>
void reduce_half(std::byte* to, const std::byte* from, int op) {
  uint16_t a, b;
  std::memcpy(&a, to, 2);
  std::memcpy(&b, from, 2);
  const double x = H::to_float(a), y = H::to_float(b);
  a = op == 0 ? H::from_double(x + y) : ((x < y) == (op == 1) ? a : b);
  std::memcpy(to, &a, 2);
}

}  // namespace

void reduce_element(Type type, std::byte* to, const std::byte* from, int op) {
  switch (type) {
    case Type::S32:
      return reduce_as<int32_t>(to, from, op);
    case Type::U64:
    case Type::B64:
      return reduce_as<uint64_t>(to, from, op);
    case Type::S64:
      return reduce_as<int64_t>(to, from, op);
    case Type::F32:
      return reduce_as<float>(to, from, op);
    case Type::F64:
      return reduce_as<double>(to, from, op);
    case Type::F16:
      return reduce_half<HalfF16>(to, from, op);
    case Type::BF16:
      return reduce_half<HalfBF16>(to, from, op);
    default:
      return reduce_as<uint32_t>(to, from, op);
  }
}

namespace {

/// Moves bytes to memory, combining them when the instruction is a reduction.
void put(const Inst& inst, Type type, std::byte* to, const std::byte* from, uint32_t bytes, std::mutex& mutex) {
  if (inst.m2 == 0) {
    std::memcpy(to, from, bytes);
    return;
  }
  const std::lock_guard lock(mutex);
  const auto element = uint32_t(ptx::type_bits(type)) / 8;
  for (uint32_t i = 0; i + element <= bytes; i += element) reduce_element(type, to + i, from + i, inst.m2 - 1);
}

// -- tensors

Type element_type(TensorType type) {
  switch (type) {
    case TensorType::S32:
      return Type::S32;
    case TensorType::U64:
      return Type::U64;
    case TensorType::S64:
      return Type::S64;
    case TensorType::F16:
      return Type::F16;
    case TensorType::F32:
    case TensorType::F32Ftz:
    case TensorType::TF32:
    case TensorType::TF32Ftz:
      return Type::F32;
    case TensorType::F64:
      return Type::F64;
    case TensorType::BF16:
      return Type::BF16;
    default:
      return Type::U32;
  }
}

/// Where the hardware puts byte `offset` of shared memory under a swizzle: 16-byte units within a span are permuted by
/// the number of the 128-byte line.
uint32_t swizzled(uint32_t offset, TensorSwizzle swizzle) {
  switch (swizzle) {
    case TensorSwizzle::Bytes32:
      return offset ^ (offset >> 3 & 0x10);
    case TensorSwizzle::Bytes64:
      return offset ^ (offset >> 3 & 0x30);
    case TensorSwizzle::Bytes128:
      return offset ^ (offset >> 3 & 0x70);
    default:
      return offset;
  }
}

struct Tile {
  TensorMapDescription map;
  std::array<int32_t, 5> at{};
  std::array<uint16_t, 3> offsets{};  ///< im2col
};

/// Elements per dimension that a tile moves.
std::array<uint32_t, 5> tile_extent(const TensorMapDescription& map) {
  std::array<uint32_t, 5> extent{1, 1, 1, 1, 1};
  if (map.im2col) {
    extent[0] = map.box[0];
    extent[1] = map.box[1];
    return extent;
  }
  for (uint32_t i = 0; i < map.rank; ++i) extent[i] = (map.box[i] + map.element_stride[i] - 1) / map.element_stride[i];
  return extent;
}

uint32_t tile_bytes(const TensorMapDescription& map) {
  uint32_t bytes = tensor_type_bytes(map.type);
  for (const uint32_t extent : tile_extent(map)) bytes *= extent;
  return bytes;
}

/// Calls `visit(index, coordinates)` for every element of a tile, innermost first; index counts from 0.
template <class F>
void for_each_element(const Tile& tile, F&& visit) {
  const TensorMapDescription& map = tile.map;
  const std::array<uint32_t, 5> extent = tile_extent(map);
  std::array<int64_t, 5> at{};
  uint32_t index = 0;
  if (map.im2col) {
    // Pixels walk over the bounding box, W first; the offsets of the filter tap are added to each.
    std::array<int64_t, 5> pixel{};
    for (uint32_t d = 1; d < map.rank; ++d) pixel[d] = tile.at[d];
    for (uint32_t p = 0; p < extent[1]; ++p) {
      at = pixel;
      for (uint32_t d = 1; d + 1 < map.rank; ++d) at[d] += tile.offsets[d - 1];
      for (uint32_t c = 0; c < extent[0]; ++c) {
        at[0] = tile.at[0] + int64_t(c);
        visit(index++, at);
      }
      uint32_t d = 1;
      for (; d + 1 < map.rank; ++d) {
        pixel[d] += map.element_stride[d];
        if (pixel[d] <= int64_t(map.extent[d]) - 1 + map.upper_corner[d - 1]) break;
        pixel[d] = map.lower_corner[d - 1];
      }
      if (d + 1 == map.rank) ++pixel[d];
    }
    return;
  }
  std::array<uint32_t, 5> i{};
  for (i[4] = 0; i[4] < extent[4]; ++i[4]) {
    for (i[3] = 0; i[3] < extent[3]; ++i[3]) {
      for (i[2] = 0; i[2] < extent[2]; ++i[2]) {
        for (i[1] = 0; i[1] < extent[1]; ++i[1]) {
          for (i[0] = 0; i[0] < extent[0]; ++i[0]) {
            for (size_t d = 0; d < 5; ++d)
              at[d] = d < map.rank ? tile.at[d] + int64_t(i[d]) * map.element_stride[d] : 0;
            visit(index++, at);
          }
        }
      }
    }
  }
}

/// The address of an element; 0 when it lies outside the tensor.
uint64_t element_address(const TensorMapDescription& map, const std::array<int64_t, 5>& at) {
  uint64_t address = map.address;
  for (uint32_t d = 0; d < map.rank; ++d) {
    if (at[d] < 0 || uint64_t(at[d]) >= map.extent[d]) return 0;
    address += uint64_t(at[d]) * (d == 0 ? tensor_type_bytes(map.type) : map.stride_bytes[d - 1]);
  }
  return address;
}

uint64_t fill_pattern(const TensorMapDescription& map) {
  if (map.fill == TensorFill::Zero) return 0;
  return map.type == TensorType::F64 ? 0x7FFFFFFFFFFFFFFFu : tensor_type_bytes(map.type) == 2 ? 0xFFFFu : 0x7FFFFFFFu;
}

void load_tile(Warp& warp, const Inst& inst, int lane, const Tile& tile, Block& block, uint32_t offset) {
  const uint32_t element = tensor_type_bytes(tile.map.type);
  const uint64_t fill = fill_pattern(tile.map);
  std::byte* shared = shared_bytes(warp, inst, lane, block, offset, tile_bytes(tile.map)) - offset;
  for_each_element(tile, [&](uint32_t index, const std::array<int64_t, 5>& at) {
    std::byte* to = shared + swizzled(offset + index * element, tile.map.swizzle);
    const uint64_t address = element_address(tile.map, at);
    if (address == 0) {
      std::memcpy(to, &fill, element);
    } else {
      std::memcpy(to, global_bytes(warp, inst, lane, address, element, false), element);
    }
  });
}

void store_tile(Warp& warp, const Inst& inst, int lane, const Tile& tile, uint32_t offset) {
  const uint32_t element = tensor_type_bytes(tile.map.type);
  const std::byte* shared = shared_bytes(warp, inst, lane, *warp.block, offset, tile_bytes(tile.map)) - offset;
  for_each_element(tile, [&](uint32_t index, const std::array<int64_t, 5>& at) {
    const uint64_t address = element_address(tile.map, at);
    if (address == 0) return;  // what lies outside is not written
    put(inst, element_type(tile.map.type), global_bytes(warp, inst, lane, address, element, true),
        shared + swizzled(offset + index * element, tile.map.swizzle), element, warp.worker->launch.mutex);
  });
}

/// Reads the tensor map a lane names, and its coordinates.
Tile read_tile(Warp& warp, const Inst& inst, int lane, uint32_t where) {
  const uint64_t address = slot_address(warp, inst, where, lane);
  require_aligned(warp, inst, lane, address, 64, "the address of the tensor map");
  std::array<std::byte, 128> bytes;
  for (uint32_t i = 0; i < 128; i += 16) {
    std::memcpy(bytes.data() + i,
                resolve(warp, inst, lane, address + i,
                        {.space = Space::Generic, .bytes = 16, .reads = true, .strong = true, .alignment = 16}),
                16);
  }
  const std::optional<TensorMapDescription> map = decode_tensor_map(bytes);
  if (!map) illegal(warp, inst, lane, address, "the 128 bytes at " + hex(address) + " are not a tensor map");
  if (const std::string broken = check_tensor_map(*map); !broken.empty()) {
    illegal(warp, inst, lane, address, "the tensor map at " + hex(address) + " is not valid: " + broken);
  }
  if (map->rank != inst.m1) {
    illegal(warp, inst, lane, address,
            "a copy of rank " + std::to_string(inst.m1) + " with a tensor map of rank " + std::to_string(map->rank));
  }
  Tile tile{*map, {}, {}};
  for (uint32_t d = 0; d < map->rank; ++d) tile.at[d] = warp.at<int32_t>(list_slot(warp, inst, kCoordinates + d))[lane];
  if (map->im2col) {
    for (uint32_t d = 0; d + 2 < map->rank; ++d) {
      const Slot slot = list_slot(warp, inst, kOffsets + d);
      if (slot == kNoSlot) illegal(warp, inst, lane, address, "the tensor map is for .im2col, the instruction is not");
      tile.offsets[d] = warp.at<uint16_t>(slot)[lane];
    }
  }
  return tile;
}

// -- execution

void count_bytes(Warp& warp, uint32_t bytes) {
  if (warp.worker->count) warp.worker->counters.async_bytes += bytes;
}

/// Into shared memory, reporting to an mbarrier, in every block of the multicast mask.
void to_shared(Warp& warp, const Inst& inst, int lane) {
  const uint64_t destination = slot_address(warp, inst, kDst, lane);
  const uint64_t mbarrier = slot_address(warp, inst, kMbarrier, lane);
  std::optional<Tile> tile;
  uint32_t bytes = 0;
  if (inst.m1 != 0) {
    tile = read_tile(warp, inst, lane, kSrc);
    bytes = tile_bytes(tile->map);
  } else {
    bytes = warp.at<uint32_t>(list_slot(warp, inst, kBytes))[lane];
    if (bytes % 16 != 0)
      illegal(warp, inst, lane, destination, "the size " + std::to_string(bytes) + " is not a multiple of 16");
  }
  require_aligned(warp, inst, lane, destination, inst.m1 != 0 ? 128 : 16, "the shared address");
  const uint64_t source = inst.m1 != 0 ? 0 : slot_address(warp, inst, kSrc, lane);
  if (inst.m1 == 0) require_aligned(warp, inst, lane, source, 16, "the source address");
  uint32_t ranks = 0;
  const bool multicast = list_slot(warp, inst, kMask) != kNoSlot;
  if (multicast) ranks = warp.at<uint16_t>(list_slot(warp, inst, kMask))[lane];
  Cluster& cluster = *warp.block->cluster;
  uint32_t offset = 0, barrier_offset = 0;
  Block& named = shared_owner(warp, inst, lane, destination, offset);
  shared_owner(warp, inst, lane, mbarrier, barrier_offset);
  for (uint32_t rank = 0; rank < cluster.block_count; ++rank) {
    Block& block = *cluster.blocks[rank];
    if (multicast ? !(ranks >> rank & 1) : &block != &named) continue;
    shared_bytes(warp, inst, lane, block, offset, bytes);
    begin_async_write(warp, inst, lane, block, offset, bytes);
    count_bytes(warp, bytes);
    const uint64_t barrier = multicast ? uint64_t(rank + 1) << kClusterRankShift | barrier_offset : mbarrier;
    Block* target = &block;
    post_bulk(warp, inst, lane, barrier, bytes, [=, &warp, &inst] {
      if (tile) {
        load_tile(warp, inst, lane, *tile, *target, offset);
      } else if (Direction(inst.m0) == Direction::GlobalToShared) {
        std::byte* to = shared_bytes(warp, inst, lane, *target, offset, bytes);
        for (uint32_t i = 0; i < bytes; i += 16)
          std::memcpy(to + i, global_bytes(warp, inst, lane, source + i, 16, false), 16);
      } else {
        const std::byte* from = shared_bytes(warp, inst, lane, *warp.block, source, bytes);
        put(inst, Type(inst.m3), shared_bytes(warp, inst, lane, *target, offset, bytes), from, bytes,
            warp.worker->launch.mutex);
      }
      end_async_write(*target, offset, bytes);
    });
  }
}

/// From shared to global memory, as part of a bulk group.
void to_global(Warp& warp, const Inst& inst, int lane) {
  std::optional<Tile> tile;
  uint64_t source = slot_address(warp, inst, kSrc, lane);
  source = locate(Space::SharedCluster, source).address;
  uint32_t bytes = 0;
  if (inst.m1 != 0) {
    tile = read_tile(warp, inst, lane, kDst);
    bytes = tile_bytes(tile->map);
    require_aligned(warp, inst, lane, source, 128, "the shared address");
  } else {
    bytes = warp.at<uint32_t>(list_slot(warp, inst, kBytes))[lane];
    if (bytes % 16 != 0)
      illegal(warp, inst, lane, source, "the size " + std::to_string(bytes) + " is not a multiple of 16");
    require_aligned(warp, inst, lane, source, 16, "the shared address");
    require_aligned(warp, inst, lane, slot_address(warp, inst, kDst, lane), 16, "the destination address");
  }
  uint32_t offset = 0;
  shared_owner(warp, inst, lane, source, offset);
  // The data must be there, and visible to the issuing thread, now.
  for (uint32_t i = 0; i < bytes; i += 16) {
    resolve(warp, inst, lane, source + i,
            {.space = Space::Shared,
             .bytes = std::min(16u, bytes - i),
             .reads = true,
             .alignment = 1,
             .async_proxy = true});
  }
  const uint64_t destination = inst.m1 != 0 ? 0 : slot_address(warp, inst, kDst, lane);
  count_bytes(warp, bytes);
  async_state(warp).lanes[size_t(lane)].open_bulk.push_back([=, &warp, &inst] {
    if (tile) return store_tile(warp, inst, lane, *tile, offset);
    const std::byte* from = shared_bytes(warp, inst, lane, *warp.block, offset, bytes);
    for (uint32_t i = 0; i < bytes; i += 16) {
      put(inst, Type(inst.m3), global_bytes(warp, inst, lane, destination + i, 16, true), from + i, 16,
          warp.worker->launch.mutex);
    }
  });
}

void bulk(Warp& warp, const Inst& inst, LaneMask mask) {
  for_lanes(mask, [&](int lane) {
    switch (Direction(inst.m0)) {
      case Direction::SharedToGlobal:
        return to_global(warp, inst, lane);
      case Direction::Prefetch:
        if (inst.m1 != 0) read_tile(warp, inst, lane, kSrc);
        return;
      default:
        return to_shared(warp, inst, lane);
    }
  });
}

void commit(Warp& warp, const Inst&, LaneMask mask) {
  for_lanes(mask, [&](int lane) {
    auto& own = async_state(warp).lanes[size_t(lane)];
    own.bulk_groups.push_back(std::move(own.open_bulk));
    own.open_bulk.clear();
  });
}

void wait(Warp& warp, const Inst& inst, LaneMask mask) {
  for_lanes(mask, [&](int lane) {
    auto& groups = async_state(warp).lanes[size_t(lane)].bulk_groups;
    while (groups.size() > size_t(inst.imm)) {
      const std::vector<std::function<void()>> group = std::move(groups.front());
      groups.pop_front();
      for (const auto& transfer : group) transfer();
    }
  });
}

// -- decoding

/// Puts an address operand into the list; shared addresses become 64-bit ones.
void set_address(Decode& c, std::vector<Slot>& list, uint32_t which, const ptx::Operand& operand, Space space) {
  Inst probe;
  probe.space = space;
  ptx::Operand plain = operand;
  plain.elements.resize(1);
  c.decoder.read_address(plain, probe, c.source.line);
  if (!probe.wide_address) {
    Inst extend;
    extend.fn = [](Warp& warp, const Inst& inst, LaneMask mask) {
      const auto offset = uint32_t(inst.imm);
      unary<uint64_t, uint32_t>(warp, inst, mask, [offset](uint32_t a) { return uint64_t(uint32_t(a + offset)); });
    };
    extend.a = probe.a;
    extend.imm = probe.imm;
    probe.imm = 0;
    extend.d = c.decoder.temporary(8);
    extend.line = c.source.line;
    c.decoder.emit_before(extend);
    probe.a = extend.d;
  }
  list[which] = probe.a;
  list[which + 1] = c.decoder.constant_slot(uint64_t(probe.imm), 8);
}

void set_coordinates(Decode& c, std::vector<Slot>& list, const ptx::Operand& address) {
  if (address.kind != ptx::OperandKind::Address || address.elements.size() != 2)
    c.fail("expected [tensorMap, {coordinates}]");
  const auto coordinates = Decoder::elements(address.elements[1]);
  if (coordinates.size() != c.inst.m1) {
    c.fail("a tensor copy of rank " + std::to_string(c.inst.m1) + " has " + std::to_string(c.inst.m1) +
           " coordinates, not " + std::to_string(coordinates.size()));
  }
  for (size_t d = 0; d < coordinates.size(); ++d) {
    list[kCoordinates + d] = c.decoder.read_operand(*coordinates[d], Type::S32, false, c.source.line);
  }
}

void decode_reduction(Decode& c, bool tensor) {
  const int op = c.mods.take_one({"add", "min", "max", "inc", "dec", "and", "or", "xor"});
  if (op < 0) c.fail("missing operation of the reduction");
  c.inst.m2 = uint8_t(op + 1);
  if (tensor) return;
  c.mods.take("noftz");
  const Type type = c.mods.type();
  c.inst.m3 = uint8_t(type);
  const int bits = ptx::type_bits(type);
  if (bits != 16 && bits != 32 && bits != 64) c.fail("illegal type of the reduction");
}

}  // namespace

void decode_bulk(Decode& c, bool reduce) {
  c.require(80, 90);
  c.inst.klass = Class::AsyncCopy;
  if (c.mods.take("commit_group")) {
    c.expect_operands(0);
    c.inst.fn = commit;
    return;
  }
  if (c.mods.take("wait_group")) {
    c.mods.take("read");
    c.expect_operands(1);
    c.inst.imm = int64_t(c.constant(0));
    if (c.inst.imm < 0) c.fail("the number of groups must not be negative");
    c.inst.fn = wait;
    return;
  }
  c.inst.fn = bulk;
  const bool prefetch = c.mods.take("prefetch");
  const bool tensor = c.mods.take("tensor");
  if (tensor) {
    const int rank = c.mods.take_one({"1d", "2d", "3d", "4d", "5d"});
    if (rank < 0) c.fail("missing .1d to .5d");
    c.inst.m1 = uint8_t(rank + 1);
  }
  const bool hint = c.mods.take("L2::cache_hint");
  const bool multicast = c.mods.take("multicast::cluster");
  if (c.mods.take_one({"cta_group::1", "cta_group::2"}) >= 0) c.require(86, 100, true);
  const bool im2col = c.mods.take("im2col") || c.mods.take("im2col_no_offs");
  c.mods.take("tile");
  const bool group = c.mods.take("bulk_group");
  const bool reports = c.mods.take("mbarrier::complete_tx::bytes");
  // Which of dst and src is named first decides the direction.
  Direction direction = Direction::Prefetch;
  const std::vector<std::string> spaces = c.mods.rest();
  const auto is_shared = [](const std::string& name) { return name == "shared::cluster" || name == "shared::cta"; };
  if (prefetch) {
    if (!c.mods.take("L2") || !c.mods.take("global")) c.fail("a prefetch needs .L2.global");
  } else {
    if (spaces.size() < 2) c.fail("missing state spaces");
    if (is_shared(spaces[0]) && spaces[1] == "global") {
      direction = Direction::GlobalToShared;
    } else if (is_shared(spaces[0]) && spaces[1] == "shared::cta") {
      direction = Direction::SharedToShared;
    } else if (spaces[0] == "global" && spaces[1] == "shared::cta") {
      direction = Direction::SharedToGlobal;
    } else {
      c.fail("illegal state spaces of a bulk copy");
    }
    c.mods.take(spaces[0]);
    c.mods.take(spaces[1]);
  }
  c.inst.m0 = uint8_t(direction);
  const bool to_shared_memory = direction == Direction::GlobalToShared || direction == Direction::SharedToShared;
  if (to_shared_memory != reports || (direction == Direction::SharedToGlobal) != group)
    c.fail("illegal completion mechanism");
  if (reduce) {
    if (direction == Direction::GlobalToShared || prefetch) c.fail("illegal state spaces of a reduction");
    decode_reduction(c, tensor);
  }
  std::vector<Slot> list(kListSize, kNoSlot);
  size_t next = 0;
  if (prefetch) {
    set_address(c, list, kSrc, c.operand(0), tensor ? Space::Generic : Space::Global);
    if (tensor) set_coordinates(c, list, c.operand(0));
    next = 1;
    if (!tensor) c.reads(next++, Type::U32);
  } else {
    const bool map_first = tensor && direction == Direction::SharedToGlobal;
    set_address(c, list, kDst, c.operand(0),
                map_first                                ? Space::Generic
                : direction == Direction::SharedToGlobal ? Space::Global
                                                         : Space::SharedCluster);
    set_address(c, list, kSrc, c.operand(1),
                tensor && direction == Direction::GlobalToShared ? Space::Generic
                : direction == Direction::GlobalToShared         ? Space::Global
                                                                 : Space::Shared);
    if (tensor) set_coordinates(c, list, c.operand(map_first ? 0 : 1));
    next = 2;
    if (!tensor) list[kBytes] = c.reads(next++, Type::U32);
    if (to_shared_memory) set_address(c, list, kMbarrier, c.operand(next++), Space::SharedCluster);
  }
  if (im2col && next < c.operand_count() && c.operand(next).kind == ptx::OperandKind::Vector) {
    const auto offsets = Decoder::elements(c.operand(next++));
    if (offsets.size() + 2 != c.inst.m1) c.fail("im2col has one offset for each dimension but the first and the last");
    for (size_t d = 0; d < offsets.size(); ++d)
      list[kOffsets + d] = c.decoder.read_operand(*offsets[d], Type::U16, false, c.source.line);
  }
  if (multicast) list[kMask] = c.reads(next++, Type::U16);
  if (hint) c.reads(next++, Type::B64);
  c.expect_operands(next);
  c.decoder.set_list(c.inst, list);
}

}  // namespace corrloom::sim::exec
