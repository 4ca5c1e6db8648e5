#include <benchmark/benchmark.h>

#include <cstdlib>
#include <map>

#include "compiler/api/corrloom.h"

/// What compiling an op for the host costs, and each step of it: microseconds by step as counters.
namespace corrloom {
namespace {

constexpr const char* kOps = R"(
import "std"
op add(X: f32[N], Z: f32[N]) -> Y: f32[N] { Y[i] = X[i] + Z[i] }
op gemm(A: f32[M, L], B: f32[L, N]) -> Y: f32[M, N] { Y[i, j] = sum(k) A[i, k] * B[k, j] }
op conv(X: f32[C, H, W], K: f32[O, C, P, Q]) -> Y: f32[O, H, W] {
  Y[o, i, j] = sum(c, p, q) X[c, i + p - 1, j + q - 1] pad 0 * K[o, c, p, q]
}
op rows(X: f32[N, D]) -> Y: f32[N, D] { Y = softmax(X) }
op heads(Q: f32[H, N, D], K: f32[H, M, D], V: f32[H, M, D]) -> Y: f32[H, N, D] {
  let S[h, i, j] = (sum(d) Q[h, i, d] * K[h, j, d]) / sqrt(f32(D))
  let P = softmax(S)
  Y[h, i, d] = sum(j) P[h, i, j] * V[h, j, d]
}
)";

TensorType type(Shape shape) {
  return {f32, std::move(shape)};
}

void compile(benchmark::State& state, const char* name, const std::vector<TypeArgument>& types) {
  ::setenv("CORRLOOM_CACHE_DIR", "off", 1);
  const Op op = Library::parse(kOps, "compile.loom")[name];
  std::map<std::string, double> steps;
  for (auto _ : state) {
    for (const auto& [step, ns] : op.compile_for(types, "host").step_times()) steps[step] += static_cast<double>(ns);
  }
  for (const auto& [step, ns] : steps)
    state.counters[step + " us"] = benchmark::Counter(ns / 1e3, benchmark::Counter::kAvgIterations);
}

BENCHMARK_CAPTURE(compile, add, "add", {type({1000}), type({1000})})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(compile, gemm, "gemm", {type({512, 512}), type({512, 512})})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(compile, conv, "conv", {type({64, 56, 56}), type({64, 64, 3, 3})})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(compile, softmax, "rows", {type({4096, 1024})})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(compile, attention, "heads", {type({8, 512, 64}), type({8, 512, 64}), type({8, 512, 64})})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace corrloom

BENCHMARK_MAIN();
