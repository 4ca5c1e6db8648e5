#include <gtest/gtest.h>

#include <string>

#include "compiler/passes/apply_staging.h"
#include "compiler/passes/choose_schedule.h"
#include "compiler/passes/lower_to_loops.h"
#include "ir/loop/function.h"
#include "ir/loop/text.h"
#include "tests/unit/passes/host_test.h"

namespace corrloom::passes {
namespace {

using testing::wide_host;

/// Vectors that the kernels of a graph store, as their code has them: under the schedule that the recipe chooses, or
/// with these loops.
int vector_stores(const std::string& text, const std::vector<schedule::Loop>& loops = {}) {
  PassContext ctx = wide_host();
  tensor::Graph graph = testing::parsed(text);
  schedule::Schedule schedule = choose_schedule(graph, ctx);
  if (!loops.empty()) schedule.stages.at(0).loops = loops;
  const Scheduled scheduled = apply_staging(std::move(graph), std::move(schedule), ctx);
  int stores = 0;
  for (const LoweredKernel& kernel : lower_to_loops(scheduled.graph, scheduled.schedule, ctx)) {
    loop::for_each_block(kernel.function.body, [&](const loop::Block& block) {
      for (const loop::Instr& instr : block.instrs) {
        const auto* store = std::get_if<loop::Store>(&instr.kind);
        stores += store != nullptr && kernel.function.type(store->value).lanes > 1 ? 1 : 0;
      }
    });
  }
  return stores;
}

/// The sum of each element and its neighbours below and above, with `operations` more behind it; the edge is repeated.
std::string stencil(int operations, const std::string& rows) {
  std::string body =
      "add(%X[i, j] check proven, add(%X[if(ge(sub(i, 1:i64), 0:i64), sub(i, 1:i64), 0:i64), j] check "
      "proven, %X[if(lt(add(i, 1:i64), " +
      rows + ":i64), add(i, 1:i64), sub(" + rows + ":i64, 1:i64)), j] check proven))";
  for (int k = 0; k < operations; ++k) body = "mul(" + body + ", " + std::to_string(k + 2) + ".0:f32)";
  return "graph @g(%X: f32[" + rows + ", 1920]) -> (%Y) {\n  %Y: f32[" + rows + ", 1920] = compute [i: " + rows +
         ", j: 1920] {\n    yield " + body + "\n  }\n}\n";
}

TEST(RollTile, RowsAtTheEndsOfALongAxisAreALoop) {
  // The tiles of the first and the last rows are one of hundreds of the tall image, and a large part of the low one.
  const int tall = vector_stores(stencil(4, "8192")), low = vector_stores(stencil(4, "64"));
  EXPECT_LT(3 * tall, 2 * low) << tall << " " << low;
}

TEST(RollTile, TilesOfManyInstructionsAreALoop) {
  using schedule::Bind;
  const std::vector<schedule::Loop> rows_of_16 = {
      {"i", 16, Bind::Block}, {"j", 16, Bind::Block}, {"i", 1, Bind::Unroll}, {"j", 1, Bind::Vector}};
  for (const char* rows : {"64", "1080", "8192"}) {
    EXPECT_LE(vector_stores(stencil(300, rows)) * 300, 8000) << rows;
    EXPECT_LE(vector_stores(stencil(300, rows), rows_of_16) * 300, 8000) << rows;
  }
}

}  // namespace
}  // namespace corrloom::passes
