#include "ir/tensor/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/unit/ir/tensor/parsed.h"
#include "tests/unit/ir/tensor/random_graph.h"

namespace corrloom::tensor {
namespace {

using scalar::Opcode;
using testing::parsed;

/// The rules that a graph breaks, in order, each once.
std::vector<std::string> rules_of(const Graph& graph) {
  std::vector<std::string> rules;
  for (const Violation& violation : verify(graph)) {
    EXPECT_FALSE(violation.message.empty());
    if (std::find(rules.begin(), rules.end(), violation.rule) == rules.end()) rules.push_back(violation.rule);
  }
  return rules;
}

/// A sound graph of every kind of op: 0 %X, 1 %W, 2 %c, 3 %v, 4 %r, 5 %Y.
Graph sound() {
  return parsed(R"(graph @g(%X: f32[N, 3], %W: f32[N]) -> (%Y in %W, %v, %r) symbols [N, a: f32] {
  require gt(N, 0:i64) "X has no rows" showing "N" = N
  %c: f32[2, 3] = literal [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
  %v: f32[3, N] = view [i: 3, j: N] %X[j, i]
  %r: f32[6] = reshape %c
  %Y: f32[N] = compute [i: N] reduce [j: 3, k: add(j, 1:i64) from j] ascending {
    acc %s: f32 = 0.0:f32 step add(%s, mul(%X[i, k], a)) merge add(%s, %s.other)
    yield add(%s, %W[i])
  }
}
)");
}

/// The rules broken when `change` is made to the sound graph.
std::vector<std::string> broken_by(const std::function<void(Graph&)>& change) {
  Graph graph = sound();
  change(graph);
  return rules_of(graph);
}

std::vector<std::string> only(const char* rule) {
  return {rule};
}
Compute& compute_of(Graph& graph) {
  return std::get<Compute>(graph.ops[5].kind);
}
View& view_of(Graph& graph) {
  return std::get<View>(graph.ops[3].kind);
}
Accumulator& accumulator_of(Graph& graph) {
  return compute_of(graph).reduction->accumulators[0];
}
Expr f32(float value) {
  return scalar::constant(scalar::Value::f32(value));
}

/// A node that the builders would refuse.
Expr raw_node(decltype(scalar::Node::kind) kind, DType dtype) {
  auto node = std::make_shared<scalar::Node>();
  node->kind = std::move(kind);
  node->dtype = dtype;
  node->depth = 1;
  return node;
}

TEST(VerifyTensor, AcceptsASoundGraph) {
  EXPECT_TRUE(rules_of(sound()).empty()) << verify(sound())[0].message;
}

TEST(VerifyTensor, AcceptsRandomGraphs) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const Graph graph = testing::random_case(seed).graph;
    ASSERT_TRUE(rules_of(graph).empty()) << "seed " << seed << ": " << verify(graph)[0].rule << " "
                                         << verify(graph)[0].message;
  }
}

TEST(VerifyTensor, T1IdsAreInRangeAndExpressionsPresent) {
  EXPECT_EQ(broken_by([](Graph& g) { g.inputs.push_back(TensorId{99}); }), only("T1"));
  EXPECT_EQ(broken_by([](Graph& g) { g.outputs[0].value = TensorId{}; }), only("T1"));
  EXPECT_EQ(broken_by([](Graph& g) { g.outputs[0].storage_of = TensorId{6}; }), only("T1"));
  EXPECT_EQ(broken_by([](Graph& g) { g.outputs[0].storage_of = TensorId{-2}; }), only("T1"));
  EXPECT_EQ(broken_by([](Graph& g) { view_of(g).source = TensorId{-5}; }), only("T1"));
  EXPECT_EQ(broken_by([](Graph& g) { std::get<Reshape>(g.ops[4].kind).source = TensorId{6}; }), only("T1"));
  EXPECT_EQ(broken_by([](Graph& g) { compute_of(g).body = scalar::read({TensorId{77}, {}}, DType::F32); }), only("T1"));
  EXPECT_EQ(broken_by([](Graph& g) { compute_of(g).body = scalar::symbol(SymbolId{2}, DType::F32); }), only("T1"));
  EXPECT_EQ(broken_by([](Graph& g) { view_of(g).index[0] = scalar::axis(AxisId{99}); }), only("T1"));
  EXPECT_EQ(broken_by([](Graph& g) { g.axis_names.pop_back(); }), only("T1"));
  EXPECT_EQ(broken_by([](Graph& g) { compute_of(g).body = nullptr; }), only("T1"));
  EXPECT_EQ(broken_by([](Graph& g) { accumulator_of(g).step = nullptr; }), only("T1"));
  EXPECT_EQ(broken_by([](Graph& g) { accumulator_of(g).merge = nullptr; }), only("T1"));
  EXPECT_EQ(broken_by([](Graph& g) { view_of(g).index[0] = nullptr; }), only("T1"));
  EXPECT_EQ(broken_by([](Graph& g) { g.ops[0].extents[1] = nullptr; }), only("T1"));
  EXPECT_EQ(broken_by([](Graph& g) { g.conditions[0].holds = nullptr; }), only("T1"));
  EXPECT_EQ(broken_by([](Graph& g) { g.conditions[0].shown[0].value = nullptr; }), only("T1"));
}

