#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "ir/base/errors.h"
#include "ir/tensor/interpret.h"
#include "ir/tensor/text.h"
#include "ir/tensor/verify.h"
#include "tests/unit/ir/tensor/random_graph.h"

namespace corrloom::tensor {
namespace {

using scalar::Opcode;
using scalar::Value;

constexpr ReduceKind kAllKinds[] = {ReduceKind::Sum, ReduceKind::Prod, ReduceKind::Min,    ReduceKind::Max,
                                    ReduceKind::Any, ReduceKind::All,  ReduceKind::ArgMax, ReduceKind::ArgMin};

/// Y = kind(k) X[k], for X of that dtype and number of elements.
Graph reduce_all(ReduceKind kind, DType dtype, std::int64_t count, Order order = {}) {
  Graph graph;
  graph.name = "reduce";
  const Expr extent = scalar::constant_i64(count);
  const TensorId x = graph.add({"X", dtype, {extent}, Input{}});
  graph.inputs = {x};
  const AxisId axis = graph.new_axis("k");
  Compute compute;
  Expr result;
  compute.reduction = Reduction{
      {{axis, "k", extent}},
      accumulators_of(kind, dtype, scalar::read({x, {scalar::axis(axis)}}, dtype), scalar::axis(axis), result),
      order};
  compute.body = result;
  const TensorId y = graph.add({"Y", result->dtype, {}, std::move(compute)});
  graph.outputs = {{"Y", y}};
  return graph;
}

Value reduced(ReduceKind kind, DType dtype, const std::vector<Value>& elements, Order order = {}) {
  Array x = {dtype, {static_cast<std::int64_t>(elements.size())}, {}};
  for (const Value& value : elements) x.bits.push_back(value.bits);
  return interpret(reduce_all(kind, dtype, x.extents[0], order), {x}, {})[0].at(0);
}

std::vector<Value> floats(DType dtype, const std::vector<double>& values) {
  std::vector<Value> result;
  for (double value : values) result.push_back(Value::floating(dtype, value));
  return result;
}

bool suits(ReduceKind kind, DType dtype) {
  return (kind == ReduceKind::Any || kind == ReduceKind::All) == (dtype == DType::Bool);
}

TEST(Reductions, EveryKindAndDTypeVerifies) {
  for (ReduceKind kind : kAllKinds) {
    for (DType dtype : kAllDTypes) {
      if (!suits(kind, dtype)) continue;
      const auto violations = verify(reduce_all(kind, dtype, 5));
      EXPECT_TRUE(violations.empty()) << name_of(kind) << " " << name_of(dtype) << ": " << violations[0].message;
    }
  }
}

TEST(Reductions, OfNothing) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(reduced(ReduceKind::Sum, DType::F32, {}), Value::f32(0.0f));
  EXPECT_EQ(reduced(ReduceKind::Sum, DType::BF16, {}), Value::floating(DType::BF16, 0));
  EXPECT_EQ(reduced(ReduceKind::Prod, DType::F64, {}), Value::f64(1));
  EXPECT_EQ(reduced(ReduceKind::Prod, DType::U8, {}), Value::integer(DType::U8, 1));
  EXPECT_EQ(reduced(ReduceKind::Max, DType::F16, {}), Value::floating(DType::F16, -infinity));
  EXPECT_EQ(reduced(ReduceKind::Min, DType::F32, {}), Value::f32(std::numeric_limits<float>::infinity()));
  EXPECT_EQ(reduced(ReduceKind::Max, DType::I8, {}), Value::integer(DType::I8, -128));
  EXPECT_EQ(reduced(ReduceKind::Min, DType::I8, {}), Value::integer(DType::I8, 127));
  EXPECT_EQ(reduced(ReduceKind::Min, DType::I64, {}), Value::i64(std::numeric_limits<std::int64_t>::max()));
  EXPECT_EQ(reduced(ReduceKind::Max, DType::U16, {}), Value::integer(DType::U16, 0));
  EXPECT_EQ(reduced(ReduceKind::Min, DType::U64, {}), (Value{DType::U64, ~std::uint64_t{0}}));
  EXPECT_EQ(reduced(ReduceKind::Any, DType::Bool, {}), Value::boolean(false));
  EXPECT_EQ(reduced(ReduceKind::All, DType::Bool, {}), Value::boolean(true));
}

TEST(Reductions, OfSomething) {
  EXPECT_EQ(reduced(ReduceKind::Sum, DType::F32, floats(DType::F32, {-0.0, -0.0})), Value::f32(0.0f));
  EXPECT_EQ(reduced(ReduceKind::Prod, DType::F32, floats(DType::F32, {2, -3, 4})), Value::f32(-24));
  EXPECT_EQ(reduced(ReduceKind::Max, DType::F32, floats(DType::F32, {-0.0, 0.0, -1})), Value::f32(0.0f));
  EXPECT_EQ(reduced(ReduceKind::Min, DType::F32, floats(DType::F32, {0.0, -0.0, 1})), Value::f32(-0.0f));
  EXPECT_EQ(reduced(ReduceKind::Max, DType::F32, floats(DType::F32, {1, NAN, 2})), Value::floating(DType::F32, NAN));
  EXPECT_EQ(reduced(ReduceKind::Any, DType::Bool, {Value::boolean(false), Value::boolean(true)}), Value::boolean(true));
  EXPECT_EQ(reduced(ReduceKind::All, DType::Bool, {Value::boolean(false), Value::boolean(true)}),
            Value::boolean(false));
  EXPECT_EQ(reduced(ReduceKind::Sum, DType::I8, {Value::integer(DType::I8, 100), Value::integer(DType::I8, 100)}),
            Value::integer(DType::I8, -56));
}

TEST(Reductions, NarrowSumsRoundOnce) {
  // 2048 + 1 is a tie in f16 that goes to 2048: three roundings would lose both ones.
  EXPECT_EQ(reduced(ReduceKind::Sum, DType::F16, floats(DType::F16, {2048, 1, 1})), Value::floating(DType::F16, 2050));
  EXPECT_EQ(reduced(ReduceKind::Sum, DType::BF16, floats(DType::BF16, {256, 1, 1})), Value::floating(DType::BF16, 258));
  Expr result;
  const Expr product = scalar::accumulator(5, DType::F32);
  const auto accumulators = accumulators_of(ReduceKind::Sum, DType::F16, product, nullptr, result);
  EXPECT_EQ(accumulators[0].dtype, DType::F32);
  EXPECT_EQ(std::get<scalar::Apply>(accumulators[0].step->kind).args[1], product);
  EXPECT_EQ(result->dtype, DType::F16);
  EXPECT_THROW(accumulators_of(ReduceKind::Max, DType::F16, product, nullptr, result), InternalError);
}

/// What argmax (or argmin) has to give, by its definition.
std::int64_t expected_pick(ReduceKind kind, const std::vector<double>& values) {
  std::int64_t best = 0;
  for (std::size_t k = 0; k < values.size(); ++k) {
    if (std::isnan(values[k])) return static_cast<std::int64_t>(k);
    const double kept = values[static_cast<std::size_t>(best)];
    if (kind == ReduceKind::ArgMax ? values[k] > kept : values[k] < kept) best = static_cast<std::int64_t>(k);
  }
  return best;
}

TEST(Reductions, ArgMaxAndArgMinTakeTheFirstOfTheBest) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<std::vector<double>> cases = {
      {3},
      {1, 3, 2, 3},
      {-0.0, 0.0},
      {0.0, -0.0},
      {-infinity, -infinity},
      {infinity, infinity, 1},
      {1, NAN, 2},
      {NAN, NAN, 5},
      {5, 1, NAN, 7, NAN},
      {2, 2, 2, 2, 2},
      {4, 3, 2, 1, 0, 1, 2, 3, 4},
  };
  for (const auto& values : cases) {
    for (ReduceKind kind : {ReduceKind::ArgMax, ReduceKind::ArgMin}) {
      for (DType dtype : {DType::F32, DType::F16, DType::F64}) {
        for (std::int64_t lanes : {1, 2, 4, 16}) {
          const Value at = reduced(kind, dtype, floats(dtype, values), {Order::Kind::Lanes, lanes});
          EXPECT_EQ(at.as_i64(), expected_pick(kind, values))
              << name_of(kind) << " of " << ::testing::PrintToString(values) << " in " << lanes;
        }
      }
    }
  }
  const std::vector<Value> lowest(3, Value::integer(DType::I8, -128));
  EXPECT_EQ(reduced(ReduceKind::ArgMax, DType::I8, lowest).as_i64(), 0);
  EXPECT_EQ(
      reduced(ReduceKind::ArgMin, DType::U8, {Value::integer(DType::U8, 255), Value::integer(DType::U8, 255)}).as_i64(),
      0);
}

