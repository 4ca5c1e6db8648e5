#include "ir/tensor/interpret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/base/errors.h"
#include "ir/scalar/evaluate.h"
#include "tests/unit/ir/tensor/parsed.h"
#include "tests/unit/ir/tensor/random_graph.h"

namespace corrloom::tensor {
namespace {

using scalar::Value;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::parsed;

Array f32_array(std::vector<std::int64_t> extents, const std::vector<float>& values) {
  Array array = {DType::F32, std::move(extents), {}};
  for (float value : values) array.bits.push_back(Value::f32(value).bits);
  return array;
}

Array i64_array(std::vector<std::int64_t> extents, const std::vector<std::int64_t>& values) {
  Array array = {DType::I64, std::move(extents), {}};
  for (std::int64_t value : values) array.bits.push_back(static_cast<std::uint64_t>(value));
  return array;
}

/// 1, 2, 3, ... divided by 8.
Array counting(std::vector<std::int64_t> extents) {
  Array array = {DType::F32, std::move(extents), {}};
  for (std::int64_t k = 0; k < array.count(); ++k) array.bits.push_back(Value::f32(static_cast<float>(k + 1) / 8).bits);
  return array;
}

float f32_at(const Array& array, std::int64_t linear) {
  return static_cast<float>(array.at(linear).as_f64());
}

std::vector<float> f32_values(const Array& array) {
  std::vector<float> values;
  for (std::int64_t k = 0; k < array.count(); ++k) values.push_back(f32_at(array, k));
  return values;
}

std::vector<std::int64_t> i64_values(const Array& array) {
  std::vector<std::int64_t> values;
  for (std::int64_t k = 0; k < array.count(); ++k) values.push_back(array.at(k).as_i64());
  return values;
}

/// The only result of a text without symbols.
Array run(const std::string& text, const std::vector<Array>& inputs, const std::vector<Value>& symbols = {}) {
  return interpret(parsed(text), inputs, symbols).at(0);
}

/// What an InputError says.
std::string input_error(const std::string& text, const std::vector<Array>& inputs,
                        const std::vector<Value>& symbols = {}) {
  try {
    interpret(parsed(text), inputs, symbols);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(InterpretTensor, Matmul) {
  const Array a = counting({2, 3}), b = counting({3, 5});
  const Array y = run(R"(graph @matmul(%A: f32[M, K], %B: f32[K, N]) -> (%Y) symbols [M, K, N] {
  %Y: f32[M, N] = compute [i: M, j: N] reduce [k: K] ascending {
    acc %s: f32 = 0.0:f32 step fma(%A[i, k], %B[k, j], %s) merge add(%s, %s.other)
    yield %s
  }
})",
                      {a, b}, {Value::i64(2), Value::i64(3), Value::i64(5)});
  ASSERT_THAT(y.extents, ElementsAre(2, 5));
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 5; ++j) {
      float sum = 0;
      for (int k = 0; k < 3; ++k) sum = std::fma(f32_at(a, i * 3 + k), f32_at(b, k * 5 + j), sum);
      EXPECT_EQ(f32_at(y, i * 5 + j), sum);
    }
  }
}

TEST(InterpretTensor, Correlation) {
  const Array x = counting({4, 5}), w = counting({2, 3});
  const Array y = run(R"(graph @corr2d(%X: f32[4, 5], %K: f32[2, 3]) -> (%Y) {
  %Y: f32[3, 3] = compute [i: 3, j: 3] reduce [p: 2, q: 3] ascending {
    acc %s: f32 = 0.0:f32 step add(%s, mul(%X[add(i, p), add(j, q)], %K[p, q])) merge add(%s, %s.other)
    yield %s
  }
})",
                      {x, w});
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      float sum = 0;
      for (int p = 0; p < 2; ++p) {
        for (int q = 0; q < 3; ++q) {
          const float product = f32_at(x, (i + p) * 5 + j + q) * f32_at(w, p * 3 + q);
          sum += product;
        }
      }
      EXPECT_EQ(f32_at(y, i * 3 + j), sum);
    }
  }
}

