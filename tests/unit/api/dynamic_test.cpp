#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "compiler/api/corrloom.h"

namespace corrloom {
namespace {

using ::testing::HasSubstr;

constexpr const char* kOps = R"(
import "std"

op valid(X: f32[C, H, W], K: f32[O, C, P, Q]) -> Y: f32[O, H - P + 1, W - Q + 1] {
  Y[o, i, j] = sum(c, p, q) X[c, i + p, j + q] * K[o, c, p, q]
}
op same(X: f32[H, W], K: f32[P, Q]) -> Y: f32[H, W] {
  Y[i, j] = sum(p, q) X[i + p - P // 2, j + q - Q // 2] pad 0 * K[p, q]
}
op edges(X: f32[N], K: f32[P]) -> Y: f32[N] {
  Y[i] = sum(p) X[i + p - P // 2] pad reflect * K[p]
}
op soft(X: f32[N, D]) -> Y: f32[N, D] {
  let m[n] = max(d) X[n, d]
  let e[n, d] = exp(X[n, d] - m[n])
  Y[n, d] = e[n, d] / sum(k) e[n, k]
}
op total(X: f32[N, D]) -> (S: f32, P: f32[N]) {
  S = sum(n, d) X[n, d]
  P[n] = sum(m: 0..n+1, d) X[m, d]
}
op product(A: f32[M, K], B: f32[K, N]) -> Y: f32[M, N] { Y = matmul(A, B) }
op weighted(X: f32[N], W: f32[D], bias: f32 = 1) -> Y: f32[N] {
  Y[n] = f32(N) * X[n] + f32(D) * bias
}
op flat(X: f32[C, H, W], K: f32[O, C]) -> Y: f32[O, H, W] {
  Y = reshape(matmul(K, reshape(X, [C, H * W])), [O, H, W])
}
op turned(X: f32[N, D]) -> Y: f32[D * N] { Y = reshape(transpose(X), [D * N]) }
op picked(X: f32[N], I: i32[M]) -> Y: f32[M] { Y[m] = X[I[m]] }
op pairs(X: f32[N]) -> Y: f32[N // 2] where N > 2 { Y[i] = X[2 * i] + X[2 * i + 1] }
op fixed(X: f32[N]) -> Y: f32[N] { Y[i] = X[i] + X[3] }
op best(X: f32[N, D]) -> Y: i64[N] { Y[n] = argmax(d) X[n, d] }
)";

const Library& library() {
  static const Library ops = Library::parse(kOps, "dynamic.loom");
  return ops;
}

TensorType open(const Tensor& tensor) {
  return {tensor.dtype(), Shape(tensor.shape().size(), kDynamic)};
}

std::vector<TypeArgument> open_types(const std::vector<Argument>& arguments) {
  std::vector<TypeArgument> types;
  for (const Argument& argument : arguments)
    types.push_back(argument.is_tensor() ? TypeArgument(open(argument.tensor())) : TypeArgument(argument.scalar()));
  return types;
}

void expect_same_bits(const std::vector<Tensor>& found, const std::vector<Tensor>& wanted, const std::string& what) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t k = 0; k < found.size(); ++k) {
    const Tensor a = found[k].to(cpu()), b = wanted[k].to(cpu());
    a.wait();
    b.wait();
    ASSERT_EQ(a.type(), b.type()) << what;
    EXPECT_EQ(std::memcmp(a.address(), b.address(), static_cast<std::size_t>(a.byte_count())), 0)
        << what << " for " << a.type().to_string();
  }
}

/// Calls with arguments of many shapes: one program for all, against one for each.
void expect_static_bits(const std::string& name, const std::vector<std::vector<Shape>>& calls, Device device) {
  const Op op = library()[name];
  std::optional<Compiled> compiled;
  std::uint64_t seed = 1;
  for (const std::vector<Shape>& shapes : calls) {
    std::vector<Argument> arguments;
    for (const Shape& shape : shapes) arguments.emplace_back(randn(shape, f32, device, ++seed));
    if (!compiled) compiled = op.compile(open_types(arguments), device);
    std::string what = name + " on " + device.name();
    for (const Shape& shape : shapes) what += " " + TensorType{f32, shape}.to_string();
    expect_same_bits(compiled->call(arguments), op.call(arguments), what);
  }
}

class DynamicTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam() && device_count() == 0) GTEST_SKIP() << "no GPU, not even a simulated one";
  }
  Device device() const { return GetParam() ? cuda(0) : cpu(); }
};

