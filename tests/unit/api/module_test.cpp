#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "compiler/api/corrloom.h"

namespace corrloom {
namespace {

using ::testing::HasSubstr;

constexpr const char* kText = R"(
op linear(X: f32[N, I], param W: f32[O, I], param b: f32[O] = 0) -> Y: f32[N, O] {
  Y[n, o] = b[o] + sum(i) X[n, i] * W[o, i]
}
op mlp[H: int](X: f32[N, I], param W1: f32[H, I], param b1: f32[H] = 0.5, param W2: f32[O, H]) -> Y: f32[N, O] {
  let A[n, h] = max(b1[h] + sum(i) X[n, i] * W1[h, i], 0)
  Y[n, o] = sum(h) A[n, h] * W2[o, h]
}
op plain(X: f32[N]) -> Y: f32[N] { Y[n] = X[n] }
op dense<T: float>(X: T[...N, I], param W: T[O, I], param b: T[O] = 0) -> Y: T[...N, O] {
  Y[...n, o] = b[o] + sum(i) X[...n, i] * W[o, i]
}
op scaled<T: float>(X: T[N, ...D], param g: T[...D] = 1) -> Y: T[N, ...D] { Y[n, ...d] = X[n, ...d] * g[...d] }
)";

class ModuleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "corrloom-module-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  Module linear() const { return ops_.module("linear", {{"I", 3}, {"O", 2}}); }
  template <class Run>
  static std::string fault_of(const Run& run) {
    try {
      run();
    } catch (const InputError& error) {
      return error.what();
    }
    return "no error";
  }

  Library ops_ = Library::parse(kText, "modules.loom");
  std::filesystem::path folder_;
};

std::vector<float> elements(const Tensor& tensor) {
  const Tensor dense = tensor.contiguous();
  return {dense.data<float>(), dense.data<float>() + dense.element_count()};
}

TEST_F(ModuleTest, SizesGiveAttributesAndDimensions) {
  const Module net = ops_.module("mlp", {{"H", 4}, {"I", 3}, {"O", 2}});
  EXPECT_EQ(net.to_string(),
            "mlp\n  W1: f32[4, 3], no value yet\n  b1: f32[4], no value yet\n  W2: f32[2, 4], no value yet");
  net.init(1);
  EXPECT_EQ(net.to_string(), "mlp\n  W1: f32[4, 3] on cpu\n  b1: f32[4] on cpu\n  W2: f32[2, 4] on cpu");
  EXPECT_EQ(elements(net.parameter("b1")), std::vector<float>(4, 0.5f));
}

TEST_F(ModuleTest, CallsTheOpWithItsParameters) {
  const Module net = linear();
  net.set_parameter("W", Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3}));
  net.set_parameter("b", Tensor::from<float>({10, 20}, {2}));
  const Tensor X = Tensor::from<float>({1, 0, 0, 0, 1, 1}, {2, 3});
  EXPECT_EQ(elements(net(X)), (std::vector<float>{11, 24, 15, 31}));
}

TEST_F(ModuleTest, GenericOpsHaveInstances) {
  const Module net = ops_.module("dense", {{"I", 3}, {"O", 2}});
  net.set_parameter("W", Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3}));
  net.init(0, {{"W", Init::ones()}});
  EXPECT_EQ(elements(net(Tensor::from<float>({1, 2, 3}, {1, 3}))), (std::vector<float>{6, 6}));
  EXPECT_EQ(net(ones({2, 4, 3})).shape(), (Shape{2, 4, 2}));
  const Module wide = ops_.module("dense", {{"I", 3}, {"O", 2}}, {{"T", f64}});
  EXPECT_THAT(wide.to_string(), HasSubstr("W: f64[2, 3]"));
  const Module packed = ops_.module("scaled", {{"D.0", 2}, {"D.1", 3}});
  packed.init(0);
  EXPECT_EQ(packed.parameter("g").shape(), (Shape{2, 3}));
  EXPECT_EQ(elements(packed(ones({1, 2, 3}))), std::vector<float>(6, 1.0f));
  EXPECT_THAT(fault_of([&] { ops_.module("scaled"); }), HasSubstr("give the sizes of `...D`, as in {{\"D.0\", 3}}"));
  EXPECT_THAT(fault_of([&] { ops_.module("dense", {}, {{"U", f64}}); }), HasSubstr("has no type parameter `U`"));
}

