#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/sim/exec/program.h"
#include "runtime/sim/machine.h"

/// The state of a running kernel: launch, worker, cluster, block, warp, split, frame, from the outside in.
namespace corrloom::sim::exec {

struct Block;
struct Cluster;
struct Worker;
struct Warp;
struct AsyncState;
struct UndefinedState;

/// A fault ends the launch. Thrown by the functions that execute instructions, caught by the worker that runs the
/// block.
struct Fault {
  LaunchError error;
};

/// Shared by all workers of one launch.
struct LaunchState {
  const LaunchRequest& request;
  const LaunchOptions& options;
  const KernelProgram& program;
  DeviceMemory& memory;
  Dim3 cluster_dim;
  uint32_t shared_bytes = 0;        ///< static and dynamic
  uint32_t reserved_shared = 0;     ///< offset of the system's part; 0: there is none
  uint32_t addressable_shared = 0;  ///< all of it
  uint32_t launch_tag = 0;
  uint64_t grid_id = 0;
  DeviceAddress grid_workspace = 0;  ///< of a cooperative launch: where cooperative groups keep their grid barrier
  std::chrono::steady_clock::time_point started;
  std::chrono::steady_clock::time_point deadline;
  std::atomic<uint64_t> next_cluster{0};
  std::atomic<bool> stop{false};
  std::mutex mutex;  ///< guards what follows
  std::vector<Finding> findings;
  LaunchError error = LaunchError::None;
  Counters counters;
  /// Per block, when it first released something to the grid (0: never), in ticks of `release_ticks`; only with races
  /// on.
  std::vector<std::atomic<uint64_t>> first_release;
  std::atomic<uint64_t> release_ticks{1};
};

/// Which bits of a frame's registers are undefined; see exec/undefined.h.
struct RegisterShadow {
  std::unique_ptr<std::byte[]> bits;  ///< laid out like the registers, then zeros; null: all is defined
  std::vector<uint16_t> origins;      ///< per register: where the undefined bits come from; 0: none are undefined
};

/// An activation of a function, shared by the splits that run in it.
struct Frame {
  const DecodedFunction* function = nullptr;
  std::unique_ptr<std::byte[]> storage;
  size_t capacity = 0;
  std::byte* registers = nullptr;
  RegisterShadow shadow;
  Frame* caller = nullptr;
  int call_site = -1;
  int return_pc = 0;
  int references = 0;
  int depth = 0;
  uint32_t local_base = 0;                   ///< of this frame in each thread's local memory
  std::array<uint32_t, kLanes> stack_top{};  ///< Warp::stack_top when the function was called
};

enum class Wait : uint8_t {
  Ready,
  Collective,    ///< for the lanes of `needed` to arrive
  WholeWarp,     ///< at an aligned instruction, for the rest of the warp
  BlockBarrier,  ///< in a barrier of the block
  ClusterBarrier,
};

/// Lanes of a warp at the same place.
struct Split {
  int pc = 0;
  LaneMask mask = 0;
  Frame* frame = nullptr;
  Wait wait = Wait::Ready;
  LaneMask needed = 0;
  int barrier = -1;
  int64_t ran = 0;        ///< when it ran last, by Warp::waited
  bool favoured = false;  ///< it has a turn after it waited for long
};

/// Why a warp stopped running.
enum class Stop : uint8_t { Budget, Blocked, Done };

/// What the race detector knows about one warp: its own time, and how much of the others' happened before now.
struct RaceClock {
  uint32_t now = 1;      ///< of this warp; grows with every release that has something to order
  uint32_t synced = 0;   ///< accesses of this warp before this time are ordered for all of its lanes
  bool touched = false;  ///< an access was recorded at the present time
  bool fenced = false;
  std::vector<uint32_t> seen;      ///< per warp of the block
  std::vector<uint32_t> at_fence;  ///< `seen` and own time when the last fence ran: what a strong write publishes
};

struct Warp {
  std::byte* bases[4] = {};
  Block* block = nullptr;
  Worker* worker = nullptr;
  const KernelProgram* program = nullptr;
  int index = 0;
  LaneMask alive = 0;
  LaneMask born = 0;       ///< lanes that are threads of the block
  Frame* frame = nullptr;  ///< of the split that runs
  int pc = 0;              ///< of the instruction that runs
  std::vector<Split> splits;
  size_t current = 0;
  int64_t waited = 0;     ///< a clock: instructions that one split ran while others could have
  int64_t turn_end = 0;   ///< until then favoured splits run
  int64_t patience = 0;   ///< how long a split waits for a turn
  bool give_way = false;  ///< the split that runs waits for something: others should run
  bool yield_requested = false;
  std::vector<std::byte> special_storage;
  std::vector<std::unique_ptr<Frame>> free_frames;
  std::vector<std::unique_ptr<Frame>> live_frames;
  std::unique_ptr<std::byte[]> local;  ///< local_stride bytes for each lane
  uint32_t local_stride = 0;
  std::array<uint32_t, kLanes> stack_top{};  ///< where what alloca gave to each lane begins; see exec/stack.cpp
  RaceClock race;
  std::unique_ptr<AsyncState> async;
  std::unique_ptr<UndefinedState> undefined;
  bool holds_undefined = false;  ///< a register or local memory may hold an undefined value
  uint64_t issued = 0;
  uint32_t cluster_phase = 0;  ///< of the cluster barrier when this warp arrived last

