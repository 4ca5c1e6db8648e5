#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "compiler/api/corrloom.h"
#include "compiler/api/op_core.h"

namespace corrloom {
namespace {

using ::testing::HasSubstr;

constexpr const char* kCorr2d = R"(
op corr2d(X: f32[H, W], K: f32[P, Q]) -> Y: f32[H - P + 1, W - Q + 1] {
  Y[i, j] = sum(p, q) X[i + p, j + q] * K[p, q]
}
)";

class CompiledTest : public ::testing::Test {
 protected:
  const Op op = Library::parse(kCorr2d, "corr2d.loom")["corr2d"];
  const TensorType x{f32, {5, 7}}, k{f32, {2, 3}};
};

TEST_F(CompiledTest, HasATextOfEveryLevelOfTheHost) {
  const Compiled compiled = op.compile({x, k}, cpu());
  EXPECT_THAT(compiled.text(Stage::Tensor), HasSubstr("graph @corr2d"));
  EXPECT_THAT(compiled.text(Stage::Schedule), HasSubstr("schedule @corr2d"));
  EXPECT_THAT(compiled.text(Stage::Loop), HasSubstr("func @"));
  EXPECT_THAT(compiled.text(Stage::Llvm), HasSubstr("define"));
  EXPECT_FALSE(compiled.text(Stage::Asm).empty());
  EXPECT_THROW((void)compiled.text(Stage::Ptx), InputError);
  EXPECT_EQ(compiled.target(), "host");
  EXPECT_EQ(compiled.device(), cpu());
  EXPECT_GT(compiled.compile_ms(), 0);
  EXPECT_FALSE(compiled.step_times().empty());
}

TEST_F(CompiledTest, ListsItsKernels) {
  const Compiled compiled = op.compile({x, k}, cpu());
  ASSERT_EQ(compiled.kernels().size(), 1u);
  EXPECT_GE(compiled.kernels()[0].blocks, 1);
  EXPECT_EQ(compiled.kernels()[0].flops, 2.0 * 4 * 5 * 2 * 3);
}

TEST_F(CompiledTest, CompilesForAGpuThatIsNotThere) {
  const Compiled compiled = op.compile_for({x, k}, "sm_80");
  EXPECT_THAT(compiled.text(Stage::Ptx), HasSubstr(".target sm_80"));
  EXPECT_EQ(compiled.device(), std::nullopt);
  EXPECT_THROW((void)compiled(ones({5, 7}), ones({2, 3})), InputError);
  EXPECT_THROW((void)op.compile_for({x, k}, "sm_1"), InputError);
}

TEST_F(CompiledTest, RunsOnTheTypesItWasCompiledForAndNoOthers) {
  const Compiled compiled = op.compile({x, k}, cpu());
  EXPECT_EQ(compiled(ones({5, 7}), ones({2, 3})).element(0).as_f64(), 6);
  const Tensor y = zeros({4, 5});
  compiled.run_into({ones({5, 7}), ones({2, 3})}, {y});
  EXPECT_EQ(y.element(19).as_f64(), 6);
  EXPECT_THROW((void)compiled(ones({5, 8}), ones({2, 3})), InputError);
}

TEST_F(CompiledTest, OutlivesItsLibraryAndItsOp) {
  std::optional<Op> only = Library::parse(kCorr2d, "corr2d.loom")["corr2d"];
  const Compiled compiled = only->compile({x, k}, cpu());
  only.reset();
  EXPECT_EQ(compiled(ones({5, 7}), ones({2, 3})).element(0).as_f64(), 6);
}

TEST_F(CompiledTest, TakesASchedule) {
  const std::string schedule = op.compile({x, k}, cpu()).text(Stage::Schedule);
  EXPECT_EQ(op.compile({x, k}, cpu(), schedule).text(Stage::Schedule), schedule);
  EXPECT_THROW((void)op.compile({x, k}, cpu(), "schedule"), InputError);
}

TEST_F(CompiledTest, ThreadsThatAskForTheSameShareOneCompilation) {
  const std::vector<Argument> arguments = {ones({9, 11}), ones({2, 3})};
  const api::SplitArguments split = api::split_arguments(op.info(), arguments);
  constexpr int kThreads = 8;
  std::vector<const api::CompiledState*> found(kThreads);
  std::vector<std::thread> threads;
  for (int k = 0; k < kThreads; ++k)
    threads.emplace_back([&, k] { found[static_cast<std::size_t>(k)] = &op.core()->compiled_for(split, cpu()); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::set<const api::CompiledState*>(found.begin(), found.end()).size(), 1u);
  const std::vector<Argument> others = {ones({9, 12}), ones({2, 3})};
  EXPECT_NE(&op.core()->compiled_for(api::split_arguments(op.info(), others), cpu()), found[0])
      << "other extents are another program";
  EXPECT_EQ(&op.core()->compiled_for(split, cpu()), found[0]);
}

TEST_F(CompiledTest, BindsACallForManyRuns) {
  const Tensor image = ones({4, 5}), window = ones({2, 3}), result = Tensor::empty({3, 3});
  BoundCall call = op.compile({image.type(), window.type()}, cpu()).bind({image, window}, {result});
  call.run();
  EXPECT_EQ(result.element(0).as_f64(), 6);
  image.data<float>()[0] = 3;
  call.run();
  EXPECT_EQ(result.element(0).as_f64(), 8);
  const Compiled program = op.compile({image.type(), window.type()}, cpu());
  EXPECT_THROW((void)program.bind({image, window}, {ones({3, 4})}), InputError);
  EXPECT_THROW((void)program.bind({ones({5, 4}).transpose(), window}, {result}), InputError);
  EXPECT_THROW((void)program.bind({image}, {result}), InputError);
}

TEST_F(CompiledTest, AFailedCompilationIsTriedAgain) {
  for (int k = 0; k < 2; ++k) EXPECT_THROW((void)op(ones({1, 1}), ones({2, 3})), InputError);
  EXPECT_EQ(op(ones({2, 3}), ones({2, 3})).item(), 6);
}

}  // namespace
}  // namespace corrloom
