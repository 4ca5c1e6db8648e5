// Steps of optimisers on the parameters of a module, on the host and on a GPU where there is one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/api/corrloom.h"
#include "runtime/backend.h"

namespace corrloom {
namespace {

using ::testing::HasSubstr;

constexpr const char* kText = R"(
op linear(X: f32[N, I], param W: f32[O, I], param b: f32[O] = 0) -> Y: f32[N, O] {
  Y[n, o] = b[o] + sum(i) X[n, i] * W[o, i]
}
op loss(X: f32[N, I], T: f32[N, O], W: f32[O, I], b: f32[O]) -> (L: f32, Y: f32[N, O]) {
  Y = linear(X, W, b)
  L = sum(n, o) (Y[n, o] - T[n, o]) * (Y[n, o] - T[n, o]) / f32(N)
}
op both(X: f32[N, I], W: f32[I, I], V: f32[I, I]) -> L: f32 {
  L = sum(n, i, j) X[n, i] * (W[i, j] + 2 * V[i, j]) / f32(N)
}
op shaped(X: f32[N, I], W: f32[O, I]) -> Y: f32[N, O] {
  Y[n, o] = sum(i) X[n, i] * W[o, i]
}
op normed(W: f32[...D], dW: f32[...D], rate: f32) -> W2: f32[...D] in W {
  let length = sum(...d) dW[...d] * dW[...d]
  W2[...d] = W[...d] - rate * dW[...d] / length
}
op fresh(W: f32[...D], dW: f32[...D], rate: f32) -> W2: f32[...D] {
  W2[...d] = W[...d] - rate * dW[...d]
}
)";

std::vector<float> elements(const Tensor& tensor) {
  const Tensor here = tensor.to(cpu()).contiguous();
  return {here.data<float>(), here.data<float>() + here.element_count()};
}

template <class Run>
std::string fault_of(const Run& run) {
  try {
    run();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

class TrainingTest : public ::testing::Test {
 protected:
  Module linear() const {
    const Module net = ops_.module("linear", {{"I", 3}, {"O", 2}});
    net.init(1);
    net.to(device_);
    return net;
  }
  Training training(const Module& net, const std::string& update) const {
    return Training(ops_["loss"], net, standard_[update]);
  }

  Library ops_ = Library::parse(kText, "training.loom"), standard_ = Library::load("std");
  Device device_ = try_gpu();
  Tensor X_ = randn({5, 3}, f32, device_, 2), T_ = randn({5, 2}, f32, device_, 3);
};

TEST_F(TrainingTest, AStepIsTheFormulaOfTheOptimiser) {
  const Module net = linear();
  const std::vector<float> W = elements(net.parameter("W"));
  const Training sgd = training(net, "sgd");
  sgd.set("rate", 0.125).step(X_, T_);
  const std::vector<float> dW = elements(sgd.gradients()[0].second), after = elements(net.parameter("W"));
  for (std::size_t k = 0; k < W.size(); ++k) EXPECT_FLOAT_EQ(after[k], W[k] - 0.125f * dW[k]);

  const Training adam = training(net, "adam");
  adam.set("rate", 0.125).step(X_, T_);
  const std::vector<float> gradient = elements(adam.gradients()[0].second), last = elements(net.parameter("W"));
  // The first step of Adam goes by the rate, whatever the gradient's size.
  for (std::size_t k = 0; k < W.size(); ++k)
    EXPECT_NEAR(last[k], after[k] - std::copysign(0.125f, gradient[k]), 1e-5) << gradient[k];
  EXPECT_EQ(adam.steps(), 1);
}

TEST_F(TrainingTest, GradientsAreThoseOfTheLoss) {
  const Module net = linear();
  const Tensor W = net.parameter("W").copy(), b = net.parameter("b").copy();
  const Training steps = training(net, "sgd");
  steps.set("rate", 0.5).step(X_, T_);
  const std::vector<Tensor> wanted = ops_.value_and_grad("loss", {"W", "b"}).all(X_, T_, W, b);
  ASSERT_EQ(wanted.size(), 4u);
  EXPECT_EQ(elements(steps.loss()), elements(wanted[0]));
  EXPECT_EQ(elements(steps.results()[1]), elements(wanted[1]));
  EXPECT_EQ(elements(steps.gradients()[0].second), elements(wanted[2]));
  EXPECT_EQ(elements(steps.gradients()[1].second), elements(wanted[3]));
}

TEST_F(TrainingTest, EveryOptimiserLowersTheLoss) {
  for (const char* name : {"sgd", "sgd_momentum", "adam", "adam_w"}) {
    const Training steps = training(linear(), name);
    steps.set("rate", 0.03).step(X_, T_);
    const double first = steps.loss().item();
    for (int k = 0; k < 30; ++k) steps.step(X_, T_);
    EXPECT_LT(steps.loss().item(), 0.9 * first) << name;
  }
}

TEST_F(TrainingTest, NothingIsAllocatedAfterTheFirstStep) {
  const Module net = linear();
  const Training steps = training(net, "adam");
  steps.set("rate", 0.01).step(X_, T_).step(X_, T_);
  const std::shared_ptr<runtime::DeviceBackend> backend = runtime::backend_of(device_);
  (void)steps.loss().item();
  const runtime::MemoryStats before = backend->memory();
  const void* const address = net.parameter("W").address();
  for (int k = 0; k < 20; ++k) steps.step(X_, T_);
  (void)steps.loss().item();
  const runtime::MemoryStats after = backend->memory();
  EXPECT_EQ(after.in_use, before.in_use);
  EXPECT_EQ(after.reserved, before.reserved);
  EXPECT_EQ(after.peak, before.peak);
  EXPECT_EQ(net.parameter("W").address(), address);
}

TEST_F(TrainingTest, AStepIsFewKernels) {
  const Training steps = training(linear(), "adam");
  // Y, its residuals' sum, dY, dW, db and the three results of Adam, for all parameters together.
  EXPECT_LE(steps.kernels({X_.type(), T_.type()}).size(), 8u);
}

TEST_F(TrainingTest, GoesOnWhenTheModuleMovesOrIsLoaded) {
  const Module net = linear();
  const Training steps = training(net, "adam");
  steps.set("rate", 0.01).step(X_, T_);
  net.set_parameter("W", ones({2, 3}, f32, device_));
  steps.step(X_, T_);
  EXPECT_NEAR(elements(net.parameter("W"))[0], 1, 0.02);
  net.to(cpu());
  steps.step(X_.to(cpu()), T_.to(cpu()));
  EXPECT_EQ(steps.steps(), 3);
  EXPECT_TRUE(net.device().is_cpu());
}

TEST_F(TrainingTest, AModuleThatPacksItsParametersSeesWhatAStepWrote) {
  const Module net = linear();
  const Training steps = training(net, "sgd");
  steps.set("rate", 0.5).step(X_, T_);
  for (int k = 0; k < 3; ++k) {
    (void)net(X_);
    (void)net(X_);
    steps.step(X_, T_);
    EXPECT_EQ(elements(net(X_)), elements(ops_["linear"](X_, net.parameter("W"), net.parameter("b"))));
  }
}

TEST_F(TrainingTest, TiedParametersGetTheSumOfTheirGradients) {
  const Module a = Library::parse(
                       "op a(X: f32[N, I], param W: f32[I, I]) -> Y: f32[N, I] {\n"
                       "  Y[n, j] = sum(i) X[n, i] * W[i, j]\n}\n",
                       "a.loom")
                       .module("a", {{"I", 3}});
  const Module b = Library::parse(
                       "op a(X: f32[N, I], param W: f32[I, I]) -> Y: f32[N, I] {\n"
                       "  Y[n, j] = sum(i) X[n, i] * W[i, j]\n}\n",
                       "a.loom")
                       .module("a", {{"I", 3}});
  const Module net = Module::sequential({a, b});
  net.set_parameter("0.W", ones({3, 3}, f32, device_));
  net.set_parameter("1.W", net.parameter("0.W"));
  const Training steps(ops_["both"], net, standard_["sgd"], {{"W", "0.W"}, {"V", "1.W"}});
  steps.set("rate", 1).step(ones({2, 3}, f32, device_));
  EXPECT_EQ(elements(steps.gradients()[1].second), std::vector<float>(9, 3.0f));
  EXPECT_EQ(elements(net.parameter("0.W")), std::vector<float>(9, -2.0f));
  EXPECT_TRUE(net.parameter("0.W").is_same_as(net.parameter("1.W")));
}

TEST_F(TrainingTest, SaysWhatDoesNotFit) {
  const Module net = linear();
  EXPECT_THAT(fault_of([&] { Training(ops_["loss"], net, ops_["normed"]); }), HasSubstr("combines elements"));
  EXPECT_THAT(fault_of([&] { Training(ops_["loss"], net, ops_["fresh"]); }), HasSubstr("takes over no argument"));
  EXPECT_THAT(fault_of([&] {
                Training(ops_["loss"], net, standard_["sgd"], {{"W", "0.W"}});
              }),
              HasSubstr("which the module does not have"));
  const Training steps = training(net, "adam");
  EXPECT_THAT(fault_of([&] { steps.step(X_, T_); }), HasSubstr("`rate` of op `adam` has no value yet"));
  EXPECT_THAT(fault_of([&] { steps.set("speed", 1); }), HasSubstr("no number `speed`"));
  EXPECT_THAT(fault_of([&] { (void)steps.loss(); }), HasSubstr("before the first step"));
  steps.set("rate", 0.1);
  EXPECT_THAT(fault_of([&] { steps.step(X_); }), HasSubstr("lacks T"));
  EXPECT_THAT(fault_of([&] { steps.step(X_, T_, T_); }), HasSubstr("got 3 inputs"));
  EXPECT_THROW(Training(ops_["shaped"], net, standard_["sgd"]), CompileError);
  EXPECT_EQ(steps.steps(), 0);
}

}  // namespace
}  // namespace corrloom