TEST(VerifyTensor, T2ProducersStandBeforeReaders) {
  EXPECT_EQ(broken_by([](Graph& g) { std::get<Reshape>(g.ops[4].kind).source = TensorId{4}; }), only("T2"));
  EXPECT_EQ(broken_by([](Graph& g) {
              compute_of(g).body = scalar::read({TensorId{5}, {scalar::constant_i64(0)}}, DType::F32);
            }),
            only("T2"));
}

TEST(VerifyTensor, T3InputsAreListedOnce) {
  EXPECT_EQ(broken_by([](Graph& g) { g.inputs.pop_back(); }), only("T3"));
  EXPECT_EQ(broken_by([](Graph& g) { g.inputs.push_back(g.inputs[0]); }), only("T3"));
  EXPECT_EQ(broken_by([](Graph& g) { g.inputs.push_back(TensorId{4}); }), only("T3"));
}

TEST(VerifyTensor, T4ExtentsAreI64AndNotNegative) {
  EXPECT_EQ(broken_by([](Graph& g) { g.ops[0].extents[1] = f32(3); }), only("T4"));
  EXPECT_EQ(broken_by([](Graph& g) { g.ops[0].extents[1] = scalar::constant_i64(-3); }), only("T4"));
  EXPECT_EQ(broken_by([](Graph& g) { compute_of(g).reduction->axes[0].extent = f32(3); }), only("T4"));
  EXPECT_EQ(broken_by([](Graph& g) { compute_of(g).reduction->axes[0].origin = f32(3); }), only("T4"));
}

TEST(VerifyTensor, T5AnAxisIsBoundOnce) {
  EXPECT_EQ(broken_by([](Graph& g) { compute_of(g).reduction->axes[1].id = compute_of(g).axes[0].id; }),
            (std::vector<std::string>{"T5", "T8"}));
  EXPECT_EQ(broken_by([](Graph& g) { g.outputs.pop_back(), g.add(g.ops[3]); }), only("T5"));
}

TEST(VerifyTensor, T6AxesMatchDimensions) {
  EXPECT_EQ(broken_by([](Graph& g) { std::swap(g.ops[3].extents[0], g.ops[3].extents[1]); }), only("T6"));
  EXPECT_EQ(broken_by([](Graph& g) { g.ops[3].extents.pop_back(); }), only("T6"));
}

TEST(VerifyTensor, T7ReadsStandOnlyInComputes) {
  const auto read = [](Graph& g, DType dtype) {
    g.ops[1].dtype = dtype;
    return scalar::read({TensorId{1}, {scalar::constant_i64(0)}}, dtype);
  };
  EXPECT_EQ(broken_by([&](Graph& g) {
              g.outputs.erase(g.outputs.begin());
              compute_of(g).body = scalar::accumulator(0, DType::F32);
              view_of(g).index[0] = read(g, DType::I64);
            }),
            only("T7"));
  EXPECT_EQ(broken_by([&](Graph& g) {
              g.conditions[0].holds = scalar::apply(
                  Opcode::Gt, {scalar::read({TensorId{1}, {scalar::constant_i64(0)}}, DType::F32), f32(0)});
            }),
            only("T7"));
}

TEST(VerifyTensor, ReductionExtentsMayReadTensors) {
  EXPECT_TRUE(rules_of(parsed(R"(graph @ragged(%start: i64[4], %v: f32[9]) -> (%Y) {
  %Y: f32[3] = compute [r: 3] reduce [e: sub(%start[add(r, 1)], %start[r])] ascending {
    acc %s: f32 = 0.0:f32 step add(%s, %v[add(e, %start[r])]) merge add(%s, %s.other)
    yield %s
  }
})"))
                  .empty());
}

