#include <algorithm>

#include "runtime/sim/driver/export.h"
#include "runtime/sim/driver/state.h"

/// How many blocks and clusters fit a multiprocessor or the device at once.
namespace corrloom::sim::driver {
namespace {

Device& device_of(const Function& function) {
  return driver().device(function.module->module->memory().device());
}

/// Blocks of one multiprocessor. The register count is an estimate; an assembler would spill rather than let a block
/// not fit at all.
int resident_blocks(const Function& function, int block_threads, uint64_t dynamic_bytes) {
  const Device& device = device_of(function);
  const KernelInfo& info = function.info();
  if (block_threads > int(info.max_threads)) return 0;
  const uint64_t shared = info.static_shared_bytes + dynamic_bytes;
  if (shared > uint64_t(device.limits.shared_bytes_per_block_optin)) return 0;
  const int most_registers = device.limits.registers_per_block / ((block_threads + 31) / 32 * 32);
  return occupancy_blocks(device.arch, block_threads, std::min(int(info.registers), most_registers), int64_t(shared));
}

/// The cluster a launch with this configuration has.
Dim3 cluster_of(const Function& function, const CUlaunchConfig& config) {
  const std::array<uint32_t, 3>& required = function.info().required_cluster;
  if (required[0] != 0) return {required[0], required[1], required[2]};
  require(config.numAttrs == 0 || config.attrs != nullptr);
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const CUdim3& given = config.attrs[i].value.clusterDim;
    if (config.attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) return {given.x, given.y, given.z};
  }
  return {};
}

int block_threads(const CUlaunchConfig& config) {
  const uint64_t threads = Dim3{config.blockDimX, config.blockDimY, config.blockDimZ}.count();
  require(threads != 0 && threads <= 1024);
  return int(threads);
}

}  // namespace

CUresult occupancy_max_active_blocks_with_flags(int* blocks, CUfunction handle, int threads, size_t dynamic_bytes,
                                                unsigned flags) {
  require(blocks != nullptr && threads > 0 && flags <= 1);
  *blocks = resident_blocks(*find_function(handle), threads, dynamic_bytes);
  return CUDA_SUCCESS;
}

CUresult occupancy_max_active_blocks(int* blocks, CUfunction handle, int threads, size_t dynamic_bytes) {
  return occupancy_max_active_blocks_with_flags(blocks, handle, threads, dynamic_bytes, 0);
}

CUresult occupancy_max_potential_block_size_with_flags(int* grid, int* block, CUfunction handle,
                                                       CUoccupancyB2DSize shared_of, size_t dynamic_bytes, int limit,
                                                       unsigned flags) {
  require(grid != nullptr && block != nullptr && limit >= 0 && flags <= 1);
  const std::shared_ptr<Function> function = find_function(handle);
  const int most = std::min(int(function->info().max_threads), limit == 0 ? 1024 : limit);
  int best_blocks = 0, best_threads = 0;
  // The largest block of those with most threads resident.
  for (int threads = most; threads > 0; threads = (threads - 1) / 32 * 32) {
    const size_t shared = shared_of != nullptr ? shared_of(threads) : dynamic_bytes;
    const int blocks = resident_blocks(*function, threads, shared);
    if (blocks * threads > best_blocks * best_threads) {
      best_blocks = blocks;
      best_threads = threads;
    }
  }
  *grid = best_blocks * device_of(*function).limits.multiprocessors;
  *block = best_threads;
  return CUDA_SUCCESS;
}

CUresult occupancy_max_potential_block_size(int* grid, int* block, CUfunction handle, CUoccupancyB2DSize shared_of,
                                            size_t dynamic_bytes, int limit) {
  return occupancy_max_potential_block_size_with_flags(grid, block, handle, shared_of, dynamic_bytes, limit, 0);
}

CUresult occupancy_available_dynamic_smem(size_t* bytes, CUfunction handle, int blocks, int threads) {
  require(bytes != nullptr && blocks > 0 && threads > 0);
  const std::shared_ptr<Function> function = find_function(handle);
  require(resident_blocks(*function, threads, 0) >= blocks);
  const DeviceLimits& limits = device_of(*function).limits;
  const int64_t each = limits.shared_bytes_per_multiprocessor / blocks / 128 * 128;
  const int64_t fits = each - limits.reserved_shared_bytes_per_block - int64_t(function->info().static_shared_bytes);
  const int64_t most = limits.shared_bytes_per_block_optin - int64_t(function->info().static_shared_bytes);
  *bytes = size_t(std::clamp<int64_t>(fits, 0, most));
  return CUDA_SUCCESS;
}

CUresult occupancy_max_potential_cluster_size(int* size, CUfunction handle, const CUlaunchConfig* config) {
  require(size != nullptr && config != nullptr);
  const std::shared_ptr<Function> function = find_function(handle);
  const DeviceLimits& limits = device_of(*function).limits;
  require(limits.max_cluster_blocks > 0, CUDA_ERROR_INVALID_CLUSTER_SIZE);
  const bool fits = resident_blocks(*function, block_threads(*config), config->sharedMemBytes) > 0;
  *size = !fits ? 0 : function->settings.non_portable_cluster != 0 ? 16 : limits.max_cluster_blocks;
  return CUDA_SUCCESS;
}

CUresult occupancy_max_active_clusters(int* clusters, CUfunction handle, const CUlaunchConfig* config) {
  require(clusters != nullptr && config != nullptr);
  const std::shared_ptr<Function> function = find_function(handle);
  const DeviceLimits& limits = device_of(*function).limits;
  require(limits.max_cluster_blocks > 0, CUDA_ERROR_INVALID_CLUSTER_SIZE);
  const uint64_t size = cluster_of(*function, *config).count();
  const bool portable = size <= uint64_t(limits.max_cluster_blocks);
  require(size != 0 && size <= 16 && (portable || function->settings.non_portable_cluster != 0),
          CUDA_ERROR_INVALID_CLUSTER_SIZE);
  const int blocks = resident_blocks(*function, block_threads(*config), config->sharedMemBytes);
  *clusters = int(uint64_t(blocks) * uint64_t(limits.multiprocessors) / size);
  return CUDA_SUCCESS;
}

}  // namespace corrloom::sim::driver
