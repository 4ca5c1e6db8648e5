#include "ir/tensor/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/tensor/verify.h"
#include "tests/unit/ir/tensor/parsed.h"
#include "tests/unit/ir/tensor/random_graph.h"

namespace corrloom::tensor {
namespace {

using ::testing::HasSubstr;
using testing::parsed;
using testing::source_of;

/// One graph with every construct of the text.
constexpr std::string_view kEverything =
    R"(graph @everything(%X: f32[H, W], param %K: f32[2, 3], %W: f32[H, W], %I: i64[], %B: bool[3]) -> (%Y, Z = %mask, %V in %W) symbols [H, W, a: f32, n: i64, flag: bool] {
  require land(ge(H, 2:i64), flag) "the \"window\" is larger\nthan X" showing "H" = H, "W // 2" = floordiv(W, 2:i64)
  require true "always"
  %c: f32[2, 3] = literal [1.0, -0.5, inf, -inf, nan, nan:0x7fc00001]
  %b: bool[2] = literal [true, false]
  %none: i8[0] = literal []
  %s: f32[] = literal [2.0]
  %t: f32[W, H] = view [i: W, j: H] %X[j, i]
  %r: f32[6] = reshape %c
  %Y: f32[H, W] = compute [i: H, j: W] reduce [p: 2 from sub(0:i64, 1:i64), q: add(p, 1:i64)] lanes(4) {
    acc %sum: f32 = 0.0:f32 step fma(%X[add(i, p), add(j, q)] pad 0.0:f32, %K[p, q] check proven, %sum) merge add(%sum, %sum.other)
    acc %best: i64 = 0:i64 step select(gt(%X[i, q] pad edge, %s[]), max($0 = mul(p, n), $0), %best) merge max(%best, %best.other)
    yield add(%sum, cast.f32(%best))
  }
  %mask: bool[H] = compute [i: H] with any fast {
    yield lor(%B[mod(i, 3:i64)] pad true, eq(bitcast.i32(%X[i, i] pad reflect check runtime), -1:i32))
  }
  %V: f32[H, W] = compute [i: H, j: W] with strict {
    yield if(lt(%W[i, j], a), exp(%W[i, j]), %t[j, i] pad (neg(a)))
  }
  %wrapped: f32[] = compute [] with fast reduce [k: W] any {
    acc %m: f32 = -inf:f32 step max(%m, %X[0:i64, k] pad wrap) merge max(%m, %m.other)
    yield %m
  }
}
)";

TEST(TensorText, RoundTripsEveryConstruct) {
  EXPECT_EQ(print(parsed(std::string(kEverything))), kEverything);
}

TEST(TensorText, KeepsWhatTheTextSays) {
  const Graph graph = parsed(std::string(kEverything));
  ASSERT_EQ(graph.inputs.size(), 5u);
  EXPECT_TRUE(std::get<Input>(graph.op(graph.inputs[1]).kind).parameter);
  EXPECT_FALSE(std::get<Input>(graph.op(graph.inputs[0]).kind).parameter);
  EXPECT_EQ(graph.symbols[2].kind, Symbol::Kind::Scalar);
  EXPECT_EQ(graph.symbols[2].dtype, DType::F32);
  EXPECT_EQ(graph.symbols[3].kind, Symbol::Kind::Scalar);
  EXPECT_EQ(graph.outputs[1].name, "Z");
  EXPECT_EQ(graph.op(graph.outputs[1].value).name, "mask");
  EXPECT_EQ(graph.op(graph.outputs[2].storage_of).name, "W");
  EXPECT_EQ(graph.conditions[0].title, "the \"window\" is larger\nthan X");
  EXPECT_EQ(graph.conditions[0].shown[1].name, "W // 2");
  const auto& compute = std::get<Compute>(graph.op(graph.outputs[0].value).kind);
  EXPECT_EQ(compute.reduction->order, (Order{Order::Kind::Lanes, 4}));
  EXPECT_NE(compute.reduction->axes[0].origin, nullptr);
  const auto& mask = std::get<Compute>(graph.op(graph.outputs[1].value).kind);
  EXPECT_EQ(mask.numerics, (Numerics{Numerics::OrderMode::Any, true}));
}

