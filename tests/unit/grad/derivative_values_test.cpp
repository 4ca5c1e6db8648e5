// Derivatives against central differences in f64.

#include "derivative_testing.h"

namespace corrloom::frontend::testing {
namespace {

using scalar::Value;

struct Case {
  const char* name;
  const char* text;  ///< one op `f`
  std::map<std::string, std::vector<std::int64_t>> shapes;
  std::vector<std::string> wrt;
  std::map<std::string, std::int64_t> attributes = {};
  std::map<std::string, double> scalars = {};
};

class DerivativeValues : public ::testing::TestWithParam<Case> {};

TEST_P(DerivativeValues, AreCentralDifferences) {
  const Case& one = GetParam();
  Call call;
  std::uint64_t seed = 1;
  for (const auto& [name, shape] : one.shapes) call.tensors[name] = spread(shape, seed++);
  for (const auto& [name, value] : one.attributes) call.attributes[name] = Value::i64(value);
  for (const auto& [name, value] : one.scalars) call.scalars[name] = Value::f64(value);
  expect_central_differences(one.text, "f", call, one.wrt);
}

const Case kCases[] = {
    // ---- Reads: the transposed sum is solved for ----
    {"Product",
     "op f(A: f64[I, K], B: f64[K, J]) -> Y: f64[I, J] { Y[i, j] = sum(k) A[i, k] * B[k, j] }",
     {{"A", {3, 4}}, {"B", {4, 5}}},
     {"A", "B"}},
    {"Window",
     "op f(X: f64[H, W], K: f64[P, Q]) -> Y: f64[H - P + 1, W - Q + 1] {\n"
     "  Y[i, j] = sum(p, q) X[i + p, j + q] * K[p, q]\n}",
     {{"X", {5, 6}}, {"K", {2, 3}}},
     {"X", "K"}},
    {"Convolution",
     "op f[stride: int = 1, dilation: int = 1, pad: int = 0, groups: int = 1](\n"
     "    X: f64[N, C, H, W], K: f64[O, C // groups, P, Q], b: f64[O])\n"
     "    -> Y: f64[N, O, (H + 2*pad - dilation*(P-1) - 1) // stride + 1,\n"
     "                    (W + 2*pad - dilation*(Q-1) - 1) // stride + 1]\n"
     "    where C % groups == 0, O % groups == 0 {\n"
     "  Y[n, o, i, j] = b[o] + sum(c, p, q)\n"
     "      X[n, (o // (O // groups)) * (C // groups) + c, stride*i + dilation*p - pad,\n"
     "        stride*j + dilation*q - pad] pad 0 * K[o, c, p, q]\n}",
     {{"X", {2, 4, 5, 6}}, {"K", {6, 2, 3, 2}}, {"b", {6}}},
     {"X", "K", "b"},
     {{"stride", 2}, {"dilation", 2}, {"pad", 2}, {"groups", 2}}},
    {"Stride3",
     "op f[s: int](X: f64[N], K: f64[P]) -> Y: f64[(N - P) // s + 1] { Y[i] = sum(p) X[s*i + p] * K[p] }",
     {{"X", {11}}, {"K", {2}}},
     {"X", "K"},
     {{"s", 3}}},
    {"BackwardsStride",
     "op f[s: int](X: f64[N]) -> Y: f64[N] { Y[i] = X[s*i + N - 1] pad 0 }",
     {{"X", {7}}},
     {"X"},
     {{"s", -2}}},
    {"ConstantStride", "op f(X: f64[N]) -> Y: f64[N // 3] { Y[i] = X[3*i + 1] }", {{"X", {8}}}, {"X"}},
    {"Transposed",
     "op f[stride: int = 1, crop: int = 0](X: f64[C, L], K: f64[C, O, P]) -> Y: f64[O, (L - 1)*stride - 2*crop + P] {\n"
     "  Y[o, x] = sum(c, p) (if (x + crop - p) % stride == 0 then X[c, (x + crop - p) // stride] pad 0 else 0)\n"
     "      * K[c, o, p]\n}",
     {{"X", {2, 4}}, {"K", {2, 3, 5}}},
     {"X", "K"},
     {{"stride", 2}, {"crop", 1}}},
    {"Repeated", "op f(X: f64[H, W]) -> Y: f64[2*H, 3*W] { Y[i, j] = X[i // 2, j // 3] }", {{"X", {2, 3}}}, {"X"}},
    {"RepeatedRagged", "op f(X: f64[H]) -> Y: f64[5] { Y[i] = X[(i + 1) // 2] }", {{"X", {4}}}, {"X"}},
    {"Tiled", "op f(X: f64[H]) -> Y: f64[3*H + 1] { Y[i] = X[i % H] }", {{"X", {4}}}, {"X"}},
    {"TiledPart", "op f(X: f64[H]) -> Y: f64[H + 4] { Y[i] = X[(i + 2) % 3] }", {{"X", {4}}}, {"X"}},
    {"Rotated", "op f(X: f64[N]) -> Y: f64[N] { Y[i] = X[(i + 3) % N] }", {{"X", {5}}}, {"X"}},
    {"Flattened",
     "op f(X: f64[A, B, C]) -> Y: f64[A*B*C] { Y[i] = X[i // (B*C), (i // C) % B, i % C] }",
     {{"X", {2, 3, 4}}},
     {"X"}},
    {"FlattenedTwo", "op f(X: f64[A, B]) -> Y: f64[A*B + 0] { Y[i] = X[i // B, i % B] * 2 }", {{"X", {2, 3}}}, {"X"}},
    {"Diagonal", "op f(X: f64[N, N]) -> Y: f64[N] { Y[i] = X[i, i] }", {{"X", {3, 3}}}, {"X"}},
    {"Reversed", "op f(X: f64[N]) -> Y: f64[N] { Y[i] = X[N - 1 - i] }", {{"X", {5}}}, {"X"}},
    {"OneElement", "op f(X: f64[N, M]) -> Y: f64[N] { Y[i] = X[i, 0] + X[0, M - 1] }", {{"X", {3, 2}}}, {"X"}},
    {"Squares", "op f(X: f64[N]) -> Y: f64[N] { Y[i] = X[i * i % N] }", {{"X", {5}}}, {"X"}},
    {"Clamped",
     "op f(X: f64[N]) -> Y: f64[N] { Y[i] = X[clamp(i - 2, 0, N - 1)] + X[min(i + 1, N - 1)] }",
     {{"X", {5}}},
     {"X"}},
    {"Gathered", "op f(X: f64[N, D]) -> Y: f64[4, D] { Y[i, d] = X[i * 7 % N, d] }", {{"X", {3, 2}}}, {"X"}},
    {"Running", "op f(X: f64[N]) -> Y: f64[N] { Y[i] = sum(j: 0..i+1) X[j] }", {{"X", {6}}}, {"X"}},
    {"Windows",
     "op f(X: f64[N], K: f64[N]) -> Y: f64[4] {\n"
     "  Y[i] = sum(k: i*N // 4 .. ((i+1)*N + 3) // 4) X[k] * K[k]\n}",
     {{"X", {7}}, {"K", {7}}},
     {"X", "K"}},
    {"Pooled", "op f(X: f64[C, H]) -> Y: f64[C, H // 2] { Y[c, i] = max(p: 2) X[c, 2*i + p] }", {{"X", {2, 7}}}, {"X"}},
    {"PooledOverlapping",
     "op f(X: f64[H, W]) -> Y: f64[H - 2, W - 1] { Y[i, j] = max(p: 3, q: 2) X[i + p, j + q] }",
     {{"X", {5, 4}}},
     {"X"}},
    {"AdaptiveMaximum",
     "op f(X: f64[N]) -> Y: f64[3] { Y[i] = max(k: i*N // 3 .. ((i+1)*N + 2) // 3) X[k] }",
     {{"X", {8}}},
     {"X"}},
    {"ClampedInsideATriangle",
     "op f(X: f64[N]) -> Y: f64[N] { Y[i] = sum(p: 0..i + 1) (X[(p + 1) // 2 + i] pad edge) * (X[p] pad edge) }",
     {{"X", {4}}},
     {"X"}},
    {"RoundedDownBehindASign",
     "op f(X: f64[N, M]) -> Y: f64[N, M] { Y[i, j] = (X[(j + 1) // 2 + i, i - j] pad 0) * f64(i + 1) }",
     {{"X", {3, 2}}},
     {"X"}},
    {"Unused", "op f(X: f64[N], Z: f64[N]) -> Y: f64[N] { Y[i] = X[i] }", {{"X", {3}}, {"Z", {3}}}, {"X", "Z"}},
    {"Repeats",
     "op f(X: f64[N], Z: f64[M]) -> Y: f64[N, M] { Y[i, j] = X[i] * Z[j] + X[0] }",
     {{"X", {3}}, {"Z", {2}}},
     {"X", "Z"}},

    // ---- Pads ----
    {"PadValue",
     "op f(X: f64[N], v: f64) -> Y: f64[N + 3] { Y[i] = X[i - 2] pad (2*v + 1) }",
     {{"X", {4}}},
     {"X", "v"},
     {},
     {{"v", 0.5}}},
    {"PadEdge",
     "op f(X: f64[H, W], K: f64[P, Q]) -> Y: f64[H, W] {\n"
     "  Y[i, j] = sum(p, q) (X[i + p - P // 2, j + q - Q // 2] pad edge) * K[p, q]\n}",
     {{"X", {4, 3}}, {"K", {3, 5}}},
     {"X", "K"}},
    {"PadEdgeOfOne", "op f(X: f64[H]) -> Y: f64[5] { Y[i] = X[i - 2] pad edge }", {{"X", {1}}}, {"X"}},
    {"PadWrap",
     "op f(X: f64[H], K: f64[P]) -> Y: f64[H] { Y[i] = sum(p) (X[i + p - P // 2] pad wrap) * K[p] }",
     {{"X", {4}}, {"K", {11}}},
     {"X", "K"}},
    {"PadReflect",
     "op f(X: f64[H, W], K: f64[P, Q]) -> Y: f64[H, W] {\n"
     "  Y[i, j] = sum(p, q) (X[i + p - P // 2, j + q - Q // 2] pad reflect) * K[p, q]\n}",
     {{"X", {4, 3}}, {"K", {3, 7}}},
     {"X", "K"}},
    {"PadReflectOfOne", "op f(X: f64[H]) -> Y: f64[5] { Y[i] = X[i - 2] pad reflect }", {{"X", {1}}}, {"X"}},
    {"PadReflectOfTwo", "op f(X: f64[H]) -> Y: f64[9] { Y[i] = X[i - 4] pad reflect }", {{"X", {2}}}, {"X"}},

    // ---- Reductions ----
    {"SumThenLog",
     "op f(X: f64[N, K], g: f64) -> Y: f64[N] { Y[n] = g * log(sum(k) exp(X[n, k])) }",
     {{"X", {2, 3}}},
     {"X", "g"},
     {},
     {{"g", 1.5}}},
    {"Maximum",
     "op f(X: f64[N, K], Z: f64[N]) -> Y: f64[N] { Y[n] = Z[n] * max(k) X[n, k] }",
     {{"X", {3, 4}}, {"Z", {3}}},
     {"X", "Z"}},
    {"Minimum", "op f(X: f64[N, K]) -> Y: f64[N] { Y[n] = min(k: 1..K) X[n, k] * X[n, k] }", {{"X", {3, 4}}}, {"X"}},
    {"Product1", "op f(X: f64[N, K]) -> Y: f64[N] { Y[n] = prod(k) X[n, k] }", {{"X", {2, 4}}}, {"X"}},
    {"Product2", "op f(X: f64[N, K]) -> Y: f64[1] { Y[o] = prod(n, k) X[n, k] }", {{"X", {2, 2}}}, {"X"}},
    {"ProductWindow", "op f(X: f64[N]) -> Y: f64[N - 2] { Y[i] = prod(p: 0..3) X[i + p] }", {{"X", {6}}}, {"X"}},
    {"ProductTriangle",
     "op f(X: f64[N, M]) -> Y: f64[N, M] { Y[i, j] = prod(k: max(j - 2, 0)..j + 1) X[i, k] }",
     {{"X", {2, 5}}},
     {"X"}},
    {"Nested",
     "op f(X: f64[N, K], Z: f64[N, K]) -> (Best: f64[1], Saddle: f64[1], Twice: f64[1]) {\n"
     "  Best[o] = max(n) sum(k) X[n, k] * Z[n, k]\n"
     "  Saddle[o] = min(n) max(k) X[n, k]\n"
     "  Twice[o] = sum(n) (sum(k) X[n, k]) * (sum(k) Z[n, k])\n}",
     {{"X", {3, 4}}, {"Z", {3, 4}}},
     {"X", "Z"}},
    {"RankZero", "op f(X: f64[N]) -> Y: f64 { Y = sum(i) X[i] * X[i] }", {{"X", {4}}}, {"X"}},
    {"Argmax",
     "op f(X: f64[N]) -> (Y: f64[1], At: i64[1]) {\n"
     "  let s = max(i) X[i]\n  Y[o] = s * s\n  At[o] = argmax(i) X[i]\n}",
     {{"X", {5}}},
     {"X"}},
    {"Cancelled",
     "op f(X: f64[N], Z: f64[N]) -> Y: f64 {\n"
     "  let t[i] = X[i] * 0\n  let u[i] = t[i] * Z[i]\n  Y = sum(i, j: 0..i + 1) u[j] * X[i]\n}",
     {{"X", {4}}, {"Z", {4}}},
     {"X", "Z"}},
    {"GuardedNested",
     "op f(X: f64[N, M]) -> Y: f64[N, M] {\n"
     "  Y[i, j] = if j > 0 then X[i, j] else max(p: M) ((min(q: M) X[i, max(j - 1, 0)] * X[q, 0] pad edge) * X[i, "
     "p])\n}",
     {{"X", {3, 2}}},
     {"X"}},
    {"SharedSum",
     "op f(X: f64[N, M]) -> Y: f64[N] {\n"
     "  Y[i] = let s = sum(p) X[i, p] in s + (if s > 0.1 then sum(q: 0..i + 1) X[q, 0] * s else max(q) X[i, q] * s)\n}",
     {{"X", {4, 3}}},
     {"X"}},
    {"RepeatedByAnIntermediate",
     "op f(X: f64[N, M], Z: f64[N]) -> Y: f64[N] {\n"
     "  let t[i: N, j: M] = X[i, clamp(i - 1, 0, M - 1)]\n"
     "  Y[i] = sum(p: M) t[i, (i + p) % M] * Z[i]\n}",
     {{"X", {3, 2}}, {"Z", {3}}},
     {"X", "Z"}},
    {"GuardedSum",
     "op f(X: f64[N, K]) -> Y: f64[N] { Y[n] = if n > 0 then sum(k) X[n, k] * X[n - 1, k] else X[n, 0] }",
     {{"X", {3, 2}}},
     {"X"}},

    // ---- Statements ----
    {"Softmax",
     "op f(X: f64[N, D]) -> Y: f64[N, D] {\n"
     "  let m[n] = max(d) X[n, d]\n  let e[n, d] = exp(X[n, d] - m[n])\n"
     "  Y[n, d] = e[n, d] / sum(k) e[n, k]\n}",
     {{"X", {2, 4}}},
     {"X"}},
    {"Whole",
     "op f(X: f64[Ci, H, W], K: f64[Co, Ci, 1, 1]) -> Y: f64[Co, H, W] {\n"
     "  let A = reshape(K, [Co, Ci])\n  let B = reshape(X, [Ci, H * W])\n"
     "  Y = reshape(matmul(A, B), [Co, H, W])\n}",
     {{"X", {2, 3, 4}}, {"K", {3, 2, 1, 1}}},
     {"X", "K"}},
    {"Slices",
     "op f(X: f64[A, B, C]) -> (Y: f64[A - 1, B, (C + 1) // 2], Z: f64[C, B, A], V: f64[A, B, C + 3]) {\n"
     "  Y = X[1:, :, ::2]\n  Z = transpose(X) * 3\n  V = pad(X, [[0, 0], [0, 0], [1, 2]], 0.5)\n}",
     {{"X", {2, 3, 5}}},
     {"X"}},
    {"Joined",
     "op f(A: f64[N, M], B: f64[K, M]) -> Y: f64[N + K, M] {\n  let C = concat([A, B], 0)\n  Y = C * C\n}",
     {{"A", {2, 3}}, {"B", {4, 3}}},
     {"A", "B"}},
    {"Calls",
     "fn gelu(x: f64) -> f64 = 0.5 * x * (1 + erf(x / sqrt(2)))\n"
     "op inner[n: int = 2](X: f64[N]) -> (S: f64[N], T: f64) {\n"
     "  S[i] = gelu(X[i]) * f64(n)\n  T = sum(i) X[i]\n}\n"
     "op f(X: f64[N], Z: f64[N]) -> Y: f64[N] {\n"
     "  let (a, t) = inner[n = 3](X)\n  let (b, u) = inner(Z)\n  Y[i] = a[i] * b[i] + t * u\n}",
     {{"X", {4}}, {"Z", {4}}},
     {"X", "Z"}},
    {"ResultsReadLater",
     "op f(X: f64[N]) -> (A: f64[N], B: f64[N]) {\n  A[i] = X[i] * X[i]\n  B[i] = A[N - 1 - i] * X[i]\n}",
     {{"X", {4}}},
     {"X"}},
    {"Twice",
     "op f(X: f64[N]) -> Y: f64[N] {\n  let t[i] = tanh(X[i])\n  let u[i] = t[i] * t[i]\n"
     "  Y[i] = u[i] / (1 + u[N - 1 - i])\n}",
     {{"X", {4}}},
     {"X"}},
    {"Constant",
     "const w: f64[3] = [1, -2, 0.5]\n"
     "op f(X: f64[N]) -> Y: f64[N] { Y[i] = sum(p) (X[i + p - 1] pad 0) * w[p] }",
     {{"X", {5}}},
     {"X"}},

    // ---- Conditions ----
    {"If",
     "op f(X: f64[N]) -> Y: f64[N] { Y[i] = if X[i] > 0 then X[i] * X[i] - 3 * X[i] else 2 * X[i] }",
     {{"X", {6}}},
     {"X"}},
    {"LazyRead",
     "op f(X: f64[N]) -> Y: f64[N] { Y[i] = if i > 0 then X[i] * X[i - 1] else X[i] }",
     {{"X", {5}}},
     {"X"}},
    {"Selected",
     "op f(X: f64[N]) -> Y: f64[N] { Y[i] = select(X[i] > 0, X[i] * X[i], exp(X[i])) }",
     {{"X", {5}}},
     {"X"}},
    {"Leaky",
     "op f[a: float = 0.25](X: f64[N]) -> Y: f64[N] { Y[i] = if X[i] > 0 then X[i] else a * X[i] }",
     {{"X", {5}}},
     {"X"}},
    {"Relu", "op f(X: f64[N]) -> Y: f64[N] { Y[i] = max(X[i], 0) + min(X[i], 0.5) }", {{"X", {6}}}, {"X"}},
};

INSTANTIATE_TEST_SUITE_P(All, DerivativeValues, ::testing::ValuesIn(kCases),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace corrloom::frontend::testing