TEST_F(ModuleTest, OpenSizesMayComeFromTensors) {
  const Module net = ops_.module("linear");
  EXPECT_THAT(fault_of([&] { net.init(0); }), HasSubstr("`W` is f32[?, ?]: give the open sizes"));
  net.set_parameter("W", ones({2, 3}));
  net.set_parameter("b", ones({2}));
  net.init(0);
  EXPECT_EQ(net.parameter("W").shape(), (Shape{2, 3}));
}

TEST_F(ModuleTest, InitGivesTheStatedDistributions) {
  const Module net = ops_.module("linear", {{"I", 300}, {"O", 200}});
  const auto moments = [&](const Init& init) {
    net.init(7, {{"W", init}});
    double sum = 0, squares = 0, largest = 0;
    for (const float value : elements(net.parameter("W"))) {
      sum += value;
      squares += double{value} * value;
      largest = std::max(largest, std::fabs(double{value}));
    }
    return std::array<double, 3>{sum / 60000, std::sqrt(squares / 60000), largest};
  };
  // 60,000 numbers: a deviation is known to 1/sqrt(120,000) = 0.3 %, so 2 % is seven of its own deviations.
  const auto expect = [&](const Init& init, double deviation, bool is_uniform) {
    const auto [mean, found, largest] = moments(init);
    EXPECT_NEAR(mean, 0, 0.03 * deviation);
    EXPECT_NEAR(found, deviation, 0.02 * deviation);
    EXPECT_EQ(largest <= deviation * std::sqrt(3.0) * (1 + 1e-6), is_uniform);
  };
  expect(Init::kaiming_uniform(), 1 / std::sqrt(300.0), true);
  expect(Init::kaiming_normal(std::sqrt(2.0)), std::sqrt(2 / 300.0), false);
  expect(Init::xavier_uniform(), std::sqrt(2 / 500.0), true);
  expect(Init::xavier_normal(), std::sqrt(2 / 500.0), false);
  expect(Init::uniform(-2, 2), 2 / std::sqrt(3.0), true);
  expect(Init::normal(0, 0.25), 0.25, false);
}

TEST_F(ModuleTest, ASeedGivesTheSameBitsAgain) {
  const Module a = linear(), b = linear(), c = linear();
  a.init(3);
  b.init(3);
  c.init(4);
  EXPECT_EQ(elements(a.parameter("W")), elements(b.parameter("W")));
  EXPECT_NE(elements(a.parameter("W")), elements(c.parameter("W")));
}

TEST_F(ModuleTest, SequencesPassResultsOn) {
  const Module first = ops_.module("linear", {{"I", 3}, {"O", 4}}),
               second = ops_.module("linear", {{"I", 4}, {"O", 1}});
  const Module net = Module::sequential({first, second});
  net.init(5);
  const Tensor X = randn({2, 3}, f32, cpu(), 1);
  EXPECT_EQ(elements(net(X)), elements(second(first(X))));
  ASSERT_EQ(net.parameters().size(), 4u);
  EXPECT_EQ(net.parameters()[2].first, "1.W");
  EXPECT_TRUE(net.parameter("1.W").is_same_as(second.parameter("W")));
  EXPECT_THAT(fault_of([] { Module::sequential(std::vector<Module>{}); }), HasSubstr("at least one"));
  EXPECT_THAT(fault_of([&] { Module::sequential({{"a", first}, {"a", second}}); }), HasSubstr("`a`"));
}

TEST_F(ModuleTest, TiedParametersStayTied) {
  const Module net =
      Module::sequential({ops_.module("linear", {{"I", 3}, {"O", 3}}), ops_.module("linear", {{"I", 3}, {"O", 3}})});
  net.set_parameter("0.W", ones({3, 3}));
  net.set_parameter("1.W", net.parameter("0.W"));
  const auto is_tied = [&] { return net.parameter("0.W").is_same_as(net.parameter("1.W")); };
  net.init(1);
  EXPECT_TRUE(is_tied());
  EXPECT_FALSE(net.parameter("0.b").is_same_as(net.parameter("1.b")));
  net.save(path("w.safetensors"));
  net.load(path("w.safetensors"));
  EXPECT_TRUE(is_tied());

  io::save_all(path("once.safetensors"), {{"1.W", ones({3, 3})}, {"0.b", ones({3})}, {"1.b", ones({3})}});
  net.load(path("once.safetensors"));
  EXPECT_TRUE(is_tied());
  EXPECT_EQ(elements(net.parameter("0.W")), std::vector<float>(9, 1.0f));

  io::save_all(path("two.safetensors"),
               {{"0.W", ones({3, 3})}, {"1.W", zeros({3, 3})}, {"0.b", ones({3})}, {"1.b", ones({3})}});
  EXPECT_THAT(fault_of([&] { net.load(path("two.safetensors")); }), HasSubstr("not equal: `1.W` is tied to `0.W`"));
}