TEST(InterpretTensor, Softmax) {
  const Array x = counting({3, 5});
  const Array y = run(R"(graph @softmax(%X: f32[3, 5]) -> (%Y) {
  %m: f32[3] = compute [n: 3] reduce [d: 5] any {
    acc %max: f32 = -inf:f32 step max(%max, %X[n, d]) merge max(%max, %max.other)
    yield %max
  }
  %e: f32[3, 5] = compute [n: 3, d: 5] {
    yield exp(sub(%X[n, d], %m[n]))
  }
  %s: f32[3] = compute [n: 3] reduce [k: 5] ascending {
    acc %sum: f32 = 0.0:f32 step add(%sum, %e[n, k]) merge add(%sum, %sum.other)
    yield %sum
  }
  %Y: f32[3, 5] = compute [n: 3, d: 5] {
    yield div(%e[n, d], %s[n])
  }
})",
                      {x});
  for (int n = 0; n < 3; ++n) {
    double largest = f32_at(x, n * 5 + 4), total = 0;
    for (int d = 0; d < 5; ++d) total += std::exp(f32_at(x, n * 5 + d) - largest);
    // A sum of 5 terms, an exponential of a few ulp and a division: well below 16 ulp of a value below 1.
    for (int d = 0; d < 5; ++d)
      EXPECT_NEAR(f32_at(y, n * 5 + d), std::exp(f32_at(x, n * 5 + d) - largest) / total, 16 * 6e-8);
  }
}

TEST(InterpretTensor, LanesGoThroughAHalvingTree) {
  // Values of which every order of summation gives another result.
  const std::vector<float> values = {1e8f, 1.0f, -1e8f, 3.0f, 0.25f, 7e7f, -2.0f, 1e-3f, 5.0f, -7e7f, 11.0f};
  const auto sum = [&](const std::string& order) {
    return f32_at(run("graph @g(%X: f32[11]) -> (%Y) {\n  %Y: f32[] = compute [] reduce [k: 11] " + order +
                          " {\n acc %s: f32 = 0.0:f32 step add(%s, %X[k]) merge add(%s, %s.other)\n yield %s\n}\n}",
                      {f32_array({11}, values)}),
                  0);
  };
  float ascending = 0;
  for (float value : values) ascending += value;
  EXPECT_EQ(sum("ascending"), ascending);
  EXPECT_EQ(sum("lanes(1)"), ascending);
  float lane[4] = {};
  for (std::size_t k = 0; k < values.size(); ++k) lane[k % 4] += values[k];
  const float left = lane[0] + lane[2], right = lane[1] + lane[3];
  EXPECT_EQ(sum("lanes(4)"), left + right);
  EXPECT_NE(sum("lanes(4)"), ascending);
}

TEST(InterpretTensor, LanesCountElementsThroughAllAxes) {
  // A free monoid: the result names the elements in the order of combining. Digits are appended: a * 10^n + b.
  const auto order = [&](const std::string& text) {
    return i64_values(run("graph @g() -> (%Y) {\n  %Y: i64[] = compute [] reduce [p: 2, q: 3] " + text + R"( {
    acc %word: i64 = 0:i64 step add(mul(%word, 10), add(add(mul(p, 3), q), 1)) merge add(mul(%word, if(lt(%word.other, 10), 10, if(lt(%word.other, 100), 100, 1000))), %word.other)
    yield %word
  }
})",
                          {}))[0];
  };
  EXPECT_EQ(order("ascending"), 123456);
  EXPECT_EQ(order("lanes(2)"), 135246);
  // Lanes 0..3 hold 15, 26, 3, 4; then 0 with 2 and 1 with 3: 153, 264.
  EXPECT_EQ(order("lanes(4)"), 153264);
}

TEST(InterpretTensor, LanesBeyondTheCountHoldTheInitialValue) {
  const Array y = run(R"(graph @g(%X: f32[3]) -> (%Y) {
  %Y: f32[] = compute [] reduce [k: 3] lanes(8) {
    acc %s: f32 = 1.0:f32 step add(%s, %X[k]) merge add(%s, %s.other)
    yield %s
  }
})",
                      {f32_array({3}, {10, 20, 30})});
  EXPECT_EQ(f32_at(y, 0), 68.0f);
}