  Warp();
  ~Warp();
  void start(Block& owner, int warp_index);
  /// Runs up to `budget` instructions.
  Stop run(int64_t budget);
  Frame* make_frame(const DecodedFunction& function, Frame* caller, uint32_t local_base);
  void drop_frame(Frame* released);

  template <class T>
  T* at(Slot slot) {
    return reinterpret_cast<T*>(bases[slot >> kSlotBaseShift] + (slot & kSlotOffsetMask));
  }
  LaneMask& predicate(Slot slot) { return *at<LaneMask>(slot); }
  /// Reports a finding of the instruction that runs. Does not return control over what happens next.
  void find(FindingKind kind, const Inst& inst, int lane, DeviceAddress address, uint32_t bytes, std::string message,
            std::string other = {});
  /// Reports a finding and ends the launch.
  [[noreturn]] void fault(LaunchError error, FindingKind kind, const Inst& inst, int lane, DeviceAddress address,
                          uint32_t bytes, std::string message);

 private:
  bool pick();
  void merge_splits();
  void execute(int64_t& budget);
  void part_lanes(LaneMask staying);
  void absorb_waiting(Wait wait);
  void park(Wait wait);
  void retry_waiting();
  LaneMask passing(const Inst& inst);
  bool steer(const Inst& inst, LaneMask mask, LaneMask active);
  bool everyone_is_here(const Inst& inst, LaneMask mask, LaneMask active);
  void execute_group(const Inst& inst, LaneMask group);
  void arrive_collective(const Inst& inst, LaneMask active);
  bool arrive_whole_warp(LaneMask active);
  bool arrive_warp_barrier(const Inst& inst, LaneMask active);
  void release_warp_barriers();
  bool diagnose_stuck();
  void branch(const Inst& inst, LaneMask active);
  void branch_indexed(const Inst& inst, LaneMask active);
  void call(const Inst& inst, LaneMask active, int function);
  void call_indirect(const Inst& inst, LaneMask active);
  void leave(LaneMask active);
  void exit_lanes(LaneMask lanes);
  void remove_current();
  bool block_barrier(const Inst& inst, LaneMask active);
  bool cluster_barrier(const Inst& inst, LaneMask active);
  friend struct Block;
  friend struct Cluster;
};

/// One of a block's named barriers.
struct Barrier {
  uint32_t expected = 0;  ///< threads; 0: all of the block
  bool in_use = false;
  std::vector<LaneMask> arrived;  ///< per warp
  uint32_t threads = 0;           ///< counted so far
  uint32_t population = 0;        ///< bar.red: lanes whose predicate held
  bool all = true, any = false;
  std::vector<uint32_t> released;  ///< join of the clocks of those that arrived
};

/// A bulk copy in flight that will report to an mbarrier.
struct PendingBulk {
  std::function<void()> transfer;
  uint32_t bytes = 0;
  std::vector<uint32_t> knowledge;  ///< what the issuing thread had seen, for the race detector
};

/// The phase object of an mbarrier; the authoritative state is kept here, memory holds an opaque token.
struct MBarrier {
  uint32_t expected = 0;  ///< arrivals of a phase
  uint32_t pending = 0;   ///< arrivals still missing in this phase
  int64_t tx_bytes = 0;   ///< bytes still expected
  uint32_t phase = 0;
  std::vector<uint32_t> released;  ///< clocks published by arrivals
  std::vector<PendingBulk> in_flight;
};

struct Block {
  Cluster* cluster = nullptr;
  Worker* worker = nullptr;
  LaunchState* launch = nullptr;
  Dim3 index;
  uint64_t linear = 0;
  uint32_t rank = 0;  ///< in the cluster
  int threads = 0;
  std::vector<std::unique_ptr<Warp>> warps;
  int warp_count = 0;
  std::vector<std::byte> shared;
  std::vector<uint8_t> shared_state;  ///< per byte: see SharedState
  std::vector<DeviceMemory::RaceCell> shared_cells;
  uint32_t shared_tag = 0;
  std::array<Barrier, 16> barriers;
  std::map<uint32_t, MBarrier> mbarriers;  ///< by shared offset
  std::vector<uint32_t> strong_released;   ///< join of what strong writes of the block published
  uint64_t last_acquire = 0;               ///< in ticks of LaunchState::release_ticks
  bool finished = false;