TEST(TensorText, ReadsPointIntoTheText) {
  const Graph graph =
      parsed("graph @g(%X: f32[4]) -> (%Y) {\n  %Y: f32[4] = compute [i: 4] {\n    yield %X[i]\n  }\n}\n");
  const auto& compute = std::get<Compute>(graph.op(graph.outputs[0].value).kind);
  EXPECT_EQ(place(scalar::as_read(compute.body)->span), "test.tir:3:11");
}

TEST(TensorText, CommentsAndBlanksDoNotCount) {
  const std::string text = "graph @g(%X: f32[4]) -> (%X) {\n}\n";
  EXPECT_EQ(print(parsed("// first\ngraph\t@g ( %X :f32[ 4 ] )->(%X){// rest\r\n}")), text);
}

TEST(TensorText, MakesNamesUniqueAndWellFormed) {
  Graph graph;
  graph.name = "two words";
  const Expr four = scalar::constant_i64(4);
  graph.new_symbol({"inf", DType::I64});
  const TensorId input = graph.add({"Y", DType::F32, {four}, Input{}});
  graph.inputs = {input};
  TensorId last = input;
  for (const char* name : {"Y", "", "2x", "Y.1"}) {
    const AxisId axis = graph.new_axis("inf"), inner = graph.new_axis("inf");
    Compute compute = {{{axis, "inf", four}}, std::nullopt, nullptr};
    Expr result;
    const Expr element = scalar::read({last, {scalar::axis(axis)}}, DType::F32);
    compute.reduction =
        Reduction{{{inner, "inf", four}}, accumulators_of(ReduceKind::Sum, DType::F32, element, nullptr, result)};
    compute.reduction->accumulators[0].name = "Y.other";
    compute.body = result;
    last = graph.add({name, DType::F32, {four}, std::move(compute)});
  }
  graph.outputs = {{"", last}, {"Y", last}};
  ASSERT_TRUE(verify(graph).empty()) << verify(graph)[0].message;
  const std::string text = print(graph);
  EXPECT_THAT(text, HasSubstr("graph @two_words(%Y: f32[4]) -> (_ = %Y.2, Y = %Y.2) symbols [inf.1]"));
  EXPECT_THAT(text, HasSubstr("%_2x: f32[4] = compute [inf.2: 4] reduce [inf.3: 4]"));
  EXPECT_THAT(
      text, HasSubstr("acc %Y_other: f32 = 0.0:f32 step add(%Y_other, %_[inf.2]) merge add(%Y_other, %Y_other.other)"));
  EXPECT_EQ(print(parsed(text)), text);
}

TEST(TensorText, AccumulatorsAreNotNamedLikeTensors) {
  Graph graph = parsed(
      "graph @g(%X: i64[4]) -> (%Y) {\n  %Y: i64[] = compute [] reduce [k: 4] any {\n    acc %s: i64 = 0:i64 step "
      "add(%s, %X[k]) merge add(%s, %s.other)\n    yield %s\n  }\n}\n");
  std::get<Compute>(graph.ops[1].kind).reduction->accumulators[0].name = "Y";
  EXPECT_THAT(print(graph), HasSubstr("acc %Y.1: i64 = 0:i64 step add(%Y.1, %X[k])"));
  EXPECT_EQ(print(parsed(print(graph))), print(graph));
}

TEST(TensorText, PrintsBrokenGraphs) {
  Graph graph;
  graph.inputs = {TensorId{7}, TensorId{}};
  graph.outputs = {{"Y", TensorId{-3}, TensorId{9}}};
  graph.conditions.push_back({nullptr, "no condition"});
  const Expr body =
      scalar::apply(scalar::Opcode::Add, {scalar::read({TensorId{12}, {scalar::axis(AxisId{5})}}, DType::F32),
                                          scalar::cast(scalar::symbol(SymbolId{8}, DType::I64), DType::F32)});
  graph.add({"Y", DType::F32, {nullptr}, Compute{{{AxisId{}, "i", nullptr}}, std::nullopt, body}});
  graph.add(
      {"Z",
       DType::F32,
       {},
       Compute{{}, Reduction{{}, {{"a", DType::F32, nullptr, nullptr, nullptr}}}, scalar::accumulator(3, DType::F32)}});
  graph.add({"I", DType::F32, {}, Input{}});
  graph.add({"L", DType::F32, {}, Literal{{scalar::Value::boolean(true)}}});
  const std::string text = print(graph);
  EXPECT_THAT(text, HasSubstr("add(%?12[?5], cast.f32(?8))"));
  Diagnostics diagnostics;
  EXPECT_FALSE(parse(source_of(text), diagnostics).has_value());
  EXPECT_FALSE(verify(graph).empty());
}