TEST_P(DynamicTest, GivesTheBitsOfKnownSizes) {
  expect_static_bits("valid",
                     {{{2, 5, 7}, {3, 2, 2, 3}},
                      {{1, 1, 1}, {1, 1, 1, 1}},
                      {{3, 17, 33}, {5, 3, 3, 3}},
                      {{2, 9, 16}, {1, 2, 4, 1}},
                      {{0, 4, 4}, {2, 0, 2, 2}},
                      {{3, 19, 70}, {17, 3, 3, 5}}},
                     device());
  expect_static_bits("same", {{{5, 7}, {3, 3}}, {{1, 1}, {3, 5}}, {{17, 65}, {5, 3}}, {{0, 3}, {1, 1}}}, device());
  expect_static_bits("edges", {{{7}, {3}}, {{1}, {3}}, {{2}, {5}}, {{67}, {7}}}, device());
  expect_static_bits("soft", {{{3, 5}}, {{1, 1}}, {{2, 16}}, {{7, 17}}, {{5, 131}}, {{0, 4}}}, device());
  expect_static_bits("total", {{{3, 5}}, {{1, 1}}, {{16, 16}}, {{7, 33}}, {{0, 3}}, {{3, 0}}}, device());
  expect_static_bits("product",
                     {{{2, 3}, {3, 5}}, {{17, 33}, {33, 65}}, {{1, 1}, {1, 1}}, {{8, 64}, {64, 64}}, {{3, 0}, {0, 4}}},
                     device());
  expect_static_bits("weighted", {{{3}, {5}}, {{37}, {2}}, {{0}, {1}}}, device());
  expect_static_bits("flat", {{{2, 3, 5}, {4, 2}}, {{3, 17, 9}, {5, 3}}, {{1, 1, 1}, {1, 1}}}, device());
  expect_static_bits("turned", {{{3, 5}}, {{1, 7}}, {{33, 17}}, {{0, 3}}}, device());
  expect_static_bits("best", {{{3, 5}}, {{2, 1}}, {{9, 67}}, {{0, 3}}}, device());
}
INSTANTIATE_TEST_SUITE_P(Devices, DynamicTest, ::testing::Values(false, true),
                         [](const auto& info) { return info.param ? "Gpu" : "Host"; });

TEST(Dynamic, LeavesOpenWhatIsAskedFor) {
  const Op op = library()["product"];
  const Compiled compiled = op.compile({TensorType{f32, {kDynamic, 3}}, TensorType{f32, {3, 5}}}, cpu());
  const Tensor B = randn({3, 5}, f32, cpu(), 1);
  for (const std::int64_t rows : {0, 1, 7, 64}) {
    const Tensor A = randn({rows, 3}, f32, cpu(), 2);
    expect_same_bits({compiled(A, B)}, {op(A, B)}, "product");
  }
  EXPECT_THROW((void)compiled(ones({2, 4}), ones({4, 5})), InputError);
  EXPECT_THROW((void)compiled(ones({2, 3}), ones({3, 6})), InputError);
  EXPECT_THROW((void)compiled(ones({2, 3}), ones({4, 5})), InputError);
  EXPECT_THROW((void)compiled(ones({2, 3, 1}), B), InputError);
  // An extent that another argument fixes.
  const Compiled implied = op.compile({TensorType{f32, {2, kDynamic}}, TensorType{f32, {3, kDynamic}}}, cpu());
  EXPECT_EQ(implied(ones({2, 3}), ones({3, 4})).element(0).as_f64(), 3);
  EXPECT_THROW((void)implied(ones({2, 5}), ones({5, 4})), InputError);
}