TEST(VerifyTensor, T8AxesAreInScope) {
  const auto reduction_axis = [](Graph& g) {
    return scalar::cast(scalar::axis(compute_of(g).reduction->axes[0].id), DType::F32);
  };
  EXPECT_EQ(broken_by([&](Graph& g) { compute_of(g).body = reduction_axis(g); }), only("T8"));
  EXPECT_EQ(broken_by([&](Graph& g) { accumulator_of(g).init = reduction_axis(g); }), only("T8"));
  EXPECT_EQ(broken_by([&](Graph& g) { accumulator_of(g).merge = reduction_axis(g); }), only("T8"));
  EXPECT_EQ(broken_by([](Graph& g) { std::swap(compute_of(g).reduction->axes[0], compute_of(g).reduction->axes[1]); }),
            only("T8"));
  EXPECT_EQ(broken_by([](Graph& g) { g.conditions[0].shown[0].value = scalar::axis(AxisId{0}); }), only("T8"));
  EXPECT_EQ(broken_by([](Graph& g) { g.ops[0].extents[0] = scalar::axis(AxisId{0}); }), only("T8"));
}

TEST(VerifyTensor, T9DTypesOfBodyInitStepAndMergeMatch) {
  EXPECT_EQ(broken_by([](Graph& g) { compute_of(g).body = scalar::constant_i64(1); }), only("T9"));
  EXPECT_EQ(broken_by([](Graph& g) { accumulator_of(g).init = scalar::constant_i64(1); }), only("T9"));
  EXPECT_EQ(broken_by([](Graph& g) { accumulator_of(g).step = scalar::constant_i64(1); }), only("T9"));
  EXPECT_EQ(broken_by([](Graph& g) { accumulator_of(g).merge = scalar::constant_i64(1); }), only("T9"));
}

TEST(VerifyTensor, T10AccumulatorsAreUsedWhereTheyAre) {
  EXPECT_EQ(broken_by([](Graph& g) { accumulator_of(g).init = scalar::accumulator(0, DType::F32); }), only("T10"));
  EXPECT_EQ(broken_by([](Graph& g) { accumulator_of(g).step = scalar::accumulator(0, DType::F32, true); }),
            only("T10"));
  EXPECT_EQ(broken_by([](Graph& g) { compute_of(g).body = scalar::accumulator(0, DType::F32, true); }), only("T10"));
  EXPECT_EQ(broken_by([](Graph& g) { compute_of(g).body = scalar::accumulator(1, DType::F32); }), only("T10"));
  EXPECT_EQ(broken_by([](Graph& g) { compute_of(g).body = scalar::accumulator(-1, DType::F32); }), only("T10"));
  EXPECT_EQ(
      broken_by([](Graph& g) { compute_of(g).body = scalar::cast(scalar::accumulator(0, DType::I64), DType::F32); }),
      only("T10"));
  EXPECT_EQ(broken_by([](Graph& g) { compute_of(g).reduction.reset(); }), only("T10"));
  EXPECT_EQ(broken_by([](Graph& g) { g.ops[0].extents[1] = scalar::accumulator(0, DType::I64); }), only("T10"));
  EXPECT_EQ(broken_by([](Graph& g) { compute_of(g).reduction->accumulators.clear(), compute_of(g).body = f32(1); }),
            only("T10"));
}

TEST(VerifyTensor, T11ReadsHaveTheRankAndDTypeOfTheirSource) {
  const Expr zero = scalar::constant_i64(0);
  EXPECT_EQ(broken_by([&](Graph& g) {
              compute_of(g).body = scalar::read({TensorId{0}, {zero}}, DType::F32);
            }),
            only("T11"));
  EXPECT_EQ(broken_by([&](Graph& g) {
              compute_of(g).body = scalar::cast(scalar::read({TensorId{0}, {zero, zero}}, DType::F64), DType::F32);
            }),
            only("T11"));
  EXPECT_EQ(broken_by([&](Graph& g) {
              compute_of(g).body = raw_node(scalar::Read{TensorId{0}, {zero, f32(0)}}, DType::F32);
            }),
            only("T11"));
  EXPECT_EQ(broken_by([](Graph& g) { view_of(g).index.pop_back(); }), only("T11"));
  EXPECT_EQ(broken_by([](Graph& g) { view_of(g).index[0] = f32(0); }), only("T11"));
  EXPECT_EQ(broken_by([](Graph& g) { g.ops[3].dtype = DType::F64; }), only("T11"));
  EXPECT_EQ(broken_by([](Graph& g) { g.ops[4].dtype = DType::F64; }), only("T11"));
}

