#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "compiler/api/corrloom.h"

namespace corrloom {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// The message of the exception of type `Error` that `body` must throw.
template <class Error, class Body>
std::string message_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another exception: " << error.what();
    return {};
  }
  ADD_FAILURE() << "no exception";
  return {};
}

constexpr const char* kOps = R"(
op corr2d(X: f32[H, W], K: f32[P, Q]) -> Y: f32[H - P + 1, W - Q + 1] {
  Y[i, j] = sum(p, q) X[i + p, j + q] * K[p, q]
}
op axpy(alpha: f32, X: f32[N], beta: f32 = 0.0, Z: f32[N]) -> Y: f32[N] {
  Y[i] = alpha * X[i] + beta * Z[i]
}
op moments(X: f32[N]) -> (Total: f32, Squares: f32[N]) {
  Total = sum(i) X[i]
  Squares[i] = X[i] * X[i]
}
op repeated[times: int, gain: float = 1.0, flip: bool = false](X: f32[N]) -> Y: f32[N] {
  Y[i] = if flip then -X[i] else X[i] * f32(times) * gain
}
op eye[N: int]() -> Y: f32[N, N] { Y[i, j] = if i == j then 1.0 else 0.0 }
)";

class LibraryTest : public ::testing::Test {
 protected:
  const Library ops = Library::parse(kOps, "ops.loom");

  static std::vector<float> elements(const Tensor& tensor) {
    return {tensor.data<float>(), tensor.data<float>() + tensor.element_count()};
  }
};

TEST_F(LibraryTest, ListsOpsInTheOrderOfTheFile) {
  EXPECT_THAT(ops.op_names(), ElementsAre("corr2d", "axpy", "moments", "repeated", "eye"));
}

TEST_F(LibraryTest, CallsAnOpOnTensors) {
  const Tensor x = arange({3, 4}), k = Tensor::from<float>({0, 1, 2, 3}, {2, 2});
  const Tensor y = ops["corr2d"](x, k);
  EXPECT_EQ(y.type(), (TensorType{f32, {2, 3}}));
  EXPECT_THAT(elements(y), ElementsAre(24, 30, 36, 48, 54, 60));
}

TEST_F(LibraryTest, MixesScalarsAndTensors) {
  const Tensor x = Tensor::from<float>({1, 2, 3}, {3}), z = Tensor::from<float>({10, 20, 30}, {3});
  EXPECT_THAT(elements(ops["axpy"](2.0f, x, 1, z)), ElementsAre(12, 24, 36));
  // Another value needs no other program: these scalars decide nothing.
  EXPECT_THAT(elements(ops["axpy"](3.0, x, 0.5, z)), ElementsAre(8, 16, 24));
}

TEST_F(LibraryTest, GivesEveryResultInOrder) {
  const std::vector<Tensor> results = ops["moments"].all(Tensor::from<float>({1, 2, 3}, {3}));
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].item(), 6);
  EXPECT_THAT(elements(results[1]), ElementsAre(1, 4, 9));
  EXPECT_THAT(message_of<InputError>([&] { (void)ops["moments"](arange({3})); }),
              HasSubstr("2 results (Total, Squares); use `all`"));
}

TEST_F(LibraryTest, TakesAttributesOfEachKind) {
  const Tensor x = Tensor::from<float>({1, 2}, {2});
  const Op base = ops["repeated"].with({{"times", 3}});
  EXPECT_THAT(elements(base(x)), ElementsAre(3, 6));
  EXPECT_THAT(elements(base.with({{"gain", 0.5}})(x)), ElementsAre(1.5, 3));
  EXPECT_THAT(elements(base.with({{"gain", 2}})(x)), ElementsAre(6, 12));
  EXPECT_THAT(elements(base.with({{"flip", true}})(x)), ElementsAre(-1, -2));
  EXPECT_THAT(elements(base(x)), ElementsAre(3, 6)) << "`with` leaves the op it is called on as it was";
}

TEST_F(LibraryTest, RefusesWrongAttributes) {
  EXPECT_THAT(message_of<InputError>([&] {
                (void)ops["repeated"].with({{"tims", 3}});
              }),
              AllOf(HasSubstr("`tims`"), HasSubstr("did you mean `times`?")));
  EXPECT_THAT(message_of<InputError>([&] {
                (void)ops["repeated"].with({{"times", 1.5}});
              }),
              AllOf(HasSubstr("attribute times"), HasSubstr("float"), HasSubstr("int")));
  EXPECT_THAT(message_of<InputError>([&] {
                (void)ops["repeated"].with({{"flip", 1}});
              }),
              AllOf(HasSubstr("attribute flip"), HasSubstr("bool")));
  EXPECT_THAT(message_of<InputError>([&] { (void)ops["repeated"](arange({2})); }), HasSubstr("times"));
}