TEST(Dynamic, JudgesEachCallAtItsEntry) {
  const Compiled pairs = library()["pairs"].compile({TensorType{f32, {kDynamic}}}, cpu());
  EXPECT_EQ(pairs(ones({5})).shape(), Shape({2}));
  try {
    (void)pairs(ones({2}));
    FAIL() << "the where clause does not hold";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("N > 2"));
    EXPECT_THAT(error.what(), HasSubstr("N = 2"));
  }
  const Compiled fixed = library()["fixed"].compile({TensorType{f32, {kDynamic}}}, cpu());
  EXPECT_EQ(fixed(ones({4})).element(0).as_f64(), 2);
  try {
    (void)fixed(ones({3}));
    FAIL() << "X[3] is outside";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("X[3]"));
    EXPECT_THAT(error.what(), HasSubstr("extent 3"));
  }
  const Compiled best = library()["best"].compile({TensorType{f32, {kDynamic, kDynamic}}}, cpu());
  EXPECT_THROW((void)best(ones({2, 0})), InputError);
}

TEST(Dynamic, ChecksWhatDataDecidesWhileItRuns) {
  const Compiled picked =
      library()["picked"].compile({TensorType{f32, {kDynamic}}, TensorType{i32, {kDynamic}}}, cpu());
  const std::vector<std::int32_t> inside = {2, 0, 1}, outside = {2, 5, 1};
  const Tensor X = arange({3});
  EXPECT_EQ(picked(X, Tensor::from<std::int32_t>(inside, {3})).element(0).as_f64(), 2);
  EXPECT_THROW((void)picked(X, Tensor::from<std::int32_t>(outside, {3})).wait(), InputError);
}

TEST(Dynamic, PassesScalarsAndSizesToItsKernels) {
  const Op op = library()["weighted"];
  const Compiled compiled = op.compile({TensorType{f32, {kDynamic}}, TensorType{f32, {kDynamic}}, 0.5f}, cpu());
  for (const float bias : {0.5f, -3.25f}) {
    const std::vector<Argument> arguments = {randn({9}, f32, cpu(), 3), ones({4}), bias};
    expect_same_bits(compiled.call(arguments), op.call(arguments), "weighted");
  }
  EXPECT_THAT(compiled.text(Stage::Loop), HasSubstr("symbols [N, D"));
  const Compiled ptx = op.compile_for({TensorType{f32, {kDynamic}}, TensorType{f32, {kDynamic}}}, "sm_90a");
  EXPECT_THAT(ptx.text(Stage::Ptx), HasSubstr(".param .u64"));
}

TEST(Dynamic, RunsIntoOutputsAndBoundCallsAndFromManyThreads) {
  const Op op = library()["product"];
  const Compiled compiled =
      op.compile({TensorType{f32, {kDynamic, kDynamic}}, TensorType{f32, {kDynamic, kDynamic}}}, cpu());
  const auto run = [&](std::int64_t rows) {
    const Tensor A = randn({rows, 5}, f32, cpu(), 1), B = randn({5, 3}, f32, cpu(), 2), Y = zeros({rows, 3});
    compiled.run_into({A, B}, {Y});
    expect_same_bits({Y}, {op(A, B)}, "run_into");
    const Tensor Z = zeros({rows, 3});
    compiled.bind({A, B}, {Z}).run();
    expect_same_bits({Z}, {Y}, "bind");
    EXPECT_THROW(compiled.run_into({A, B}, {zeros({rows + 1, 3})}), InputError);
  };
  std::vector<std::thread> threads;
  for (const std::int64_t rows : {1, 2, 17, 40}) threads.emplace_back(run, rows);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace corrloom