Reduction reduction_of(const Graph& graph) {
  return *std::get<Compute>(graph.ops[1].kind).reduction;
}

TEST(Reductions, OrderFreeOnes) {
  const auto is_free = [](ReduceKind kind, DType dtype) {
    return is_order_free(reduction_of(reduce_all(kind, dtype, 4)));
  };
  for (DType dtype : {DType::F32, DType::F16, DType::BF16, DType::F64}) {
    EXPECT_FALSE(is_free(ReduceKind::Sum, dtype));
    EXPECT_FALSE(is_free(ReduceKind::Prod, dtype));
    for (ReduceKind kind : {ReduceKind::Min, ReduceKind::Max, ReduceKind::ArgMax, ReduceKind::ArgMin})
      EXPECT_TRUE(is_free(kind, dtype));
  }
  for (ReduceKind kind : kAllKinds)
    EXPECT_TRUE(is_free(kind, suits(kind, DType::Bool) ? DType::Bool : DType::I16)) << name_of(kind);
}

TEST(Reductions, OrderFreeOnlyWithANeutralStart) {
  Reduction sum = reduction_of(reduce_all(ReduceKind::Sum, DType::I32, 4));
  sum.accumulators[0].init = scalar::constant(Value::integer(DType::I32, 5));
  EXPECT_FALSE(is_order_free(sum));
  Reduction max = reduction_of(reduce_all(ReduceKind::Max, DType::F32, 4));
  max.accumulators[0].init = scalar::constant(Value::f32(5));
  EXPECT_TRUE(is_order_free(max));
}

