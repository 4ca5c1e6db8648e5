#include <benchmark/benchmark.h>

#include <cstdlib>

#include "runtime/cuda/devices.h"
#include "runtime/run.h"
#include "tests/unit/runtime/test_programs.h"

/// What a launch costs on the way from the call to the CUDA driver, on a driver that does nothing.
namespace corrloom::runtime {
namespace {

using gpu::Result;

/// A function of the driver that only succeeds.
template <class Function>
struct Nothing;
template <class... Parameters>
struct Nothing<Result (*)(Parameters...)> {
  static Result call(Parameters...) { return gpu::kSuccess; }
};

gpu::ContextHandle context() {
  static int place = 0;
  return reinterpret_cast<gpu::ContextHandle>(&place);
}

gpu::FunctionTable idle_table() {
  gpu::FunctionTable table;
#define CORRLOOM_CUDA_FUNCTION(name, symbol, parameters) table.name = Nothing<decltype(table.name)>::call;
#include "runtime/cuda/functions.def"
  table.device_get_count = [](int* count) -> Result {
    *count = 1;
    return gpu::kSuccess;
  };
  table.device_get_attribute = [](int* value, int attribute, gpu::DeviceHandle) -> Result {
    *value = attribute == gpu::kAttributeMaxGridX ? 2147483647 : 9;
    return gpu::kSuccess;
  };
  table.primary_context_retain = [](gpu::ContextHandle* made, gpu::DeviceHandle) -> Result {
    *made = context();
    return gpu::kSuccess;
  };
  table.context_get_current = [](gpu::ContextHandle* current) -> Result {
    *current = context();
    return gpu::kSuccess;
  };
  table.memory_allocate = [](gpu::DevicePointer* memory, std::size_t bytes) -> Result {
    *memory = reinterpret_cast<gpu::DevicePointer>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
    return gpu::kSuccess;
  };
  table.host_allocate = [](void** memory, std::size_t bytes, unsigned) -> Result {
    *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    return gpu::kSuccess;
  };
  return table;
}

/// `add` of 8 elements on the device, with its operands.
struct Case {
  Case() {
    static const bool registered = [] {
      register_backend(gpu::devices_of(gpu::start_driver(idle_table(), "idle")).backends.at(0));
      return true;
    }();
    (void)registered;
    inputs = {Tensor::empty({8}, f32, cuda()), Tensor::empty({8}, f32, cuda())};
    outputs = {Tensor::empty({8}, f32, cuda())};
    program.emplace(test::add_program(test::ptx_target_for_tests(), 8), backend_of(cuda()));
  }
  std::vector<Tensor> inputs, outputs;
  std::optional<LoadedProgram> program;
};

void run_into(benchmark::State& state) {
  const Case one;
  for (auto _ : state) one.program->run_into(one.inputs, {}, one.outputs);
}
void run_with_new_result(benchmark::State& state) {
  const Case one;
  for (auto _ : state) benchmark::DoNotOptimize(one.program->run(one.inputs));
}
void launch_bound(benchmark::State& state) {
  const Case one;
  BoundProgram bound = one.program->bind(one.inputs, {}, one.outputs);
  for (auto _ : state) bound.launch();
}

BENCHMARK(run_into);
BENCHMARK(run_with_new_result);
BENCHMARK(launch_bound);

}  // namespace
}  // namespace corrloom::runtime

BENCHMARK_MAIN();
