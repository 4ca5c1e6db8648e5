#include <algorithm>
#include <cstdio>
#include <cstring>

#include "runtime/sim/driver/capture.h"
#include "runtime/sim/driver/export.h"
#include "runtime/sim/driver/launch.h"
#include "runtime/sim/driver/state.h"

/// Launches.
namespace corrloom::sim::driver {
namespace {

/// Copies the arguments from a buffer given with CU_LAUNCH_PARAM_BUFFER_POINTER and _SIZE.
std::vector<std::byte> params_from_buffer(void** extra, const KernelInfo& info) {
  const void* buffer = nullptr;
  const size_t* bytes = nullptr;
  for (;;) {
    const auto key = reinterpret_cast<uintptr_t>(*extra++);
    if (key == kLaunchParamEnd) break;
    require(key == kLaunchParamPointer || key == kLaunchParamSize);
    if (key == kLaunchParamPointer) {
      buffer = *extra++;
    } else {
      bytes = static_cast<const size_t*>(*extra++);
    }
  }
  require(buffer != nullptr && bytes != nullptr && *bytes >= info.param_bytes);
  std::vector<std::byte> params(info.param_bytes);
  if (!params.empty()) std::memcpy(params.data(), buffer, params.size());
  return params;
}

/// Copies each argument from where its pointer leads.
std::vector<std::byte> params_from_pointers(void** arguments, const KernelInfo& info) {
  std::vector<std::byte> params(info.param_bytes);
  require(arguments != nullptr || info.params.empty());
  for (size_t i = 0; i < info.params.size(); ++i) {
    require(arguments[i] != nullptr);
    std::memcpy(params.data() + info.params[i].offset, arguments[i], info.params[i].bytes);
  }
  return params;
}

/// Queues a launch whose sizes are valid.
CUresult start(Stream& stream, KernelLaunch kernel) {
  require(kernel.function->module->context == stream.context().handle, CUDA_ERROR_INVALID_CONTEXT);
  std::string message;
  const CUresult problem = check(kernel, stream.context(), message);
  if (problem != CUDA_SUCCESS) {
    if (driver().report_to_stderr) std::fprintf(stderr, "simulated device: %s\n", message.c_str());
    return problem;
  }
  submit(stream, std::move(kernel));
  return CUDA_SUCCESS;
}

/// Takes over what the attributes ask for. Returns the events to record behind the kernel.
std::vector<std::shared_ptr<Event>> apply(const CUlaunchConfig& config, KernelLaunch& kernel) {
  std::vector<std::shared_ptr<Event>> events;
  require(config.numAttrs == 0 || config.attrs != nullptr);
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const CUlaunchAttributeValue& value = config.attrs[i].value;
    switch (config.attrs[i].id) {
      case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        kernel.cooperative = value.cooperative != 0;
        break;
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        kernel.cluster = Dim3{value.clusterDim.x, value.clusterDim.y, value.clusterDim.z};
        break;
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
        events.push_back(find_event(value.programmaticEvent.event));
        break;
      case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
        events.push_back(find_event(value.launchCompletionEvent.event));
        break;
      case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
        require(false, CUDA_ERROR_NOT_SUPPORTED);
        break;
      default:
        // Hints about scheduling and caches. A kernel that may start early, before the one in front of it has ended
        // (programmatic serialization), is allowed to start late, too.
        require(config.attrs[i].id <= CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING);
    }
  }
  return events;
}

}  // namespace

KernelLaunch make_launch(CUfunction handle, const Dim3& grid, const Dim3& block, unsigned shared_bytes,
                         void** arguments, void** extra) {
  KernelLaunch kernel;
  kernel.function = find_function(handle);
  const KernelInfo& info = kernel.function->info();
  require(arguments == nullptr || extra == nullptr);
  kernel.grid = grid;
  kernel.block = block;
  kernel.dynamic_shared_bytes = shared_bytes;
  const FunctionSettings& settings = kernel.function->settings;
  kernel.max_dynamic_shared_bytes = uint32_t(settings.max_dynamic_shared_bytes);
  if (settings.cluster[0] > 0) {
    kernel.cluster = Dim3{uint32_t(settings.cluster[0]), uint32_t(std::max(1, settings.cluster[1].load())),
                          uint32_t(std::max(1, settings.cluster[2].load()))};
  }
  kernel.params = extra != nullptr ? params_from_buffer(extra, info) : params_from_pointers(arguments, info);
  return kernel;
}

CUresult launch_kernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                       unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream handle, void** arguments,
                       void** extra) {
  const std::shared_ptr<Stream> stream = find_stream(handle);
  return start(*stream, make_launch(function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes,
                                    arguments, extra));
}

CUresult launch_cooperative_kernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                   CUstream handle, void** arguments) {
  const std::shared_ptr<Stream> stream = find_stream(handle);
  KernelLaunch kernel =
      make_launch(function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, arguments, nullptr);
  kernel.cooperative = true;
  return start(*stream, std::move(kernel));
}

CUresult launch_kernel_ex(const CUlaunchConfig* config, CUfunction function, void** arguments, void** extra) {
  require(config != nullptr);
  const std::shared_ptr<Stream> stream = find_stream(config->hStream);
  KernelLaunch kernel =
      make_launch(function, {config->gridDimX, config->gridDimY, config->gridDimZ},
                  {config->blockDimX, config->blockDimY, config->blockDimZ}, config->sharedMemBytes, arguments, extra);
  const FunctionSettings& settings = kernel.function->settings;
  const std::vector<std::shared_ptr<Event>> events = apply(*config, kernel);
  const int portable = stream->context().device.limits.max_cluster_blocks;
  require(!kernel.cluster || kernel.cluster->count() <= uint64_t(std::max(portable, 1)) ||
              settings.non_portable_cluster != 0,
          CUDA_ERROR_INVALID_CLUSTER_SIZE);
  if (const CUresult result = start(*stream, std::move(kernel)); result != CUDA_SUCCESS) return result;
  for (const std::shared_ptr<Event>& event : events) submit(*stream, EventRecord{event, nullptr});
  return CUDA_SUCCESS;
}

}  // namespace corrloom::sim::driver