TEST(InterpretTensor, TriangularSums) {
  const Array y = run(R"(graph @g(%X: f32[5]) -> (%Y) {
  %Y: f32[5] = compute [i: 5] reduce [j: add(i, 1), k: j] ascending {
    acc %s: f32 = 0.0:f32 step add(%s, %X[k]) merge add(%s, %s.other)
    yield %s
  }
})",
                      {f32_array({5}, {1, 2, 3, 4, 5})});
  std::vector<float> expected;
  for (int i = 0; i < 5; ++i) {
    float sum = 0;
    for (int j = 0; j < i + 1; ++j)
      for (int k = 0; k < j; ++k) sum += static_cast<float>(k + 1);
    expected.push_back(sum);
  }
  EXPECT_EQ(f32_values(y), expected);
}

TEST(InterpretTensor, RaggedRowsAndNegativeRangesAreEmpty) {
  const Array y = run(R"(graph @g(%start: i64[4], %v: f32[5]) -> (%Y) {
  %Y: f32[3] = compute [r: 3] reduce [e: sub(%start[add(r, 1)], %start[r]) from %start[r]] ascending {
    acc %s: f32 = 0.0:f32 step add(%s, %v[add(e, %start[r])]) merge add(%s, %s.other)
    yield %s
  }
})",
                      {i64_array({4}, {0, 2, 1, 5}), f32_array({5}, {1, 2, 4, 8, 16})});
  EXPECT_THAT(f32_values(y), ElementsAre(3, 0, 30));
}

TEST(InterpretTensor, Pads) {
  const auto padded = [](const std::string& pad) {
    return f32_values(
        run("graph @g(%X: f32[4]) -> (%Y) {\n  %Y: f32[14] = compute [i: 14] {\n yield %X[sub(i, 5)] " + pad + "\n}\n}",
            {f32_array({4}, {0, 1, 2, 3})}));
  };
  EXPECT_THAT(padded("pad 9.0:f32"), ElementsAre(9, 9, 9, 9, 9, 0, 1, 2, 3, 9, 9, 9, 9, 9));
  EXPECT_THAT(padded("pad edge"), ElementsAre(0, 0, 0, 0, 0, 0, 1, 2, 3, 3, 3, 3, 3, 3));
  EXPECT_THAT(padded("pad reflect"), ElementsAre(1, 2, 3, 2, 1, 0, 1, 2, 3, 2, 1, 0, 1, 2));
  EXPECT_THAT(padded("pad wrap"), ElementsAre(3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0));
}

TEST(InterpretTensor, PadsFarAwayAndOnOneElement) {
  for (const std::string pad : {"edge", "reflect", "wrap"}) {
    const Array y = run(
        "graph @g(%X: f32[1]) -> (%Y) {\n  %Y: f32[3] = compute [i: 3] {\n yield %X[sub(i, 1)] pad " + pad + "\n}\n}",
        {f32_array({1}, {7})});
    EXPECT_THAT(f32_values(y), ElementsAre(7, 7, 7)) << pad;
    const Array far =
        run("graph @g(%X: f32[3], %at: i64[2]) -> (%Y) {\n  %Y: f32[2] = compute [i: 2] {\n yield %X[%at[i]] pad " +
                pad + "\n}\n}",
            {f32_array({3}, {5, 6, 7}),
             i64_array({2}, {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()})});
    EXPECT_THAT(f32_values(far), ElementsAre(::testing::AllOf(::testing::Ge(5), ::testing::Le(7)),
                                             ::testing::AllOf(::testing::Ge(5), ::testing::Le(7))));
  }
}

