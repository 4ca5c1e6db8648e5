// Derivatives against backward ops that a person wrote.

#include "derivative_testing.h"

namespace corrloom::frontend::testing {
namespace {

/// Runs `op` of the text's own and the derivative of `of` on the same arguments; every result must agree.
void expect_same(const std::string& text, const std::string& of, const std::string& by_hand, const Call& call,
                 const std::vector<std::string>& wrt) {
  DerivativeOptions options;
  options.name = "derived";
  const std::string derived = derivative_of(text, of, wrt, options);
  SCOPED_TRACE(derived);
  const auto found = run(load_text(derived), "derived", call), wanted = run(load_text(text), by_hand, call);
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t k = 0; k < found.size(); ++k) {
    ASSERT_EQ(found[k].extents, wanted[k].extents);
    for (std::int64_t element = 0; element < found[k].count(); ++element) {
      const double here = found[k].at(element).as_f64(), there = wanted[k].at(element).as_f64();
      // f64 sums of a few dozen terms in two orders.
      EXPECT_NEAR(here, there, 1e-12 * std::max(1.0, std::abs(there))) << "d" << wrt[k] << ", element " << element;
    }
  }
}

TEST(HandwrittenDerivative, OfAConvolution) {
  const char* text = R"(
op conv(X: f64[N, C, H, W], K: f64[O, C, P, Q], b: f64[O]) -> Y: f64[N, O, H, W] {
  Y[n, o, i, j] = b[o] + sum(c, p, q) X[n, c, i + p - P // 2, j + q - Q // 2] pad 0 * K[o, c, p, q]
}
op back(X: f64[N, C, H, W], K: f64[O, C, P, Q], b: f64[O], dY: f64[N, O, H, W])
    -> (dX: f64[N, C, H, W], dK: f64[O, C, P, Q], db: f64[O]) {
  let flipped[c, o, p: P, q: Q] = K[o, c, P - 1 - p, Q - 1 - q]
  dX[n, c, y, x] = sum(o, p, q) dY[n, o, y + p - (P - 1 - P // 2), x + q - (Q - 1 - Q // 2)] pad 0 * flipped[c, o, p, q]
  dK[o, c, p, q] = sum(n, i: H, j: W) dY[n, o, i, j] * (X[n, c, i + p - P // 2, j + q - Q // 2] pad 0)
  db[o] = sum(n, i, j) dY[n, o, i, j]
}
)";
  const Call call{{{"X", spread({2, 3, 5, 4}, 1)},
                   {"K", spread({2, 3, 3, 2}, 2)},
                   {"b", spread({2}, 3)},
                   {"dY", spread({2, 2, 5, 4}, 4)}}};
  expect_same(text, "conv", "back", call, {"X", "K", "b"});
}

TEST(HandwrittenDerivative, OfSoftmaxCrossEntropy) {
  const char* text = R"(
op loss(X: f64[N, D], At: i64[N]) -> Y: f64[N] {
  let m[n] = max(d) X[n, d]
  let s[n] = sum(d) exp(X[n, d] - m[n])
  Y[n] = log(s[n]) + m[n] - sum(d: D) (if d == At[n] then X[n, d] else 0)
}
op back(X: f64[N, D], At: i64[N], dY: f64[N]) -> dX: f64[N, D] {
  let m[n] = max(d) X[n, d]
  let e[n, d] = exp(X[n, d] - m[n])
  let s[n] = sum(d) e[n, d]
  dX[n, d] = dY[n] * (e[n, d] / s[n] - f64(d == At[n]))
}
)";
  Call call{{{"X", spread({3, 4}, 1)}, {"dY", spread({3}, 2)}}};
  call.tensors["At"] = integers(DType::I64, {3}, {1, 3, 1});
  expect_same(text, "loss", "back", call, {"X"});
}

TEST(HandwrittenDerivative, OfLayerNorm) {
  const char* text = R"(
op norm(X: f64[N, D], g: f64[D], b: f64[D]) -> Y: f64[N, D] {
  let mean[n] = sum(d) X[n, d] / f64(D)
  let c[n, d] = X[n, d] - mean[n]
  let v[n] = sum(d) c[n, d] * c[n, d] / f64(D)
  Y[n, d] = c[n, d] / sqrt(v[n] + 0.001) * g[d] + b[d]
}
op back(X: f64[N, D], g: f64[D], b: f64[D], dY: f64[N, D]) -> (dX: f64[N, D], dg: f64[D], db: f64[D]) {
  let mean[n] = sum(d) X[n, d] / f64(D)
  let v[n] = sum(d) (X[n, d] - mean[n]) * (X[n, d] - mean[n]) / f64(D)
  let r[n] = 1 / sqrt(v[n] + 0.001)
  let h[n, d] = (X[n, d] - mean[n]) * r[n]
  let t[n, d] = dY[n, d] * g[d]
  let a[n] = sum(d) t[n, d] / f64(D)
  let c[n] = sum(d) t[n, d] * h[n, d] / f64(D)
  dX[n, d] = r[n] * (t[n, d] - a[n] - h[n, d] * c[n])
  dg[d] = sum(n) dY[n, d] * h[n, d]
  db[d] = sum(n) dY[n, d]
}
)";
  const Call call{{{"X", spread({3, 5}, 1)}, {"g", spread({5}, 2)}, {"b", spread({5}, 3)}, {"dY", spread({3, 5}, 4)}}};
  expect_same(text, "norm", "back", call, {"X", "g", "b"});
}

TEST(HandwrittenDerivative, OfAttention) {
  const char* text = R"(
op attention(Q: f64[H, N, D], K: f64[H, M, D], V: f64[H, M, E]) -> Y: f64[H, N, E] {
  let s[h, n, m] = (sum(d) Q[h, n, d] * K[h, m, d]) / sqrt(f64(D))
  let top[h, n] = max(m) s[h, n, m]
  let e[h, n, m] = exp(s[h, n, m] - top[h, n])
  let p[h, n, m] = e[h, n, m] / sum(k) e[h, n, k]
  Y[h, n, c] = sum(m) p[h, n, m] * V[h, m, c]
}
op back(Q: f64[H, N, D], K: f64[H, M, D], V: f64[H, M, E], dY: f64[H, N, E])
    -> (dQ: f64[H, N, D], dK: f64[H, M, D], dV: f64[H, M, E]) {
  let s[h, n, m] = (sum(d) Q[h, n, d] * K[h, m, d]) / sqrt(f64(D))
  let top[h, n] = max(m) s[h, n, m]
  let e[h, n, m] = exp(s[h, n, m] - top[h, n])
  let p[h, n, m] = e[h, n, m] / sum(k) e[h, n, k]
  let dp[h, n, m] = sum(c) dY[h, n, c] * V[h, m, c]
  let t[h, n] = sum(m) p[h, n, m] * dp[h, n, m]
  let ds[h, n, m] = p[h, n, m] * (dp[h, n, m] - t[h, n]) / sqrt(f64(D))
  dQ[h, n, d] = sum(m) ds[h, n, m] * K[h, m, d]
  dK[h, m, d] = sum(n) ds[h, n, m] * Q[h, n, d]
  dV[h, m, c] = sum(n) p[h, n, m] * dY[h, n, c]
}
)";
  const Call call{{{"Q", spread({2, 3, 4}, 1)},
                   {"K", spread({2, 5, 4}, 2)},
                   {"V", spread({2, 5, 3}, 3)},
                   {"dY", spread({2, 3, 3}, 4)}}};
  expect_same(text, "attention", "back", call, {"Q", "K", "V"});
}

}  // namespace
}  // namespace corrloom::frontend::testing
