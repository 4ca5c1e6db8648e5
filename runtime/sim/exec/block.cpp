#include <algorithm>
#include <bit>
#include <numeric>

#include "runtime/sim/exec/access.h"
#include "runtime/sim/exec/async.h"
#include "runtime/sim/exec/decoder.h"
#include "runtime/sim/exec/undefined.h"

/// Blocks and clusters: starting them, taking turns, and what to say when nothing can go on.
namespace corrloom::sim::exec {
namespace {

/// Instructions of one warp before the next one runs.
constexpr int64_t kWarpTurn = 2000;
/// What fresh shared memory holds; a value that is neither zero nor a sensible number.
constexpr std::byte kPoison{0xFD};

/// The value of a special register in a lane.
uint64_t special_value(Special which, const Warp& warp, int lane) {
  const Block& block = *warp.block;
  const LaunchState& launch = *block.launch;
  const Dim3& dim = launch.request.block;
  const Dim3& grid = launch.request.grid;
  const Dim3& cluster = launch.cluster_dim;
  const Dim3 tid = thread_coordinates(dim, uint32_t(warp.index * kLanes + lane));
  const Dim3 at{block.index.x / cluster.x, block.index.y / cluster.y, block.index.z / cluster.z};
  const Dim3 within{block.index.x % cluster.x, block.index.y % cluster.y, block.index.z % cluster.z};
  const LaneMask bit = 1u << lane;
  switch (which) {
    case Special::TidX:
      return tid.x;
    case Special::TidY:
      return tid.y;
    case Special::TidZ:
      return tid.z;
    case Special::NtidX:
      return dim.x;
    case Special::NtidY:
      return dim.y;
    case Special::NtidZ:
      return dim.z;
    case Special::LaneId:
      return uint64_t(lane);
    case Special::WarpId:
      return uint64_t(warp.index);
    case Special::NwarpId:
      return uint64_t(device_limits(launch.options.arch).max_threads_per_multiprocessor / kLanes);
    case Special::CtaidX:
      return block.index.x;
    case Special::CtaidY:
      return block.index.y;
    case Special::CtaidZ:
      return block.index.z;
    case Special::NctaidX:
      return grid.x;
    case Special::NctaidY:
      return grid.y;
    case Special::NctaidZ:
      return grid.z;
    case Special::SmId:
      return block.linear % uint64_t(device_limits(launch.options.arch).multiprocessors);
    case Special::NsmId:
      return uint64_t(device_limits(launch.options.arch).multiprocessors);
    case Special::GridId:
      return launch.grid_id;
    case Special::IsExplicitCluster:
      return cluster.count() > 1 || launch.request.cluster.has_value();
    case Special::ClusterIdX:
      return at.x;
    case Special::ClusterIdY:
      return at.y;
    case Special::ClusterIdZ:
      return at.z;
    case Special::NclusterIdX:
      return grid.x / cluster.x;
    case Special::NclusterIdY:
      return grid.y / cluster.y;
    case Special::NclusterIdZ:
      return grid.z / cluster.z;
    case Special::ClusterCtaidX:
      return within.x;
    case Special::ClusterCtaidY:
      return within.y;
    case Special::ClusterCtaidZ:
      return within.z;
    case Special::ClusterNctaidX:
      return cluster.x;
    case Special::ClusterNctaidY:
      return cluster.y;
    case Special::ClusterNctaidZ:
      return cluster.z;
    case Special::ClusterCtarank:
      return block.rank;
    case Special::ClusterNctarank:
      return cluster.count();
    case Special::LanemaskEq:
      return bit;
    case Special::LanemaskLt:
      return bit - 1;
    case Special::LanemaskLe:
      return bit | (bit - 1);
    case Special::LanemaskGt:
      return ~(bit | (bit - 1));
    case Special::LanemaskGe:
      return ~(bit - 1);
    case Special::TotalSharedBytes:
    case Special::AggregateSharedBytes:
      return launch.shared_bytes;
    case Special::DynamicSharedBytes:
      return launch.request.dynamic_shared_bytes;
    case Special::ReservedSharedBegin:
    case Special::ReservedShared0:
      return launch.reserved_shared;
    case Special::ReservedShared1:
      return launch.reserved_shared + kReservedSharedBytes / 2;
    case Special::ReservedSharedEnd:
      return launch.addressable_shared;
    case Special::ReservedSharedBytes:
      return kReservedSharedBytes;
    case Special::GridWorkspaceHigh:
      return launch.grid_workspace >> 32;
    case Special::GridWorkspaceLow:
      return uint32_t(launch.grid_workspace);
    default:
      return 0;  // the w components
  }
}

void fill_specials(Warp& warp) {
  const KernelProgram& program = *warp.program;
  warp.special_storage.resize(program.special_bytes + 64);
  const auto address = reinterpret_cast<uintptr_t>(warp.special_storage.data());
  std::byte* base = warp.special_storage.data() + (64 - address % 64) % 64;
  warp.bases[size_t(Base::Special)] = base;
  for (const SpecialUse& use : program.specials) {
    const auto which = Special(use.which);
    if (which == Special::IsExplicitCluster) {
      *reinterpret_cast<LaneMask*>(base + use.offset) = special_value(which, warp, 0) ? kAllLanes : 0;
      continue;
    }
    for (int lane = 0; lane < kLanes; ++lane) {
      const uint64_t value = special_value(which, warp, lane);
      if (which == Special::GridId) {
        reinterpret_cast<uint64_t*>(base + use.offset)[lane] = value;
      } else {
        reinterpret_cast<uint32_t*>(base + use.offset)[lane] = uint32_t(value);
      }
    }
  }
}

}  // namespace

void Warp::start(Block& owner, int warp_index) {
  block = &owner;
  worker = owner.worker;
  program = &owner.launch->program;
  index = warp_index;
  const int lanes = std::min(kLanes, owner.threads - warp_index * kLanes);
  born = alive = lanes == kLanes ? kAllLanes : (1u << lanes) - 1;
  for (auto& left : live_frames) free_frames.push_back(std::move(left));
  live_frames.clear();
  bases[size_t(Base::Constant)] = const_cast<std::byte*>(program->constants.data());
  fill_specials(*this);
  const uint32_t stride = program->recursive ? owner.launch->options.stack_bytes_per_thread : program->stack_bytes;
  if (stride != local_stride || local == nullptr) {
    local_stride = stride;
    local.reset(stride == 0 ? nullptr
                            : new std::byte[size_t(stride) * kLanes]);  // left untouched: pages appear when used
  }
  stack_top.fill(stride);
  issued = 0;
  waited = turn_end = 0;
  cluster_phase = 0;
  async.reset();
  undefined.reset();
  holds_undefined = false;
  race = RaceClock{};
  if (owner.launch->options.checks.races) {
    race.seen.assign(size_t(owner.warp_count), 0);
  }
  Frame* entry = make_frame(program->functions[0], nullptr, 0);
  splits.assign(1, Split{program->functions[0].entry, alive, entry, Wait::Ready, 0, -1});
  current = 0;
}

void Block::start(Cluster& owner, uint64_t linear_index, uint32_t rank_in_cluster) {
  cluster = &owner;
  worker = owner.worker;
  launch = &worker->launch;
  linear = linear_index;
  rank = rank_in_cluster;
  const Dim3& grid = launch->request.grid;
  index = {uint32_t(linear % grid.x), uint32_t(linear / grid.x % grid.y), uint32_t(linear / grid.x / grid.y)};
  threads = int(launch->request.block.count());
  warp_count = (threads + kLanes - 1) / kLanes;
  finished = false;
  mbarriers.clear();
  strong_released.clear();
  last_acquire = 0;
  generic_writes = false;
  for (Barrier& barrier : barriers) barrier.in_use = false;
  const size_t bytes = launch->addressable_shared;
  shared.resize(bytes + 64);
  std::fill_n(shared.begin(), bytes, kPoison);
  const Checks& on = launch->options.checks;
  if (on.uninitialised || on.races) shared_state.assign(bytes + 64, 0);
  if (launch->reserved_shared != 0) {
    std::fill_n(shared.begin() + launch->reserved_shared, kReservedSharedBytes, std::byte(0));
    if (!shared_state.empty())
      std::fill_n(shared_state.begin() + launch->reserved_shared, kReservedSharedBytes, uint8_t(kWritten));
  }
  if (on.races) {
    shared_tag = shared_tag % 63 + 1;
    if (shared_cells.size() != bytes / 4 + 8 || shared_tag == 1) shared_cells.assign(bytes / 4 + 8, {0, 0});
  }
  while (warps.size() < size_t(warp_count)) warps.push_back(std::make_unique<Warp>());
  for (int w = 0; w < warp_count; ++w) warps[size_t(w)]->start(*this, w);
  Counters& counters = worker->counters;
  ++counters.blocks;
  counters.warps += uint64_t(warp_count);
  counters.threads += uint64_t(threads);
}

bool Block::run_turn(int64_t& budget) {
  const bool shuffled = launch->options.schedule_seed != 0;
  int first = 0;
  if (shuffled) {
    worker->random = worker->random * 6364136223846793005ull + 1442695040888963407ull;
    first = int(worker->random >> 33) % warp_count;
  }
  bool progress = false;
  bool all_done = true;
  for (int i = 0; i < warp_count; ++i) {
    Warp& warp = *warps[size_t((first + i) % warp_count)];
    if (warp.splits.empty()) continue;
    const uint64_t before = warp.issued;
    const LaneMask alive_before = warp.alive;
    const Stop stop = warp.run(kWarpTurn);
    budget -= int64_t(warp.issued - before);
    progress |= warp.issued != before || stop != Stop::Blocked;
    if (warp.alive != alive_before) {
      complete_barriers();
      if (cluster->block_count > 1) cluster->complete_barrier();
      progress = true;
    }
    all_done &= stop == Stop::Done;
  }
  if (all_done) finished = true;
  worker->check_time(warps[size_t(first)].get());
  return progress;
}

void Block::describe_deadlock() {
  std::string message = "no thread of the block can go on:";
  Warp* culprit = nullptr;
  int pc = 0, shown = 0;
  LaneMask lanes = 0;
  for (int w = 0; w < warp_count; ++w) {
    Warp& warp = *warps[size_t(w)];
    for (const Split& split : warp.splits) {
      const Inst& inst = launch->program.code[size_t(split.pc)];
      if (culprit == nullptr) {
        culprit = &warp;
        pc = split.pc;
        lanes = split.mask;
      }
      if (shown++ < 8) {
        message += "\n    warp " + std::to_string(w) + ", lanes " + hex(split.mask) + " wait at line " +
                   std::to_string(inst.line) + ": " + launch->program.texts[inst.text];
      }
    }
  }
  if (culprit == nullptr) throw Fault{LaunchError::Timeout};
  culprit->fault(LaunchError::Timeout, FindingKind::Deadlock, launch->program.code[size_t(pc)], std::countr_zero(lanes),
                 0, 0, message);
}

void Cluster::start(Worker& owner, uint64_t linear_index) {
  worker = &owner;
  linear = linear_index;
  const LaunchState& launch = owner.launch;
  const Dim3& dim = launch.cluster_dim;
  const Dim3& grid = launch.request.grid;
  const Dim3 clusters{grid.x / dim.x, grid.y / dim.y, grid.z / dim.z};
  const Dim3 at{uint32_t(linear % clusters.x), uint32_t(linear / clusters.x % clusters.y),
                uint32_t(linear / clusters.x / clusters.y)};
  block_count = size_t(dim.count());
  while (blocks.size() < block_count) blocks.push_back(std::make_unique<Block>());
  phase = 1;
  arrived.assign(block_count, {});
  uint32_t rank = 0;
  for (uint32_t z = 0; z < dim.z; ++z) {
    for (uint32_t y = 0; y < dim.y; ++y) {
      for (uint32_t x = 0; x < dim.x; ++x, ++rank) {
        const uint64_t block_linear =
            (uint64_t(at.z * dim.z + z) * grid.y + at.y * dim.y + y) * grid.x + at.x * dim.x + x;
        blocks[rank]->start(*this, block_linear, rank);
        arrived[rank].assign(size_t(blocks[rank]->warp_count), 0);
      }
    }
  }
}

bool Cluster::diagnose() {
  for (size_t b = 0; b < block_count; ++b) {
    for (int w = 0; w < blocks[b]->warp_count; ++w) {
      if (blocks[b]->warps[size_t(w)]->diagnose_stuck()) return true;
    }
  }
  return false;
}

bool Cluster::run(int64_t budget) {
  while (budget > 0) {
    bool progress = false, all = true;
    for (size_t b = 0; b < block_count; ++b) {
      if (blocks[b]->finished) continue;
      progress |= blocks[b]->run_turn(budget);
      all &= blocks[b]->finished;
    }
    if (all) {
      finish_clusters_async(*this);
      return true;
    }
    if (progress || diagnose()) continue;
    for (size_t b = 0; b < block_count; ++b) {
      if (!blocks[b]->finished) blocks[b]->describe_deadlock();
    }
  }
  return false;
}

}  // namespace corrloom::sim::exec