TEST(InterpretTensor, PadValuesAreEvaluatedOnlyWhereNeeded) {
  const Array y = run(R"(graph @g(%X: f32[2], %Z: f32[1]) -> (%Y) {
  %Y: f32[3] = compute [i: 3] {
    yield %X[i] pad (%Z[sub(i, 2)])
  }
})",
                      {f32_array({2}, {1, 2}), f32_array({1}, {9})});
  EXPECT_THAT(f32_values(y), ElementsAre(1, 2, 9));
}

TEST(InterpretTensor, BranchesAreLazy) {
  const auto value = [](const std::string& body) {
    return f32_values(run("graph @g(%X: f32[2]) -> (%Y) {\n  %Y: f32[4] = compute [i: 4] {\n yield " + body + "\n}\n}",
                          {f32_array({2}, {1, 2})}));
  };
  EXPECT_THAT(value("if(lt(i, 2), %X[i], 0.0:f32)"), ElementsAre(1, 2, 0, 0));
  EXPECT_THAT(value("if(lt(i, 2), $0 = %X[i], if(land(lt(i, 2), gt($0, 0.0:f32)), 1.0:f32, 3.0:f32))"),
              ElementsAre(1, 2, 3, 3));
  EXPECT_THAT(value("cast.f32(land(lt(i, 2), gt(%X[i], 1.0:f32)))"), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(value("cast.f32(lor(ge(i, 2), gt(%X[i], 1.0:f32)))"), ElementsAre(0, 1, 1, 1));
  // The shared read is taken in two branches, and in neither for i >= 2.
  EXPECT_THAT(value("add(if(eq(i, 0), $0 = %X[i], 5.0:f32), if(lt(i, 2), $0, 7.0:f32))"), ElementsAre(2, 7, 12, 12));
}

TEST(InterpretTensor, NestedSharedBranchesTakeLinearTime) {
  Graph graph = parsed("graph @g(%X: f32[2]) -> (%Y) {\n  %Y: f32[2] = compute [i: 2] {\n yield %X[i]\n}\n}");
  auto& compute = std::get<Compute>(graph.ops[1].kind);
  const Expr one = scalar::constant(Value::f32(1));
  for (int k = 0; k < 60; ++k) {
    const Expr previous = compute.body;
    const Expr condition =
        scalar::apply(scalar::Opcode::Gt, {previous, scalar::constant(Value::f32(static_cast<float>(k)))});
    const Expr twice =
        scalar::apply(scalar::Opcode::If, {condition, previous, scalar::apply(scalar::Opcode::Add, {previous, one})});
    const Expr flat =
        scalar::apply(scalar::Opcode::Sub, {scalar::apply(scalar::Opcode::Add, {twice, previous}), previous});
    compute.body = scalar::apply(scalar::Opcode::If, {scalar::constant(Value::boolean(k % 2 == 0)), flat,
                                                      scalar::apply(scalar::Opcode::Mul, {previous, one})});
  }
  EXPECT_EQ(interpret(graph, {f32_array({2}, {100, 0})}, {})[0].count(), 2);
}

TEST(InterpretTensor, OperationsMakeTheQuietNaN) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const std::string body : {"sub(%X[0], %X[0])", "add(%X[0], neg(%X[0]))", "mul(%X[0], 0.0:f32)",
                                 "fma(%X[0], 0.0:f32, 1.0:f32)", "add(nan:0xffc00005:f32, %X[0])"}) {
    const Array y = run("graph @g(%X: f32[1]) -> (%Y) {\n  %Y: f32[] = compute [] { yield " + body + " }\n}",
                        {f32_array({1}, {infinity})});
    EXPECT_EQ(y.bits[0], 0x7fc00000u) << body;
  }
}

TEST(InterpretTensor, ViewsReshapesAndLiterals) {
  const std::vector<Array> results = interpret(parsed(R"(graph @g(%X: i64[2, 3]) -> (%t, %r, %n) {
  %c: i64[3] = literal [5, -6, 7]
  %t: i64[3, 2] = view [i: 3, j: 2] %X[sub(1, j), i]
  %r: i64[2, 3] = reshape %t
  %n: i64[3] = compute [i: 3] {
    yield add(%c[i], %r[1, i])
  }
})"),
                                               {i64_array({2, 3}, {0, 1, 2, 3, 4, 5})}, {});
  EXPECT_THAT(i64_values(results[0]), ElementsAre(3, 0, 4, 1, 5, 2));
  EXPECT_THAT(results[1].extents, ElementsAre(2, 3));
  EXPECT_THAT(i64_values(results[1]), ElementsAre(3, 0, 4, 1, 5, 2));
  EXPECT_THAT(i64_values(results[2]), ElementsAre(6, -1, 9));
}