TEST_F(ModuleTest, SavesAndLoads) {
  const Module net = linear(), other = linear();
  net.init(9);
  net.save(path("w.safetensors"));
  other.load(path("w.safetensors"));
  EXPECT_EQ(elements(other.parameter("W")), elements(net.parameter("W")));
  EXPECT_EQ(elements(other.parameter("b")), elements(net.parameter("b")));

  io::save_all(path("torch.safetensors"), {{"0.weight", ones({2, 3})}, {"0.bias", zeros({2})}});
  other.load(path("torch.safetensors"), {{"W", "0.weight"}, {"b", "0.bias"}});
  EXPECT_EQ(elements(other.parameter("W")), std::vector<float>(6, 1.0f));
}

TEST_F(ModuleTest, AFileThatDoesNotSuitChangesNothingAndIsSaidWhole) {
  const Module net = linear();
  net.init(2);
  const std::vector<float> before = elements(net.parameter("W"));
  io::save_all(path("bad.safetensors"), {{"W", ones({3, 2})}, {"c", zeros({2})}});
  const std::string fault = fault_of([&] { net.load(path("bad.safetensors")); });
  EXPECT_THAT(fault, HasSubstr("extra: `c`, f32[2]"));
  EXPECT_THAT(fault, HasSubstr("wrong type: `W` is f32[3, 2]; wanted f32[2, 3]"));
  EXPECT_THAT(fault, HasSubstr("missing: `b`, f32[2]"));
  EXPECT_EQ(elements(net.parameter("W")), before);
}

TEST_F(ModuleTest, RefusesWhatDoesNotFit) {
  EXPECT_THAT(fault_of([&] { ops_.module("plain"); }), HasSubstr("has no `param` input"));
  EXPECT_THAT(fault_of([&] { ops_.module("linear", {{"J", 3}}); }), HasSubstr("no attribute or dimension `J`"));
  EXPECT_THAT(fault_of([&] { ops_.module("linear", {{"I", -3}}); }), HasSubstr("dimension I is -3"));
  const Module net = linear();
  EXPECT_THAT(fault_of([&] { net(ones({2, 3})); }), HasSubstr("parameter W has no value yet"));
  EXPECT_THAT(fault_of([&] { net.set_parameter("W", ones({3, 3})); }), HasSubstr("found f32[3, 3]; wanted f32[2, 3]"));
  EXPECT_THAT(fault_of([&] { net.set_parameter("V", ones({3, 3})); }), HasSubstr("there are `W`, `b`"));
  EXPECT_THAT(fault_of([&] { net.set_parameter("W", Tensor()); }), HasSubstr("no tensor"));
  EXPECT_THAT(fault_of([&] { net.save(path("w.npz")); }), HasSubstr("no value to save"));
  EXPECT_THAT(fault_of([&] { net.device(); }), HasSubstr("no value yet"));
  net.init(0);
  EXPECT_THAT(fault_of([&] { net(); }), HasSubstr("X is missing"));
  EXPECT_THAT(fault_of([&] { net(ones({2, 3}), ones({2, 3})); }), HasSubstr("found 2 arguments; wanted 1 besides"));
  EXPECT_THAT(fault_of([&] { net.init(0, {{"V", Init::ones()}}); }), HasSubstr("no parameter `V`"));
}

TEST_F(ModuleTest, MovingToWhereItIsKeepsTheTensors) {
  const Module net = linear();
  net.init(0);
  const Tensor before = net.parameter("W");
  EXPECT_TRUE(net.to(cpu()).parameter("W").is_same_as(before));
  EXPECT_EQ(net.device(), cpu());
}

}  // namespace
}  // namespace corrloom
