// Expressions of elements: dtypes of literals, reductions, functions, fences.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lowering_testing.h"

namespace corrloom::frontend {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace testing;

TEST(LowerExpr, CorrelatesInTwoDimensions) {
  const Program program = load_text(
      "op corr2d(X: f32[H, W], K: f32[P, Q]) -> Y: f32[H - P + 1, W - Q + 1] {\n"
      "  Y[i, j] = sum(p, q) X[i + p, j + q] * K[p, q]\n}\n");
  const auto results = run(program, "corr2d",
                           {{{"X", floats({3, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8})}, {"K", floats({2, 2}, {0, 1, 2, 3})}}});
  EXPECT_THAT(results[0].extents, ElementsAre(2, 2));
  EXPECT_THAT(values_of(results[0]), ElementsAre(19, 25, 37, 43));
}

TEST(LowerExpr, LiteralsTakeTheDtypeOfTheirContext) {
  const Program program = load_text(
      "op f(X: i8[N], Z: f16[N]) -> (A: i8[N], B: f16[N], C: i64[N], D: f64[N], E: bool[N]) {\n"
      "  A[i] = if i > 0 then X[i] + -128 else 1 << 3\n"
      "  B[i] = Z[i] * 0.1 + 1\n"
      "  C[i] = i + 1\n"
      "  D[i] = f64(0.1)\n"
      "  E[i] = 1 < 2 && 0.5 < 1\n}\n");
  const std::string text = graph_text("op f(Z: f16[N]) -> B: f16[N] {\n  B[i] = Z[i] * 0.1 + 1\n}\n", "f");
  EXPECT_THAT(text, HasSubstr(":f16"));
  tensor::Array half{DType::F16, {2}, {scalar::Value::floating(DType::F16, 1).bits, 0}};
  const auto results = run(program, "f", {{{"X", integers(DType::I8, {2}, {5, 5})}, {"Z", half}}});
  EXPECT_THAT(values_of(results[0]), ElementsAre(8, -123));
  EXPECT_THAT(values_of(results[2]), ElementsAre(1, 2));
  EXPECT_THAT(values_of(results[3]), ElementsAre(0.1, 0.1));
  EXPECT_THAT(values_of(results[4]), ElementsAre(1, 1));
}

TEST(LowerExpr, ADecimalIsRoundedOnce) {
  // 1 + 2^-11 + 2^-60: to f64 first it would be a tie of f16, which goes to the even neighbour.
  const std::string text = "op f(Z: f16[N]) -> B: f16[N] {\n  B[i] = 1.00048828125000000086736\n}\n";
  const auto results = run(load_text(text), "f", {{{"Z", tensor::Array{DType::F16, {1}, {0}}}}});
  EXPECT_EQ(results[0].bits[0], 0x3C01u);
}

TEST(LowerExpr, ReductionsOfNarrowFloatsMultiplyAndAddInF32) {
  const std::string text = graph_text("op f(A: f16[K], B: f16[K]) -> Y: f16 {\n  Y = sum(k) A[k] * B[k] * 2\n}\n", "f");
  EXPECT_THAT(text, HasSubstr("acc %sum: f32"));
  EXPECT_THAT(text, HasSubstr("mul(mul(cast.f32(%A[k]), cast.f32(%B[k])), cast.f32(2.0:f16))"));
  EXPECT_THAT(text, HasSubstr("yield cast.f16(%sum)"));
}

TEST(LowerExpr, AMaximumOfNarrowFloatsStaysNarrow) {
  EXPECT_THAT(graph_text("op f(A: f16[K]) -> Y: f16 {\n  Y = max(k) A[k] * A[k]\n}\n", "f"),
              HasSubstr("mul(%A[k], %A[k])"));
}

TEST(LowerExpr, AReductionOverAllAxesIsTheComputesOwn) {
  const std::string text =
      graph_text("op f(X: f32[N, K], b: f32[N]) -> Y: f32[N] {\n  Y[n] = b[n] + sum(k) X[n, k]\n}\n", "f");
  EXPECT_THAT(text, HasSubstr("yield add(%b[n], %sum)"));
}

TEST(LowerExpr, AnInnerReductionIsComputedOncePerOuterVariableItUses) {
  const std::string source =
      "op f(E: f32[N, D]) -> (Y: f32[N, D], Z: f32) {\n  Y[n, d] = E[n, d] / sum(k) E[n, k]\n"
      "  Z = sum(n) (sum(k) E[n, k]) * (max(k) E[n, k])\n}\n";
  const std::string text = graph_text(source, "f");
  EXPECT_THAT(text, HasSubstr("%Y.sum: f32[N] = compute [n: N] reduce [k: D]"));
  EXPECT_THAT(text, HasSubstr("div(%E[n, d], %Y.sum[n])"));
  const auto results = run(load_text(source), "f", {{{"E", floats({2, 2}, {1, 3, 2, 6})}}});
  EXPECT_THAT(values_of(results[0]), ElementsAre(0.25, 0.75, 0.25, 0.75));
  EXPECT_THAT(values_of(results[1]), ElementsAre(4 * 3 + 8 * 6));
}

TEST(LowerExpr, AReductionInABranchReadsOnlyWhereTheBranchIsTaken) {
  const Program program =
      load_text("op f(X: f32[N, K]) -> Y: f32[N] {\n  Y[n] = if n > 0 then sum(k: 0..K) X[n - 1, k] else -1\n}\n");
  const auto results = run(program, "f", {{{"X", floats({2, 3}, {1, 2, 3, 4, 5, 6})}}});
  EXPECT_THAT(values_of(results[0]), ElementsAre(-1, 6));
}

TEST(LowerExpr, ReductionsUnderBothSidesOfOperatorsAreGuarded) {
  const Program program = load_text(
      "op f(X: f32[N]) -> Y: bool[N] {\n"
      "  Y[n] = n == 0 || any(k: 0..2) (X[n - 1 + k] > 3) && (n < N - 1 && (sum(k: 0..2) X[n + k]) > 0)\n}\n");
  const auto results = run(program, "f", {{{"X", floats({4}, {1, 2, 5, 1})}}});
  EXPECT_THAT(values_of(results[0]), ElementsAre(1, 0, 1, 0));
}

TEST(LowerExpr, WrittenRangesBeginAnywhereAndMayBeEmpty) {
  const Program program = load_text(
      "op f(X: f32[N], n: i32) -> (Y: f32, Z: f32, W: f32, At: i64) {\n"
      "  Y = sum(k: 2..N) X[k]\n  Z = sum(k: 3..2) f32(k)\n  W = prod(k: n) X[k]\n  At = argmax(k: 1..N) X[k]\n}\n");
  const auto results =
      run(program, "f", {{{"X", floats({4}, {9, 2, 3, 4})}}, {{"n", scalar::Value::integer(DType::I32, 2)}}});
  EXPECT_THAT(values_of(results[0]), ElementsAre(7));
  EXPECT_THAT(values_of(results[1]), ElementsAre(0));
  EXPECT_THAT(values_of(results[2]), ElementsAre(18));
  EXPECT_THAT(values_of(results[3]), ElementsAre(3));
}

TEST(LowerExpr, RangesMayDependOnOuterIndices) {
  const Program program = load_text("op f(X: f32[N]) -> Y: f32[N] {\n  Y[i] = sum(j: i..min(i + 2, N)) X[j]\n}\n");
  EXPECT_THAT(values_of(run(program, "f", {{{"X", floats({3}, {1, 2, 4})}}})[0]), ElementsAre(3, 6, 4));
}

TEST(LowerExpr, ProductsDoNotContractThroughLetsFunctionsAndCasts) {
  const std::string text = graph_text(
      "fn times(a: f32, b: f32) -> f32 = a * b\n"
      "op f(A: f32[N]) -> (P: f32[N], Q: f32[N], R: f32[N], S: f32[N]) {\n"
      "  P[i] = A[i] * A[i] + 1\n  Q[i] = times(A[i], A[i]) + 1\n"
      "  R[i] = let t = A[i] * A[i] in t + 1\n  S[i] = f32(A[i] * A[i]) + 1\n}\n",
      "f");
  EXPECT_THAT(text, HasSubstr("add(mul(%A[i], %A[i]), 1.0:f32)"));
  EXPECT_THAT(text, HasSubstr("add(fence(mul(%A[i], %A[i])), 1.0:f32)"));
  EXPECT_THAT(text, HasSubstr("add(cast.f32(mul(%A[i], %A[i])), 1.0:f32)"));
}

TEST(LowerExpr, ArgumentsOfFunctionsAreShared) {
  EXPECT_THAT(
      graph_text("fn square(x: f32) -> f32 = x * x\nop f(A: f32[N]) -> Y: f32[N] {\n  Y[i] = square(exp(A[i]))\n}\n",
                 "f"),
      HasSubstr("mul($0 = exp(%A[i]), $0)"));
}

TEST(LowerExpr, FunctionsWithTypeParametersTakeTheDtypeOfTheirArgument) {
  const Program program = load_text(
      "fn twice<T: number>(x: T) -> T = 2 * x\nop f(A: i8[N], B: f32[N]) -> (Y: i8[N], Z: f32[N]) {\n"
      "  Y[i] = twice(A[i])\n  Z[i] = twice(B[i])\n}\n");
  const auto results = run(program, "f", {{{"A", integers(DType::I8, {1}, {100})}, {"B", floats({1}, {0.5f})}}});
  EXPECT_THAT(values_of(results[0]), ElementsAre(-56));
  EXPECT_THAT(values_of(results[1]), ElementsAre(1));
}

TEST(LowerExpr, FunctionsOfTheFileWinOverBuiltInOnes) {
  const Program program =
      load_text("fn abs(x: f32) -> f32 = x + 1\nop f(A: f32[N]) -> Y: f32[N] {\n  Y[i] = abs(A[i])\n}\n");
  EXPECT_THAT(values_of(run(program, "f", {{{"A", floats({1}, {-3})}}})[0]), ElementsAre(-2));
}

TEST(LowerExpr, LimitsOfDtypes) {
  const Program program = load_text(
      "op f(A: f32[N]) -> (Y: f32[N], Z: f16[N], W: bf16[N], V: u16[N]) {\n  Y[i] = lowest(f32)\n  Z[i] = "
      "highest(f16)\n"
      "  W[i] = epsilon(bf16)\n  V[i] = highest(u16)\n}\n");
  const auto results = run(program, "f", {{{"A", floats({1}, {0})}}});
  EXPECT_EQ(results[0].at(0).as_f64(), -std::ldexp(2 - std::ldexp(1, -23), 127));
  EXPECT_EQ(results[1].at(0).as_f64(), 65504);
  EXPECT_EQ(results[2].at(0).as_f64(), 0.0078125);
  EXPECT_EQ(results[3].at(0).as_f64(), 65535);
}

TEST(LowerExpr, ConflictingRangesAreAConditionAtEntry) {
  const Program program =
      load_text("op f(A: f32[N, K], B: f32[M]) -> Y: f32[N] {\n  Y[n] = sum(k) A[n, k] * B[k]\n}\n");
  const Call call{{{"A", floats({1, 2}, {1, 2})}, {"B", floats({3}, {1, 2, 3})}}};
  const std::string error = entry_errors(program, "f", call);
  EXPECT_THAT(error, HasSubstr("E0243"));
  EXPECT_THAT(error, HasSubstr("K = 2"));
  EXPECT_THAT(error, HasSubstr("M = 3"));
}

TEST(LowerExpr, SharedExpressionsAreNotUnfolded) {
  // x doubled or squared fifty times is a hundred nodes and 2^50 paths.
  for (const std::string op : {"+", "*", "//"}) {
    std::string lets;
    for (int k = 0; k < 50; ++k) {
      const std::string name = "v" + std::to_string(k);
      lets += "let " + name + " = " +
              (k == 0 ? "N" : "v" + std::to_string(k - 1) + " " + op + " v" + std::to_string(k - 1)) + " in ";
    }
    const std::string extent = lets + "v49";
    EXPECT_EQ(errors_of("op f(X: f32[N]) -> (Y: f32[" + extent +
                        "], Z: f32[N]) {\n  Y[i] = X[0]\n"
                        "  Z = reshape(X, [" +
                        extent + "])\n}\n"),
              "");
  }
}

TEST(LowerExpr, LargeAndDeepExpressionsAreErrorsAndNotCrashes) {
  // Each function doubles the text of the one before it.
  std::string doubling = "fn f0(x: f32, y: f32) -> f32 = x * y\n";
  for (int k = 1; k < 50; ++k) {
    const std::string before = "f" + std::to_string(k - 1);
    doubling += "fn f" + std::to_string(k) + "(x: f32, y: f32) -> f32 = " + before + "(x, y) + " + before + "(y, x)\n";
  }
  EXPECT_THAT(errors_of(doubling), HasSubstr("E0104"));
  std::string chain = "fn g0(x: f32) -> f32 = x\n";
  for (int k = 1; k < 3000; ++k)
    chain = "fn g" + std::to_string(k) + "(x: f32) -> f32 = g" + std::to_string(k - 1) + "(x)\n" + chain;
  EXPECT_THAT(errors_of(chain), HasSubstr("E0104"));
  std::string sum = "x";
  for (int k = 0; k < 900; ++k) sum += " + x";
  EXPECT_EQ(errors_of("fn h(x: f32) -> f32 = " + sum + "\n"), "");
  EXPECT_THAT(errors_of("fn h(x: f32) -> f32 = " + sum + "\nfn hh(x: f32) -> f32 = h(h(h(h(h(h(x))))))\n"),
              HasSubstr("E0104"));
}

}  // namespace
}  // namespace corrloom::frontend
