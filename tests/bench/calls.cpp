#include <benchmark/benchmark.h>

#include <array>

#include "compiler/api/corrloom.h"

/// What a call costs besides the work of its kernel: ops of a few elements on the host.
namespace corrloom {
namespace {

constexpr const char* kOps = R"(
op add(X: f32[N], Z: f32[N]) -> Y: f32[N] { Y[i] = X[i] + Z[i] }
op linear(X: f32[B, I], W: f32[O, I], b: f32[O]) -> Y: f32[B, O] { Y[r, o] = b[o] + sum(i) X[r, i] * W[o, i] }
)";

/// An op with its operands and a result.
struct Case {
  Op op;
  std::vector<Argument> arguments;
  Tensor result;
};

Case add_case() {
  const Library library = Library::parse(kOps, "calls.loom");
  return {library["add"], {randn({8}), randn({8}, f32, cpu(), 1)}, Tensor::empty({8})};
}
Case linear_case() {
  const Library library = Library::parse(kOps, "calls.loom");
  return {library["linear"], {randn({2, 3}), randn({1, 3}, f32, cpu(), 1), randn({1})}, Tensor::empty({2, 1})};
}

Compiled compiled(const Case& one) {
  std::vector<TypeArgument> types;
  for (const Argument& argument : one.arguments) types.emplace_back(argument.tensor().type());
  return one.op.compile(types, cpu());
}

__attribute__((noinline)) void plain_add(const float* x, const float* z, float* y) {
  for (int i = 0; i < 8; ++i) y[i] = x[i] + z[i];
}

void plain_function(benchmark::State& state) {
  std::array<float, 8> x{}, z{}, y{};
  for (auto _ : state) {
    plain_add(x.data(), z.data(), y.data());
    benchmark::DoNotOptimize(y.data());
    benchmark::ClobberMemory();
  }
}

template <Case (*make)()>
void op_run_into(benchmark::State& state) {
  const Case one = make();
  const std::array<Tensor, 1> results = {one.result};
  for (auto _ : state) one.op.run_into(one.arguments, results);
}
/// As a program writes it: `op.run_into({X, W, b}, {Y})`.
void op_run_into_as_written(benchmark::State& state) {
  const Case one = linear_case();
  const Tensor X = one.arguments[0].tensor(), W = one.arguments[1].tensor(), b = one.arguments[2].tensor();
  for (auto _ : state) one.op.run_into({X, W, b}, {one.result});
}
void op_with_new_result_as_written(benchmark::State& state) {
  const Case one = linear_case();
  const Tensor X = one.arguments[0].tensor(), W = one.arguments[1].tensor(), b = one.arguments[2].tensor();
  for (auto _ : state) benchmark::DoNotOptimize(one.op(X, W, b));
}
template <Case (*make)()>
void compiled_run_into(benchmark::State& state) {
  const Case one = make();
  const Compiled program = compiled(one);
  const std::array<Tensor, 1> results = {one.result};
  for (auto _ : state) program.run_into(one.arguments, results);
}
template <Case (*make)()>
void bound_run(benchmark::State& state) {
  const Case one = make();
  const std::array<Tensor, 1> results = {one.result};
  BoundCall call = compiled(one).bind(one.arguments, results);
  for (auto _ : state) call.run();
}
template <Case (*make)()>
void op_with_new_result(benchmark::State& state) {
  const Case one = make();
  for (auto _ : state) benchmark::DoNotOptimize(one.op.call(one.arguments));
}

BENCHMARK(plain_function);
BENCHMARK(op_run_into<add_case>);
BENCHMARK(op_run_into<linear_case>);
BENCHMARK(op_run_into_as_written);
BENCHMARK(compiled_run_into<add_case>);
BENCHMARK(compiled_run_into<linear_case>);
BENCHMARK(bound_run<add_case>);
BENCHMARK(bound_run<linear_case>);
BENCHMARK(op_with_new_result<add_case>);
BENCHMARK(op_with_new_result<linear_case>);
BENCHMARK(op_with_new_result_as_written);

}  // namespace
}  // namespace corrloom

BENCHMARK_MAIN();
