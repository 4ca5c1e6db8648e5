#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "compiler/passes/choose_schedule.h"
#include "ir/loop/text.h"
#include "tests/unit/passes/host_test.h"

namespace corrloom::passes {
namespace {

using testing::loops_of;
using testing::lowered;
using testing::parsed;
using testing::vector_loads;
using testing::VectorLoads;
using testing::wide_host;

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

TEST(HostProducts, RowsShorterThanAVectorFillItTogether) {
  for (const loop::Function& function : lowered(R"(
graph @g(%x: f32[32, 64, 4], %k: f32[16, 64, 4]) -> (%y) {
  %y: f32[32, 16] = compute [i: 32, j: 16] reduce [c: 64, q: 4] lanes(16) {
    acc %s: f32 = 0.0:f32 step fma(if(lt(add(i, q), 33:i64), %x[i, c, q], 0.0:f32), %k[j, c, q], %s) merge add(%s, %s.other)
    yield %s
  }
}
)")) {
    const VectorLoads loads = vector_loads(function);
    EXPECT_GT(loads.all, 0);
    EXPECT_EQ(loads.all, loads.gathered) << loop::print(function);  // rows one by one are runs of memory
  }
}

}  // namespace
}  // namespace corrloom::passes
