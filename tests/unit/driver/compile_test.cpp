#include "compiler/driver/compile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "compiler/codegen/host_target.h"
#include "ir/tensor/interpret.h"
#include "ir/tensor/text.h"
#include "tests/unit/driver/program_runners.h"
#include "tests/unit/driver/program_testing.h"
#include "tests/unit/ir/tensor/random_graph.h"

namespace corrloom::driver {
namespace {

using tensor::Array;

const kernel::Target& host() {
  static const kernel::Target target = codegen::host_target();
  return target;
}

// The final graph defines the bits (contraction and orders are stated in it); the host must give them, or the same
// failed check.
void expect_host_gives_the_bits(bool gathers) {
  // CORRLOOM_SEED=S repeats one case, CORRLOOM_RUNS=N with it runs N from there on.
  const char *given = std::getenv("CORRLOOM_SEED"), *runs = std::getenv("CORRLOOM_RUNS");
  const std::uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
  const std::uint64_t count = runs != nullptr ? std::strtoull(runs, nullptr, 10) : given != nullptr ? 1 : 60;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("CORRLOOM_SEED=" + std::to_string(seed));
    testing::RandomGraphOptions options;
    options.max_extent = seed % 2 == 0 ? 5 : 40;
    options.ops = seed % 2 == 0 ? 6 : 2;
    options.max_rank = seed % 2 == 0 ? 3 : 2;
    options.gathers = gathers;
    const testing::RandomCase random = testing::random_case(seed, options);
    Diagnostics diagnostics;
    CompileOptions compile_options;
    compile_options.target = host();
    const std::optional<Compiled> compiled = compile(random.graph, compile_options, diagnostics);
    ASSERT_TRUE(compiled) << diagnostics.render() << tensor::print(random.graph);
    testing::expect_meaning(testing::parsed_graph_without_places(compiled->tensor_text), *compiled->program,
                            random.inputs, random.symbols, testing::run_host(*compiled->program, random.inputs),
                            compiled->tensor_text + compiled->schedule_text);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(Compile, HostGivesTheBitsOfTheInterpreter) {
  expect_host_gives_the_bits(false);
}

TEST(Compile, HostGivesTheBitsAndFaultsOfTheInterpreter) {
  expect_host_gives_the_bits(true);
}

TEST(Compile, PtxIsMadeForEveryArchitecture) {
  for (const char* arch : {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120", "sm_121a"}) {
    const testing::RandomCase random = testing::random_case(7);
    Diagnostics diagnostics;
    CompileOptions options;
    options.target = *kernel::ptx_target(arch);
    const std::optional<Compiled> compiled = compile(random.graph, options, diagnostics);
    ASSERT_TRUE(compiled) << diagnostics.render();
    EXPECT_NE(compiled->program->code.find(".target " + std::string(arch)), std::string::npos);
    EXPECT_NE(compiled->program->code.find(".visible .entry " + compiled->program->kernels[0].name), std::string::npos);
  }
}

constexpr const char* kProduct = R"(
graph @product(%A: f32[96, 64], %B: f32[64, 128]) -> (%Y) {
  %Y: f32[96, 128] = compute [i: 96, j: 128] reduce [k: 64] ascending {
    acc %s: f32 = 0.0:f32 step fma(%A[i, k], %B[k, j], %s) merge add(%s, %s.other)
    yield %s
  }
}
)";

std::ptrdiff_t choices_of(const Compiled& compiled) {
  return std::count_if(compiled.times.begin(), compiled.times.end(),
                       [](const auto& step) { return step.first == "choose_schedule"; });
}

// A target that claims twice the registers it has gets a tile that spills, and then a smaller one.
TEST(Compile, ASpillingTileIsChosenAgain) {
  Diagnostics diagnostics;
  CompileOptions options;
  options.target = host();
  const auto fitting = compile(testing::parsed_graph_without_places(kProduct), options, diagnostics);
  options.target.vector_registers *= 2;
  const auto spilling = compile(testing::parsed_graph_without_places(kProduct), options, diagnostics);
  ASSERT_TRUE(fitting && spilling) << diagnostics.render();
  EXPECT_EQ(choices_of(*fitting), 1);
  EXPECT_GT(choices_of(*spilling), 1);

  options.schedule = std::make_shared<SourceFile>("first.sched", spilling->schedule_text);
  const auto given = compile(testing::parsed_graph_without_places(kProduct), options, diagnostics);
  ASSERT_TRUE(given) << diagnostics.render();
  EXPECT_EQ(given->program->code, spilling->program->code);
  EXPECT_EQ(choices_of(*given), 1);
}

constexpr const char* kLoopForm = R"(
graph @loops(%X: f32[3, 12, 10], %K: f32[2, 3, 1, 1]) -> (%Y) {
  %Y: f32[2, 12, 10] = compute [o: 2, i: 12, j: 10] reduce [c: 3, p: 1, q: 1] ascending {
    acc %s: f32 = 0.0:f32 step add(%s, mul(%X[c, add(i, p), add(j, q)], %K[o, c, p, q])) merge add(%s, %s.other)
    yield %s
  }
}
)";
constexpr const char* kMatmulForm = R"(
graph @loops(%X: f32[3, 12, 10], %K: f32[2, 3, 1, 1]) -> (%Y) {
  %A: f32[2, 3] = reshape %K
  %B: f32[3, 120] = reshape %X
  %C: f32[2, 120] = compute [i: 2, j: 120] reduce [k: 3] ascending {
    acc %s: f32 = 0.0:f32 step add(%s, mul(%A[i, k], %B[k, j])) merge add(%s, %s.other)
    yield %s
  }
  %Y: f32[2, 12, 10] = reshape %C
}
)";

TEST(Compile, BothFormsOfThePointwiseConvolutionAreOneKernel) {
  std::vector<std::string> loops, schedules;
  for (const char* text : {kLoopForm, kMatmulForm}) {
    Diagnostics diagnostics;
    CompileOptions options;
    options.target = host();
    const std::optional<Compiled> compiled = compile(testing::parsed_graph(text), options, diagnostics);
    ASSERT_TRUE(compiled) << diagnostics.render();
    EXPECT_EQ(compiled->program->kernels.size(), 1u) << compiled->tensor_text;
    schedules.push_back(compiled->schedule_text);
    loops.push_back(compiled->tensor_text);
  }
  EXPECT_EQ(loops[0], loops[1]);
  EXPECT_EQ(schedules[0], schedules[1]);
}

// Words of two bf16 are read as they lie in memory, whole vectors and the rest; an odd number leaves one element over.
TEST(Compile, SumsOfHalvesAlongMemoryGiveTheBitsOfTheInterpreter) {
  for (const std::int64_t elements : {1, 2, 31, 32, 64, 77}) {
    const std::string size = std::to_string(elements);
    const std::string text =
        "graph @rows(%a: bf16[5, " + size + "], %b: bf16[9, " + size +
        "]) -> (%y) {\n  %y: f32[5, 9] = compute [i: 5, j: 9] reduce [k: " + size +
        "] ascending {\n    acc %s: f32 = 0.0:f32 step fma(cast.f32(%a[i, k]), cast.f32(%b[j, k]), "
        "%s) merge add(%s, %s.other)\n    yield %s\n  }\n}\n";
    Diagnostics diagnostics;
    CompileOptions options;
    options.target = host();
    const std::optional<Compiled> compiled = compile(testing::parsed_graph_without_places(text), options, diagnostics);
    ASSERT_TRUE(compiled) << diagnostics.render();
    std::vector<Array> inputs;
    for (const std::int64_t rows : {5, 9}) {
      Array array{DType::BF16, {rows, elements}, {}};
      for (std::int64_t k = 0; k < rows * elements; ++k)
        array.bits.push_back(scalar::Value::floating(DType::BF16, static_cast<double>(k * rows % 23 - 11) / 8).bits);
      inputs.push_back(std::move(array));
    }
    testing::expect_meaning(testing::parsed_graph_without_places(compiled->tensor_text), *compiled->program, inputs, {},
                            testing::run_host(*compiled->program, inputs), compiled->tensor_text);
  }
}

}  // namespace
}  // namespace corrloom::driver