TEST(TensorText, ParsesSeveralGraphs) {
  const std::string text = "graph @a() -> () {\n}\n";
  Diagnostics diagnostics;
  const auto graphs = parse_all(source_of(text + text), diagnostics);
  ASSERT_TRUE(graphs.has_value()) << diagnostics.render();
  EXPECT_EQ(graphs->size(), 2u);
  EXPECT_FALSE(parse(source_of(text + text), diagnostics).has_value());
}

/// The single error of a text, rendered.
std::string error_of(const std::string& text) {
  Diagnostics diagnostics;
  EXPECT_FALSE(parse_all(source_of(text), diagnostics).has_value()) << text;
  EXPECT_EQ(diagnostics.entries().size(), 1u) << diagnostics.render();
  return diagnostics.render();
}

/// The error of a graph of one compute with that body, over an input %X: f32[4], an axis i and a symbol flag: bool.
std::string body_error(const std::string& body) {
  return error_of("graph @g(%X: f32[4]) -> (%Y) symbols [flag: bool] {\n  %Y: f32[4] = compute [i: 4] {\n    yield " +
                  body + "\n  }\n}\n");
}

TEST(TensorText, ReportsWhatIsWrong) {
  EXPECT_THAT(body_error("%X[i] ^"), HasSubstr("test.tir:3:17: error[E0401]"));
  EXPECT_THAT(body_error("1.5:i64"), HasSubstr("error[E0401]: `1.5` is not a value of i64"));
  EXPECT_THAT(body_error("1:f33"), HasSubstr("error[E0401]: a literal has the unknown dtype `f33`"));
  EXPECT_THAT(body_error("add(%X[i], )"), HasSubstr("error[E0402]: expected an expression"));
  EXPECT_THAT(body_error("add(%X[i] %X[i])"), HasSubstr("error[E0402]: expected `)`, found `%X`"));
  EXPECT_THAT(body_error("cast(%X[i])"), HasSubstr("error[E0402]: expected `cast.` and a dtype"));
  EXPECT_THAT(body_error("add.f32(%X[i], %X[i])"), HasSubstr("error[E0402]: expected `add` alone"));
  EXPECT_THAT(body_error("%Z[i]"), HasSubstr("error[E0403]: unknown name `%Z`"));
  EXPECT_THAT(body_error("%Y[i]"), HasSubstr("error[E0403]: unknown name `%Y`"));
  EXPECT_THAT(body_error("j"), HasSubstr("error[E0403]: unknown name `j`"));
  EXPECT_THAT(body_error("frobnicate(i)"), HasSubstr("error[E0403]: unknown name `frobnicate`"));
  EXPECT_THAT(body_error("$0"), HasSubstr("error[E0403]: unknown name `$0`"));
  EXPECT_THAT(body_error("add($0 = %X[i], $0 = %X[i])"), HasSubstr("error[E0404]: `$0` is defined twice"));
  EXPECT_THAT(body_error("add(%X[i], i)"), HasSubstr("error[E0405]: `add` mixes f32 and i64"));
  EXPECT_THAT(body_error("add(%X[i])"), HasSubstr("error[E0405]: `add` takes 2 operands, not 1"));
  EXPECT_THAT(body_error("div(i, i)"), HasSubstr("error[E0405]: `div` does not take i64"));
  EXPECT_THAT(body_error("if(i, i, i)"), HasSubstr("error[E0405]: operand 0 of `if` is of i64, not bool"));
  EXPECT_THAT(body_error("bitcast.i64(%X[i])"), HasSubstr("error[E0405]: `bitcast` from f32 to i64"));
  EXPECT_THAT(body_error("%X[%X[i]]"), HasSubstr("error[E0405]: a subscript is an i64, not f32"));
  EXPECT_THAT(body_error("%X[i] pad 1:i64"), HasSubstr("error[E0405]: the pad of a read of f32 is of i64"));
  EXPECT_THAT(body_error("%X[i] pad sideways"), HasSubstr("error[E0402]"));
  EXPECT_THAT(error_of("graph @g() -> () symbols [N, N] {}"), HasSubstr("error[E0404]"));
  EXPECT_THAT(error_of("graph @g(%X: f32[4], %X: f32[4]) -> () {}"), HasSubstr("error[E0404]"));
  EXPECT_THAT(error_of("graph @g() -> (%Y) {}"), HasSubstr("error[E0403]: unknown tensor `%Y`"));
  EXPECT_THAT(error_of("graph @g() -> () {\n  require true \"open\n}"),
              HasSubstr("error[E0401]: a string is not closed"));
  EXPECT_THAT(error_of("graph @g() -> ("), HasSubstr("error[E0402]"));
  EXPECT_THAT(error_of("graph @g() -> () {} graph"), HasSubstr("error[E0402]"));
}

