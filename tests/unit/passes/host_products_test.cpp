#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "compiler/passes/choose_schedule.h"
#include "tests/unit/ir/tensor/parsed.h"

namespace corrloom::passes {
namespace {

using testing::parsed;

/// A processor with 32 registers of 64 bytes.
PassContext wide_host() {
  PassContext ctx;
  ctx.target.name = "host";
  ctx.target.vector_bytes = 64;
  ctx.target.vector_registers = 32;
  return ctx;
}

/// The loops that the recipe chooses for the only compute of a graph.
std::vector<schedule::Loop> loops_of(const std::string& graph) {
  PassContext ctx = wide_host();
  return choose_schedule(parsed(graph), ctx).stages.at(0).loops;
}

TEST(HostProducts, RowsThatShareSetsOfTheCachesAreSwept) {
  const auto steps_of = [](const std::string& k, const std::string& m) {
    const std::vector<schedule::Loop> loops =
        loops_of("graph @g(%a: f32[" + k + ", " + m + "], %b: f32[" + k + ", 1024]) -> (%y) {\n  %y: f32[" + m +
                 ", 1024] = compute [i: " + m + ", j: 1024] reduce [k: " + k +
                 "] ascending {\n    acc %s: f32 = 0.0:f32 step fma(%a[k, i], %b[k, j], %s) merge add(%s, "
                 "%s.other)\n    yield %s\n  }\n}\n");
    std::int64_t step = 0;
    for (const schedule::Loop& loop : loops) step = loop.axis == "k" ? std::max(step, loop.step) : step;
    return step;
  };
  EXPECT_EQ(steps_of("1024", "1024"), 256);
  EXPECT_EQ(steps_of("1024", "1000"), 1);  // rows in many sets
  EXPECT_EQ(steps_of("512", "1024"), 1);   // short enough
}

TEST(HostProducts, HalvesThatAreUsedOftenAreWidenedOnce) {
  PassContext ctx = wide_host();
  const tensor::Graph graph = parsed(R"(
graph @g(%a: f16[96, 64], %b: f16[64, 128]) -> (%y) {
  %y: f16[96, 128] = compute [i: 96, j: 128] reduce [k: 64] ascending {
    acc %s: f32 = 0.0:f32 step fma(cast.f32(%a[i, k] check proven), cast.f32(%b[k, j] check proven), %s) merge add(%s, %s.other)
    yield cast.f16(%s)
  }
}
)");
  EXPECT_EQ(choose_schedule(graph, ctx).stages.at(0).staging.size(), 2u);
}

}  // namespace
}  // namespace corrloom::passes
