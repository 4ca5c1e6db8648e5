#include <algorithm>
#include <bit>
#include <numeric>
#include <thread>

#include "runtime/sim/exec/access.h"
#include "runtime/sim/exec/engine.h"

/// A launch from the outside: checks of the configuration, host threads, collecting what they found.
namespace corrloom::sim {

namespace exec {
namespace {

/// Instructions before a worker turns to another resident cluster; short where blocks may wait for each other.
constexpr int64_t kSlice = 4'000'000;
constexpr int64_t kCooperativeSlice = 20'000;
constexpr size_t kResidentClusters = 32;

}  // namespace

void add_finding(LaunchState& launch, Finding finding, bool first) {
  const std::lock_guard lock(launch.mutex);
  for (Finding& known : launch.findings) {
    if (known.kind == finding.kind && known.ptx_line == finding.ptx_line && known.instruction == finding.instruction) {
      ++known.occurrences;
      return;
    }
  }
  if (launch.findings.size() >= launch.options.max_findings) return;
  launch.findings.insert(first ? launch.findings.begin() : launch.findings.end(), std::move(finding));
}

Worker::Worker(LaunchState& state) : launch(state), count(state.options.count), random(state.options.schedule_seed) {}

void Worker::check_time(Warp* warp) {
  if (launch.stop.load(std::memory_order_relaxed)) throw Fault{LaunchError::None};
  if (++polls % 16 != 0) return;
  const bool cancelled = launch.options.cancel != nullptr && launch.options.cancel->load(std::memory_order_relaxed);
  if (!cancelled && (launch.options.watchdog.count() == 0 || std::chrono::steady_clock::now() < launch.deadline))
    return;
  for (int w = 0; w < warp->block->warp_count; ++w) {
    Warp& candidate = *warp->block->warps[size_t(w)];
    if (candidate.splits.empty()) continue;
    const Split& split = candidate.splits[candidate.current < candidate.splits.size() ? candidate.current : 0];
    candidate.fault(LaunchError::Timeout, FindingKind::Watchdog, launch.program.code[size_t(split.pc)],
                    std::countr_zero(split.mask), 0, 0,
                    cancelled
                        ? "the launch was cancelled"
                        : "the kernel ran longer than " + std::to_string(launch.options.watchdog.count()) + " ms");
  }
  throw Fault{LaunchError::Timeout};
}

void Worker::run() {
  const Dim3& grid = launch.request.grid;
  const uint64_t total = grid.count() / launch.cluster_dim.count();
  // Another order of blocks for another seed: multiplication by a number prime to the total is a permutation.
  uint64_t stride = 1;
  if (launch.options.schedule_seed != 0) {
    stride = launch.options.schedule_seed * 2654435761u % total | 1;
    while (std::gcd(stride, total) != 1) ++stride;
  }
  const bool cooperative = launch.request.cooperative;
  const int64_t slice = cooperative ? kCooperativeSlice : kSlice;
  bool more = true;
  try {
    size_t turn = 0;
    while (!launch.stop.load(std::memory_order_relaxed)) {
      const bool room = resident.empty() || ((cooperative || resident.size() < kResidentClusters) && turn == 0);
      if (more && room) {
        const uint64_t next = launch.next_cluster.fetch_add(1);
        more = next < total;
        if (more) {
          std::unique_ptr<Cluster> cluster;
          if (pool.empty()) {
            cluster = std::make_unique<Cluster>();
          } else {
            cluster = std::move(pool.back());
            pool.pop_back();
          }
          cluster->start(*this, next * stride % total);
          resident.insert(resident.begin(), std::move(cluster));
          turn = 0;
        }
      }
      if (resident.empty()) break;
      if (resident[turn]->run(slice)) {
        pool.push_back(std::move(resident[turn]));
        resident.erase(resident.begin() + std::ptrdiff_t(turn));
        turn = 0;
      } else {
        turn = (turn + 1) % resident.size();
      }
    }
  } catch (const Fault& fault) {
    const std::lock_guard lock(launch.mutex);
    if (launch.error == LaunchError::None) launch.error = fault.error;
    launch.stop = true;
  }
  const auto of = [&](Class klass) { return by_class[size_t(klass)]; };
  counters.fp16 = of(Class::Fp16);
  counters.fp32 = of(Class::Fp32);
  counters.fp64 = of(Class::Fp64);
  counters.integer = of(Class::Integer);
  counters.conversion = of(Class::Conversion);
  counters.special_function = of(Class::SpecialFunction);
  counters.control = of(Class::Control);
  counters.move = of(Class::Move);
  counters.load_store = of(Class::LoadStore);
  counters.barrier = of(Class::Barrier);
  counters.shuffle_vote = of(Class::ShuffleVote);
  counters.atomic = of(Class::Atomic);
  counters.tensor_core = of(Class::TensorCore);
  counters.async_copy = of(Class::AsyncCopy);
  counters.warp_instructions = std::accumulate(by_class.begin(), by_class.end(), uint64_t(0));
  const std::lock_guard lock(launch.mutex);
  launch.counters += counters;
}

namespace {

/// The first rule the configuration breaks; None when it may run.
LaunchError check_configuration(const LaunchRequest& request, const LaunchOptions& options,
                                const KernelProgram& program, Dim3& cluster, uint32_t& shared_bytes,
                                std::string& message) {
  const KernelInfo& info = program.info;
  const DeviceLimits limits = device_limits(options.arch);
  const auto refuse = [&](LaunchError error, std::string text) {
    message = "launch of '" + info.name + "': " + std::move(text);
    return error;
  };
  const auto dims = [](const Dim3& d) { return print(d); };
  const Dim3& grid = request.grid;
  const Dim3& block = request.block;
  if (grid.count() == 0 || block.count() == 0)
    return refuse(LaunchError::InvalidLaunch, "grid " + dims(grid) + " and block " + dims(block) + " must be positive");
  if (grid.x > limits.max_grid_dim[0] || grid.y > limits.max_grid_dim[1] || grid.z > limits.max_grid_dim[2]) {
    return refuse(LaunchError::InvalidLaunch, "grid " + dims(grid) + " exceeds (2147483647, 65535, 65535)");
  }
  if (block.x > 1024 || block.y > 1024 || block.z > 64 || block.count() > 1024) {
    return refuse(LaunchError::InvalidLaunch, "block " + dims(block) + " exceeds (1024, 1024, 64) or 1024 threads");
  }
  if (info.required_block[0] != 0 &&
      (info.required_block[0] != block.x || info.required_block[1] != block.y || info.required_block[2] != block.z)) {
    return refuse(LaunchError::InvalidLaunch,
                  "block " + dims(block) + " differs from .reqntid " +
                      dims({info.required_block[0], info.required_block[1], info.required_block[2]}));
  }
  if (block.count() > info.max_threads) {
    return refuse(LaunchError::InvalidLaunch,
                  std::to_string(block.count()) + " threads exceed .maxntid " + std::to_string(info.max_threads));
  }
  if (request.params.size() < info.param_bytes) {
    return refuse(LaunchError::InvalidLaunch, std::to_string(request.params.size()) + " bytes of parameters given, " +
                                                  std::to_string(info.param_bytes) + " wanted");
  }
  const uint64_t total_shared = uint64_t(program.dynamic_shared_offset) + request.dynamic_shared_bytes;
  const uint64_t most_shared = request.max_dynamic_shared_bytes != 0 ? uint64_t(limits.shared_bytes_per_block_optin)
                                                                     : uint64_t(limits.shared_bytes_per_block);
  if (total_shared > most_shared ||
      (request.max_dynamic_shared_bytes != 0 && request.dynamic_shared_bytes > request.max_dynamic_shared_bytes)) {
    return refuse(LaunchError::InvalidLaunch,
                  std::to_string(total_shared) + " bytes of shared memory exceed the limit of " +
                      std::to_string(most_shared) + " (or the function's maximum of dynamic bytes, " +
                      std::to_string(request.max_dynamic_shared_bytes) + ")");
  }
  shared_bytes = uint32_t(total_shared);
  cluster = {1, 1, 1};
  if (info.required_cluster[0] != 0) {
    cluster = {info.required_cluster[0], info.required_cluster[1], info.required_cluster[2]};
  } else if (request.cluster) {
    cluster = *request.cluster;
  }
  if (cluster.count() == 0 || cluster.count() > 16 ||
      (info.max_cluster_blocks != 0 && cluster.count() > info.max_cluster_blocks)) {
    return refuse(LaunchError::InvalidCluster,
                  "cluster " + dims(cluster) + " must have 1 to " +
                      std::to_string(info.max_cluster_blocks ? info.max_cluster_blocks : 16) + " blocks");
  }
  if (cluster.count() > 1 && limits.max_cluster_blocks == 0)
    return refuse(LaunchError::InvalidCluster, options.arch.name() + " has no clusters");
  if (grid.x % cluster.x != 0 || grid.y % cluster.y != 0 || grid.z % cluster.z != 0) {
    return refuse(LaunchError::InvalidCluster, "grid " + dims(grid) + " is not a multiple of cluster " + dims(cluster));
  }
  if (request.cooperative) {
    // The register count is an estimate; an assembler would spill rather than exceed what a block may have.
    const int most_registers = limits.registers_per_block / int((block.count() + kLanes - 1) / kLanes * kLanes);
    const int per_multiprocessor =
        occupancy_blocks(options.arch, int(block.count()), std::min(int(info.registers), most_registers), shared_bytes);
    const auto most = uint64_t(per_multiprocessor) * uint64_t(limits.multiprocessors);
    if (grid.count() > most) {
      return refuse(LaunchError::CooperativeTooLarge, std::to_string(grid.count()) + " blocks exceed the " +
                                                          std::to_string(most) + " that are resident at once");
    }
  }
  return LaunchError::None;
}

}  // namespace
}  // namespace exec

LaunchResult check_launch(const LaunchRequest& request, const LaunchOptions& options) {
  LaunchResult result;
  Dim3 cluster;
  uint32_t shared_bytes = 0;
  result.error =
      exec::check_configuration(request, options, request.module->program().kernels.at(size_t(request.kernel)), cluster,
                                shared_bytes, result.message);
  return result;
}

LaunchResult launch(const LaunchRequest& request, const LaunchOptions& options) {
  const exec::KernelProgram& program = request.module->program().kernels.at(size_t(request.kernel));
  LaunchResult result;
  Dim3 cluster;
  uint32_t shared_bytes = 0;
  result.error = exec::check_configuration(request, options, program, cluster, shared_bytes, result.message);
  if (result.error != LaunchError::None) return result;

  DeviceMemory& memory = request.module->memory();
  exec::LaunchState state{request, options, program, memory, cluster, shared_bytes};
  state.addressable_shared = shared_bytes;
  if (program.uses_reserved_shared) {
    constexpr uint32_t kAlignment = 1024;
    state.reserved_shared = std::max(kAlignment, (shared_bytes + kAlignment - 1) / kAlignment * kAlignment);
    state.addressable_shared = state.reserved_shared + exec::kReservedSharedBytes;
  }
  state.launch_tag = memory.begin_launch();
  state.grid_id = state.launch_tag;
  state.started = std::chrono::steady_clock::now();
  state.deadline = state.started + options.watchdog;
  if (options.checks.races)
    state.first_release =
        std::vector<std::atomic<uint64_t>>(size_t(std::min<uint64_t>(request.grid.count(), 1u << 18)));
  if (request.cooperative) {
    constexpr uint64_t kWorkspaceBytes = 256;
    state.grid_workspace = memory.allocate(kWorkspaceBytes);
    if (state.grid_workspace != 0) {
      std::memset(memory.host_pointer(state.grid_workspace, kWorkspaceBytes), 0, kWorkspaceBytes);
      memory.mark_initialised(state.grid_workspace, kWorkspaceBytes);
    }
  }
  const uint64_t clusters = request.grid.count() / cluster.count();
  unsigned threads =
      options.host_threads != 0 ? options.host_threads : std::max(1u, std::thread::hardware_concurrency());
  threads = unsigned(std::min<uint64_t>(threads, clusters));
  std::vector<std::thread> helpers;
  for (unsigned i = 1; i < threads; ++i) {
    helpers.emplace_back([&state] { exec::Worker(state).run(); });
  }
  exec::Worker(state).run();
  for (std::thread& helper : helpers) helper.join();
  memory.end_launch();
  if (state.grid_workspace != 0) memory.release(state.grid_workspace);

  result.findings = std::move(state.findings);
  result.error = state.error;
  if (options.count) result.counters = state.counters;
  if (result.error == LaunchError::None && !result.findings.empty()) result.error = LaunchError::Finding;
  if (!result.findings.empty()) result.message = result.findings.front().text();
  if (result.message.empty() && result.error == LaunchError::Timeout) result.message = "the launch was ended";
  return result;
}

}  // namespace corrloom::sim
