// PTX run on the simulated GPU, under its sanitizer, against the interpreter.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "compiler/driver/compile.h"
#include "runtime/sim/machine.h"
#include "tests/unit/driver/program_testing.h"
#include "tests/unit/ir/tensor/random_graph.h"

namespace corrloom::driver {
namespace {

using kernel::CompiledProgram;
using tensor::Array;

/// Runs a PTX program: buffers in simulated device memory, one launch a kernel, every finding a failure.
testing::ProgramRun run_simulated(const CompiledProgram& program, const std::vector<Array>& inputs) {
  const sim::Arch arch = sim::parse_arch(program.target.name).value();
  sim::DeviceMemory memory(0, std::uint64_t{256} << 20);
  std::vector<std::vector<std::byte>> host = testing::memory_of(program, inputs);
  std::vector<sim::DeviceAddress> addresses;
  for (std::size_t k = 0; k < host.size(); ++k) {
    addresses.push_back(memory.allocate(std::max<std::size_t>(host[k].size(), 1)));
    const bool given = program.buffers[k].role == kernel::Buffer::Role::Input || !program.buffers[k].contents.empty();
    if (host[k].empty()) continue;
    std::memcpy(memory.host_pointer(addresses[k], host[k].size()), host[k].data(), host[k].size());
    if (given) memory.mark_initialised(addresses[k], host[k].size());
  }
  testing::ProgramRun run;
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
  run.outputs = testing::outputs_of(program, std::move(host));
  return run;
}

void expect_ptx_gives_the_bits(bool gathers) {
  // CORRLOOM_SEED=S repeats one case, CORRLOOM_RUNS=N with it runs N from there on.
  const char *given = std::getenv("CORRLOOM_SEED"), *runs = std::getenv("CORRLOOM_RUNS");
  const std::uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
  const std::uint64_t count = runs != nullptr ? std::strtoull(runs, nullptr, 10) : given != nullptr ? 1 : 60;
  const char* archs[] = {"sm_75", "sm_80", "sm_90", "sm_100"};
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("CORRLOOM_SEED=" + std::to_string(seed));
    testing::RandomGraphOptions options;
    options.max_extent = seed % 2 == 0 ? 5 : 40;
    options.ops = seed % 2 == 0 ? 6 : 2;
    options.max_rank = seed % 2 == 0 ? 3 : 2;
    // An order by lanes is stated for the host only: on a GPU one thread computes an element.
    options.lanes = false;
    options.gathers = gathers;
    const testing::RandomCase random = testing::random_case(seed, options);
    Diagnostics diagnostics;
    CompileOptions compile_options;
    compile_options.target = *kernel::ptx_target(archs[seed % std::size(archs)]);
    const std::optional<Compiled> compiled = compile(random.graph, compile_options, diagnostics);
    ASSERT_TRUE(compiled) << diagnostics.render();
    testing::expect_meaning(testing::parsed_graph_without_places(compiled->tensor_text), *compiled->program,
                            random.inputs, random.symbols, run_simulated(*compiled->program, random.inputs),
                            compiled->tensor_text);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(Compile, PtxGivesTheBitsOfTheInterpreter) {
  expect_ptx_gives_the_bits(false);
}

TEST(Compile, PtxGivesTheBitsAndFaultsOfTheInterpreter) {
  expect_ptx_gives_the_bits(true);
}

}  // namespace
}  // namespace corrloom::driver
