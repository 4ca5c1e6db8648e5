#pragma once

#include <deque>
#include <functional>

#include "runtime/sim/exec/decoder.h"
#include "runtime/sim/exec/engine.h"

/// Asynchronous copies and the barriers that track them. A copy takes effect at the latest moment the ISA allows, when
/// somebody waits for it, so that a missing wait shows as wrong data and as a finding.
namespace corrloom::sim::exec {

/// One thread's cp.async, issued and not yet complete.
struct PendingCopy {
  const Inst* inst = nullptr;
  uint64_t address = 0;  ///< in shared memory
  uint32_t bytes = 0;
  std::array<std::byte, 16> data{};
};

/// What a warp has in flight.
struct AsyncState {
  struct Lane {
    std::deque<std::vector<PendingCopy>> groups;  ///< committed, oldest first
    std::vector<PendingCopy> open;                ///< not yet committed
    std::deque<std::vector<std::function<void()>>> bulk_groups;
    std::vector<std::function<void()>> open_bulk;
  };
  std::array<Lane, kLanes> lanes;
  std::vector<std::function<void()>> wgmma_open;  ///< issued, not committed
  std::deque<std::vector<std::function<void()>>> wgmma_groups;
};

/// The warp's state, made when first needed.
AsyncState& async_state(Warp& warp);

/// Completes what a cluster's threads left in flight when they ended.
void finish_clusters_async(Cluster& cluster);

/// The mbarrier at a shared address; faults when there is none. `owner` is the block it lives in.
MBarrier& find_mbarrier(Warp& warp, const Inst& inst, int lane, uint64_t address, Block*& owner);
/// Ends the phase if nothing is missing.
void settle_mbarrier(MBarrier& barrier);

/// Hands a transfer to an mbarrier: it runs, and its bytes are counted, when somebody waits there.
void post_bulk(Warp& warp, const Inst& inst, int lane, uint64_t mbarrier, uint32_t bytes,
               std::function<void()> transfer);
/// Marks shared memory as being written by an asynchronous copy and checks that its readers are done.
/// Reductions may overlap each other.
void begin_async_write(Warp& warp, const Inst& inst, int lane, Block& block, uint32_t offset, uint32_t bytes,
                       bool reduces = false);
void end_async_write(Block& block, uint32_t offset, uint32_t bytes);

/// Combines one element with another. op: 0 add, 1 min, 2 max, 3 inc, 4 dec, 5 and, 6 or, 7 xor.
void reduce_element(ptx::Type type, std::byte* to, const std::byte* from, int op);
/// st.async and red.async; called with `async` consumed.
void decode_remote_store(Decode& c, bool reduce);

void register_mbarrier(OpcodeTable& table);
void register_tensormap(OpcodeTable& table);
/// cp.async.bulk and cp.reduce.async.bulk; called with `bulk` consumed.
void decode_bulk(Decode& c, bool reduce);

}  // namespace corrloom::sim::exec
