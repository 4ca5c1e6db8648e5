// Ops: shapes, statements, whole tensors, calls, attributes, imports, and what bind says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lowering_testing.h"

namespace corrloom::frontend {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace testing;

TEST(LowerOp, BothFormsOfThePointwiseConvolutionAgree) {
  const Program program = load_text(
      "op loops(X: f32[Ci, H, W], K: f32[Co, Ci, P, Q]) -> Y: f32[Co, H - P + 1, W - Q + 1] {\n"
      "  Y[o, i, j] = sum(c, p, q) X[c, i + p, j + q] * K[o, c, p, q]\n}\n"
      "op product(X: f32[Ci, H, W], K: f32[Co, Ci, 1, 1]) -> Y: f32[Co, H, W] {\n"
      "  Y = reshape(matmul(reshape(K, [Co, Ci]), reshape(X, [Ci, H * W])), [Co, H, W])\n}\n"
      "op both(X: f32[Ci, H, W], K: f32[Co, Ci, 1, 1]) -> (Y: f32[Co, H, W], Z: f32[Co, H, W]) {\n"
      "  Y = loops(X, K)\n  Z = product(X, K)\n}\n");
  const auto results = run(
      program, "both", {{{"X", floats({2, 1, 3}, {1, 2, 3, 4, 5, 6})}, {"K", floats({2, 2, 1, 1}, {1, 10, 2, 20})}}});
  EXPECT_THAT(values_of(results[0]), ElementsAre(41, 52, 63, 82, 104, 126));
  EXPECT_EQ(results[0].bits, results[1].bits);
}

TEST(LowerOp, WholeTensorFunctionsAndSlices) {
  const Program program = load_text(
      "op f(X: f32[M, N]) -> (T: f32[N, M], C: f32[2*M, N], P: f32[M + 1, N + 2], S: f32[M - 1, (N + 1) // 2], R: "
      "f32[N],"
      " E: f32[M, N]) {\n"
      "  T = transpose(X)\n  C = concat([X, X * 2], 0)\n  P = pad(X, [[1, 0], [0, 2]], -1)\n"
      "  S = X[1:, ::2]\n  R = X[M - 1, :]\n  E = max(X - 3, 0) + abs(X) * X\n}\n");
  const auto results = run(program, "f", {{{"X", floats({2, 3}, {1, 2, 3, 4, 5, 6})}}});
  EXPECT_THAT(values_of(results[0]), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(values_of(results[1]), ElementsAre(1, 2, 3, 4, 5, 6, 2, 4, 6, 8, 10, 12));
  EXPECT_THAT(values_of(results[2]), ElementsAre(-1, -1, -1, -1, -1, 1, 2, 3, -1, -1, 4, 5, 6, -1, -1));
  EXPECT_THAT(values_of(results[3]), ElementsAre(4, 6));
  EXPECT_THAT(values_of(results[4]), ElementsAre(4, 5, 6));
  EXPECT_THAT(values_of(results[5]), ElementsAre(1, 4, 9, 17, 27, 39));
}

TEST(LowerOp, AnElementwiseExpressionIsOneCompute) {
  EXPECT_THAT(graph_text("op f(A: f32[N], B: f32[N]) -> Y: f32[N] {\n  Y = A * B + A\n}\n", "f"),
              HasSubstr("add(mul(%A[d0], %B[d0]), %A[d0])"));
}

TEST(LowerOp, SlicesThatDoNotFitAreEntryErrors) {
  const Program program = load_text("op f[stop: int](X: f32[N]) -> Y: f32[stop - 2] {\n  Y = X[2:stop]\n}\n");
  const auto with = [](std::int64_t stop) {
    return Call{{{"X", floats({4}, {1, 2, 3, 4})}}, {}, {{"stop", scalar::Value::i64(stop)}}};
  };
  EXPECT_EQ(entry_errors(program, "f", with(4)), "");
  EXPECT_THAT(entry_errors(program, "f", with(5)), HasSubstr("stops beyond the tensor"));
  EXPECT_THAT(entry_errors(program, "f", with(1)), HasSubstr("stops before it starts"));
}

TEST(LowerOp, ResultsMayBeReadAndCopiedByLaterStatements) {
  const Program program = load_text(
      "op f(X: f32[N]) -> (Y: f32[N], Z: f32[N], W: f32[N], S: f32) {\n"
      "  Y = X\n  Z = Y\n  W[i] = Y[i] + Z[i]\n  S = sum(i) W[i]\n}\n");
  const auto results = run(program, "f", {{{"X", floats({2}, {1, 2})}}});
  EXPECT_THAT(values_of(results[2]), ElementsAre(2, 4));
  EXPECT_THAT(values_of(results[3]), ElementsAre(6));
}

TEST(LowerOp, AttributesAreConstantsInShapesAndBodies) {
  const Program program = load_text(
      "const width = 2\n"
      "op f[k: int = width + 1, flip: bool = false, eps: float = 0.1](X: f32[N]) -> Y: f32[N - k + 1] {\n"
      "  Y[i] = (sum(p: 0..k) X[i + p]) * (if flip then -1 else 1) + eps\n}\n"
      "op g(X: f32[N]) -> Y: f32[N - 1] {\n  Y = f[k = width, eps = 0, flip = true](X)\n}\n");
  const Call call{{{"X", floats({3}, {1, 2, 3})}}};
  EXPECT_THAT(values_of(run(program, "f", call)[0]), ElementsAre(6.1f));
  EXPECT_THAT(values_of(run(program, "g", call)[0]), ElementsAre(-3, -5));
  EXPECT_EQ(program.find("f")->attributes[0].default_value, scalar::Value::i64(3));
  EXPECT_THAT(entry_errors(program, "f", {call.tensors, {}, {{"eps", scalar::Value::i64(3)}}}), HasSubstr("E0222"));
  EXPECT_THAT(entry_errors(program, "f", {call.tensors, {}, {{"kk", scalar::Value::i64(3)}}}), HasSubstr("E0222"));
}

TEST(LowerOp, AnAttributeWithoutDefaultMustBeGiven) {
  const Program program = load_text("op f[k: int](X: f32[N]) -> Y: f32[N] {\n  Y[i] = X[i] * f32(k)\n}\n");
  EXPECT_THAT(entry_errors(program, "f", {{{"X", floats({1}, {1})}}}), HasSubstr("`k` is not given"));
}

TEST(LowerOp, ScalarsHaveDefaultsAndMayBePassedOn) {
  const Program program = load_text(
      "op scaled(X: f32[N], gain: f32 = 0.5) -> Y: f32[N] {\n  Y[i] = X[i] * gain\n}\n"
      "op f(X: f32[N], s: f32) -> (A: f32[N], B: f32[N], C: f32[N]) {\n"
      "  A = scaled(X)\n  B = scaled(X, s * 2)\n  C = scaled(X, sum(i) X[i])\n}\n");
  const auto results = run(program, "f", {{{"X", floats({2}, {1, 3})}}, {{"s", scalar::Value::f32(5)}}});
  EXPECT_THAT(values_of(results[0]), ElementsAre(0.5, 1.5));
  EXPECT_THAT(values_of(results[1]), ElementsAre(10, 30));
  EXPECT_THAT(values_of(results[2]), ElementsAre(4, 12));
}

TEST(LowerOp, CalleesWithoutAWithTakeTheirCallers) {
  const std::string text =
      "op plain(X: f32[N]) -> Y: f32 {\n  Y = sum(i) X[i]\n}\n"
      "op free(X: f32[N]) -> Y: f32 with order = any {\n  Y = sum(i) X[i]\n}\n"
      "op f(X: f32[N]) -> (Y: f32, Z: f32) with order = strict with math = fast {\n  Y = plain(X)\n  Z = free(X)\n}\n";
  Diagnostics diagnostics;
  const auto graph = load_text(text).lower("f", {}, diagnostics);
  ASSERT_TRUE(graph);
  const auto numerics = [&](std::size_t k) {
    return std::get<tensor::Compute>(graph->op(graph->outputs[k].value).kind).numerics;
  };
  EXPECT_EQ(numerics(0), (tensor::Numerics{tensor::Numerics::OrderMode::Strict, true}));
  EXPECT_EQ(numerics(1), (tensor::Numerics{tensor::Numerics::OrderMode::Any, false}));
}

TEST(LowerOp, TensorsOfACalleeAreNamedByTheCall) {
  EXPECT_THAT(graph_text("op twice(X: f32[N]) -> Y: f32[N] {\n  let t[i] = X[i] + 1\n  Y[i] = t[i] * 2\n}\n"
                         "op f(X: f32[N]) -> Y: f32[N] {\n  let a = twice(X)\n  Y = twice(a)\n}\n",
                         "f"),
              HasSubstr("%a.twice.t: f32[N]"));
}

TEST(LowerOp, ConstantsOfImportsAndAliases) {
  const ImportResolver imports = [](const std::string& path) -> std::optional<SourceRef> {
    if (path != "lib/filters.loom") return {};
    return std::make_shared<const SourceFile>(
        path,
        "const taps: f32[2] = [1, 2]\nfn half(x: f32) -> f32 = x / 2\n"
        "op smooth(X: f32[N]) -> Y: f32[N - 1] {\n  Y[i] = sum(k) X[i + k] * taps[k]\n}\n");
  };
  const Program program = load_text(
      "import \"lib/filters.loom\" as m\nop f(X: f32[N]) -> Y: f32[N - 1] {\n  let t = m.smooth(X)\n"
      "  Y[i] = m.half(t[i]) + m.taps[0]\n}\n",
      imports);
  EXPECT_THAT(values_of(run(program, "f", {{{"X", floats({3}, {1, 2, 3})}}})[0]), ElementsAre(3.5, 5));
  ASSERT_NE(program.find("m.smooth"), nullptr);
  EXPECT_EQ(program.ops().size(), 1u);
}

TEST(LowerOp, TheSignatureShowsWhatACallerNeeds) {
  const Program program = load_text(
      "op conv[groups: int = 1](X: f32[N, C], param K: f32[O, C // groups], s: f32 = 2) -> (Y: f32[N, O], Z: i64)\n"
      "    where C % groups == 0 {\n  Y[n, o] = X[n, 0] * K[o, 0] * s\n  Z = N\n}\n");
  const OpSignature& op = program.ops().front();
  EXPECT_EQ(op.parameters.size(), 3u);
  EXPECT_TRUE(op.parameters[1].is_owned);
  EXPECT_THAT(op.parameters[1].dims, ElementsAre("O", "C // groups"));
  EXPECT_FALSE(op.parameters[2].is_tensor);
  EXPECT_EQ(op.parameters[2].default_value, scalar::Value::f32(2));
  EXPECT_EQ(op.results[1].dtype, DType::I64);
}

// ---- bind ----

Program conv() {
  return load_text(
      "op conv[groups: int = 1, crop: int = 0](X: f32[N, C], K: f32[O, C // groups], b: f32[O], p: f32[3])\n"
      "    -> Y: f32[N, O - 2*crop] where C % groups == 0 {\n"
      "  Y[n, o] = X[n, 0] * K[o, 0] + b[o] * p[0]\n}\n");
}

Call conv_call(std::vector<std::int64_t> x, std::vector<std::int64_t> k, std::int64_t b, std::int64_t p = 3) {
  Call call;
  call.tensors = {{"X", {DType::F32, x, {}}},
                  {"K", {DType::F32, k, {}}},
                  {"b", {DType::F32, {b}, {}}},
                  {"p", {DType::F32, {p}, {}}}};
  return call;
}

TEST(Bind, TakesExtentsFromPlainNames) {
  const Program program = conv();
  Diagnostics diagnostics;
  const auto graph = program.lower("conv", {{"groups", scalar::Value::i64(2)}}, diagnostics);
  Arguments arguments;
  arguments.tensors = {
      {"X", {DType::F32, {2, 6}}}, {"K", {DType::F32, {5, 3}}}, {"b", {DType::F32, {5}}}, {"p", {DType::F32, {3}}}};
  const auto values = bind(program.ops().front(), *graph, arguments, diagnostics);
  ASSERT_TRUE(values) << diagnostics.render();
  EXPECT_EQ(values->at("N").as_i64(), 2);
  EXPECT_EQ(values->at("C").as_i64(), 6);
  EXPECT_EQ(values->at("O").as_i64(), 5);
}

TEST(Bind, SaysWhatDoesNotAgree) {
  const Program program = conv();
  Call call = conv_call({2, 6}, {5, 6}, 5);
  EXPECT_EQ(entry_errors(program, "conv", call), "");
  const std::string conflict = entry_errors(program, "conv", conv_call({2, 6}, {5, 6}, 7));
  EXPECT_THAT(conflict, HasSubstr("E0242"));
  EXPECT_THAT(conflict, HasSubstr("`O`: 5 and 7"));
  EXPECT_THAT(conflict, HasSubstr("`K` along axis 0 is 5"));
  Call grouped = conv_call({2, 6}, {5, 4}, 5);
  grouped.attributes = {{"groups", scalar::Value::i64(2)}};
  EXPECT_THAT(entry_errors(program, "conv", grouped), HasSubstr("is 4, but `C // groups` is 3"));
  EXPECT_THAT(entry_errors(program, "conv", conv_call({2, 6}, {5, 6}, 5, 4)), HasSubstr("is 4, but `3` is 3"));
  EXPECT_THAT(entry_errors(program, "conv", conv_call({12}, {5, 6}, 5)), HasSubstr("E0240"));
  call.tensors["X"].dtype = DType::F64;
  const std::string dtype = entry_errors(program, "conv", call);
  EXPECT_THAT(dtype, HasSubstr("E0241"));
  EXPECT_THAT(dtype, HasSubstr("`f64`, not `f32`"));
}

TEST(Bind, SaysWhatIsMissingOrUnknown) {
  Call call = conv_call({2, 6}, {5, 6}, 5);
  call.tensors.erase("b");
  call.tensors["c"] = {DType::F32, {5}, {}};
  const std::string errors = entry_errors(conv(), "conv", call);
  EXPECT_THAT(errors, HasSubstr("E0245"));
  EXPECT_THAT(errors, HasSubstr("`b` is not given"));
  EXPECT_THAT(errors, HasSubstr("no argument `c`"));
}

TEST(Bind, ChecksConditionsWithTheValuesOfTheirNames) {
  Call call = conv_call({2, 7}, {5, 3}, 5);
  call.attributes = {{"groups", scalar::Value::i64(2)}};
  const std::string where = entry_errors(conv(), "conv", call);
  EXPECT_THAT(where, HasSubstr("E0243"));
  EXPECT_THAT(where, HasSubstr("`where C % groups == 0` does not hold"));
  EXPECT_THAT(where, HasSubstr("C = 7"));
  EXPECT_THAT(where, HasSubstr("groups = 2"));
  call = conv_call({2, 6}, {5, 6}, 5);
  call.attributes = {{"crop", scalar::Value::i64(3)}};
  EXPECT_THAT(entry_errors(conv(), "conv", call), HasSubstr("the extent of `Y` along axis 1 is negative"));
}

TEST(Bind, ReportsOverflowAndZeroDivisors) {
  Call call = conv_call({2, 6}, {5, 6}, 5);
  call.attributes = {{"crop", scalar::Value::i64(std::int64_t{1} << 62)}};
  const std::string overflow = entry_errors(conv(), "conv", call);
  EXPECT_THAT(overflow, HasSubstr("E0244"));
  EXPECT_THAT(overflow, HasSubstr("crop = 4611686018427387904"));
  call.attributes = {{"groups", scalar::Value::i64(0)}};
  EXPECT_THAT(entry_errors(conv(), "conv", call), HasSubstr("divides by zero"));
}

}  // namespace
}  // namespace corrloom::frontend