TEST_F(LibraryTest, RunsAnOpWithoutTensorsOnANamedDevice) {
  EXPECT_THAT(elements(ops["eye"].with({{"N", 2}}).on(cpu())()), ElementsAre(1, 0, 0, 1));
}

TEST_F(LibraryTest, RunsIntoTheCallersOutputs) {
  const Tensor x = arange({3, 4}), k = ones({2, 2}), y = zeros({2, 3});
  const void* const place = y.address();
  ops["corr2d"].run_into({x, k}, {y});
  EXPECT_EQ(y.address(), place);
  EXPECT_THAT(elements(y), ElementsAre(10, 14, 18, 26, 30, 34));
  EXPECT_THAT(message_of<InputError>([&] {
                ops["corr2d"].run_into({x, k}, {zeros({3, 3})});
              }),
              AllOf(HasSubstr("f32[3, 3]"), HasSubstr("f32[2, 3]")));
  EXPECT_THAT(message_of<InputError>([&] { ops["corr2d"].run_into({x, k}, {}); }), HasSubstr("0 outputs"));
}

TEST_F(LibraryTest, NamesOpParameterFoundAndWanted) {
  const Tensor x = arange({3, 4});
  EXPECT_THAT(message_of<InputError>([&] { (void)ops["corr2d"](x); }),
              AllOf(HasSubstr("`corr2d`"), HasSubstr("K is missing"), HasSubstr("f32[P, Q]")));
  EXPECT_THAT(message_of<InputError>([&] { (void)ops["corr2d"](x, x, x); }), HasSubstr("3 arguments; wanted 2"));
  EXPECT_THAT(message_of<InputError>([&] { (void)ops["corr2d"](x, 2); }),
              AllOf(HasSubstr("K is a number"), HasSubstr("f32[P, Q]")));
  EXPECT_THAT(message_of<InputError>([&] { (void)ops["axpy"](x, x, x, x); }),
              AllOf(HasSubstr("alpha is a tensor"), HasSubstr("alpha: f32")));
  EXPECT_THAT(message_of<InputError>([&] { (void)ops["corr2d"](Tensor(), x); }), HasSubstr("X is no tensor"));
  EXPECT_THAT(message_of<InputError>([&] { (void)ops["corr2d"](arange({3}), x); }), HasSubstr("X"));
  EXPECT_THAT(message_of<InputError>([&] {
                (void)ops["corr2d"](arange({3, 4}, f64), x);
              }),
              AllOf(HasSubstr("f64"), HasSubstr("f32")));
  EXPECT_THAT(message_of<InputError>([&] { (void)ops["corr2d"](ones({2, 2}), x); }), HasSubstr("ops.loom:2"));
}

TEST_F(LibraryTest, RefusesScalarsThatDoNotSuit) {
  const Library integers = Library::parse("op add(X: i8[N], d: i8) -> Y: i8[N] { Y[i] = X[i] + d }", "add.loom");
  const Tensor x = zeros({2}, i8);
  EXPECT_EQ(integers["add"](x, -128).element(0).as_i64(), -128);
  EXPECT_THAT(message_of<InputError>([&] { (void)integers["add"](x, 128); }),
              AllOf(HasSubstr("d is 128"), HasSubstr("i8")));
  EXPECT_THAT(message_of<InputError>([&] { (void)integers["add"](x, 1.0); }),
              AllOf(HasSubstr("d is 1"), HasSubstr("i8")));
  EXPECT_THAT(message_of<InputError>([&] { (void)integers["add"](x, true); }), HasSubstr("bool"));
  EXPECT_THAT(message_of<InputError>([&] { (void)ops["axpy"](1e300, x, 0, x); }), HasSubstr("alpha"));
  EXPECT_THAT(message_of<InputError>([&] { (void)ops["axpy"](16777217, x, 0, x); }), HasSubstr("alpha is 16777217"));
}

TEST_F(LibraryTest, SaysWhichOpsThereAre) {
  EXPECT_THAT(message_of<InputError>([&] { (void)ops["corr3d"]; }), HasSubstr("did you mean `corr2d`?"));
  EXPECT_THAT(message_of<InputError>([&] { (void)ops["zzzzzzzz"]; }), HasSubstr("there are `corr2d`, `axpy`"));
}

