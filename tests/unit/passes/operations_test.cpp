#include "compiler/passes/operations.h"

#include <gtest/gtest.h>

#include "tests/unit/passes/pass_test.h"

namespace corrloom::passes {
namespace {

Operations of_value(const std::string& name, const std::string& graph_text) {
  const tensor::Graph graph = testing::parsed(graph_text);
  for (const tensor::Op& op : graph.ops) {
    if (op.name == name) return operations_of(op);
  }
  ADD_FAILURE() << "no value " << name;
  return {};
}

TEST(Operations, ArithmeticOnIndicesAloneIsNone) {
  const Operations padded = of_value("Y", R"(graph @padded(%X: f32[64]) -> (%Y) {
  %Y: f32[64] = compute [i: 64] reduce [p: 3] ascending {
    acc %sum: f32 = 0.0:f32 step fma(if(and(le(1, add(i, p)), lt(add(i, p), 65)), %X[sub(add(i, p), 1)] check proven, 0.0:f32), 2.0:f32, %sum) merge add(%sum, %sum.other)
    yield %sum
  }
}
)");
  EXPECT_EQ(padded.flops, 2 * 64 * 3);
  EXPECT_EQ(padded.integer_ops, 0);
}

TEST(Operations, ArithmeticOnElementsAndOfOtherIntegersCounts) {
  const Operations whole = of_value("Y", R"(graph @whole(%X: i64[8]) -> (%Y) {
  %Y: i64[8] = compute [i: 8] { yield mul(%X[i] check proven, add(%X[i] check proven, i)) }
}
)");
  EXPECT_EQ(whole.integer_ops, 2 * 8);
  EXPECT_EQ(whole.integer_products, 8);
  const Operations made = of_value("Y", R"(graph @made() -> (%Y) {
  %Y: u32[8] = compute [i: 8] { yield mul(cast.u32(i), 7:u32) }
}
)");
  EXPECT_EQ(made.integer_ops, 8);
}

TEST(Operations, DivisionsCountOnceForWhatTheyDependOn) {
  const Operations scaled = of_value("Y", R"(graph @scaled(%X: f32[4, 16], %v: f32[4]) -> (%Y) {
  %Y: f32[4, 16] = compute [n: 4, d: 16] { yield div(div(%X[n, d] check proven, sqrt(%v[n] check proven)), 8.0:f32) }
}
)");
  EXPECT_EQ(scaled.flops, 3 * 4 * 16);
  EXPECT_EQ(scaled.divisions, 4 * 16) << "that by a constant is none";
  EXPECT_EQ(scaled.roots, 4);
}

}  // namespace
}  // namespace corrloom::passes
