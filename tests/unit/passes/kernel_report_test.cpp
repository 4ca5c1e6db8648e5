#include "compiler/passes/kernel_report.h"

#include <algorithm>
#include <memory>

#include "compiler/passes/choose_schedule.h"
#include "tests/unit/passes/pass_test.h"

namespace corrloom::passes {
namespace {

using testing::parsed;

constexpr const char* kProduct = R"(graph @product(%A: f32[96, 256], %B: f32[256, 120]) -> (%Y) {
  %Y: f32[96, 120] = compute [i: 96, j: 120] reduce [k: 256] ascending {
    acc %sum: f32 = 0.0:f32 step fma(%A[i, k] check proven, %B[k, j] check proven, %sum) merge add(%sum, %sum.other)
    yield %sum
  }
}
)";
/// Two products one after the other; each element of the first is used by a whole row of the second.
constexpr const char* kChain = R"(graph @chain(%A: f32[512, 512], %B: f32[512, 512]) -> (%Y) {
  %P: f32[512, 512] = compute [i: 512, j: 512] reduce [k: 512] ascending {
    acc %sum: f32 = 0.0:f32 step fma(%A[i, k] check proven, %B[k, j] check proven, %sum) merge add(%sum, %sum.other)
    yield %sum
  }
  %Y: f32[512, 512] = compute [r: 512, c: 512] reduce [q: 512] ascending {
    acc %sum: f32 = 0.0:f32 step fma(%A[r, q] check proven, %P[q, c] check proven, %sum) merge add(%sum, %sum.other)
    yield %sum
  }
}
)";

/// Caches so small that each level matters for small products.
kernel::Target machine() {
  kernel::Target target;
  target.name = "host";
  target.vector_bytes = 64;
  target.vector_registers = 32;
  target.l1_bytes = 8 << 10;
  target.l2_bytes = 64 << 10;
  target.l3_bytes = 1 << 20;
  return target;
}

KernelReport report(const std::string& graph_text, const std::string& schedule_text) {
  const tensor::Graph graph = parsed(graph_text);
  Diagnostics diagnostics;
  const std::optional<schedule::Schedule> schedule =
      schedule::parse(std::make_shared<const SourceFile>("schedule", schedule_text), diagnostics);
  EXPECT_TRUE(schedule && schedule::check(*schedule, graph, diagnostics)) << diagnostics.render();
  PassContext ctx;
  ctx.target = machine();
  const std::vector<LoweredKernel> kernels = lower_to_loops(graph, *schedule, ctx);
  return report_kernel(graph, *schedule, kernels.back(), ctx.target, {});
}

const OperandReport& operand(const KernelReport& report, const std::string& name) {
  return *std::find_if(report.operands.begin(), report.operands.end(),
                       [&](const OperandReport& one) { return one.tensor == name; });
}

TEST(KernelReport, CountsWhatEachLevelOfTheCachesIsAskedFor) {
  const KernelReport product = report(kProduct, R"(schedule @product target host {
  %Y root {
    j by 32 block
    i by 6 block
    k by 1
    i by 1 unroll
    j by 16 unroll
    j by 1 vector
  }
}
)");
  EXPECT_EQ(product.tile, "6 of i x 2 vectors of 16 along j");
  EXPECT_DOUBLE_EQ(product.lane_use, 120.0 / 128);
  EXPECT_EQ(product.least_bytes, 4.0 * (96 * 256 + 256 * 120 + 96 * 120));
  // 6 rows of A and a panel of B fit the second level. Four panels walk over all rows.
  const OperandReport& a = operand(product, "A");
  EXPECT_EQ(a.loads, 4.0 * 4 * 96 * 256);
  EXPECT_EQ(a.beyond_l1, 4.0 * 4 * 96 * 256);
  EXPECT_EQ(a.beyond_l2, 4.0 * 4 * 96 * 256);
  EXPECT_EQ(a.beyond_l3, 4.0 * 96 * 256);
  EXPECT_EQ(a.reread_from, "L3");
  // 16 pieces of rows each walk over a panel, which stays in the second level.
  const OperandReport& b = operand(product, "B");
  EXPECT_EQ(b.loads, 4.0 * 16 * 256 * 128);
  EXPECT_EQ(b.beyond_l1, 4.0 * 16 * 256 * 128);
  EXPECT_EQ(b.beyond_l2, 4.0 * 256 * 120);
  EXPECT_EQ(b.reread_from, "L2");
  EXPECT_EQ(operand(product, "Y").use, OperandReport::Use::Written);
  EXPECT_EQ(operand(product, "Y").beyond_l1, 4.0 * 96 * 120);
}

