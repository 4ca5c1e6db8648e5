// The derivative of a derivative against central differences of the first one.

#include "derivative_testing.h"

namespace corrloom::frontend::testing {
namespace {

struct Case {
  const char* name;
  const char* text;  ///< one op `f` with the result Y
  std::map<std::string, std::vector<std::int64_t>> shapes;
  std::vector<std::string> wrt;
};

class SecondDerivatives : public ::testing::TestWithParam<Case> {};

TEST_P(SecondDerivatives, AreCentralDifferencesOfTheFirst) {
  const Case& one = GetParam();
  const std::string first = derivative_of(one.text, "f", one.wrt);
  Call call;
  std::uint64_t seed = 1;
  for (const auto& [name, shape] : one.shapes) call.tensors[name] = spread(shape, seed++);
  std::vector<std::string> wrt = one.wrt;
  wrt.push_back("dY");
  expect_central_differences(first, "d_f", call, wrt, 1e-5);
}

const Case kCases[] = {
    {"Convolution",
     "op f(X: f64[C, H], K: f64[O, C, P]) -> Y: f64[O, H] {\n"
     "  Y[o, i] = sum(c, p) X[c, i + p - P // 2] pad 0 * K[o, c, p]\n}",
     {{"X", {2, 5}}, {"K", {3, 2, 3}}, {"dY", {3, 5}}},
     {"X", "K"}},
    {"Softmax",
     "op f(X: f64[N, D]) -> Y: f64[N, D] {\n"
     "  let m[n] = max(d) X[n, d]\n  let e[n, d] = exp(X[n, d] - m[n])\n  Y[n, d] = e[n, d] / sum(k) e[n, k]\n}",
     {{"X", {2, 3}}, {"dY", {2, 3}}},
     {"X"}},
    {"LayerNorm",
     "op f(X: f64[N, D], g: f64[D]) -> Y: f64[N, D] {\n"
     "  let mean[n] = sum(d) X[n, d] / f64(D)\n"
     "  let v[n] = sum(d) (X[n, d] - mean[n]) * (X[n, d] - mean[n]) / f64(D)\n"
     "  Y[n, d] = (X[n, d] - mean[n]) / sqrt(v[n] + 0.5) * g[d]\n}",
     {{"X", {2, 4}}, {"g", {4}}, {"dY", {2, 4}}},
     {"X", "g"}},
    {"Strided",
     "op f(X: f64[N], K: f64[P]) -> Y: f64[(N - P) // 2 + 1] { Y[i] = sum(p) tanh(X[2*i + p]) * K[p] }",
     {{"X", {7}}, {"K", {3}}, {"dY", {3}}},
     {"X", "K"}},
    {"Functions",
     "op f(X: f64[N]) -> Y: f64[N] { Y[i] = sin(X[i]) * exp(X[i] / 2) + erf(X[i]) / (2 + cosh(X[i])) }",
     {{"X", {6}}, {"dY", {6}}},
     {"X"}},
};

INSTANTIATE_TEST_SUITE_P(All, SecondDerivatives, ::testing::ValuesIn(kCases),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace corrloom::frontend::testing