TEST(InterpretTensor, EmptyTensorsAndEmptyReductions) {
  const std::string text = R"(graph @g(%X: f32[N, M]) -> (%Y) symbols [N, M] {
  %Y: f32[N] = compute [i: N] reduce [k: M] ascending {
    acc %s: f32 = 0.0:f32 step add(%s, %X[i, k]) merge add(%s, %s.other)
    yield %s
  }
})";
  EXPECT_TRUE(run(text, {f32_array({0, 3}, {})}, {Value::i64(0), Value::i64(3)}).bits.empty());
  EXPECT_THAT(f32_values(run(text, {f32_array({2, 0}, {})}, {Value::i64(2), Value::i64(0)})), ElementsAre(0, 0));
}

TEST(InterpretTensor, ReadsOutOfRangeNameEverything) {
  const std::string error = input_error(R"(graph @g(%X: f32[4, 3]) -> (%Y) {
  %Y: f32[2] = compute [i: 2] reduce [p: 4 from 2] ascending {
    acc %s: f32 = 0.0:f32 step add(%s, %X[add(add(i, p), 1), i]) merge add(%s, %s.other)
    yield %s
  }
})",
                                        {counting({4, 3})});
  EXPECT_THAT(error, HasSubstr("test.tir:3:40: error[E0256]: `X[add(add(i, p), 1:i64), i]` reads outside of X"));
  EXPECT_THAT(error, HasSubstr("note: the first subscript is 4, but X has extent 4 there"));
  EXPECT_THAT(error, HasSubstr("where i = 0, p = 5"));
}

TEST(InterpretTensor, OtherInputErrors) {
  const std::string identity = "graph @g(%X: f32[N, 3]) -> (%X) symbols [N] {}";
  EXPECT_THAT(input_error(identity, {}, {Value::i64(2)}), HasSubstr("takes 1 tensors, not 0"));
  EXPECT_THAT(input_error(identity, {counting({2, 4})}, {Value::i64(2)}),
              HasSubstr("`X` has to be f32[2, 3], not f32[2, 4]"));
  EXPECT_THAT(input_error(identity, {i64_array({2, 3}, {1, 2, 3, 4, 5, 6})}, {Value::i64(2)}),
              HasSubstr("has to be f32[2, 3], not i64[2, 3]"));
  EXPECT_THAT(input_error(identity, {counting({2, 3})}, {Value::i64(-2)}),
              HasSubstr("extent 0 of `X` is negative: -2"));
  const std::string view = "graph @g(%X: f32[3]) -> (%Y) {\n %Y: f32[4] = view [i: 4] %X[i]\n}";
  EXPECT_THAT(input_error(view, {counting({3})}),
              HasSubstr("test.tir:2:2: a view of `X` is out of range: subscript 0 is 3, the extent is 3"));
  const std::string pad = "graph @g(%X: f32[0]) -> (%Y) {\n %Y: f32[4] = compute [i: 4] { yield %X[i] pad edge }\n}";
  EXPECT_THAT(input_error(pad, {counting({0})}), HasSubstr("the extent is 0"));
  const std::string reshape = "graph @g(%X: f32[N]) -> (%Y) symbols [N] {\n %Y: f32[4] = reshape %X\n}";
  EXPECT_THAT(input_error(reshape, {counting({3})}, {Value::i64(3)}),
              HasSubstr("from [3] to [4] changes the number of elements"));
}

