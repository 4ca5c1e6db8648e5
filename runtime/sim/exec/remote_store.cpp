#include "runtime/sim/exec/access.h"
#include "runtime/sim/exec/async.h"
#include "runtime/sim/exec/lanes.h"

/// st.async and red.async: small writes to another block's shared memory that report to an mbarrier there.
/// Source: PTX ISA, "st.async", "red.async".
namespace corrloom::sim::exec {
namespace {

using ptx::Type;

// Inst::a, imm: destination; b: mbarrier; list: the values; bytes: of all of them; m2: reduction + 1, or 0; m3: Type.

/// The shared address that a generic one stands for. Registers of 32 bits hold shared addresses in any case.
uint64_t within_shared(const Inst& inst, uint64_t address) {
  return inst.space == Space::Generic && address >= kSharedWindow ? address - kSharedWindow : address;
}

void remote_store(Warp& warp, const Inst& inst, LaneMask mask) {
  const Slot* slots = warp.program->slots.data() + inst.list;
  const uint32_t element = inst.bytes / inst.list_size;
  for_lanes(mask, [&](int lane) {
    const uint64_t address = within_shared(inst, lane_address(warp, inst, lane));
    const uint64_t barrier = within_shared(inst, warp.at<uint64_t>(inst.b)[lane]);
    std::array<std::byte, 16> values{};
    for (uint32_t i = 0; i < inst.list_size; ++i) {
      std::memcpy(values.data() + i * element, warp.at<std::byte>(slots[i]) + size_t(lane) * element, element);
    }
    if (address % inst.bytes != 0) {
      warp.fault(LaunchError::MisalignedAddress, FindingKind::Misaligned, inst, lane, address, inst.bytes,
                 "address " + hex(address) + " is not a multiple of " + std::to_string(inst.bytes));
    }
    uint32_t offset = 0;
    Block& block = shared_owner(warp, inst, lane, address, offset);
    begin_async_write(warp, inst, lane, block, offset, inst.bytes, inst.m2 != 0);
    if (warp.worker->count) warp.worker->counters.async_bytes += inst.bytes;
    Block* target = &block;
    post_bulk(warp, inst, lane, barrier, inst.bytes, [=, &inst] {
      std::byte* to = target->shared.data() + offset;
      if (inst.m2 == 0) {
        std::memcpy(to, values.data(), inst.bytes);
      } else {
        reduce_element(Type(inst.m3), to, values.data(), inst.m2 - 1);
      }
      end_async_write(*target, offset, inst.bytes);
    });
  });
}

}  // namespace

void decode_remote_store(Decode& c, bool reduce) {
  c.require(81, 90);
  c.inst.klass = Class::AsyncCopy;
  c.mods.take_one({"weak", "relaxed"});
  c.mods.take_one({"cluster", "gpu", "sys"});
  const bool generic = !c.mods.take("shared::cluster");
  if (!c.mods.take("mbarrier::complete_tx::bytes")) c.fail("needs .mbarrier::complete_tx::bytes");
  if (reduce) {
    const int op = c.mods.take_one({"add", "min", "max", "inc", "dec", "and", "or", "xor"});
    if (op < 0) c.fail("missing operation of 'red.async'");
    c.inst.m2 = uint8_t(op + 1);
  }
  const int vector = reduce ? -1 : c.mods.take_one({"v2", "v4"});
  const size_t width = vector < 0 ? 1 : size_t(2) << vector;
  const Type type = c.mods.type();
  const int bits = ptx::type_bits(type);
  if ((bits != 32 && bits != 64) || bits * int(width) > 128) c.fail("illegal type of an asynchronous store");
  c.expect_operands(3);
  c.inst.m3 = uint8_t(type);
  c.inst.bytes = uint16_t(size_t(bits) / 8 * width);
  c.inst.b = c.decoder.address_register(c.operand(2), Space::SharedCluster, c.source.line);
  c.inst.space = Space::SharedCluster;
  c.decoder.read_address(c.operand(0), c.inst, c.source.line);
  if (generic) c.inst.space = Space::Generic;
  const auto parts = Decoder::elements(c.operand(1));
  if (parts.size() != width) c.fail("the vector operand must have " + std::to_string(width) + " elements");
  std::vector<Slot> slots;
  for (const ptx::Operand* part : parts) slots.push_back(c.decoder.read_operand(*part, type, false, c.source.line));
  c.decoder.set_list(c.inst, slots);
  c.inst.fn = remote_store;
}

}  // namespace corrloom::sim::exec
