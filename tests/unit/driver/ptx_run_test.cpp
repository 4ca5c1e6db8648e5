// PTX run on the simulated GPU, under its sanitizer, against the interpreter.
#include <gtest/gtest.h>

#include <cstdlib>

#include "compiler/driver/compile.h"
#include "tests/unit/driver/program_runners.h"
#include "tests/unit/driver/program_testing.h"
#include "tests/unit/ir/tensor/random_graph.h"

namespace corrloom::driver {
namespace {

using tensor::Array;

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
                            random.inputs, random.symbols, testing::run_simulated(*compiled->program, random.inputs),
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
