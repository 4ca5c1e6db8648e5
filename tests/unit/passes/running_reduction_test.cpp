#include "compiler/passes/running_reduction.h"

#include "pass_test.h"

namespace corrloom::passes {
namespace {

using testing::parsed;

/// The name of the axis along which the sum of `element` over `reduced` runs, for a result of axes i and j.
std::string running(const std::string& reduced, const std::string& element, const std::string& symbols = "") {
  const tensor::Graph graph =
      parsed("graph @g(%X: f32[9, 9]) -> (%Y)" + symbols + " {\n  %Y: f32[3, 4] = compute [i: 3, j: 4] reduce [" +
             reduced + "] ascending {\n    acc %s: f32 = 0.0:f32 step add(%s, " + element +
             ") merge add(%s, %s.other)\n    yield mul(%s, cast.f32(i))\n  }\n}\n");
  const auto& compute = std::get<tensor::Compute>(graph.op(graph.outputs[0].value).kind);
  const tensor::AxisId axis = running_axis(graph, compute);
  return axis ? graph.axis_names[static_cast<std::size_t>(axis.index)] : "none";
}

TEST(RunningReduction, EndsWithAnAxisThatNothingElseUses) {
  EXPECT_EQ(running("k: add(i, 1:i64)", "%X[k, j]"), "i");
  EXPECT_EQ(running("k: j", "%X[i, k]"), "j");
  EXPECT_EQ(running("k: min(add(mul(i, 2:i64), 3:i64), 9:i64)", "%X[k, j]"), "i");
  EXPECT_EQ(running("k: floordiv(i, 2:i64)", "%X[k, 0:i64]"), "i");
  EXPECT_EQ(running("k: add(i, 1:i64), l: 2", "%X[k, l]"), "i");
}

TEST(RunningReduction, IsNoneWhereAPlaceDoesNotContinueTheOneBefore) {
  EXPECT_EQ(running("k: 9", "%X[k, j]"), "none");
  EXPECT_EQ(running("k: add(i, 1:i64)", "%X[k, i]"), "none") << "the element depends on the place";
  EXPECT_EQ(running("k: sub(3:i64, i)", "%X[k, j]"), "none") << "the range shrinks";
  EXPECT_EQ(running("k: mod(i, 2:i64)", "%X[k, j]"), "none") << "the range rises and falls";
  EXPECT_EQ(running("l: 2, k: add(i, 1:i64)", "%X[k, l]"), "none") << "elements of other places come between";
  EXPECT_EQ(running("k: add(i, 1:i64), l: add(i, 1:i64)", "%X[k, l]"), "none");
}

TEST(RunningReduction, TakesADimensionForNonNegative) {
  EXPECT_EQ(running("k: mul(i, N)", "%X[0:i64, j]", " symbols [N]"), "i");
  EXPECT_EQ(running("k: mul(i, s)", "%X[0:i64, j]", " symbols [s: i64]"), "none");
}

}  // namespace
}  // namespace corrloom::passes