TEST(InterpretTensor, SizesAreCheckedForOverflow) {
  const auto filled = [](const std::string& extents, const std::string& axes) {
    return input_error(
        "graph @g() -> (%Y) symbols [N] {\n %Y: f32[" + extents + "] = compute [" + axes + "] { yield 0.0:f32 }\n}", {},
        {Value::i64(std::int64_t{1} << 32)});
  };
  EXPECT_THAT(filled("mul(N, N)", "i: mul(N, N)"), HasSubstr("overflows 64 bits"));
  EXPECT_THAT(filled("N, N", "i: N, j: N"), HasSubstr("has too many elements"));
  EXPECT_EQ(filled("if(gt(N, 0), 1, mul(N, N))", "i: if(gt(N, 0), 1, mul(N, N))"), "no error");
}

TEST(InterpretTensor, ConditionsComeFirst) {
  const std::string text = R"(graph @g(%X: f32[H]) -> (%X) symbols [H, P] {
  require ge(H, P) "the window is larger than X" showing "H" = H, "P + 1" = add(P, 1)
})";
  EXPECT_EQ(input_error(text, {}, {Value::i64(3), Value::i64(4)}),
            "test.tir:2:3: the window is larger than X\n  where H = 3, P + 1 = 5");
  EXPECT_EQ(input_error(text, {counting({4})}, {Value::i64(4), Value::i64(4)}), "no error");
}

TEST(InterpretTensor, OnlyWhatOutputsNeedIsEvaluated) {
  EXPECT_EQ(input_error("graph @g(%X: f32[3]) -> (%X) {\n %dead: f32[4] = view [i: 4] %X[i]\n}", {counting({3})}),
            "no error");
}

TEST(InterpretTensor, RefusesBrokenGraphs) {
  Graph graph = parsed("graph @g(%X: f32[3]) -> (%X) {}");
  graph.outputs[0].value = TensorId{4};
  EXPECT_THROW(interpret(graph, {counting({3})}, {}), InternalError);
}

/// The meaning of a graph by definition, without any of the interpreter's preparation. Constant extents only.
class Reference {
 public:
  Reference(const Graph& graph, const std::vector<Array>& inputs) {
    std::size_t next_input = 0;
    for (const Op& op : graph.ops) {
      Array result = {op.dtype, {}, {}};
      for (const Expr& extent : op.extents) result.extents.push_back(*scalar::as_i64(extent));
      if (std::holds_alternative<Input>(op.kind)) result = inputs[next_input++];
      if (const auto* literal = std::get_if<Literal>(&op.kind))
        for (const Value& value : literal->values) result.bits.push_back(value.bits);
      if (const auto* reshape = std::get_if<Reshape>(&op.kind)) result.bits = array(reshape->source).bits;
      if (const auto* view = std::get_if<View>(&op.kind)) {
        const Expr read = scalar::read({view->source, view->index}, op.dtype);
        for_each_point(view->axes, 0, [&] { result.bits.push_back(value(read).bits); });
      }
      if (const auto* compute = std::get_if<Compute>(&op.kind))
        for_each_point(compute->axes, 0, [&] { result.bits.push_back(element(*compute).bits); });
      arrays_.push_back(std::move(result));
    }
  }

  const Array& array(TensorId id) const { return arrays_[static_cast<std::size_t>(id.index)]; }

 private:
  template <class Visit>
  void for_each_point(const std::vector<Axis>& axes, std::size_t depth, const Visit& visit) {
    if (depth == axes.size()) return visit();
    const std::int64_t extent = value(axes[depth].extent).as_i64();
    for (std::int64_t k = 0; k < extent; ++k) {
      axes_[axes[depth].id] = k;
      for_each_point(axes, depth + 1, visit);
    }
  }

