#include "compiler/passes/canonicalise.h"

#include "compiler/passes/compose_views.h"
#include "compiler/passes/contract_fma.h"
#include "compiler/passes/remove_dead_ops.h"
#include "compiler/passes/set_orders.h"
#include "compiler/passes/specialise.h"
#include "pass_test.h"

namespace corrloom::passes {
namespace {

using testing::after;

/// A 1x1 convolution as the language writes it.
constexpr const char* kCorrelation = R"(
graph @conv(%X: f32[C, H, W], %K: f32[O, C, P, Q]) -> (%Y) symbols [C, H, W, O, P, Q] {
  %Y: f32[O, add(sub(H, P), 1:i64), add(sub(W, Q), 1:i64)] = compute [o: O, i: add(sub(H, P), 1:i64), j: add(sub(W, Q), 1:i64)] reduce [c: C, p: P, q: Q] ascending {
    acc %sum: f32 = 0.0:f32 step add(%sum, mul(%X[c, add(i, p), add(j, q)], %K[o, c, p, q])) merge add(%sum, %sum.other)
    yield %sum
  }
}
)";

/// The same by reshape and matmul.
constexpr const char* kMatmul = R"(
graph @conv(%X: f32[C, H, W], %K: f32[O, C, 1, 1]) -> (%Y) symbols [C, H, W, O] {
  %A: f32[O, C] = reshape %K
  %B: f32[C, mul(H, W)] = reshape %X
  %M: f32[O, mul(H, W)] = compute [i: O, j: mul(H, W)] reduce [k: C] ascending {
    acc %sum: f32 = 0.0:f32 step add(%sum, mul(%A[i, k], %B[k, j])) merge add(%sum, %sum.other)
    yield %sum
  }
  %Y: f32[O, H, W] = reshape %M
}
)";

std::string canonical(const char* text) {
  PassContext ctx;
  for (const auto& [name, value] : {std::pair("C", 3), {"H", 1920}, {"W", 1080}, {"O", 2}, {"P", 1}, {"Q", 1}})
    ctx.bindings[name] = scalar::Value::i64(value);
  return after({specialise, contract_fma, compose_views, set_orders, canonicalise, remove_dead_ops}, text, ctx);
}

/// The text with `M` for every value that is named like the first compute.
std::string without_value_names(std::string text) {
  for (const auto& [from, to] : {std::pair("%Y.1", "%Z"), {"%Y", "%M"}, {"%M.1", "%Z"}}) {
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from))
      text.replace(at, std::string(from).size(), to);
  }
  return text.substr(text.find('{'));
}

TEST(Canonicalise, GivesAOneByOneConvolutionAndItsMatmulOneForm) {
  const std::string convolution = canonical(kCorrelation);
  EXPECT_EQ(without_value_names(convolution), without_value_names(canonical(kMatmul)));
  EXPECT_THAT(convolution,
              ::testing::HasSubstr("compute [i0: 2, i1: 2073600] reduce [k0: 3] ascending {\n"
                                   "    acc %sum: f32 = 0.0:f32 step fma(%X.1[k0, i1], %K.1[i0, k0], %sum)"));
}

TEST(Canonicalise, MergesTheAxesOfAnElementwiseOp) {
  EXPECT_EQ(after({canonicalise}, R"(
graph @scale(%X: f32[2, 3, 5]) -> (%Y) {
  %Y: f32[2, 3, 5] = compute [a: 2, b: 3, c: 5] {
    yield mul(%X[a, b, c], 2.0:f32)
  }
}
)"),
            R"(graph @scale(%X: f32[2, 3, 5]) -> (Y = %Y.1) {
  %X.1: f32[30] = reshape %X
  %Y: f32[30] = compute [i0: 30] {
    yield mul(2.0:f32, %X.1[i0])
  }
  %Y.1: f32[2, 3, 5] = reshape %Y
}
)");
}

TEST(Canonicalise, KeepsAxesThatOneAccessSeparates) {
  // b is broadcast: %B walks c alone. a and b walk both tensors together.
  EXPECT_EQ(after({canonicalise}, R"(
graph @bias(%X: f32[2, 3, 5], %B: f32[5]) -> (%Y) {
  %Y: f32[2, 3, 5] = compute [a: 2, b: 3, c: 5] {
    yield add(%X[a, b, c], %B[c])
  }
}
)"),
            R"(graph @bias(%X: f32[2, 3, 5], %B: f32[5]) -> (Y = %Y.1) {
  %X.1: f32[6, 5] = reshape %X
  %Y: f32[6, 5] = compute [i0: 6, i1: 5] {
    yield add(%X.1[i0, i1], %B[i1])
  }
  %Y.1: f32[2, 3, 5] = reshape %Y
}
)");
}

TEST(Canonicalise, KeepsAxesThatWalkPartOfARow) {
  EXPECT_THAT(after({canonicalise}, R"(
graph @part(%X: f32[3, 5]) -> (%Y) {
  %Y: f32[2, 4] = compute [a: 2, b: 4] {
    yield %X[a, b]
  }
}
)"),
              ::testing::HasSubstr("compute [i0: 2, i1: 4] {\n    yield %X[i0, i1]"));
}

TEST(Canonicalise, MergesReductionAxesInTheirOrderOnly) {
  const std::string head = "graph @g(%X: f32[2, 3]) -> (%Y) {\n  %Y: f32[] = compute [] reduce ";
  const std::string tail =
      " ascending {\n    acc %s: f32 = 0.0:f32 step add(%s, %X[a, b]) merge add(%s, %s.other)\n    yield %s\n  }\n}\n";
  EXPECT_THAT(after({canonicalise}, head + "[a: 2, b: 3]" + tail), ::testing::HasSubstr("reduce [k0: 6]"));
  EXPECT_THAT(after({canonicalise}, head + "[b: 3, a: 2]" + tail), ::testing::HasSubstr("reduce [k0: 3, k1: 2]"));
}

TEST(Canonicalise, KeepsAUnitDimensionThatAPaddedReadLeaves) {
  const std::string text = after({canonicalise}, R"(
graph @pad(%X: f32[1, 4]) -> (%Y) {
  %Y: f32[2, 4] = compute [a: 2, b: 4] {
    yield %X[a, b] pad 0.0:f32
  }
}
)");
  EXPECT_THAT(text, ::testing::HasSubstr("%X[i0, i1] pad 0.0:f32"));
}

TEST(Canonicalise, TakesOneStepOfAReductionOverOneElement) {
  // 0 + x is kept: it turns -0 into +0.
  EXPECT_THAT(after({canonicalise}, R"(
graph @one(%X: f32[4, 1]) -> (%Y) {
  %Y: f32[4] = compute [i: 4] reduce [k: 1] ascending {
    acc %s: f32 = 0.0:f32 step add(%s, %X[i, k]) merge add(%s, %s.other)
    yield neg(%s)
  }
}
)"),
              ::testing::HasSubstr("yield neg(add(0.0:f32, %X.1[i0]))"));
}

TEST(Canonicalise, LeavesSymbolicExtentsApart) {
  EXPECT_THAT(after({canonicalise}, R"(
graph @dynamic(%X: f32[N, M]) -> (%Y) symbols [N, M] {
  %Y: f32[N, M] = compute [i: N, j: M] {
    yield neg(%X[i, j])
  }
}
)"),
              ::testing::HasSubstr("compute [i0: N, i1: M]"));
}

}  // namespace
}  // namespace corrloom::passes
