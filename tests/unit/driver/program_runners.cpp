#include "tests/unit/driver/program_runners.h"

#include <gtest/gtest.h>

#include <cstring>

#include "compiler/codegen/loader.h"
#include "runtime/sim/machine.h"
#include "tests/unit/driver/program_testing.h"

namespace corrloom::testing {

using kernel::Argument;
using kernel::CompiledProgram;
using tensor::Array;

ProgramRun run_host(const CompiledProgram& program, const std::vector<Array>& inputs) {
  ProgramRun run;
  std::vector<std::vector<std::byte>> memory = memory_of(program, inputs);
  const codegen::LoadedObject object(program.code);
  for (const kernel::Kernel& kernel : program.kernels) {
    std::vector<void*> args;
    for (const Argument& argument : kernel.arguments) {
      const bool is_slot = argument.kind == Argument::Kind::ErrorSlot;
      args.push_back(is_slot ? static_cast<void*>(&run.error_word)
                             : memory[static_cast<std::size_t>(argument.index)].data());
    }
    object.entry(kernel.name)(args.data(), 0, *kernel.blocks.as_constant());
  }
  run.outputs = outputs_of(program, std::move(memory));
  return run;
}

ProgramRun run_simulated(const CompiledProgram& program, const std::vector<Array>& inputs) {
  const sim::Arch arch = sim::parse_arch(program.target.name).value();
  sim::DeviceMemory memory(0, std::uint64_t{256} << 20);
  std::vector<std::vector<std::byte>> host = memory_of(program, inputs);
  std::vector<sim::DeviceAddress> addresses;
  for (std::size_t k = 0; k < host.size(); ++k) {
    addresses.push_back(memory.allocate(std::max<std::size_t>(host[k].size(), 1)));
    const bool given = program.buffers[k].role == kernel::Buffer::Role::Input || !program.buffers[k].contents.empty();
    if (host[k].empty()) continue;
    std::memcpy(memory.host_pointer(addresses[k], host[k].size()), host[k].data(), host[k].size());
    if (given) memory.mark_initialised(addresses[k], host[k].size());
  }
  ProgramRun run;
  const sim::DeviceAddress slot = memory.allocate(sizeof run.error_word);
  std::memcpy(memory.host_pointer(slot, sizeof run.error_word), &run.error_word, sizeof run.error_word);
  memory.mark_initialised(slot, sizeof run.error_word);
  sim::LoadResult loaded = sim::load_module(program.code, arch, memory);
  EXPECT_EQ(loaded.status, sim::LoadStatus::Ok) << loaded.error_log << program.code;
  if (!loaded.module) return run;
  for (const kernel::Kernel& kernel : program.kernels) {
    const std::int64_t blocks = kernel.blocks.as_constant().value();
    if (blocks == 0) continue;
    sim::LaunchRequest request;
    request.module = loaded.module.get();
    request.kernel = loaded.module->find_kernel(kernel.name).value();
    request.grid.x = static_cast<std::uint32_t>(blocks);
    request.block.x = static_cast<std::uint32_t>(kernel.threads);
    std::vector<std::uint64_t> params;
    for (const kernel::Argument& argument : kernel.arguments) {
      const bool is_slot = argument.kind == kernel::Argument::Kind::ErrorSlot;
      params.push_back(is_slot ? slot : addresses[static_cast<std::size_t>(argument.index)]);
    }
    request.params = std::as_bytes(std::span(params));
    sim::LaunchOptions options;
    options.arch = arch;
    const sim::LaunchResult result = sim::launch(request, options);
    EXPECT_EQ(result.error, sim::LaunchError::None) << result.report() << program.code;
  }
  for (std::size_t k = 0; k < host.size(); ++k) {
    if (!host[k].empty())
      std::memcpy(host[k].data(), memory.host_pointer(addresses[k], host[k].size()), host[k].size());
  }
  std::memcpy(&run.error_word, memory.host_pointer(slot, sizeof run.error_word), sizeof run.error_word);
  run.outputs = outputs_of(program, std::move(host));
  return run;
}

}  // namespace corrloom::testing
