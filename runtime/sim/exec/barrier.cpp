#include <algorithm>
#include <bit>

#include "runtime/sim/exec/access.h"
#include "runtime/sim/exec/lanes.h"

/// Barriers of blocks and clusters. Threads that have exited count as arrived.
namespace corrloom::sim::exec {

/// Arrives at bar/barrier with the lanes given, which make up the current split. True when the warp need not wait.
bool Warp::block_barrier(const Inst& inst, LaneMask active) {
  part_lanes(active);
  const int lane = std::countr_zero(active);
  const uint32_t id = at<uint32_t>(inst.a)[lane];
  const uint32_t count = inst.b == kNoSlot ? 0 : at<uint32_t>(inst.b)[lane];
  if (id > 15 || count % kLanes != 0 || (inst.b != kNoSlot && count == 0)) {
    fault(LaunchError::IllegalInstruction, FindingKind::BarrierMisuse, inst, lane, 0, 0,
          "barrier " + std::to_string(id) + " for " + std::to_string(count) +
              " threads; barriers are 0 to 15, counts positive multiples of 32");
  }
  Barrier& barrier = block->barriers[id];
  if (!barrier.in_use) {
    barrier = Barrier{};
    barrier.in_use = true;
    barrier.expected = count;
    barrier.arrived.assign(size_t(block->warp_count), 0);
  } else if (barrier.expected != count) {
    fault(LaunchError::IllegalInstruction, FindingKind::BarrierMisuse, inst, lane, 0, 0,
          "barrier " + std::to_string(id) + " is waiting for " + std::to_string(barrier.expected) +
              " threads, this arrival names " + std::to_string(count));
  }
  if (const LaneMask again = barrier.arrived[size_t(index)] & active;
      again != 0 && worker->launch.options.checks.barriers) {
    find(FindingKind::BarrierMisuse, inst, std::countr_zero(again), 0, 0,
         "the thread arrives at barrier " + std::to_string(id) + " twice in one phase");
  }
  barrier.threads += inst.aligned ? kLanes : uint32_t(std::popcount(active));
  barrier.arrived[size_t(index)] |= active;
  if (inst.m0 >= 2) {
    const LaneMask values = predicate(inst.c);
    barrier.population += uint32_t(std::popcount(values & active));
    barrier.all &= (values & active) == active;
    barrier.any |= (values & active) != 0;
  }
  if (worker->launch.options.checks.races) {
    race_fence(*this);
    race_release(*this, barrier.released);
    race.synced = race.now;
  }
  const bool waits = inst.m0 != 1;
  if (waits) {
    park(Wait::BlockBarrier);
    splits[current].barrier = int(id);
  } else {
    splits[current].pc = pc + 1;
  }
  return block->complete_barrier(int(id)) || !waits;
}

/// Ends a phase if everyone expected has arrived.
bool Block::complete_barrier(int id) {
  Barrier& barrier = barriers[size_t(id)];
  if (!barrier.in_use) return false;
  if (barrier.expected != 0) {
    if (barrier.threads < barrier.expected) return false;
  } else {
    for (int w = 0; w < warp_count; ++w) {
      const Warp& warp = *warps[size_t(w)];
      if ((barrier.arrived[size_t(w)] & warp.alive) != warp.alive) return false;
    }
  }
  barrier.in_use = false;
  const bool races = launch->options.checks.races;
  for (int w = 0; w < warp_count; ++w) {
    Warp& warp = *warps[size_t(w)];
    bool released = false;
    for (Split& split : warp.splits) {
      if (split.wait != Wait::BlockBarrier || split.barrier != id) continue;
      const Inst& inst = warp.program->code[size_t(split.pc)];
      warp.bases[0] = split.frame->registers;
      if (inst.m0 == 2) {
        for_lanes(split.mask, [&](int lane) { warp.at<uint32_t>(inst.d)[lane] = barrier.population; });
      } else if (inst.m0 > 2) {
        set_predicate(warp, inst.d, split.mask, (inst.m0 == 3 ? barrier.all : barrier.any) ? kAllLanes : 0);
      }
      split.wait = Wait::Ready;
      split.barrier = -1;
      ++split.pc;
      released = true;
    }
    if (released && races) {
      race_acquire(warp, barrier.released);
      race_fence(warp);
    }
  }
  return true;
}

/// After threads have exited: they may have been the last ones missing.
void Block::complete_barriers() {
  for (int id = 0; id < 16; ++id) {
    if (barriers[size_t(id)].in_use) complete_barrier(id);
  }
}

bool Warp::cluster_barrier(const Inst& inst, LaneMask active) {
  part_lanes(active);
  Cluster& cluster = *block->cluster;
  if (inst.m0 == 0) {
    if (worker->launch.options.checks.races) race_fence(*this);
    cluster.arrived[block->rank][size_t(index)] |= active;
    cluster_phase = cluster.phase;
    splits[current].pc = pc + 1;
    cluster.complete_barrier();
    return true;
  }
  if (cluster_phase != cluster.phase) {
    splits[current].pc = pc + 1;
    return true;
  }
  park(Wait::ClusterBarrier);
  return false;
}

void Cluster::complete_barrier() {
  bool any = false;
  for (size_t b = 0; b < block_count; ++b) {
    for (int w = 0; w < blocks[b]->warp_count; ++w) {
      const LaneMask alive = blocks[b]->warps[size_t(w)]->alive;
      if ((arrived[b][size_t(w)] & alive) != alive) return;
      any |= arrived[b][size_t(w)] != 0;
    }
  }
  if (!any) return;
  ++phase;
  for (size_t b = 0; b < block_count; ++b) {
    std::ranges::fill(arrived[b], 0);
    for (int w = 0; w < blocks[b]->warp_count; ++w) {
      Warp& warp = *blocks[b]->warps[size_t(w)];
      for (Split& split : warp.splits) {
        if (split.wait != Wait::ClusterBarrier) continue;
        split.wait = Wait::Ready;
        ++split.pc;
      }
      // The barrier synchronises the block's threads as well, whatever each of them waits for.
      if (worker->launch.options.checks.races) {
        for (int v = 0; v < blocks[b]->warp_count; ++v) {
          warp.race.seen[size_t(v)] = std::max(warp.race.seen[size_t(v)], race_time(*blocks[b]->warps[size_t(v)]));
        }
      }
    }
  }
  if (worker->launch.options.checks.races) {
    for (size_t b = 0; b < block_count; ++b) {
      for (int w = 0; w < blocks[b]->warp_count; ++w) race_sync_lanes(*blocks[b]->warps[size_t(w)]);
      blocks[b]->last_acquire = worker->launch.release_ticks.fetch_add(1) + 1;
      const uint64_t linear = blocks[b]->linear;
      if (linear < worker->launch.first_release.size() && worker->launch.first_release[linear] == 0)
        worker->launch.first_release[linear] = 1;
    }
  }
}

}  // namespace corrloom::sim::exec