TEST_F(LibraryTest, ReportsEveryErrorOfAProgram) {
  const std::string message = message_of<CompileError>([] {
    (void)Library::parse(
        "op a(X: f32[N]) -> Y: f32[N] {\n  Y[i] = Z[i]\n}\nop b(X: f32[N]) -> Y: f32[N] {\n  Y[i] = X[j]\n}\n",
        "two.loom");
  });
  EXPECT_THAT(message, AllOf(HasSubstr("two.loom:2"), HasSubstr("two.loom:5")));
}

TEST_F(LibraryTest, ADeviceThatIsNotThereIsTheMachinesFault) {
  const std::string message = message_of<RuntimeError>([&] { (void)ops["eye"].with({{"N", 2}}).on(cuda(99))(); });
  EXPECT_THAT(message, HasSubstr("cuda:99"));
}

TEST_F(LibraryTest, OperandsOnAnotherDeviceThanAskedForAreAnError) {
  EXPECT_THAT(message_of<InputError>([&] {
                (void)ops["corr2d"].on(cuda(0))(ones({2, 2}), ones({1, 1}));
              }),
              AllOf(HasSubstr("X is on cpu"), HasSubstr("cuda")));
}

TEST(Library, AMissingFileIsTheMachinesFault) {
  EXPECT_THAT(message_of<RuntimeError>([] { (void)Library::load("no_such_folder/no_such_file.loom"); }),
              HasSubstr("no_such_file.loom"));
}

TEST(Library, AsksTheReaderForImports) {
  const auto reader = [](const std::string& path) -> std::optional<std::string> {
    if (path == "std") return "fn twice(x: f32) -> f32 = x + x";
    return std::nullopt;
  };
  const Library ops =
      Library::parse("import \"std\"\nop f(X: f32[N]) -> Y: f32[N] { Y[i] = twice(X[i]) }", "f.loom", reader);
  EXPECT_EQ(ops["f"](ones({1})).item(), 2);
  EXPECT_THAT(message_of<CompileError>([] { (void)Library::parse("import \"nowhere.loom\"", "f.loom"); }),
              HasSubstr("nowhere.loom"));
}

TEST(Library, AScalarThatDecidesARangeIsPartOfWhatIsCompiled) {
  const Library ops = Library::parse("op head(X: f32[N], n: i64) -> Y: f32 { Y = sum(i: n) X[i] }", "head.loom");
  const Tensor x = ones({5});
  EXPECT_EQ(ops["head"](x, 2).item(), 2);
  EXPECT_EQ(ops["head"](x, 5).item(), 5);
  EXPECT_THAT(message_of<InputError>([&] { (void)ops["head"](x, 6); }), HasSubstr("head.loom:1"));
  EXPECT_THAT(message_of<InputError>([&] { (void)ops["head"].compile({x.type()}, cpu()); }), HasSubstr("n decides"));
}

TEST(Library, DerivesAnOp) {
  const Library ops = Library::parse(
      "op product(A: f32[N], B: f32[N]) -> Y: f32 { Y = sum(i) A[i] * B[i] }\nop d_b = grad product wrt B", "p.loom");
  const Tensor a = arange({3}), b = ones({3});
  const std::vector<Tensor> d = ops.grad("product", {"A", "B"}).all(a, b, 2.0f);
  ASSERT_EQ(d.size(), 2u);
  EXPECT_THAT(std::vector<float>(d[0].data<float>(), d[0].data<float>() + 3), ElementsAre(2, 2, 2));
  EXPECT_THAT(std::vector<float>(d[1].data<float>(), d[1].data<float>() + 3), ElementsAre(0, 2, 4));
  EXPECT_THAT(ops.op_names(), ElementsAre("product", "d_b"));
  EXPECT_THAT(ops.derivative("product", {"A"}).text, HasSubstr("dA[i] = dY * B[i]"));
  EXPECT_EQ(ops.declared_derivatives().front().name, "d_b");
  EXPECT_THAT(message_of<CompileError>([&] { (void)ops.grad("product", {"C"}); }), HasSubstr("E0260"));
}

TEST(Threads, RefusesNumbersOutOfRange) {
  EXPECT_THROW(set_thread_count(0), InputError);
  EXPECT_THROW(set_thread_count(1025), InputError);
  const int before = thread_count();
  set_thread_count(3);
  EXPECT_EQ(thread_count(), 3);
  set_thread_count(before);
}

}  // namespace
}  // namespace corrloom
