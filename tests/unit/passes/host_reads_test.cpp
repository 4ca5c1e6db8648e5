#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "compiler/passes/choose_schedule.h"
#include "tests/unit/ir/tensor/parsed.h"

namespace corrloom::passes {
namespace {

TEST(HostReads, FewRowsOfALargeOperandAreSweptInTiles) {
  const auto product = [](const std::string& rows, const std::string& columns) {
    PassContext ctx;
    ctx.target.name = "host";
    ctx.target.vector_bytes = 64;
    ctx.target.vector_registers = 32;
    ctx.target.l3_bytes = 32 << 20;
    const tensor::Graph graph = testing::parsed(
        "graph @f(%A: f32[" + rows + ", 2048], %B: f32[2048, " + columns + "]) -> (%Y) {\n  %Y: f32[" + rows + ", " +
        columns + "] = compute [i: " + rows + ", j: " + columns +
        "] reduce [k: 2048] ascending {\n    acc %s: f32 = 0.0:f32 step fma(%A[i, k] check proven, %B[k, j] "
        "check proven, %s) merge add(%s, %s.other)\n    yield %s\n  }\n}\n");
    return choose_schedule(graph, ctx).stages.at(0).loops;
  };
  const auto is_swept = [](const std::vector<schedule::Loop>& loops) {
    const auto reduced =
        std::find_if(loops.begin(), loops.end(), [](const schedule::Loop& loop) { return loop.axis == "k"; });
    return std::any_of(reduced, loops.end(), [](const schedule::Loop& loop) {
      return loop.axis == "j" && loop.bind == schedule::Bind::Serial;
    });
  };
  // 30 rows are 4 tiles of 8 at most; a piece of the operand stays near for all of them.
  const std::vector<schedule::Loop> swept = product("30", "4096");
  ASSERT_TRUE(is_swept(swept));
  EXPECT_NE(std::find(swept.begin(), swept.end(), schedule::Loop{"i", 8, schedule::Bind::Serial}), swept.end());
  EXPECT_FALSE(is_swept(product("30", "1024")));   // 8 MiB stay in the third level
  EXPECT_FALSE(is_swept(product("300", "4096")));  // worth panels
}

}  // namespace
}  // namespace corrloom::passes
