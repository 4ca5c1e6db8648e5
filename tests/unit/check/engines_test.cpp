// What holds for an op whatever runs it: the number of threads changes no bit, and a fault harms nothing but its call.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <span>

#include "compiler/api/corrloom.h"
#include "compiler/tools/check/arrays.h"
#include "compiler/tools/check/judge.h"

namespace corrloom::tools {
namespace {

using testing::HasSubstr;

/// The first GPU, a simulated one.
Device simulated_gpu() {
  ::setenv("CORRLOOM_CUDA", "sim", 1);
  EXPECT_GT(device_count(), 0);
  return cuda(0);
}

struct Work {
  const char* name;
  const char* text;
  std::vector<Shape> shapes;
};

void PrintTo(const Work& work, std::ostream* out) {
  *out << work.name;
}

const Work kWorks[] = {
    {"total",
     "op f(X: f32[N]) -> (Y: f32, M: f32, A: i64) {\n  Y = sum(i) X[i]\n  M = max(i) X[i]\n  A = argmax(i) X[i]\n}\n",
     {{100003}}},
    {"rows", "op f(X: f32[N, D]) -> Y: f32[N] {\n  Y[n] = sum(d) X[n, d] * X[n, d]\n}\n", {{301, 997}}},
    {"columns", "op f(X: f32[N, D]) -> Y: f32[D] {\n  Y[d] = sum(n) X[n, d] / 3\n}\n", {{997, 301}}},
    {"softmax", "import \"std\"\nop f(X: f32[N, D]) -> Y: f32[N, D] {\n  Y = softmax(X)\n}\n", {{67, 1009}}},
    {"matmul", "op f(A: f32[M, L], B: f32[L, N]) -> Y: f32[M, N] {\n  Y = matmul(A, B)\n}\n", {{129, 257}, {257, 130}}},
    {"narrow",
     "op f(A: bf16[M, L], B: bf16[L, N]) -> Y: bf16[M, N] {\n  Y = matmul(A, B)\n}\n",
     {{65, 129}, {129, 66}}},
    {"conv2d",
     "import \"std\"\nop f(X: f32[N, C, H, W], K: f32[O, C, 3, 3]) -> Y: f32[N, O, H, W] {\n"
     "  Y[n, o, i, j] = sum(c, p, q) X[n, c, i + p - 1, j + q - 1] pad 0 * K[o, c, p, q]\n}\n",
     {{2, 5, 37, 41}, {7, 5, 3, 3}}},
    {"running", "op f(X: f32[N]) -> Y: f32[N] {\n  Y[i] = sum(j: 0..i + 1) X[j]\n}\n", {{20011}}},
    {"functions", "op f(X: f32[N]) -> Y: f32[N] {\n  Y[i] = exp(sin(X[i])) * tanh(X[i]) + erf(X[i])\n}\n", {{100003}}},
};

class EveryNumberOfThreads : public testing::TestWithParam<Work> {};

TEST_P(EveryNumberOfThreads, GivesTheSameBits) {
  const int before = thread_count();
  const Op op = Library::parse(GetParam().text, "f.loom")["f"];
  std::vector<Argument> arguments;
  std::uint64_t seed = 1;
  for (const Shape& shape : GetParam().shapes)
    arguments.emplace_back(randn(shape, op.info().parameters[arguments.size()].dtype, cpu(), seed++));
  std::vector<tensor::Array> first;
  for (int threads = 1; threads <= 8; ++threads) {
    set_thread_count(threads);
    const std::vector<Tensor> results = op.call(arguments);
    for (std::size_t k = 0; k < results.size(); ++k) {
      if (threads == 1)
        first.push_back(to_array(results[k]));
      else
        EXPECT_EQ(difference(to_array(results[k]), first[k]), std::nullopt) << threads << " threads";
    }
  }
  set_thread_count(before);
}

INSTANTIATE_TEST_SUITE_P(Threads, EveryNumberOfThreads, testing::ValuesIn(kWorks),
                         [](const auto& info) { return std::string(info.param.name); });

constexpr const char* kGather = "op f(X: f32[V], I: i64[N]) -> Y: f32[N] {\n  Y[n] = 2 * X[I[n]]\n}\n";

TEST(Faults, ABadLaunchThatIsNotWaitedForLeavesTheNextOneAlone) {
  const Device gpu = simulated_gpu();
  const Op op = Library::parse(kGather, "f.loom")["f"];
  const Tensor X = Tensor::from<float>({1, 2, 3}, {3}, gpu);
  const Tensor good = Tensor::from<std::int64_t>({2, 0}, {2}, gpu), bad = Tensor::from<std::int64_t>({1, 3}, {2}, gpu);
  const Tensor failed = op(X, bad);
  const Tensor next = op(X, good);
  EXPECT_EQ(to_array(next).at(0), scalar::Value::f32(6)) << "launched behind the fault, before anything waited";
  std::string message;
  try {
    failed.wait();
  } catch (const InputError& error) {
    message = error.what();
  }
  EXPECT_THAT(message, HasSubstr("`X[I[n]]` reads outside of X"));
  EXPECT_THAT(message, HasSubstr("subscript is 3"));
  EXPECT_EQ(to_array(op(X, good)).at(1), scalar::Value::f32(2)) << "and after it";
}

TEST(Faults, TheHostGoesOnAfterOne) {
  const Op op = Library::parse(kGather, "f.loom")["f"];
  const Tensor X = Tensor::from<float>({1, 2, 3}, {3});
  EXPECT_THROW((void)op(X, Tensor::from<std::int64_t>({-1}, {1})), InputError);
  EXPECT_EQ(to_array(op(X, Tensor::from<std::int64_t>({1}, {1}))).at(0), scalar::Value::f32(4));
}

TEST(Judge, ComparesWholeErrors) {
  const Device gpu = simulated_gpu();
  const Op op = Library::parse(kGather, "f.loom")["f"];
  const std::vector<Argument> arguments{Tensor::from<float>({1, 2, 3}, {3}),
                                        Tensor::from<std::int64_t>({7, -1, 5}, {3})};
  const Verdict verdict = judge(op, arguments, {cpu(), gpu});
  EXPECT_EQ(verdict.difference, "");
  ASSERT_FALSE(verdict.notes.empty());
  EXPECT_THAT(verdict.notes.front(), HasSubstr("fails everywhere"));
  const std::vector<Argument> extreme{Tensor::from<float>({1, 2, 3}, {3}),
                                      Tensor::from<std::int64_t>({INT64_MIN, INT64_MAX}, {2})};
  EXPECT_EQ(judge(op, extreme, {cpu(), gpu}).difference, "");
}

TEST(Judge, HoldsAnErrorToTheElementsThatAResultNeeds) {
  // The lowest subscript of T is 3, in an element that Y does not use.
  const Op op = Library::parse(
      "op f(P: i64[A], W: f32[V]) -> Y: f32 {\n  let T[k: A] = W[P[k]]\n  Y = T[7] pad edge\n}\n", "f.loom")["f"];
  const std::vector<Argument> arguments{Tensor::from<std::int64_t>({3, 10}, {2}), Tensor::from<float>({1, 2}, {2})};
  EXPECT_EQ(judge(op, arguments, {cpu(), simulated_gpu()}).difference, "");
  std::string message;
  try {
    (void)op.call(arguments);
  } catch (const InputError& error) {
    message = error.what();
  }
  EXPECT_THAT(message, HasSubstr("the first subscript is 10, but W has extent 2 there"));
}

TEST(Judge, KnowsThatAnIntegerMadeOfFloatsDependsOnTheirOrder) {
  // In the order of the text two large numbers are infinite before -inf is added; in lanes they do not meet before.
  const Op op = Library::parse("op f(P: f64[N]) -> Y: i64 {\n  Y = i64(sum(i) P[i])\n}\n", "f.loom")["f"];
  std::vector<double> numbers(32, 0.0);
  numbers[0] = numbers[1] = std::numeric_limits<double>::max();
  numbers[2] = -std::numeric_limits<double>::infinity();
  const std::vector<Argument> arguments{Tensor::from<double>(std::span<const double>(numbers), {32})};
  EXPECT_EQ(op.call(arguments).front().data<std::int64_t>()[0], std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(judge(op, arguments, {cpu()}).difference, "");
}

TEST(Faults, NameExtentsAlsoWhereTheyAreOpen) {
  const Op op = Library::parse(kGather, "f.loom")["f"];
  for (const Device device : {cpu(), simulated_gpu()}) {
    const Compiled open = op.compile({TensorType{f32, {kDynamic}}, TensorType{i64, {kDynamic}}}, device);
    const Tensor X = Tensor::from<float>({1, 2, 3}, {3}, device), I = Tensor::from<std::int64_t>({1, 7}, {2}, device);
    std::string message;
    try {
      open(X, I).wait();
    } catch (const InputError& error) {
      message = error.what();
    }
    EXPECT_THAT(message, HasSubstr("the first subscript is 7, but X has extent 3 there")) << device.name();
  }
}

TEST(Faults, AreToldInTheWordsOfTheProgram) {
  // Passes drop the dimension of extent 1 and look through the view.
  const Op op = Library::parse(
      "op f(X: f32[A, B, 1], I: i64[N]) -> Y: f32[N] {\n  let T = transpose(X, [2, 1, 0])\n"
      "  Y[n] = T[0, I[n], 0]\n}\n",
      "f.loom")["f"];
  const std::vector<Argument> arguments{randn({2, 3, 1}), Tensor::from<std::int64_t>({0, 4, 1}, {3})};
  const Device gpu = simulated_gpu();
  EXPECT_EQ(judge(op, arguments, {cpu(), gpu}).difference, "");
  std::string message;
  try {
    (void)op.call(arguments);
  } catch (const InputError& error) {
    message = error.what();
  }
  EXPECT_THAT(message, HasSubstr("`T[0, I[n], 0]` reads outside of T"));
  EXPECT_THAT(message, HasSubstr("the second subscript is 4, but T has extent 3 there"));
}

}  // namespace
}  // namespace corrloom::tools
