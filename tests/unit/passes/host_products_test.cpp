#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "compiler/passes/choose_schedule.h"
#include "ir/loop/text.h"
#include "ir/schedule/schedule.h"
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

/// A convolution of so many channels whose images are 7x7, with weights for 512.
std::string convolution(const std::string& channels) {
  return "graph @g(%x: f32[" + channels + ", 9, 9], %k: f32[512, " + channels + R"(, 3, 3]) -> (%y) {
  %y: f32[512, 7, 7] = compute [o: 512, i: 7, j: 7] reduce [c: )" +
         channels + R"(, q: 3, p: 3] ascending {
    acc %s: f32 = 0.0:f32 step fma(%x[c, add(i, p), add(j, q)] check proven, %k[o, c, p, q] check proven, %s) merge add(%s, %s.other)
    yield %s
  }
}
)";
}

TEST(HostProducts, PanelsThatDoNotFitAreCutByTheFirstAxisAndPackedThere) {
  PassContext ctx = wide_host();
  const schedule::Stage few = choose_schedule(parsed(convolution("256")), ctx).stages.at(0);
  for (const schedule::Loop& loop : few.loops) EXPECT_TRUE(loop.axis != "c" || loop.step == 1);
  for (const schedule::Staging& staging : few.staging) EXPECT_EQ(staging.loop, -1) << staging.tensor;

  const schedule::Stage many = choose_schedule(parsed(convolution("2048")), ctx).stages.at(0);
  const auto sweep = std::find_if(many.loops.begin(), many.loops.end(),
                                  [](const schedule::Loop& loop) { return loop.axis == "c" && loop.step > 1; });
  ASSERT_NE(sweep, many.loops.end());
  EXPECT_EQ(2048 % sweep->step, 0);
  const auto weights = std::find_if(many.staging.begin(), many.staging.end(),
                                    [](const schedule::Staging& staging) { return staging.tensor == "k"; });
  ASSERT_NE(weights, many.staging.end());
  EXPECT_EQ(weights->loop, sweep - many.loops.begin() + 1);

  ctx.constants = {"k"};
  const schedule::Stage ready = choose_schedule(parsed(convolution("2048")), ctx).stages.at(0);
  EXPECT_TRUE(std::any_of(ready.loops.begin(), ready.loops.end(),
                          [](const schedule::Loop& loop) { return loop.axis == "c" && loop.step > 1; }));
  for (const schedule::Staging& staging : ready.staging) EXPECT_EQ(staging.loop, -1) << staging.tensor;
}

TEST(HostProducts, PiecesOfPanelsAreCopiedAlongMemory) {
  const std::vector<loop::Function> functions = lowered(convolution("2048"));
  // Rows of 3 elements would be gathered one by one.
  for (const loop::Function& function : functions) {
    const VectorLoads loads = vector_loads(function);
    EXPECT_EQ(loads.gathered, 0) << loop::print(function);
  }
}

TEST(HostProducts, SumsBetweenSweepsLieAlongVectors) {
  for (const loop::Function& function : lowered(convolution("2048"))) {
    for (const loop::Buffer& buffer : function.buffers) {
      if (buffer.name != "y.sums") continue;
      EXPECT_EQ(scalar::as_i64(buffer.extents[0]), 7);
      EXPECT_EQ(scalar::as_i64(buffer.extents[1]), 7);
      return;
    }
  }
  FAIL() << "no sums are kept";
}

constexpr const char* kMatrixVector = R"(
graph @g(%x: f32[1280], %k: f32[1000, 1280]) -> (%y) {
  %y: f32[1000] = compute [o: 1000] reduce [c: 1280] ascending {
    acc %s: f32 = 0.0:f32 step fma(%x[c], %k[o, c], %s) merge add(%s, %s.other)
    yield %s
  }
}
)";

TEST(HostProducts, OperandsThatPassOnceArePackedWhereTheyAreUsed) {
  PassContext ctx = wide_host();
  const schedule::Stage stage = choose_schedule(parsed(kMatrixVector), ctx).stages.at(0);
  ASSERT_EQ(stage.staging.size(), 1u);
  EXPECT_EQ(stage.staging[0].loop, 2);
  EXPECT_EQ(stage.loops[1].axis, "c");
}

TEST(HostProducts, OperandsThatPassOnceInRowsAreReadInLongPieces) {
  PassContext ctx = wide_host();
  const schedule::Stage stage = choose_schedule(parsed(R"(
graph @g(%x: f32[512, 7, 7], %k: f32[1024, 512, 7, 7]) -> (%y) {
  %y: f32[1024] = compute [o: 1024] reduce [c: 512, q: 7, p: 7] ascending {
    acc %s: f32 = 0.0:f32 step fma(%x[c, p, q], %k[o, c, p, q], %s) merge add(%s, %s.other)
    yield %s
  }
}
)"),
                                                ctx)
                                    .stages.at(0);
  ASSERT_EQ(stage.staging.size(), 1u);
  EXPECT_EQ(stage.staging[0].loop, 2);
  EXPECT_EQ(stage.loops[1].axis, "c");
  EXPECT_GE(stage.loops[1].step * 49, 256);  // elements
  EXPECT_EQ(stage.loops[2].step, 32);
}

TEST(HostProducts, RowsThatAreCopiedAcrossAreAskedForAhead) {
  int asked = 0;
  for (const loop::Function& function : lowered(kMatrixVector)) {
    loop::for_each_block(function.body, [&](const loop::Block& block) {
      asked += static_cast<int>(std::count_if(block.instrs.begin(), block.instrs.end(), [](const loop::Instr& instr) {
        return std::holds_alternative<loop::Prefetch>(instr.kind);
      }));
    });
  }
  EXPECT_GE(asked, 16);  // each row of a tile
}

TEST(HostProducts, FewRowsByFewColumnsAreOneTile) {
  PassContext ctx = wide_host();
  const tensor::Graph graph = parsed(R"(
graph @g(%p: f32[2, 300000], %q: f32[13, 300000]) -> (%y) {
  %y: f32[13, 2] = compute [i: 13, j: 2] reduce [k: 300000] lanes(16) {
    acc %s: f32 = 0.0:f32 step fma(%p[j, k] check proven, %q[i, k] check proven, %s) merge add(%s, %s.other)
    yield %s
  }
}
)");
  Diagnostics faults;
  EXPECT_TRUE(schedule::check(choose_schedule(graph, ctx), graph, faults)) << faults.render();
}

}  // namespace
}  // namespace corrloom::passes