TEST(VerifyTensor, T12PadValuesGoWithTheirMode) {
  const Expr zero = scalar::constant_i64(0);
  const auto padded = [&](scalar::PadMode mode, Expr value) {
    return broken_by([&](Graph& g) {
      compute_of(g).body = raw_node(scalar::Read{TensorId{0}, {zero, zero}, mode, value}, DType::F32);
    });
  };
  EXPECT_TRUE(padded(scalar::PadMode::Value, f32(0)).empty());
  EXPECT_EQ(padded(scalar::PadMode::Value, nullptr), only("T12"));
  EXPECT_EQ(padded(scalar::PadMode::Edge, f32(0)), only("T12"));
  EXPECT_EQ(padded(scalar::PadMode::None, f32(0)), only("T12"));
  EXPECT_EQ(padded(scalar::PadMode::Value, zero), only("T12"));
}

TEST(VerifyTensor, T13SymbolsHaveTheirDType) {
  EXPECT_EQ(broken_by([](Graph& g) {
              compute_of(g).body = scalar::cast(scalar::symbol(SymbolId{1}, DType::I64), DType::F32);
            }),
            only("T13"));
  EXPECT_EQ(broken_by([](Graph& g) { g.symbols[1].kind = Symbol::Kind::Dimension; }), only("T13"));
}

TEST(VerifyTensor, T14OperationsSuitTheirOperands) {
  const Expr one = scalar::constant_i64(1), truth = scalar::constant(scalar::Value::boolean(true));
  const auto with = [](Opcode opcode, std::vector<Expr> args, DType dtype) {
    return broken_by([&](Graph& g) { compute_of(g).body = raw_node(scalar::Apply{opcode, args}, dtype); });
  };
  EXPECT_TRUE(with(Opcode::If, {truth, f32(1), f32(2)}, DType::F32).empty());
  EXPECT_EQ(with(Opcode::Add, {f32(1)}, DType::F32), only("T14"));
  EXPECT_EQ(with(Opcode::Add, {f32(1), one}, DType::F32), only("T14"));
  EXPECT_EQ(with(Opcode::Add, {one, one}, DType::F32), only("T14"));
  EXPECT_EQ(with(Opcode::If, {one, f32(1), f32(2)}, DType::F32), only("T14"));
  EXPECT_EQ(with(Opcode::Bitcast, {one}, DType::F32), only("T14"));
  EXPECT_EQ(with(Opcode::Mod, {f32(1), f32(1)}, DType::F32), only("T14"));
}

TEST(VerifyTensor, T15LiteralsHoldTheirElements) {
  const auto literal = [](Graph& g) -> Literal& { return std::get<Literal>(g.ops[2].kind); };
  EXPECT_EQ(broken_by([&](Graph& g) { literal(g).values.pop_back(); }), only("T15"));
  EXPECT_EQ(broken_by([&](Graph& g) { literal(g).values[2] = scalar::Value::i64(2); }), only("T15"));
  EXPECT_EQ(broken_by([&](Graph& g) { g.ops[2].extents[0] = scalar::symbol(SymbolId{0}, DType::I64); }), only("T15"));
  const Expr large = scalar::constant_i64(std::int64_t{1} << 40);
  EXPECT_EQ(broken_by([&](Graph& g) { g.ops[2].extents = {large, large}; }), only("T15"));
}

TEST(VerifyTensor, T16LanesAreAPowerOfTwo) {
  const auto lanes = [](std::int64_t count) {
    return broken_by([&](Graph& g) { compute_of(g).reduction->order = {Order::Kind::Lanes, count}; });
  };
  EXPECT_TRUE(lanes(1).empty());
  EXPECT_TRUE(lanes(1024).empty());
  for (const std::int64_t count : {std::int64_t{0}, std::int64_t{-4}, std::int64_t{3}, std::int64_t{1} << 21})
    EXPECT_EQ(lanes(count), only("T16"));
}

TEST(VerifyTensor, T16PartsAreOfWholeRounds) {
  const auto parts = [](const Order& order) {
    return broken_by([&](Graph& g) {
      tensor::Reduction& reduction = *compute_of(g).reduction;
      reduction.axes.back().extent = scalar::constant_i64(2);
      reduction.order = order;
    });
  };
  EXPECT_TRUE(parts({Order::Kind::Ascending, 1, 3}).empty());
  EXPECT_TRUE(parts({Order::Kind::Lanes, 4, 8}).empty());
  EXPECT_EQ(parts({Order::Kind::Lanes, 4, -8}), only("T16"));
  EXPECT_EQ(parts({Order::Kind::Lanes, 4, 6}), only("T16"));
  // A range that moves with another one.
  EXPECT_EQ(broken_by([](Graph& g) { compute_of(g).reduction->order.part = 4; }), only("T16"));
}

