#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <thread>

#include "compiler/api/corrloom.h"
#include "compiler/api/op_core.h"

/// What is packed of constant operands must never be older than they are. Each test runs on the host and on the first
/// GPU, if there is one (`unit_api_sim` has a simulated one).
namespace corrloom {
namespace {

using ::testing::HasSubstr;

constexpr const char* kText = R"(
# `s` needs nothing but parameters: it is the smallest thing that can be made ahead.
op scaled(X: f32[N, I], param W: f32[I, O]) -> Y: f32[N, O] {
  let s[o] = sum(i) W[i, o] * W[i, o]
  Y[n, o] = s[o] * (sum(i) X[n, i] * W[i, o])
}
op conv(X: f32[C, H, V], param K: f32[O, C, P, Q], param b: f32[O]) -> Y: f32[O, H - P + 1, V - Q + 1] {
  Y[o, i, j] = b[o] + sum(c, p, q) X[c, i + p, j + q] * K[o, c, p, q]
}
op step(W: f32[I, O], G: f32[I, O], rate: f32 = 0.5) -> W2: f32[I, O] in W { W2[i, o] = W[i, o] - rate * G[i, o] }
op counted(X: f32[N], param W: f32[N]) -> (Y: f32[N], W2: f32[N] in W) {
  Y[n] = X[n] * W[n]
  W2[n] = W[n] + 1
}
)";

class PackedParameters : public ::testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    if (!GetParam().is_cpu() && device_count() == 0) GTEST_SKIP() << "no GPU";
  }
  Tensor random(Shape shape, std::uint64_t seed) const { return randn(std::move(shape), f32, GetParam(), seed); }
  static bool is_same(const Tensor& a, const Tensor& b) {
    const Tensor left = a.to(cpu()).contiguous(), right = b.to(cpu()).contiguous();
    return left.type() == right.type() && std::memcmp(left.data<const float>(), right.data<const float>(),
                                                      static_cast<std::size_t>(left.byte_count())) == 0;
  }
  /// The module on X, and the op on X and the same parameters, which packs nothing.
  void expect_current(const Module& net, const std::string& op, const Tensor& X, const char* after) const {
    std::vector<Argument> arguments{X};
    for (const auto& [name, value] : net.parameters()) arguments.emplace_back(value);
    const Tensor want = ops_[op].call(arguments).front();
    for (int call = 0; call < 3; ++call) EXPECT_TRUE(is_same(net(X), want)) << after << ", call " << call;
  }
  Module scaled(std::uint64_t seed) const {
    Module net = ops_.module("scaled", {{"I", 5}, {"O", 3}});
    net.init(seed, {}, GetParam());
    return net;
  }
  static bool prepares(const Compiled& compiled) {
    const std::vector<KernelInfo>& kernels = compiled.kernels();
    return std::any_of(kernels.begin(), kernels.end(), [](const KernelInfo& kernel) { return kernel.prepares; });
  }

  Library ops_ = Library::parse(kText, "packed.loom");
};

TEST_P(PackedParameters, KernelsOfConstantsAloneAreRunOnceByABoundCall) {
  const Tensor X = random({4, 5}, 1), W = random({5, 3}, 2);
  const Compiled plain = ops_["scaled"].compile({X.type(), W.type()}, GetParam());
  const Compiled packed = ops_["scaled"].compile({X.type(), W.type()}, GetParam(), "", {"W"});
  EXPECT_FALSE(prepares(plain));
  ASSERT_TRUE(prepares(packed));
  const Tensor Y = Tensor::empty({4, 3}, f32, GetParam());
  BoundCall call = packed.bind({X, W}, {Y});
  call.run();
  const std::vector<double> times = call.run_timed();
  for (std::size_t k = 0; k < times.size(); ++k) EXPECT_EQ(times[k] == 0, packed.kernels()[k].prepares) << k;
  EXPECT_TRUE(is_same(Y, plain(X, W)));
  EXPECT_TRUE(is_same(packed(X, W), plain(X, W)));
}