TEST(Reductions, OrderDecidesWhenAStepUsesAnotherAccumulatorOrMergeDiffers) {
  Reduction max = reduction_of(reduce_all(ReduceKind::Max, DType::I32, 4));
  Reduction merged = max;
  merged.accumulators[0].merge =
      scalar::apply(Opcode::Min, {scalar::accumulator(0, DType::I32), scalar::accumulator(0, DType::I32, true)});
  EXPECT_FALSE(is_order_free(merged));
  Reduction squared = max;
  const Expr self = scalar::accumulator(0, DType::I32);
  squared.accumulators[0].step = scalar::apply(Opcode::Max, {self, scalar::apply(Opcode::Mul, {self, self})});
  EXPECT_FALSE(is_order_free(squared));
  // The index of argmax must tell elements apart.
  Reduction picked = reduction_of(reduce_all(ReduceKind::ArgMax, DType::F32, 4));
  Expr result;
  const Expr half = scalar::apply(Opcode::FloorDiv, {scalar::axis(picked.axes[0].id), scalar::constant_i64(2)});
  picked.accumulators = accumulators_of(ReduceKind::ArgMax, DType::F32, scalar::constant(Value::f32(0)), half, result);
  EXPECT_FALSE(is_order_free(picked));
}

TEST(Reductions, OrderFreeReductionsGiveTheSameBitsInLanes) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    for (ReduceKind kind : kAllKinds) {
      const DType dtype = suits(kind, DType::Bool) ? DType::Bool : seed % 2 == 0 ? DType::I16 : DType::F32;
      const Graph ascending = reduce_all(kind, dtype, 13);
      if (!is_order_free(reduction_of(ascending))) continue;
      const Array x = testing::random_array(seed, dtype, {13});
      const auto expected = interpret(ascending, {x}, {})[0].bits;
      EXPECT_EQ(interpret(reduce_all(kind, dtype, 13, {Order::Kind::Lanes, 4}), {x}, {})[0].bits, expected)
          << name_of(kind) << ", seed " << seed;
    }
  }
}

TEST(GraphExprs, AreVisitedAndRewritten) {
  Graph graph = reduce_all(ReduceKind::Sum, DType::F32, 4);
  auto& compute = std::get<Compute>(graph.ops[1].kind);
  compute.reduction->axes[0].origin = scalar::constant_i64(1);
  int visited = 0;
  for_each_expr(graph.ops[1], [&](const Expr&) { ++visited; });
  EXPECT_EQ(visited, 6);  // extent, origin, init, step, merge, body
  rewrite_exprs(graph.ops[1], [](const Expr& expr) { return scalar::apply(Opcode::Fence, {expr}); });
  for_each_expr(graph.ops[1], [&](const Expr& expr) { EXPECT_NE(scalar::as_apply(expr, Opcode::Fence), nullptr); });
}

}  // namespace
}  // namespace corrloom::tensor
