#include "compiler/tools/check/laws.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/api/op_core.h"
#include "ir/base/errors.h"

namespace corrloom::tools {
namespace {

using scalar::Value;
using tensor::Array;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Arrays = std::vector<Array>;

/// Breaks the results of a run on those inputs.
using Fault = std::function<void(const Arrays& inputs, Arrays& results)>;

Array array(std::vector<std::int64_t> extents, const std::function<double(std::int64_t)>& element,
            DType dtype = DType::F32) {
  Array made{dtype, std::move(extents), {}};
  std::int64_t count = 1;
  for (const std::int64_t extent : made.extents) count *= extent;
  for (std::int64_t k = 0; k < count; ++k)
    made.bits.push_back(is_float(dtype) ? Value::floating(dtype, element(k)).bits
                                        : Value::integer(dtype, static_cast<std::int64_t>(element(k))).bits);
  return made;
}

Array some(std::vector<std::int64_t> extents, DType dtype = DType::F32) {
  return array(
      std::move(extents), [](std::int64_t k) { return static_cast<double>(k * 7 % 5) - 2; }, dtype);
}

void add_to(Array& result, std::int64_t at, double what) {
  result.bits[static_cast<std::size_t>(at)] = Value::floating(result.dtype, result.at(at).as_f64() + what).bits;
}

/// The laws of the op `f` of the text, run by the interpreter with a fault.
LawReport laws_of(const std::string& text, const Arrays& inputs, const Fault& fault = {}) {
  const Library library = Library::parse(text, "f.loom");
  const Op op = library["f"];
  const api::OpCore& core = *op.core();
  const auto bind = [&](const Arrays& arrays) {
    std::vector<TensorType> types;
    for (const Array& one : arrays) types.push_back({one.dtype, one.extents});
    return core.bind(types, {});
  };
  const RunOp run = [&](const Arrays& arrays) {
    Arrays results = tensor::interpret(*core.graph(), arrays, frontend::in_symbol_order(*core.graph(), bind(arrays)));
    if (fault) fault(arrays, results);
    return results;
  };
  return check_laws(*core.graph(), bind(inputs), inputs, {run, run});
}

constexpr const char* kCorrelation =
    "op f(X: f32[N, W], K: f32[P]) -> Y: f32[N, W - P + 1] {\n  Y[n, i] = sum(p) X[n, i + p] * K[p]\n}\n";

TEST(Laws, OfACorrelation) {
  const LawReport report = laws_of(kCorrelation, {some({2, 6}), some({3})});
  EXPECT_THAT(report.broken, IsEmpty());
  EXPECT_THAT(report.held,
              ElementsAre("Y is linear in X, exactly", "Y is the sum of its responses to the elements of X",
                          "Y is linear in K, exactly", "Y is the sum of its responses to the elements of K",
                          "Y moves along axis 0 when X moves by 1 along axis 0",
                          "Y moves along axis 1 when X moves by 1 along axis 1", "splits along N"));
}

TEST(Laws, NoticeWhatIsNotLinear) {
  const auto squares = [](const Arrays& inputs, Arrays& results) {
    const double x = inputs[0].at(0).as_f64();
    add_to(results[0], 0, x * x);
  };
  EXPECT_THAT(laws_of(kCorrelation, {some({2, 6}), some({3})}, squares).broken,
              HasSubstr("Y is linear in X, but at [0, 0] the two sides differ by"));
}

TEST(Laws, NoticeAConstantThatTheDefinitionDoesNotHave) {
  const auto adds_one = [](const Arrays&, Arrays& results) { add_to(results[0], 3, 1); };
  EXPECT_THAT(laws_of(kCorrelation, {some({2, 6}), some({3})}, adds_one).broken, HasSubstr("Y is linear in X, but"));
}

TEST(Laws, NoticeAWrongResponseToOneElement) {
  const auto breaks_impulses = [](const Arrays& inputs, Arrays& results) {
    std::int64_t wanted = 0;
    for (const std::uint64_t bits : inputs[0].bits) wanted += bits != 0 ? 1 : 0;
    if (wanted == 1) add_to(results[0], 1, 1);
  };
  EXPECT_THAT(laws_of(kCorrelation, {some({2, 6}), some({3})}, breaks_impulses).broken,
              HasSubstr("Y is the sum of its responses to the elements of X, but at [0, 1]"));
}

TEST(Laws, NoticeAPlaceThatIsComputedOtherwise) {
  // A product with the last window's first element keeps every sum.
  const auto breaks_the_end = [](const Arrays& inputs, Arrays& results) {
    add_to(results[0], 3, inputs[0].at(3).as_f64() * inputs[1].at(0).as_f64());
  };
  EXPECT_THAT(laws_of(kCorrelation, {some({1, 6}), some({3})}, breaks_the_end).broken,
              HasSubstr("Y moves along axis 1 when X moves by 1 along axis 1, but at [0, 2] it has"));
}

TEST(Laws, NoticeWhatDependsOnTheExtentOfAFreeDimension) {
  const char* text = "op f(X: f32[N, D]) -> Y: f32[N] {\n  Y[n] = max(d) X[n, d] * X[n, d]\n}\n";
  const auto breaks_long_ones = [](const Arrays& inputs, Arrays& results) {
    if (inputs[0].extents[0] > 3) add_to(results[0], 1, 1);
    // Alike for every n, so that nothing moves wrongly.
    if (inputs[0].extents[0] > 3)
      for (const std::int64_t n : {0, 2, 3, 4}) add_to(results[0], n, 1);
  };
  const Arrays inputs{some({5, 2})};
  EXPECT_THAT(laws_of(text, inputs).held,
              ElementsAre("Y moves along axis 0 when X moves by 1 along axis 0", "splits along N"))
      << "D has no index of Y";
  EXPECT_THAT(laws_of(text, inputs, breaks_long_ones).broken,
              HasSubstr("splits along N, but of the part from 0 on 3 of 3 elements differ"));
}

TEST(Laws, StateABoundWhereArithmeticRounds) {
  const char* text = "op f(X: f32[N]) -> Y: f32[N] {\n  Y[i] = X[i] / 3\n}\n";
  const Arrays inputs{some({5})};
  EXPECT_THAT(laws_of(text, inputs).held, Contains(HasSubstr("Y is linear in X, within ")));
  const auto breaks = [](double what) {
    return [what](const Arrays& arrays, Arrays& results) {
      const double x = arrays[0].at(2).as_f64();
      add_to(results[0], 2, what * x * x);
    };
  };
  EXPECT_THAT(laws_of(text, inputs, breaks(1e-5)).broken, HasSubstr("allowed"));
}

TEST(Laws, AreExactForIntegersThatWrap) {
  const char* text = "op f(X: i8[N], K: i8[N]) -> Y: i8[N] {\n  Y[i] = X[i] * K[i] * 100 - X[N - 1 - i]\n}\n";
  const LawReport report = laws_of(text, {some({5}, DType::I8), some({5}, DType::I8)});
  EXPECT_THAT(report.broken, IsEmpty());
  EXPECT_THAT(report.held, Contains("Y is linear in X, exactly"));
}

TEST(Laws, KnowWhatIsLinearUpToAConstant) {
  const char* text =
      "op f(X: f32[N], b: f32[N]) -> Y: f32[N] {\n  Y[i] = (if i % 2 == 0 then 2 * X[i] else 0) + b[i] * 3\n}\n";
  const LawReport report = laws_of(text, {some({4}), some({4})});
  EXPECT_THAT(report.broken, IsEmpty());
  EXPECT_THAT(report.held, Contains("Y is linear up to a constant in X, exactly"));
  EXPECT_THAT(report.held, testing::Not(Contains(HasSubstr("moves")))) << "i stands in a condition, b does not move";
}

TEST(Laws, LeaveAloneWhatHasNone) {
  const char* text =
      "op f(X: f32[N, N]) -> (Y: f32[N], Z: f32, B: bool[N]) {\n"
      "  Y[i] = (max(j: 0..i + 1) X[i, j] * f32(N)) + exp(X[i, 0])\n  Z = prod(i, j) X[i, j]\n"
      "  B[i] = bool(X[0, i])\n}\n";
  const LawReport report = laws_of(text, {some({4, 4})});
  EXPECT_THAT(report.broken, IsEmpty());
  EXPECT_THAT(report.held, ElementsAre("B moves along axis 0 when X moves by 1 along axis 1"));
}

TEST(Laws, KnowNothingOfWhatANaNIsPutInto) {
  // Products and quotients of it, of zero too, are NaN whatever X is.
  for (const char* constant : {"0.0 / (X[0] pad nan * 0.0)", "0.0 / (C[9] pad nan)", "0.0 * (C[9] pad inf)"}) {
    const std::string text =
        "op f(X: f32[N], C: f32[M]) -> Y: f32[N] {\n  Y[i] = X[i] + " + std::string(constant) + "\n}\n";
    EXPECT_THAT(laws_of(text, {some({3}), some({2})}).broken, IsEmpty()) << constant;
  }
}

TEST(Laws, AllowDotProductsOfBf16ToTakeDenormalsForZeros) {
  const auto flushed = [](const Arrays& arrays, Arrays& results) {
    const double x = arrays[0].at(1).as_f64();
    add_to(results[0], 0, 1e-40 * x * x);
  };
  const auto broken = [&](const std::string& dtype, DType of) {
    const std::string text = "op f(X: " + dtype + "[N], C: " + dtype + "[N]) -> Y: f32[1] {\n" +
                             "  let A[k: N] = X[k] * 7.52316384526264e-37\n" +  // 2^-120
                             "  Y[i] = sum(k) f32(A[k]) * f32(C[k])\n}\n";
    return laws_of(text, {some({3}, of), some({3}, of)}, flushed).broken;
  };
  EXPECT_THAT(broken("bf16", DType::BF16), IsEmpty());
  EXPECT_THAT(broken("f32", DType::F32), testing::Not(IsEmpty()));
}

TEST(Laws, OfStridesAndPadding) {
  const char* text =
      "op f(X: f32[W], K: f32[3]) -> Y: f32[(W + 1) // 2] {\n  Y[i] = sum(p) X[2 * i + p - 1] pad 7 * K[p]\n}\n";
  const Arrays inputs{some({9}), some({3})};
  EXPECT_THAT(laws_of(text, inputs).held,
              testing::AllOf(Contains("Y moves along axis 0 when X moves by 2 along axis 0"),
                             Contains("Y is linear up to a constant in X, exactly")));
  const auto breaks_one = [](const Arrays&, Arrays& results) { add_to(results[0], 2, 0.25); };
  EXPECT_THAT(laws_of(text, inputs, breaks_one).broken, HasSubstr("Y is linear in K"));
}

TEST(Laws, OfDefinitionsInSteps) {
  const char* text =
      "op f(X: f32[N, H]) -> Y: f32[H - 2, N] {\n  let T = transpose(X)\n"
      "  let S[i: H - 1, n: N] = T[i + 1, n] - T[i, n]\n  Y[i, n] = S[i + 1, n] + S[i, n]\n}\n";
  const LawReport report = laws_of(text, {some({3, 5})});
  EXPECT_THAT(report.broken, IsEmpty());
  EXPECT_THAT(report.held,
              ElementsAre("Y is linear in X, exactly", "Y is the sum of its responses to the elements of X",
                          "Y moves along axis 1 when X moves by 1 along axis 0",
                          "Y moves along axis 0 when X moves by 1 along axis 1", "splits along N"));
}

TEST(Laws, AreSkippedForArgumentsThatTheOpRefuses) {
  const char* text = "op f(X: f32[N]) -> Y: f32[N] where N > 3 {\n  Y[i] = X[i] * X[i]\n}\n";
  const LawReport report = laws_of(text, {some({5})});
  EXPECT_THAT(report.broken, IsEmpty());
  EXPECT_THAT(report.held, ElementsAre("Y moves along axis 0 when X moves by 1 along axis 0"));
}

}  // namespace
}  // namespace corrloom::tools
