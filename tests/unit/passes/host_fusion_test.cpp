#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "compiler/passes/choose_schedule.h"
#include "tests/unit/ir/tensor/parsed.h"
#include "tests/unit/passes/host_test.h"

namespace corrloom::passes {
namespace {

using testing::parsed;
using testing::wide_host;

TEST(HostFusion, GroupsOfRowsAreSummedInTheirBlocks) {
  // Two groups of ten rows a block: the squares of a group need its mean alone, not those of all groups.
  PassContext ctx = wide_host();
  const tensor::Graph graph = parsed(R"(
graph @g(%x: f32[8, 32, 20000], %rows: f32[8, 320, 2000]) -> (%y) {
  %m: f32[8, 32] = compute [n: 8, g: 32] reduce [k: 20000] lanes(16) {
    acc %s: f32 = 0.0:f32 step add(%s, %x[n, g, k]) merge add(%s, %s.other)
    yield div(%s, 20000.0:f32)
  }
  %v: f32[8, 32] = compute [n: 8, g: 32] reduce [k: 20000] lanes(16) {
    acc %s: f32 = 0.0:f32 step fma(sub(%x[n, g, k], %m[n, g]), sub(%x[n, g, k], %m[n, g]), %s) merge add(%s, %s.other)
    yield div(%s, 20000.0:f32)
  }
  %y: f32[8, 320, 2000] = compute [n: 8, c: 320, j: 2000] {
    yield mul(sub(%rows[n, c, j], %m[n, floordiv(c, 10:i64)]), %v[n, floordiv(c, 10:i64)])
  }
}
)");
  const schedule::Schedule schedule = choose_schedule(graph, ctx);
  const auto step_of = [](const schedule::Stage& stage, const std::string& axis) {
    const auto loop = std::find_if(stage.loops.begin(), stage.loops.end(),
                                   [&](const schedule::Loop& candidate) { return candidate.axis == axis; });
    return loop == stage.loops.end() ? 0 : loop->step;
  };
  const std::int64_t rows = step_of(schedule.stages.at(2), "c");
  EXPECT_GT(rows, 10);
  EXPECT_EQ(rows % 10, 0);
  for (std::size_t k : {0, 1}) {
    ASSERT_EQ(schedule.stages.at(k).placement.kind, schedule::Placement::Kind::At);
    EXPECT_EQ(step_of(schedule.stages.at(k), "g"), rows / 10);
  }
  // The next block begins so many groups further on.
  for (const schedule::Prefetch& prefetch : schedule.stages.at(1).prefetches) EXPECT_EQ(prefetch.distance, rows / 10);
}

TEST(HostFusion, ColumnsOfManyRowsAreCutIntoPieces) {
  // All rows are summed along columns: of pieces of the lines, as whole lines of all rows leave the cache.
  PassContext ctx = wide_host();
  for (const char* rows : {"21", "150"}) {
    const std::string extents = std::string("[1, ") + rows + ", 65536]";
    const tensor::Graph graph = parsed("graph @g(%x: f32" + extents + R"() -> (%y) {
  %p: f32)" + extents +
                                       " = compute [n: 1, c: " + rows + R"(, j: 65536] {
    yield fma(%x[n, c, j], %x[n, c, j], sqrt(%x[n, c, j]))
  }
  %s: f32[1, 65536] = compute [n: 1, j: 65536] reduce [k: )" +
                                       rows + R"(] ascending {
    acc %s.sum: f32 = 0.0:f32 step add(%s.sum, %p[n, k, j]) merge add(%s.sum, %s.sum.other)
    yield %s.sum
  }
  %y: f32)" + extents +
                                       " = compute [n: 1, c: " + rows + R"(, j: 65536] {
    yield div(%p[n, c, j], %s[n, j])
  }
}
)");
    const schedule::Schedule schedule = choose_schedule(graph, ctx);
    for (std::size_t k : {0, 1}) {
      EXPECT_EQ(schedule.stages.at(k).placement.kind, schedule::Placement::Kind::At) << rows;
      EXPECT_EQ(schedule.stages.at(k).placement.consumer, "y") << rows;
    }
  }
}

}  // namespace
}  // namespace corrloom::passes
