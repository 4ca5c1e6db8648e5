#include <algorithm>

#include "runtime/sim/exec/access.h"
#include "runtime/sim/exec/async.h"
#include "runtime/sim/exec/lanes.h"
#include "runtime/sim/exec/memory_modifiers.h"

/// cp.async and its groups. Source: PTX ISA, "Non-bulk asynchronous copy".
namespace corrloom::sim::exec {

using ptx::Type;

AsyncState& async_state(Warp& warp) {
  if (warp.async == nullptr) warp.async = std::make_unique<AsyncState>();
  return *warp.async;
}

void begin_async_write(Warp& warp, const Inst& inst, int lane, Block& block, uint32_t offset, uint32_t bytes,
                       bool reduces) {
  for (uint32_t done = 0; done < bytes; done += 16) {
    const uint64_t rank = &block == warp.block ? 0 : block.rank + 1;
    const uint32_t piece = std::min(16u, bytes - done);
    resolve(warp, inst, lane, (rank << kClusterRankShift) + offset + done,
            {.space = Space::SharedCluster,
             .bytes = piece,
             .writes = true,
             .strong = reduces,
             .alignment = std::min(piece, 4u),
             .async_proxy = true});
  }
  if (!warp.worker->launch.options.checks.races) return;
  for (uint32_t i = 0; i < bytes; ++i) block.shared_state[offset + i] |= Block::kPending;
}

void end_async_write(Block& block, uint32_t offset, uint32_t bytes) {
  if (!block.launch->options.checks.races && !block.launch->options.checks.uninitialised) return;
  for (uint32_t i = 0; i < bytes; ++i) {
    block.shared_state[offset + i] =
        uint8_t((block.shared_state[offset + i] & ~(Block::kPending | Block::kGeneric)) | Block::kWritten);
  }
}

namespace {

/// Writes a pending copy to shared memory, as the thread that issued it.
void complete(Warp& warp, int lane, const PendingCopy& copy) {
  uint32_t offset = 0;
  Block& block = shared_owner(warp, *copy.inst, lane, copy.address, offset);
  end_async_write(block, offset, copy.bytes);
  std::byte* host =
      resolve(warp, *copy.inst, lane, copy.address, {.space = Space::Shared, .bytes = copy.bytes, .writes = true});
  std::memcpy(host, copy.data.data(), copy.bytes);
}

/// Inst: a, imm: destination in shared memory; list: source address, [source size], [ignore predicate];
/// bytes: size; m0: has source size, m1: has predicate; m2: source offset is in `c` as constant slot.
void cp_async(Warp& warp, const Inst& inst, LaneMask mask) {
  const Slot* slots = warp.program->slots.data() + inst.list;
  AsyncState& state = async_state(warp);
  uint64_t sources[kLanes];
  for_lanes(mask, [&](int lane) {
    PendingCopy copy;
    copy.inst = &inst;
    copy.address = lane_address(warp, inst, lane);
    copy.bytes = inst.bytes;
    sources[lane] = warp.at<uint64_t>(slots[0])[lane] + warp.at<uint64_t>(slots[1])[lane];
    uint32_t wanted = inst.bytes;
    if (inst.m0) wanted = warp.at<uint32_t>(slots[2])[lane];
    if (inst.m1 && (warp.predicate(slots[2]) >> lane & 1)) wanted = 0;
    if (wanted > inst.bytes) {
      warp.fault(LaunchError::IllegalInstruction, FindingKind::IllegalInstruction, inst, lane, sources[lane], wanted,
                 "the source size " + std::to_string(wanted) + " exceeds the copy of " + std::to_string(inst.bytes) +
                     " bytes");
    }
    if (wanted > 0) {
      const std::byte* host =
          resolve(warp, inst, lane, sources[lane],
                  {.space = Space::Global, .bytes = wanted, .reads = true, .alignment = inst.bytes});
      std::memcpy(copy.data.data(), host, wanted);
    }
    resolve(warp, inst, lane, copy.address, {.space = Space::Shared, .bytes = inst.bytes, .writes = true});
    begin_async_write(warp, inst, lane, *warp.block, uint32_t(copy.address), inst.bytes);
    state.lanes[size_t(lane)].open.push_back(copy);
  });
  if (warp.worker->count) {
    warp.worker->counters.async_bytes += uint64_t(inst.bytes) * uint64_t(std::popcount(mask));
    count_request(warp, Space::Global, sources, mask, inst.bytes, false);
  }
}

void commit_group(Warp& warp, const Inst&, LaneMask mask) {
  AsyncState& state = async_state(warp);
  for_lanes(mask, [&](int lane) {
    auto& own = state.lanes[size_t(lane)];
    own.groups.push_back(std::move(own.open));
    own.open.clear();
  });
}

void complete_groups(Warp& warp, LaneMask mask, size_t left) {
  AsyncState& state = async_state(warp);
  for_lanes(mask, [&](int lane) {
    auto& groups = state.lanes[size_t(lane)].groups;
    while (groups.size() > left) {
      for (const PendingCopy& copy : groups.front()) complete(warp, lane, copy);
      groups.pop_front();
    }
  });
}

void wait_group(Warp& warp, const Inst& inst, LaneMask mask) {
  complete_groups(warp, mask, size_t(inst.imm));
}

void wait_all(Warp& warp, const Inst& inst, LaneMask mask) {
  commit_group(warp, inst, mask);
  complete_groups(warp, mask, 0);
}

/// cp.async.mbarrier.arrive: the copies so far complete, then the thread arrives. Without .noinc the arrival is one
/// more than the barrier expected, so nothing remains to be counted. m0: .noinc
void arrive_after_copies(Warp& warp, const Inst& inst, LaneMask mask) {
  wait_all(warp, inst, mask);
  for_lanes(mask, [&](int lane) {
    Block* owner = nullptr;
    MBarrier& barrier =
        find_mbarrier(warp, inst, lane, locate(inst.space, lane_address(warp, inst, lane)).address, owner);
    if (warp.worker->launch.options.checks.races) race_release(warp, barrier.released);
    if (!inst.m0) return;
    if (barrier.pending == 0) {
      warp.fault(LaunchError::IllegalInstruction, FindingKind::BarrierMisuse, inst, lane, 0, 0,
                 "more arrivals than the mbarrier expects");
    }
    --barrier.pending;
    settle_mbarrier(barrier);
  });
}

void decode_copy(Decode& c) {
  c.require(70, 80);
  const bool all_levels = c.mods.take_one({"ca", "cg"}) == 0;
  if (!c.mods.take("shared") && !c.mods.take("shared::cta")) c.fail("the destination of cp.async is .shared");
  if (!c.mods.take("global")) c.fail("the source of cp.async is .global");
  const bool hint = c.mods.take("L2::cache_hint");
  c.mods.take_one({"L2::64B", "L2::128B", "L2::256B"});
  c.inst.space = Space::Shared;
  c.expect_operands(3 + hint, 4 + hint);
  const uint64_t bytes = c.constant(2);
  if (bytes != 16 && (!all_levels || (bytes != 4 && bytes != 8)))
    c.fail("cp.async copies 4, 8 or 16 bytes, .cg only 16");
  c.inst.bytes = uint16_t(bytes);
  c.decoder.read_address(c.operand(0), c.inst, c.source.line);
  Inst source;
  source.space = Space::Global;
  c.decoder.read_address(c.operand(1), source, c.source.line);
  if (!source.wide_address) c.fail("a global address has 64 bits");
  std::vector<Slot> slots{source.a, c.decoder.constant_slot(uint64_t(source.imm), 8)};
  if (c.operand_count() == size_t(4) + hint) {
    const ptx::Operand& extra = c.operand(3);
    const bool is_predicate = extra.kind == ptx::OperandKind::Register &&
                              c.decoder.function().registers[size_t(extra.index)].type == Type::Pred;
    c.inst.m0 = !is_predicate;
    c.inst.m1 = is_predicate;
    slots.push_back(is_predicate ? c.reads_predicate(3) : c.reads(3, Type::U32));
  }
  if (hint) c.reads(c.operand_count() - 1, Type::B64);
  c.decoder.set_list(c.inst, slots);
  c.inst.fn = cp_async;
}

void decode_cp(Decode& c) {
  c.inst.klass = Class::AsyncCopy;
  if (c.mods.take("reduce")) {
    if (!c.mods.take("async") || !c.mods.take("bulk")) c.fail("cp.reduce needs .async.bulk");
    return decode_bulk(c, true);
  }
  if (!c.mods.take("async")) c.fail("cp needs .async");
  if (c.mods.take("bulk")) return decode_bulk(c, false);
  if (c.mods.take("commit_group")) {
    c.require(70, 80);
    c.expect_operands(0);
    c.inst.fn = commit_group;
  } else if (c.mods.take("wait_all")) {
    c.require(70, 80);
    c.expect_operands(0);
    c.inst.fn = wait_all;
  } else if (c.mods.take("wait_group")) {
    c.require(70, 80);
    c.expect_operands(1);
    c.inst.imm = int64_t(c.constant(0));
    if (c.inst.imm < 0) c.fail("the number of groups must not be negative");
    c.inst.fn = wait_group;
  } else if (c.mods.take("mbarrier")) {
    c.require(70, 80);
    if (!c.mods.take("arrive")) c.fail("cp.async.mbarrier needs .arrive");
    c.inst.m0 = c.mods.take("noinc");
    c.inst.space = take_memory_space(c);
    if (c.mods.type() != Type::B64) c.fail("an mbarrier is a .b64");
    if (c.inst.space == Space::Generic && c.decoder.is_narrow(c.operand(0))) c.inst.space = Space::Shared;
    c.expect_operands(1);
    c.decoder.read_address(c.operand(0), c.inst, c.source.line);
    c.inst.fn = arrive_after_copies;
  } else {
    decode_copy(c);
  }
}

}  // namespace

void finish_clusters_async(Cluster& cluster) {
  for (size_t b = 0; b < cluster.block_count; ++b) {
    Block& block = *cluster.blocks[b];
    for (int w = 0; w < block.warp_count; ++w) {
      Warp& warp = *block.warps[size_t(w)];
      if (warp.async == nullptr) continue;
      for (auto& lane : warp.async->lanes) {
        for (auto& group : lane.bulk_groups) {
          for (auto& transfer : group) transfer();
        }
        for (auto& transfer : lane.open_bulk) transfer();
      }
      warp.async.reset();
    }
  }
}

void register_async(OpcodeTable& table) {
  table["cp"] = decode_cp;
  register_mbarrier(table);
  register_tensormap(table);
}

}  // namespace corrloom::sim::exec