TEST(TensorText, RefusesDeepNestingAndSurvivesIt) {
  std::string body;
  for (int k = 0; k < 50000; ++k) body += "neg(";
  EXPECT_THAT(body_error(body), HasSubstr("error[E0402]"));
  EXPECT_THAT(body_error(body + "i" + std::string(50000, ')')), HasSubstr("error[E0406]"));
}

TEST(TensorText, RoundTripsDeepAndSharedExpressions) {
  Graph graph = parsed("graph @g(%X: f32[4]) -> (%Y) {\n  %Y: f32[4] = compute [i: 4] {\n    yield %X[i]\n  }\n}\n");
  auto& compute = std::get<Compute>(graph.ops[1].kind);
  for (int k = 0; k < 3000; ++k) compute.body = scalar::apply(scalar::Opcode::Mul, {compute.body, compute.body});
  const std::string text = print(graph);
  EXPECT_LT(text.size(), 100000u);
  EXPECT_EQ(print(parsed(text)), text);
}

TEST(TensorText, RoundTripsRandomGraphs) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    testing::RandomGraphOptions options;
    options.symbolic = seed % 2 == 0;
    const Graph graph = testing::random_case(seed, options).graph;
    const std::string text = print(graph);
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Graph again = parsed(text);
    ASSERT_EQ(print(again), text);
    ASSERT_TRUE(verify(again).empty()) << verify(again)[0].rule << verify(again)[0].message << text;
  }
}

TEST(TensorText, MutatedTextNeverCrashes) {
  constexpr std::string_view kPieces[] = {
      "(",    ")",  "[",   "]",  "{",    "}",   "%",      "$0",   "$1 = ",  "-",   ":", ",",
      "acc ", "\"", "\\x", "0x", "nan:", "inf", ".other", "pad ", "merge ", "in ", "=", "9999999999999999999999",
      "\0",   "e+"};
  std::uint64_t state = 20250601;
  const auto draw = [&](std::size_t limit) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::size_t>((state >> 33) % limit);
  };
  int accepted = 0;
  for (int run = 0; run < 1500; ++run) {
    std::string text(kEverything);
    if (run % 2 == 0) text = print(testing::random_case(static_cast<std::uint64_t>(run % 40)).graph);
    const std::size_t changes = 1 + draw(3);
    for (std::size_t k = 0; k < changes; ++k) {
      const std::size_t at = draw(text.size()), length = draw(8);
      const std::size_t kind = draw(4);
      if (kind == 0) text.erase(at, length);
      if (kind == 1) text.insert(at, kPieces[draw(std::size(kPieces))]);
      if (kind == 2) text[at] = static_cast<char>(draw(256));
      if (kind == 3) text.insert(at, text.substr(draw(text.size()), length));
    }
    Diagnostics diagnostics;
    const auto graph = parse_all(source_of(text), diagnostics);
    ASSERT_EQ(graph.has_value(), !diagnostics.has_errors()) << text;
    diagnostics.render();
    if (!graph) continue;
    ++accepted;
    // What is accepted can be verified and printed, and the text is stable from then on.
    for (const Graph& one : *graph) {
      verify(one);
      ASSERT_EQ(print(parsed(print(one))), print(one)) << text;
    }
  }
  EXPECT_GT(accepted, 40);
}

}  // namespace
}  // namespace corrloom::tensor
