#include "compiler/passes/set_orders.h"

#include "pass_test.h"

namespace corrloom::passes {
namespace {

using testing::after;
using ::testing::HasSubstr;

/// A sum of `element` over reduction axes, on the host or on PTX.
std::string ordered(const std::string& inputs, const std::string& axes, const std::string& reduced,
                    const std::string& element, kernel::TargetKind target = kernel::TargetKind::Host,
                    const std::string& with = "") {
  std::string extents;
  for (std::size_t at = axes.find(':'); at != std::string::npos; at = axes.find(':', at + 1))
    extents += (extents.empty() ? "" : ", ") + axes.substr(at + 2, 1);
  PassContext ctx;
  if (target == kernel::TargetKind::Ptx) ctx.target = *kernel::ptx_target("sm_80");
  const std::string text =
      after({set_orders},
            "graph @g(" + inputs + ") -> (%Y) {\n  %Y: f32[" + extents + "] = compute [" + axes + "] " + with +
                "reduce [" + reduced + "] ascending {\n    acc %s: f32 = 0.0:f32 step add(%s, " + element +
                ") merge add(%s, %s.other)\n    yield %s\n  }\n}\n",
            ctx);
  const std::size_t begin = text.find("reduce ") + 7;
  return text.substr(begin, text.find(" {", begin) - begin);
}

const std::string kConvInputs = "%X: f32[4, 9, 9], %K: f32[2, 3, 4, 3]";
const std::string kConvElement = "mul(%X[c, add(i, p), add(j, q)], %K[p, q, c, o])";

TEST(SetOrders, MovesWindowsInsideOnTheHostAndOutsideOnPtx) {
  EXPECT_EQ(ordered(kConvInputs, "o: 3, i: 5, j: 5", "p: 2, c: 4, q: 3", kConvElement), "[c: 4, q: 3, p: 2] ascending");
  EXPECT_EQ(ordered(kConvInputs, "o: 3, i: 5, j: 5", "p: 2, c: 4, q: 3", kConvElement, kernel::TargetKind::Ptx),
            "[p: 2, q: 3, c: 4] ascending");
}

TEST(SetOrders, KeepsTheListOfAStrictOp) {
  EXPECT_EQ(ordered(kConvInputs, "o: 3, i: 5, j: 5", "p: 2, c: 4, q: 3", kConvElement, kernel::TargetKind::Host,
                    "with strict "),
            "[p: 2, c: 4, q: 3] ascending");
}

TEST(SetOrders, UsesLanesWhereOnlyTheReductionIsContiguous) {
  EXPECT_EQ(ordered("%X: f32[3, 7]", "i: 3", "k: 7", "%X[i, k]"), "[k: 7] lanes(16)");
  EXPECT_EQ(ordered("%X: f32[3, 7]", "i: 3", "k: 7", "%X[i, k]", kernel::TargetKind::Ptx), "[k: 7] ascending");
  // A times B: j walks B, so vectors run along j.
  EXPECT_EQ(ordered("%A: f32[3, 7], %B: f32[7, 5]", "i: 3, j: 5", "k: 7", "mul(%A[i, k], %B[k, j])"),
            "[k: 7] ascending");
  // A times the transpose of B: nothing of the result is contiguous.
  EXPECT_EQ(ordered("%A: f32[3, 7], %B: f32[5, 7]", "i: 3, j: 5", "k: 7", "mul(%A[i, k], %B[j, k])"),
            "[k: 7] lanes(16)");
}

TEST(SetOrders, CutsLongReductionsToFewResults) {
  EXPECT_EQ(ordered("%X: f32[7]", "", "k: 7", "%X[k]"), "[k: 7] lanes(64) parts(16384)");
  EXPECT_EQ(ordered("%X: f32[7]", "", "k: 7", "%X[k]", kernel::TargetKind::Ptx), "[k: 7] ascending parts(1024)");
  EXPECT_EQ(ordered("%X: f32[7]", "", "k: 7", "%X[k]", kernel::TargetKind::Host, "with strict "), "[k: 7] ascending");
  EXPECT_EQ(ordered("%X: f32[7, 3]", "i: 3", "k: 7", "%X[k, i]"), "[k: 7] ascending parts(4096)");
  EXPECT_EQ(ordered("%X: f32[4, 7]", "", "h: 4, k: 7", "%X[h, k]"), "[h: 4, k: 7] lanes(64) parts(16384)");
  // Rows that are not walked whole, elements that several results use, and windows.
  EXPECT_EQ(ordered("%X: f32[4, 7], %W: f32[7]", "", "h: 4, k: 7", "mul(%X[h, k], %W[k])"), "[h: 4, k: 7] lanes(64)");
  EXPECT_EQ(ordered("%X: f32[7, 3], %W: f32[7]", "i: 3", "k: 7", "mul(%X[k, i], %W[k])"), "[k: 7] ascending");
  EXPECT_EQ(ordered("%X: f32[9, 3]", "j: 3, i: 3", "k: 7", "%X[add(j, k), i]"), "[k: 7] ascending");
}

TEST(SetOrders, AddsProductsOfHalvesAsTheMachineDoes) {
  const auto step_of = [](const std::string& features, const std::string& with, const std::string& a) {
    PassContext ctx;
    ctx.target.features = features;
    const std::string text =
        after({set_orders},
              "graph @g(%A: bf16[9, 9], %B: bf16[9, 5], %C: f32[9, 9]) -> (%Y) {\n  %Y: bf16[3, 5] = compute [i: 3, j: "
              "5] " +
                  with + "reduce [k: 7] ascending {\n    acc %s: f32 = 0.0:f32 step fma(" + a +
                  ", cast.f32(%B[k, j]), %s) merge add(%s, %s.other)\n    yield cast.bf16(%s)\n  }\n}\n",
              ctx);
    const std::size_t begin = text.find("step ") + 5;
    return text.substr(begin, text.find('(', begin) - begin);
  };
  const std::string features = "+avx512bf16,+avx512vl", a = "cast.f32(%A[i, k])";
  EXPECT_EQ(step_of(features, "", a), "dot");
  EXPECT_EQ(step_of(features, "with any ", a), "dot");
  EXPECT_EQ(step_of(features, "with strict ", a), "fma");
  EXPECT_EQ(step_of("+avx512vl", "", a), "fma");
  EXPECT_EQ(step_of(features, "", "%C[i, k]"), "fma");
  // A window is no pair of neighbours in both factors.
  EXPECT_EQ(step_of(features, "", "cast.f32(%A[i, add(j, k)])"), "fma");
}

TEST(SetOrders, LooksThroughViewsWhateverTheExtents) {
  // The sum runs along the rows of X through a transposition and a reshape of it, with sizes that nobody knows.
  const auto order_for = [](const std::string& symbols, const std::string& h, const std::string& w) {
    PassContext ctx;
    const std::string text = after({set_orders},
                                   "graph @g(%X: f32[" + h + ", " + w + "]) -> (%Y)" + symbols + " {\n  %T: f32[" + w +
                                       ", " + h + "] = view [a: " + w + ", b: " + h + "] %X[b, a]\n  %Y: f32[" + h +
                                       "] = compute [i: " + h + "] reduce [k: " + w +
                                       "] ascending {\n    acc %s: f32 = 0.0:f32 step add(%s, %T[k, i]) merge add(%s, "
                                       "%s.other)\n    yield %s\n  }\n}\n",
                                   ctx);
    const std::size_t begin = text.find("] ", text.find("reduce ")) + 2;
    return text.substr(begin, text.find(" {", begin) - begin);
  };
  EXPECT_EQ(order_for("", "3", "7"), "lanes(16)");
  EXPECT_EQ(order_for("", "1", "1"), "lanes(16)");
  EXPECT_EQ(order_for(" symbols [H, W]", "H", "W"), "lanes(16)");
}

TEST(SetOrders, KeepsLanesFromRunningReductions) {
  EXPECT_EQ(ordered("%X: f32[3, 7]", "i: 3, j: 7", "k: add(j, 1:i64)", "%X[i, k]"), "[k: add(j, 1:i64)] ascending");
  EXPECT_EQ(ordered("%X: f32[3, 7]", "i: 3, j: 7", "k: sub(7:i64, j)", "%X[i, k]"), "[k: sub(7:i64, j)] lanes(16)");
}

TEST(SetOrders, KeepsLanesFromShortWindows) {
  EXPECT_EQ(ordered("%X: f32[4, 9]", "i: 4", "k: 3", "%X[0:i64, add(mul(i, 2:i64), k)]"), "[k: 3] ascending");
  EXPECT_EQ(ordered("%X: f32[4, 99]", "i: 4", "k: 3", "%X[0:i64, add(mul(i, 16:i64), k)]"), "[k: 3] lanes(16)");
}

TEST(SetOrders, FreesWhatDecidesNoBits) {
  EXPECT_EQ(ordered("%X: f32[3, 7]", "i: 3", "k: 7", "%X[i, k]", kernel::TargetKind::Host, "with any "),
            "[k: 7] lanes(16)");
  EXPECT_EQ(ordered("%X: f32[7, 3]", "i: 3", "k: 7", "%X[k, i]", kernel::TargetKind::Host, "with any "),
            "[k: 7] any parts(4096)");
  EXPECT_EQ(ordered("%X: f32[3, 7]", "i: 3", "k: 7", "%X[i, k]", kernel::TargetKind::Ptx, "with any "), "[k: 7] any");
  EXPECT_THAT(after({set_orders}, R"(
graph @max(%X: f32[7]) -> (%Y) {
  %Y: f32[] = compute [] reduce [k: 7] ascending {
    acc %m: f32 = -inf:f32 step max(%m, %X[k]) merge max(%m, %m.other)
    yield %m
  }
}
)"),
              HasSubstr("with any reduce [k: 7] lanes(16)"));
}

TEST(SetOrders, KeepsRangesThatDependOnEachOther) {
  EXPECT_EQ(ordered("%X: f32[4, 9]", "i: 5", "p: 2, c: add(p, 2:i64)", "%X[c, add(i, p)]"),
            "[p: 2, c: add(p, 2:i64)] ascending");
}

}  // namespace
}  // namespace corrloom::passes
