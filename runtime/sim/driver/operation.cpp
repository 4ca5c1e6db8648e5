#include "runtime/sim/driver/operation.h"

#include <cstring>

#include "runtime/sim/driver/graph.h"
#include "runtime/sim/driver/memory.h"
#include "runtime/sim/driver/state.h"

namespace corrloom::sim::driver {
namespace {

LaunchOptions options_of(Context& context) {
  Driver& all = driver();
  LaunchOptions options;
  options.arch = context.device.arch;
  options.checks = all.settings.checks;
  options.watchdog = all.settings.watchdog;
  options.stack_bytes_per_thread = context.stack_bytes();
  options.cancel = &all.exiting;
  return options;
}

LaunchRequest request_of(const KernelLaunch& kernel) {
  LaunchRequest request;
  request.module = kernel.function->module->module.get();
  request.kernel = kernel.function->index;
  request.grid = kernel.grid;
  request.block = kernel.block;
  request.cluster = kernel.cluster;
  request.dynamic_shared_bytes = kernel.dynamic_shared_bytes;
  request.max_dynamic_shared_bytes = kernel.max_dynamic_shared_bytes;
  request.cooperative = kernel.cooperative;
  request.params = kernel.params;
  return request;
}

/// What the profile keeps of a launch.
LaunchRecord record_of(const KernelLaunch& kernel, const Device& device, const LaunchResult& result, double seconds) {
  const KernelInfo& info = kernel.function->info();
  LaunchRecord record;
  record.kernel = info.name;
  record.grid = kernel.grid;
  record.block = kernel.block;
  record.shared_bytes = info.static_shared_bytes + kernel.dynamic_shared_bytes;
  record.registers = info.registers;
  if (const Assembled* assembled = kernel.function->module->assembled(kernel.function->index)) {
    record.assembled = true;
    record.spill_store_bytes = assembled->spill_store_bytes;
    record.spill_load_bytes = assembled->spill_load_bytes;
  }
  const int threads = int(kernel.block.count());
  record.resident_blocks = occupancy_blocks(device.arch, threads, int(info.registers), record.shared_bytes);
  record.resident_warps = record.resident_blocks * ((threads + 31) / 32);
  record.max_resident_warps = device.limits.max_threads_per_multiprocessor / device.limits.warp_size;
  record.host_seconds = seconds;
  record.error = result.error;
  record.counters = result.counters;
  return record;
}

void run_kernel(const KernelLaunch& kernel, Context& context) {
  Driver& all = driver();
  const auto started = std::chrono::steady_clock::now();
  const LaunchResult result = launch(request_of(kernel), options_of(context));
  if (all.exiting) return;
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - started;
  Profile& profile = context.device.profile;
  profile.add(record_of(kernel, context.device, result, taken.count()), result.findings);
  if (result.error == LaunchError::None) return;
  if (all.report_to_stderr) {
    const std::string text = result.findings.empty() ? "simulated device: " + result.message + "\n" : result.report();
    std::fwrite(text.data(), 1, text.size(), stderr);
  }
  context.lose(code_of(result.error));
}

/// Bytes from the first to the last of one side of a copy.
uint64_t span_of(const CopySide& side, uint64_t width, uint64_t height, uint64_t depth) {
  return (depth - 1) * side.slice_pitch + (height - 1) * side.row_pitch + width;
}

/// Tells the devices' sanitizers that `bytes` at `to` now hold what was at `from`.
void carry_initialised(uint64_t to, uint64_t from, uint64_t bytes) {
  DeviceMemory* target = driver().memory_of(to);
  if (target == nullptr) return;
  if (driver().memory_of(from) != nullptr) {
    target->copy_initialised(to, from, bytes);
  } else {
    target->mark_initialised(to, bytes);
  }
}

void run_copy(const Copy& copy, Context& context) {
  if (problem_of(copy)) return context.lose(CUDA_ERROR_ILLEGAL_ADDRESS);
  Driver& all = driver();
  std::byte* to = all.host_pointer(copy.to.address, 1);
  const std::byte* from = copy.staged != nullptr ? copy.staged->data() : all.host_pointer(copy.from.address, 1);
  for (uint64_t slice = 0; slice < copy.depth; ++slice) {
    for (uint64_t row = 0; row < copy.height; ++row) {
      const uint64_t to_offset = slice * copy.to.slice_pitch + row * copy.to.row_pitch;
      const uint64_t from_offset = slice * copy.from.slice_pitch + row * copy.from.row_pitch;
      std::memmove(to + to_offset, from + from_offset, copy.width_bytes);
      carry_initialised(copy.to.address + to_offset, copy.from.address + from_offset, copy.width_bytes);
    }
  }
}

void run_fill(const Fill& fill, Context& context) {
  if (problem_of(fill)) return context.lose(CUDA_ERROR_ILLEGAL_ADDRESS);
  Driver& all = driver();
  std::byte* to = all.host_pointer(fill.address, 1);
  DeviceMemory* memory = all.memory_of(fill.address);
  const uint64_t row_bytes = fill.width * fill.element_bytes;
  for (uint64_t row = 0; row < fill.height; ++row) {
    std::byte* begin = to + row * fill.pitch;
    if (fill.element_bytes == 1) {
      std::memset(begin, int(fill.value & 0xff), row_bytes);
    } else {
      for (uint64_t i = 0; i < fill.width; ++i)
        std::memcpy(begin + i * fill.element_bytes, &fill.value, fill.element_bytes);
    }
    if (memory != nullptr) memory->mark_initialised(fill.address + row * fill.pitch, row_bytes);
  }
}

void run_host(const HostCall& call, Context& context) {
  if (call.function != nullptr && context.error() != CUDA_SUCCESS) return;
  ThreadState& thread = this_thread();
  thread.in_callback = true;
  if (call.callback != nullptr) {
    call.callback(call.stream, context.error(), call.data);
  } else {
    call.function(call.data);
  }
  thread.in_callback = false;
}

void run_record(const std::shared_ptr<Mark>& mark) {
  mark->time = std::chrono::steady_clock::now();
  mark->reached.complete();
}

using Marks = std::span<const std::shared_ptr<Mark>>;

/// Runs one operation, taking its marks off the front.
void run_step(const Operation& operation, Context& context, Marks& marks) {
  // Others may wait for these, whatever happened to the context.
  if (std::holds_alternative<EventRecord>(operation)) {
    run_record(marks.front());
    marks = marks.subspan(1);
  } else if (const auto* host = std::get_if<HostCall>(&operation)) {
    run_host(*host, context);
  } else if (const auto* graph = std::get_if<GraphLaunch>(&operation)) {
    for (const Plan::Step& step : graph->plan->steps) {
      if (step.enabled) run_step(step.operation, context, marks);
    }
  } else if (const auto* release = std::get_if<PoolFree>(&operation)) {
    free_address(release->address);
  } else if (context.error() != CUDA_SUCCESS) {
    return;
  } else if (const auto* kernel = std::get_if<KernelLaunch>(&operation)) {
    run_kernel(*kernel, context);
  } else if (const auto* copy = std::get_if<Copy>(&operation)) {
    run_copy(*copy, context);
  } else if (const auto* fill = std::get_if<Fill>(&operation)) {
    run_fill(*fill, context);
  }
}

/// Calls `visit` with each enabled operation that a stream operation consists of.
template <class Visit>
void for_each_step(const Operation& operation, Visit visit) {
  const auto* graph = std::get_if<GraphLaunch>(&operation);
  if (graph == nullptr) return visit(operation);
  for (const Plan::Step& step : graph->plan->steps) {
    if (step.enabled) visit(step.operation);
  }
}

}  // namespace

CUresult code_of(LaunchError error) {
  switch (error) {
    case LaunchError::None:
      return CUDA_SUCCESS;
    case LaunchError::InvalidLaunch:
      return CUDA_ERROR_INVALID_VALUE;
    case LaunchError::OutOfResources:
      return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    case LaunchError::InvalidCluster:
      return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    case LaunchError::CooperativeTooLarge:
      return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    case LaunchError::IllegalAddress:
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    case LaunchError::MisalignedAddress:
      return CUDA_ERROR_MISALIGNED_ADDRESS;
    case LaunchError::InvalidAddressSpace:
      return CUDA_ERROR_INVALID_ADDRESS_SPACE;
    case LaunchError::InvalidPc:
      return CUDA_ERROR_INVALID_PC;
    case LaunchError::IllegalInstruction:
      return CUDA_ERROR_ILLEGAL_INSTRUCTION;
    case LaunchError::Assert:
      return CUDA_ERROR_ASSERT;
    case LaunchError::Timeout:
      return CUDA_ERROR_LAUNCH_TIMEOUT;
    case LaunchError::Trap:
    case LaunchError::StackOverflow:
    case LaunchError::Finding:
      return CUDA_ERROR_LAUNCH_FAILED;
  }
  return CUDA_ERROR_UNKNOWN;
}

void run(const Operation& operation, Context& context, Marks marks) {
  run_step(operation, context, marks);
}

std::vector<std::shared_ptr<Mark>> start_recordings(const Operation& operation) {
  std::vector<std::shared_ptr<Mark>> marks;
  for_each_step(operation, [&](const Operation& step) {
    if (const auto* record = std::get_if<EventRecord>(&step)) marks.push_back(record->event->start_recording());
  });
  return marks;
}

std::vector<std::shared_ptr<Mark>> awaited(const Operation& operation) {
  std::vector<std::shared_ptr<Mark>> marks;
  for_each_step(operation, [&](const Operation& step) {
    const auto* wait = std::get_if<EventWait>(&step);
    if (wait == nullptr) return;
    if (std::shared_ptr<Mark> mark = wait->event->last()) marks.push_back(std::move(mark));
  });
  return marks;
}

CUresult check(const KernelLaunch& kernel, Context& context, std::string& message) {
  const LaunchResult result = check_launch(request_of(kernel), options_of(context));
  message = result.message;
  return code_of(result.error);
}

std::optional<CUresult> problem_of(const Copy& copy) {
  if (copy.width_bytes == 0 || copy.height == 0 || copy.depth == 0) return std::nullopt;
  const uint64_t to = span_of(copy.to, copy.width_bytes, copy.height, copy.depth);
  const uint64_t from = span_of(copy.from, copy.width_bytes, copy.height, copy.depth);
  Driver& all = driver();
  const bool fine = all.host_pointer(copy.to.address, to) != nullptr &&
                    (copy.staged != nullptr || all.host_pointer(copy.from.address, from) != nullptr);
  return fine ? std::nullopt : std::optional(CUDA_ERROR_INVALID_VALUE);
}

std::optional<CUresult> problem_of(const Fill& fill) {
  if (fill.width == 0 || fill.height == 0) return std::nullopt;
  const uint64_t bytes = (fill.height - 1) * fill.pitch + fill.width * fill.element_bytes;
  return driver().host_pointer(fill.address, bytes) != nullptr ? std::nullopt : std::optional(CUDA_ERROR_INVALID_VALUE);
}

}  // namespace corrloom::sim::driver
