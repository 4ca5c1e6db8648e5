#include <algorithm>

#include "runtime/sim/exec/access.h"
#include "runtime/sim/exec/async.h"
#include "runtime/sim/exec/lanes.h"
#include "runtime/sim/exec/memory_modifiers.h"

/// mbarrier objects. Source: PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier".
namespace corrloom::sim::exec {

using ptx::Type;

void settle_mbarrier(MBarrier& barrier) {
  if (barrier.pending != 0 || barrier.tx_bytes != 0) return;
  ++barrier.phase;
  barrier.pending = barrier.expected;
}

MBarrier& find_mbarrier(Warp& warp, const Inst& inst, int lane, uint64_t address, Block*& owner) {
  uint32_t offset = 0;
  owner = &shared_owner(warp, inst, lane, address, offset);
  if (offset % 8 != 0) {
    warp.fault(LaunchError::MisalignedAddress, FindingKind::Misaligned, inst, lane, address, 8,
               "an mbarrier must be aligned to 8 bytes");
  }
  const auto found = owner->mbarriers.find(offset);
  if (found == owner->mbarriers.end()) {
    warp.fault(LaunchError::IllegalInstruction, FindingKind::BarrierMisuse, inst, lane, address, 8,
               "there is no initialised mbarrier at shared offset " + std::to_string(offset));
  }
  return found->second;
}

void post_bulk(Warp& warp, const Inst& inst, int lane, uint64_t mbarrier, uint32_t bytes,
               std::function<void()> transfer) {
  Block* owner = nullptr;
  MBarrier& barrier = find_mbarrier(warp, inst, lane, mbarrier, owner);
  PendingBulk pending{std::move(transfer), bytes, {}};
  if (warp.worker->launch.options.checks.races) race_release(warp, pending.knowledge);
  barrier.in_flight.push_back(std::move(pending));
}

namespace {

enum class Operation : uint8_t {
  Init,
  Invalidate,
  ExpectTx,
  CompleteTx,
  Arrive,
  ArriveDrop,
  ArriveExpect,
  Test,
  TestParity
};

// Inst::m0: Operation, m1: has a count, m2: is the drop form; b: count, bytes, state or parity; d: token or predicate.

uint64_t token_of(const MBarrier& barrier) {
  return uint64_t(barrier.phase) << 32 | barrier.pending;
}

/// Lets the copies that report to a barrier take place.
void land_copies(MBarrier& barrier) {
  while (!barrier.in_flight.empty()) {
    std::vector<PendingBulk> landing = std::move(barrier.in_flight);
    barrier.in_flight.clear();
    for (PendingBulk& copy : landing) {
      copy.transfer();
      barrier.tx_bytes -= copy.bytes;
      auto& released = barrier.released;
      if (released.size() < copy.knowledge.size()) released.resize(copy.knowledge.size(), 0);
      for (size_t i = 0; i < copy.knowledge.size(); ++i) released[i] = std::max(released[i], copy.knowledge[i]);
    }
    settle_mbarrier(barrier);
  }
}

void arrive(Warp& warp, const Inst& inst, int lane, MBarrier& barrier, uint32_t count, bool drop) {
  if (count == 0 || count > barrier.pending) {
    warp.fault(LaunchError::IllegalInstruction, FindingKind::BarrierMisuse, inst, lane, 0, 0,
               std::to_string(count) + " arrivals at an mbarrier that waits for " + std::to_string(barrier.pending));
  }
  barrier.pending -= count;
  if (drop) barrier.expected -= std::min(barrier.expected, count);
  settle_mbarrier(barrier);
}

void set_token(Warp& warp, const Inst& inst, int lane, uint64_t token) {
  if (inst.d != kNoSlot) warp.at<uint64_t>(inst.d)[lane] = token;
}

void init(Warp& warp, const Inst& inst, int lane, uint64_t address) {
  uint32_t offset = 0;
  Block& owner = shared_owner(warp, inst, lane, address, offset);
  const uint32_t count = warp.at<uint32_t>(inst.b)[lane];
  if (count == 0 || count >= 1u << 20) {
    warp.fault(LaunchError::IllegalInstruction, FindingKind::BarrierMisuse, inst, lane, address, 8,
               "the count of an mbarrier must be 1 to 2^20 - 1, not " + std::to_string(count));
  }
  std::byte* host =
      resolve(warp, inst, lane, address, {.space = Space::SharedCluster, .bytes = 8, .writes = true, .strong = true});
  const uint64_t token = 0x4D42415200000000u | count;
  std::memcpy(host, &token, 8);
  MBarrier barrier;
  barrier.expected = barrier.pending = count;
  owner.mbarriers[offset] = std::move(barrier);
}

void mbarrier(Warp& warp, const Inst& inst, LaneMask mask) {
  const bool races = warp.worker->launch.options.checks.races;
  LaneMask done = 0;
  for_lanes(mask, [&](int lane) {
    const uint64_t address = locate(inst.space, lane_address(warp, inst, lane)).address;
    const auto operation = Operation(inst.m0);
    if (operation == Operation::Init) return init(warp, inst, lane, address);
    Block* owner = nullptr;
    MBarrier& barrier = find_mbarrier(warp, inst, lane, address, owner);
    const uint32_t operand = inst.m1 ? warp.at<uint32_t>(inst.b)[lane] : 1;
    switch (operation) {
      case Operation::Invalidate: {
        uint32_t offset = 0;
        shared_owner(warp, inst, lane, address, offset);
        land_copies(barrier);
        owner->mbarriers.erase(offset);
        return;
      }
      case Operation::ExpectTx:
        barrier.tx_bytes += operand;
        return;
      case Operation::CompleteTx:
        barrier.tx_bytes -= operand;
        settle_mbarrier(barrier);
        return;
      case Operation::Arrive:
      case Operation::ArriveDrop:
      case Operation::ArriveExpect: {
        const uint64_t token = token_of(barrier);
        if (races && owner == warp.block) race_release(warp, barrier.released);
        if (operation == Operation::ArriveExpect) barrier.tx_bytes += operand;
        arrive(warp, inst, lane, barrier, operation == Operation::ArriveExpect ? 1 : operand, inst.m2);
        set_token(warp, inst, lane, token);
        return;
      }
      case Operation::Test:
      case Operation::TestParity: {
        const uint32_t phase = barrier.phase;
        const auto complete = [&] {
          if (operation == Operation::TestParity) return (barrier.phase & 1) != (warp.at<uint32_t>(inst.b)[lane] & 1);
          return barrier.phase != uint32_t(warp.at<uint64_t>(inst.b)[lane] >> 32);
        };
        if (!complete() || phase != barrier.phase) land_copies(barrier);
        if (!complete()) return;
        done |= 1u << lane;
        if (races) race_acquire(warp, barrier.released);
        return;
      }
      default:
        return;
    }
  });
  if (Operation(inst.m0) < Operation::Test) return;
  set_predicate(warp, inst.d, mask, done);
  if (done != mask) warp.give_way = true;
}

void pending_count(Warp& warp, const Inst& inst, LaneMask mask) {
  unary<uint32_t, uint64_t>(warp, inst, mask, [](uint64_t token) { return uint32_t(token & 0xFFFFF); });
}

void decode_mbarrier(Decode& c) {
  c.require(70, 80);
  c.inst.klass = Class::Barrier;
  c.inst.strong = true;
  if (c.mods.take("pending_count")) {
    c.mods.type();
    c.expect_operands(2);
    c.inst.d = c.writes(0, Type::U32);
    c.inst.a = c.reads(1, Type::B64);
    c.inst.fn = pending_count;
    return;
  }
  const int what =
      c.mods.take_one({"init", "inval", "expect_tx", "complete_tx", "arrive", "arrive_drop", "test_wait", "try_wait"});
  if (what < 0) c.fail("unknown mbarrier operation");
  // arrive.expect_tx names two operations, of which take_one found the first it lists.
  const bool with_arrive = what == 2 && (c.mods.has("arrive") || c.mods.has("arrive_drop"));
  const bool drop = what == 5 || (with_arrive && c.mods.take("arrive_drop"));
  if (with_arrive) c.mods.take("arrive");
  const bool no_complete = c.mods.take("noComplete");
  const bool parity = c.mods.take("parity");
  c.mods.take_one({"release", "acquire", "relaxed"});
  c.mods.take_one({"cta", "cluster"});
  c.inst.space = take_memory_space(c);
  if (c.inst.space != Space::Generic && c.inst.space != Space::Shared && c.inst.space != Space::SharedCluster)
    c.fail("an mbarrier lives in shared memory");
  if (c.mods.type() != Type::B64) c.fail("an mbarrier is a .b64");
  c.inst.fn = mbarrier;
  c.inst.m2 = drop;
  size_t next = 0;
  const bool is_test = what >= 6;
  const bool is_arrive = what == 4 || what == 5 || with_arrive;
  if (is_test) {
    if (what == 7) c.require(78, 90);
    if (parity) c.require(71, 80);
    c.inst.d = c.writes_predicate(next++);
    c.inst.flow = Flow::Yield;
  } else if (is_arrive) {
    // The state is optional in the cluster form.
    const bool has_state = c.operand(0).kind != ptx::OperandKind::Address;
    if (has_state && c.operand(0).kind != ptx::OperandKind::Sink) c.inst.d = c.writes(0, Type::B64);
    if (has_state) ++next;
  }
  // Without a space the address is generic; 32 bits of one are its place in shared memory.
  if (c.inst.space == Space::Generic && c.decoder.is_narrow(c.operand(next))) c.inst.space = Space::Shared;
  c.decoder.read_address(c.operand(next++), c.inst, c.source.line);
  const auto take_count = [&] {
    c.inst.b = c.reads(next++, Type::U32);
    c.inst.m1 = 1;
  };
  switch (what) {
    case 0:
      c.inst.m0 = uint8_t(Operation::Init);
      take_count();
      break;
    case 1:
      c.inst.m0 = uint8_t(Operation::Invalidate);
      break;
    case 2:
      c.require(80, 90);
      c.inst.m0 = uint8_t(with_arrive ? Operation::ArriveExpect : Operation::ExpectTx);
      take_count();
      break;
    case 3:
      c.require(80, 90);
      c.inst.m0 = uint8_t(Operation::CompleteTx);
      take_count();
      break;
    case 4:
    case 5:
      c.inst.m0 = uint8_t(what == 4 ? Operation::Arrive : Operation::ArriveDrop);
      if (no_complete || next < c.operand_count()) take_count();
      break;
    default:
      c.inst.m0 = uint8_t(parity ? Operation::TestParity : Operation::Test);
      c.inst.b = parity ? c.reads(next, Type::U32) : c.reads(next, Type::B64);
      ++next;
      if (what == 7 && next < c.operand_count()) c.reads(next++, Type::U32);  // a hint of how long to wait
      break;
  }
  c.expect_operands(next);
}

}  // namespace

void register_mbarrier(OpcodeTable& table) {
  table["mbarrier"] = decode_mbarrier;
}

}  // namespace corrloom::sim::exec