TEST(VerifyTensor, T17AFreeOrderDecidesNoBits) {
  EXPECT_EQ(broken_by([](Graph& g) { compute_of(g).reduction->order = {Order::Kind::Any, 1}; }), only("T17"));
  EXPECT_TRUE(broken_by([](Graph& g) {
                compute_of(g).reduction->order = {Order::Kind::Any, 1};
                compute_of(g).numerics.order = Numerics::OrderMode::Any;
              }).empty());
}

TEST(VerifyTensor, T23SequencesAreAscending) {
  const auto keeps_later = [](Graph& g, Order::Kind kind) {
    auto& reduction = *compute_of(g).reduction;
    tensor::Accumulator& sum = reduction.accumulators[0];
    sum.merge = scalar::accumulator(0, sum.dtype, true);
    reduction.order = {kind, kind == Order::Kind::Lanes ? 8 : 1};
  };
  EXPECT_TRUE(broken_by([&](Graph& g) { keeps_later(g, Order::Kind::Ascending); }).empty());
  EXPECT_EQ(broken_by([&](Graph& g) { keeps_later(g, Order::Kind::Lanes); }), only("T23"));
}

TEST(VerifyTensor, T18StrictOrderIsAscending) {
  EXPECT_EQ(broken_by([](Graph& g) {
              compute_of(g).reduction->order = {Order::Kind::Lanes, 8};
              compute_of(g).numerics.order = Numerics::OrderMode::Strict;
            }),
            only("T18"));
}

TEST(VerifyTensor, T19ReshapesKeepTheNumberOfElements) {
  EXPECT_EQ(broken_by([](Graph& g) { g.ops[4].extents[0] = scalar::constant_i64(5); }), only("T19"));
}

TEST(VerifyTensor, T20ConditionsAreBools) {
  EXPECT_EQ(broken_by([](Graph& g) { g.conditions[0].holds = scalar::constant_i64(1); }), only("T20"));
}

TEST(VerifyTensor, T21OutputsHaveDistinctNames) {
  EXPECT_EQ(broken_by([](Graph& g) { g.outputs[1].name = "Y"; }), only("T21"));
}

/// The rules broken by a graph that computes its output in the storage of %W: f32[4, 2] from these lines.
std::vector<std::string> in_storage(const std::string& lines) {
  return rules_of(parsed("graph @g(%W: f32[4, 2], %G: f32[4, 2]) -> (%Y in %W) {\n" + lines + "}\n"));
}

TEST(VerifyTensor, T22StorageIsTakenOverElementByElement) {
  const auto body = [](const std::string& text) {
    return in_storage("  %Y: f32[4, 2] = compute [i: 4, j: 2] {\n    yield " + text + "\n  }\n");
  };
  EXPECT_TRUE(body("sub(%W[i, j], %G[sub(3, i), j])").empty());
  EXPECT_EQ(body("sub(%W[sub(3, i), j], %G[i, j])"), only("T22"));
  EXPECT_EQ(body("%W[i, 0]"), only("T22"));
  // Through another tensor that holds the same element, and through one that does not.
  EXPECT_TRUE(in_storage(R"(  %a: f32[4, 2] = compute [i: 4, j: 2] {
    yield neg(%W[i, j])
  }
  %b: f32[8] = reshape %a
  %c: f32[8] = compute [k: 8] {
    yield exp(%b[k])
  }
  %Y: f32[4, 2] = reshape %c
)")
                  .empty());
  EXPECT_EQ(in_storage(R"(  %a: f32[4] = compute [i: 4] {
    yield neg(%W[i, 0])
  }
  %Y: f32[4, 2] = compute [i: 4, j: 2] {
    yield %a[i]
  }
)"),
            only("T22"));
  EXPECT_EQ(in_storage("  %Y: f32[4, 2] = view [i: 4, j: 2] %W[sub(3, i), j]\n"), only("T22"));
  EXPECT_EQ(broken_by([](Graph& g) { g.outputs[0].storage_of = TensorId{0}; }), only("T22"));
  EXPECT_EQ(broken_by([](Graph& g) { g.outputs[0].storage_of = TensorId{4}; }), only("T22"));
  EXPECT_EQ(broken_by([](Graph& g) { g.outputs.push_back({"again", g.outputs[0].value, TensorId{1}}); }), only("T22"));
  EXPECT_EQ(broken_by([](Graph& g) {
              g.ops[1].dtype = DType::I32;
              compute_of(g).body = scalar::accumulator(0, DType::F32);
            }),
            only("T22"));
}

}  // namespace
}  // namespace corrloom::tensor