  bool generic_writes = false;  ///< some byte is kGeneric

  /// kPending: an asynchronous copy is writing it. kGeneric: a thread wrote it and no fence.proxy.async followed.
  enum SharedState : uint8_t { kWritten = 1, kPending = 2, kGeneric = 4 };

  void start(Cluster& owner, uint64_t linear_index, uint32_t rank_in_cluster);
  /// One turn for every warp; false when none could run. Sets `finished` when all are done.
  bool run_turn(int64_t& budget);
  void complete_barriers();
  bool complete_barrier(int id);
  void describe_deadlock();
};

/// Blocks that run together: a cluster, or a single block.
struct Cluster {
  Worker* worker = nullptr;
  uint64_t linear = 0;
  std::vector<std::unique_ptr<Block>> blocks;
  size_t block_count = 0;
  std::vector<std::vector<LaneMask>> arrived;  ///< cluster barrier: per block, per warp
  uint32_t phase = 1;                          ///< of the cluster barrier

  void start(Worker& owner, uint64_t linear_index);
  /// Runs until all blocks are done (true) or the budget is spent (false). Throws Fault.
  bool run(int64_t budget);
  void complete_barrier();
  bool diagnose();
};

/// A host thread that runs clusters.
struct Worker {
  LaunchState& launch;
  Counters counters;
  std::array<uint64_t, 16> by_class{};  ///< warp instructions by exec::Class
  bool count = true;
  std::vector<std::unique_ptr<Cluster>> pool;      ///< to be used again
  std::vector<std::unique_ptr<Cluster>> resident;  ///< started and not done
  uint64_t random = 0;
  uint64_t polls = 0;

  explicit Worker(LaunchState& state);
  void run();
  /// Polls the watchdog; throws Fault when time is up or the launch was stopped elsewhere.
  void check_time(Warp* warp);
};

/// Adds a finding to the launch, or to the count of an equal one.
void add_finding(LaunchState& launch, Finding finding, bool first);

}  // namespace corrloom::sim::exec