TEST(KernelReport, RowsThatStayInRegistersAreReadOnce) {
  const KernelReport sum = report(R"(graph @sum(%X: f32[64, 1024]) -> (%Y) {
  %Y: f32[1024] = compute [j: 1024] reduce [k: 64] ascending {
    acc %sum: f32 = 0.0:f32 step add(%X[k, j] check proven, %sum) merge add(%sum, %sum.other)
    yield %sum
  }
}
)",
                                  R"(schedule @sum target host {
  %Y root {
    j by 64 block
    k by 1
    j by 16 unroll
    j by 1 vector
  }
}
)");
  EXPECT_EQ(operand(sum, "X").loads, 4.0 * 64 * 1024);
  EXPECT_EQ(operand(sum, "X").reread_from, "nothing");
}

TEST(KernelReport, CountsOnlyElementsThatAreRead) {
  const KernelReport picked = report(R"(graph @picked(%X: f32[64, 1024]) -> (%Y) {
  %Y: f32[64, 128] = compute [i: 64, j: 128] { yield %X[i, mul(j, 8)] check proven }
}
)",
                                     R"(schedule @picked target host {
  %Y root {
    i by 1 block
    j by 16
    j by 1 vector
  }
}
)");
  EXPECT_EQ(operand(picked, "X").bytes, 4.0 * 64 * 1024);
  EXPECT_EQ(operand(picked, "X").touched, 4.0 * 64 * 128);
  EXPECT_EQ(picked.least_bytes, 2 * 4.0 * 64 * 128);
}

TEST(KernelReport, WhatIsAddedToAFinishedSumIsNotLoadedInItsLoop) {
  const KernelReport biased = report(R"(graph @biased(%A: f32[96, 256], %b: f32[96]) -> (%Y) {
  %Y: f32[96] = compute [i: 96] reduce [k: 256] ascending {
    acc %sum: f32 = %b[i] check proven step add(%A[i, k] check proven, %sum) merge add(%sum, %sum.other)
    yield %sum
  }
}
)",
                                     R"(schedule @biased target host {
  %Y root {
    i by 16 block
    k by 1
    i by 1 vector
  }
}
)");
  EXPECT_EQ(operand(biased, "b").loads, 4.0 * 96);
  EXPECT_EQ(operand(biased, "A").loads, 4.0 * 96 * 256);
}

TEST(KernelReport, TilesComputedInsideAreLoadedAsWell) {
  const KernelReport chain = report(kChain, R"(schedule @chain target host {
  %P at %Y 0 {
    i by 16
    j by 16
    k by 1
    i by 1 unroll
    j by 1 vector
  }
  %Y root {
    c by 64 block
    r by 4
    c by 16
    q by 1
    r by 1 unroll
    c by 1 vector
  }
}
)");
  // 512 x 64 values, which the second level does not hold: each of 128 groups of 4 rows walks over them.
  const OperandReport& tile = operand(chain, "P");
  EXPECT_EQ(tile.use, OperandReport::Use::Inside);
  EXPECT_EQ(tile.bytes, 4.0 * 512 * 64);
  EXPECT_EQ(tile.loads, 4.0 * 512 * 512 * 512 / 4);
  EXPECT_EQ(tile.beyond_l1, tile.loads);
  EXPECT_EQ(tile.beyond_l3, 0);
}

TEST(KernelReport, SaysWhatWasWeighed) {
  const tensor::Graph graph = parsed(kProduct);
  Choices choices;
  PassContext ctx;
  ctx.target = machine();
  ctx.choices = &choices;
  const schedule::Schedule with = choose_schedule(graph, ctx);
  ASSERT_EQ(choices.size(), 1u);
  const std::vector<Choice::Alternative>& considered = choices[0].considered;
  ASSERT_GT(considered.size(), 2u);
  for (std::size_t k = 2; k < considered.size(); ++k) EXPECT_LE(considered[k - 1].cycles, considered[k].cycles);
  EXPECT_LE(considered[0].cycles, considered[1].cycles * 1.002);
  EXPECT_NE(considered[0].what.find("along"), std::string::npos) << considered[0].what;
  ctx.choices = nullptr;
  EXPECT_EQ(choose_schedule(graph, ctx), with);
}

TEST(KernelReport, SaysWhyAValueIsNotComputedInside) {
  const tensor::Graph graph = parsed(kChain);
  Choices choices;
  PassContext ctx;
  ctx.target = machine();
  ctx.choices = &choices;
  const schedule::Schedule schedule = choose_schedule(graph, ctx);
  ASSERT_EQ(choices.size(), 2u);
  EXPECT_EQ(choices[0].compute, "P");
  EXPECT_NE(choices[0].not_inside.find("inside Y"), std::string::npos) << choices[0].not_inside;
  EXPECT_GT(choices[0].not_inside.size(), std::string("inside Y ").size());
  EXPECT_EQ(choices[1].not_inside, "");
}

}  // namespace
}  // namespace corrloom::passes