TEST_P(PackedParameters, ABoundCallSeesWhatOpsAndCopiesWrite) {
  const Tensor X = random({4, 5}, 1), W = random({5, 3}, 2);
  const Compiled packed = ops_["scaled"].compile({X.type(), W.type()}, GetParam(), "", {"W"});
  const Tensor Y = Tensor::empty({4, 3}, f32, GetParam());
  BoundCall call = packed.bind({X, W}, {Y});
  const auto expect_current = [&](const char* after) {
    call.run();
    EXPECT_TRUE(is_same(Y, ops_["scaled"](X, W))) << after;
  };
  expect_current("the first run");
  (void)ops_["step"](W, random({5, 3}, 3));
  expect_current("an op in its place");
  W.copy_from(random({5, 3}, 4));
  expect_current("a copy");
  W.slice(0, 1, 3).copy_from(random({2, 3}, 5));
  expect_current("a copy into a view");
  X.copy_from(random({4, 5}, 6));
  expect_current("a copy into what is no constant");
}

TEST_P(PackedParameters, AModuleSeesEveryWayToChangeAParameter) {
  const Tensor X = random({4, 5}, 1);
  const Module net = scaled(7);
  expect_current(net, "scaled", X, "init");
  (void)ops_["step"](net.parameter("W"), random({5, 3}, 2));
  expect_current(net, "scaled", X, "an op in its place");
  ops_["step"].run_into({net.parameter("W"), random({5, 3}, 3)}, {net.parameter("W")});
  expect_current(net, "scaled", X, "an op into it");
  net.parameter("W").copy_from(random({5, 3}, 4));
  expect_current(net, "scaled", X, "a copy");
  net.parameter("W").transpose().slice(0, 1, 2).copy_from(random({1, 5}, 5));
  expect_current(net, "scaled", X, "a copy into a strided view");
  net.set_parameter("W", random({5, 3}, 6));
  expect_current(net, "scaled", X, "another tensor");
  net.init(8, {}, GetParam());
  expect_current(net, "scaled", X, "init again");
  const std::string file =
      (std::filesystem::temp_directory_path() / ("corrloom-packed-" + std::to_string(::getpid()) + ".npz")).string();
  scaled(9).save(file);
  net.load(file);
  std::filesystem::remove(file);
  expect_current(net, "scaled", X, "load");
  net.to(cpu());
  net.parameter("W").copy_from(randn({5, 3}, f32, cpu(), 10));
  net.to(GetParam());
  expect_current(net, "scaled", X, "there and back");
}

TEST_P(PackedParameters, AModuleTrustsNoMemoryThatSomebodyHasAPointerTo) {
  if (!GetParam().is_cpu()) GTEST_SKIP() << "pointers are to memory of the host";
  const Tensor X = random({4, 5}, 1);
  const Module early = scaled(7), late = scaled(8), wrapped = scaled(9);
  float* const pointer = early.parameter("W").data<float>();
  expect_current(early, "scaled", X, "a pointer");
  for (int change = 0; change < 3; ++change) {
    pointer[change] += 1;
    expect_current(early, "scaled", X, "a write through the pointer");
  }
  expect_current(late, "scaled", X, "packed");
  for (int change = 0; change < 3; ++change) {
    late.parameter("W").data<float>()[change] += 1;
    expect_current(late, "scaled", X, "a write through a later pointer");
  }
  std::vector<float> memory(15, 0.5F);
  wrapped.set_parameter("W", Tensor::wrap(memory.data(), {5, 3}, f32));
  for (int change = 0; change < 3; ++change) {
    expect_current(wrapped, "scaled", X, "wrapped memory");
    memory[static_cast<std::size_t>(change)] += 1;
  }
  const Module shared = scaled(10);
  expect_current(shared, "scaled", X, "packed");
  static_cast<float*>(shared.parameter("W").slice(0, 2, 3).address())[0] += 1;
  expect_current(shared, "scaled", X, "a write through the address of a view");
}

TEST_P(PackedParameters, ReadingAParameterKeepsItPacked) {
  if (!GetParam().is_cpu()) GTEST_SKIP() << "elements are read on the host";
  const Module net = scaled(7);
  (void)net.parameter("W").data<const float>()[0];
  (void)net.parameter("W").to_string();
  (void)net.parameter("W").at({0, 0});
  const Tensor X = random({4, 5}, 1);
  (void)net(X);
  (void)net(X);
  // What an exposed parameter would compile: the op without constants.
  const api::OpCore& core = *ops_["scaled"].core();
  const std::vector<Argument> arguments{X, net.parameter("W")};
  const auto split = api::split_arguments(core.info(), arguments);
  const api::CompiledState& with_constants = core.compiled_for(split, cpu(), true);
  EXPECT_TRUE(with_constants.loaded->can_prepare());
  EXPECT_NE(&with_constants, &core.compiled_for(split, cpu(), false));
}