  Value element(const Compute& compute) {
    if (!compute.reduction) return value(compute.body);
    const Reduction& reduction = *compute.reduction;
    const auto lanes = static_cast<std::size_t>(reduction.order.kind == Order::Kind::Lanes ? reduction.order.lanes : 1);
    std::vector<Value> inits;
    for (const Accumulator& accumulator : reduction.accumulators) inits.push_back(value(accumulator.init));
    const auto part = static_cast<std::size_t>(reduction.order.part);
    std::vector<std::vector<std::vector<Value>>> parts = {{lanes, inits}};
    std::size_t number = 0;
    for_each_point(reduction.axes, 0, [&] {
      if (part > 0 && number > 0 && number % part == 0) parts.emplace_back(lanes, inits);
      std::vector<Value>& state = parts.back()[number++ % lanes];
      accumulators_ = state;
      for (std::size_t k = 0; k < state.size(); ++k) state[k] = value(reduction.accumulators[k].step);
    });
    const auto merge = [&](std::vector<Value>& into, const std::vector<Value>& from) {
      accumulators_ = into;
      others_ = from;
      for (std::size_t k = 0; k < others_.size(); ++k) into[k] = value(reduction.accumulators[k].merge);
    };
    for (std::vector<std::vector<Value>>& states : parts) {
      for (; states.size() > 1; states.resize(states.size() / 2)) {
        for (std::size_t lane = 0; lane < states.size() / 2; ++lane)
          merge(states[lane], states[lane + states.size() / 2]);
      }
    }
    for (std::size_t k = 1; k < parts.size(); ++k) merge(parts[0][0], parts[k][0]);
    accumulators_ = parts[0][0];
    return value(compute.body);
  }

  Value value(const Expr& expr) {
    scalar::Environment environment;
    environment.axis = [&](AxisId id) { return Value::i64(axes_.at(id)); };
    environment.accumulator = [&](int k, bool other) {
      return (other ? others_ : accumulators_)[static_cast<std::size_t>(k)];
    };
    environment.read = [&](const scalar::Read& read, std::span<const std::int64_t> index) {
      return read_element(read, index);
    };
    return scalar::evaluate(expr, environment);
  }

  Value read_element(const scalar::Read& read, std::span<const std::int64_t> index) {
    const Array& source = array(read.source);
    std::int64_t linear = 0;
    for (std::size_t k = 0; k < index.size(); ++k) {
      const std::int64_t extent = source.extents[k];
      std::int64_t at = index[k];
      if (at < 0 || at >= extent) {
        if (read.pad == scalar::PadMode::Value) return value(read.pad_value);
        EXPECT_NE(read.pad, scalar::PadMode::None);
        if (read.pad == scalar::PadMode::Edge) at = at < 0 ? 0 : extent - 1;
        // One step over the end at a time.
        while (read.pad == scalar::PadMode::Wrap && at < 0) at += extent;
        while (read.pad == scalar::PadMode::Wrap && at >= extent) at -= extent;
        while (read.pad == scalar::PadMode::Reflect && (at < 0 || at >= extent))
          at = extent == 1 ? 0 : at < 0 ? -at : 2 * (extent - 1) - at;
      }
      linear = linear * extent + at;
    }
    return source.at(linear);
  }

  std::vector<Array> arrays_;
  std::unordered_map<AxisId, std::int64_t> axes_;
  std::vector<Value> accumulators_, others_;
};

TEST(InterpretTensor, AgreesWithTheDefinitionOnRandomGraphs) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    const testing::RandomCase random = testing::random_case(seed);
    const std::vector<Array> results = interpret(random.graph, random.inputs, random.symbols);
    const Reference reference(random.graph, random.inputs);
    for (std::size_t k = 0; k < results.size(); ++k) {
      const Array& expected = reference.array(random.graph.outputs[k].value);
      ASSERT_EQ(results[k].extents, expected.extents) << "seed " << seed;
      ASSERT_EQ(results[k].bits, expected.bits) << "seed " << seed << ", output " << k << "\n" << print(random.graph);
    }
  }
}

TEST(InterpretTensor, StaticAndSymbolicRandomGraphsRun) {
  testing::RandomGraphOptions options;
  options.symbolic = true;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const testing::RandomCase random = testing::random_case(seed, options);
    EXPECT_EQ(interpret(random.graph, random.inputs, random.symbols).size(), random.graph.outputs.size())
        << "seed " << seed;
  }
}

}  // namespace
}  // namespace corrloom::tensor