TEST_P(PackedParameters, AModuleThatLearnsIsNeverBehind) {
  const Tensor X = random({4, 5}, 1);
  const Module net = scaled(7);
  for (int step = 0; step < 6; ++step) {
    std::vector<Argument> arguments{X, net.parameter("W")};
    EXPECT_TRUE(is_same(net(X), ops_["scaled"].call(arguments).front())) << step;
    ops_["step"].run_into({net.parameter("W"), random({5, 3}, 20 + static_cast<std::uint64_t>(step))},
                          {net.parameter("W")});
  }
  expect_current(net, "scaled", X, "learning");
}

TEST_P(PackedParameters, TwoModulesOfOneOpAndManyShapesKeepTheirOwn) {
  const Module a = scaled(1), b = scaled(2);
  for (const std::int64_t rows : {1, 2, 3, 4, 5, 6, 7, 1, 2}) {
    const Tensor X = random({rows, 5}, 3);
    expect_current(a, "scaled", X, "the first module");
    expect_current(b, "scaled", X, "the second module");
  }
}

TEST_P(PackedParameters, CallsFromManyThreadsAgree) {
  const Tensor X = random({4, 5}, 1);
  const Module net = scaled(7);
  const Tensor want = ops_["scaled"](X, net.parameter("W"));
  std::vector<std::jthread> threads;
  std::atomic<int> wrong = 0;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int call = 0; call < 20; ++call) wrong += is_same(net(X), want) ? 0 : 1;
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

TEST_P(PackedParameters, PackedKernelsGiveTheSameBits) {
  const Tensor X = random({16, 9, 9}, 1), K = random({32, 16, 3, 3}, 2), b = random({32}, 3);
  const Compiled plain = ops_["conv"].compile({X.type(), K.type(), b.type()}, GetParam());
  const Compiled packed = ops_["conv"].compile({X.type(), K.type(), b.type()}, GetParam(), "", {"K", "b"});
  const Tensor Y = Tensor::empty({32, 7, 7}, f32, GetParam());
  BoundCall call = packed.bind({X, K, b}, {Y});
  call.run();
  call.run();
  EXPECT_TRUE(is_same(Y, plain(X, K, b)));
  EXPECT_TRUE(prepares(packed) || !GetParam().is_cpu());
}

TEST_P(PackedParameters, WhatAnOpWritesIsNoConstant) {
  const Tensor X = random({3}, 1), W = random({3}, 2);
  const auto fault_of = [&](const std::vector<std::string>& constants) -> std::string {
    try {
      (void)ops_["counted"].compile({X.type(), W.type()}, GetParam(), "", constants);
    } catch (const InputError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(fault_of({"W"}), HasSubstr("op `counted` writes W"));
  EXPECT_THAT(fault_of({"V"}), HasSubstr("has no tensor `V`"));
  EXPECT_EQ(fault_of({"X"}), "no error");
  const Module net = ops_.module("counted", {{"N", 3}});
  net.set_parameter("W", W);
  const std::vector<float> before = [&] {
    const Tensor host = W.to(cpu()).copy();
    return std::vector<float>(host.data<const float>(), host.data<const float>() + 3);
  }();
  for (int call = 0; call < 3; ++call) {
    const Tensor Y = net.call(std::vector<Argument>{X}).front();
    for (std::int64_t k = 0; k < 3; ++k)
      EXPECT_EQ(Y.element(k).as_f64(),
                static_cast<double>(static_cast<float>(X.element(k).as_f64()) *
                                    (before[static_cast<std::size_t>(k)] + static_cast<float>(call))));
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, PackedParameters, ::testing::Values(cpu(), cuda()),
                         [](const auto& info) { return info.param.is_cpu() ? "Host" : "Gpu"; });

}  // namespace
}  // namespace corrloom
