#include "ir/affine/affine.h"

#include <gtest/gtest.h>

#include "ir/affine/order.h"
#include "ir/scalar/evaluate.h"
#include "random_index.h"

namespace corrloom::affine {
namespace {

using scalar::apply;
using scalar::Opcode;

const Expr a = scalar::axis(AxisId{0}), b = scalar::axis(AxisId{1}), c = scalar::axis(AxisId{2});

Expr operator+(const Expr& x, const Expr& y) {
  return apply(Opcode::Add, {x, y});
}
Expr operator-(const Expr& x, const Expr& y) {
  return apply(Opcode::Sub, {x, y});
}
Expr operator*(const Expr& x, std::int64_t y) {
  return apply(Opcode::Mul, {x, scalar::constant_i64(y)});
}
Expr operator/(const Expr& x, std::int64_t y) {
  return apply(Opcode::FloorDiv, {x, scalar::constant_i64(y)});
}
Expr operator%(const Expr& x, std::int64_t y) {
  return apply(Opcode::Mod, {x, scalar::constant_i64(y)});
}
Expr fixed(std::int64_t value) {
  return scalar::constant_i64(value);
}

Domain box(std::vector<std::int64_t> extents, std::vector<Expr> conditions = {}) {
  Domain domain;
  for (std::size_t i = 0; i < extents.size(); ++i)
    domain.axes.push_back({AxisId{static_cast<int>(i)}, std::string(1, static_cast<char>('a' + i)), extents[i]});
  domain.conditions = std::move(conditions);
  return domain;
}

Ranges ranges_of(const Domain& domain) {
  return [&domain](AxisId axis) -> std::optional<Interval> {
    return Interval{0, domain.axes[static_cast<std::size_t>(axis.index)].extent - 1};
  };
}

std::string text(const Expr& expr) {
  scalar::Names names;
  names.axis = [](AxisId axis) { return std::string(1, static_cast<char>('a' + axis.index)); };
  names.symbol = [](scalar::SymbolId symbol) { return "s" + std::to_string(symbol.index); };
  names.tensor = [](scalar::TensorId tensor) { return "%t" + std::to_string(tensor.index); };
  names.accumulator = [](int index, bool) { return "%acc" + std::to_string(index); };
  return scalar::to_text(expr, names);
}

std::string simplified(const Expr& expr, std::vector<std::int64_t> extents) {
  const Domain domain = box(std::move(extents));
  return text(simplify_index(expr, ranges_of(domain)));
}

std::int64_t value_at(const Expr& expr, const std::vector<std::int64_t>& point) {
  scalar::Environment environment;
  environment.axis = [&](AxisId axis) { return scalar::Value::i64(point[static_cast<std::size_t>(axis.index)]); };
  return scalar::evaluate(expr, environment).as_i64();
}

/// Calls `visit` for each point of the domain in lexicographic order.
void for_each_point(const Domain& domain, const std::function<void(const std::vector<std::int64_t>&)>& visit) {
  std::vector<std::int64_t> point(domain.axes.size(), 0);
  while (true) {
    bool holds = true;
    for (const Expr& condition : domain.conditions) holds = holds && value_at(condition, point) != 0;
    if (holds) visit(point);
    std::size_t i = point.size();
    while (i > 0 && ++point[i - 1] == domain.axes[i - 1].extent) point[--i] = 0;
    if (i == 0) return;
  }
}

TEST(IntervalOf, KnowsThatAModuloOfAnUnknownIsBounded) {
  scalar::Read read;
  read.source = scalar::TensorId{0};
  const Expr unknown = scalar::read(read, DType::I64);
  const Ranges none = [](AxisId) { return std::optional<Interval>(); };
  EXPECT_EQ(interval_of(unknown % 7, none), (Interval{0, 6}));
  EXPECT_EQ(interval_of(unknown, none), std::nullopt);
  EXPECT_EQ(interval_of(scalar::cast(scalar::read(read, DType::U8), DType::I64), none), (Interval{0, 255}));
}

TEST(IntervalOf, IsNothingWhereASumMayWrap) {
  const Domain domain = box({INT64_MAX});
  EXPECT_EQ(interval_of(a + a, ranges_of(domain)), std::nullopt);
  EXPECT_EQ(interval_of(a, ranges_of(domain)), (Interval{0, INT64_MAX - 1}));
}

TEST(IntervalOf, IsEmptyOverAnEmptyRange) {
  const Domain domain = box({0});
  EXPECT_TRUE(interval_of(a * 3 + fixed(1), ranges_of(domain))->empty());
}

TEST(LinearForm, CollectsTermsAcrossProductsAndDifferences) {
  const auto form = linear_form((a + b * 2) * 3 - (a - fixed(5)) + (a * 4) / 3);
  ASSERT_TRUE(form);
  EXPECT_EQ(form->constant, 5);
  EXPECT_EQ(form->coefficient_of(AxisId{0}), 2);
  EXPECT_EQ(form->coefficient_of(AxisId{1}), 6);
  EXPECT_EQ(form->coefficient_of(AxisId{2}), 0);
  EXPECT_FALSE(form->is_affine());
  EXPECT_EQ(text(to_expr(*form)), text(a * 2 + b * 6 + (a * 4) / 3 + fixed(5)));
}

TEST(LinearForm, IsNothingOnOverflow) {
  EXPECT_FALSE(linear_form((a * INT64_MAX) * 2));
  EXPECT_TRUE(linear_form(a * INT64_MAX));
}

TEST(LinearForm, IsLinearInTheSizeOfASharedExpression) {
  Expr sum = a;
  for (int i = 0; i < 60; ++i) sum = sum + sum;
  EXPECT_EQ(linear_form(sum)->coefficient_of(AxisId{0}), std::int64_t{1} << 60);
}

TEST(SimplifyIndex, UndoesDelinearisation) {
  const Expr linear = a * 15 + b * 5 + c;
  EXPECT_EQ(simplified(linear / 15, {2, 3, 5}), "a");
  EXPECT_EQ(simplified((linear / 5) % 3, {2, 3, 5}), "b");
  EXPECT_EQ(simplified(linear % 5, {2, 3, 5}), "c");
  EXPECT_EQ(simplified((a / 15) * 15 + ((a / 5) % 3) * 5 + a % 5, {30}), "a");
}

TEST(SimplifyIndex, DividesThroughACoarseDivisor) {
  EXPECT_EQ(simplified((a * 6 + b * 2 + c) / 6, {4, 5, 2}), text(a + b / 3));
  EXPECT_EQ(simplified((a * 6 + b * 2 + c) % 6, {4, 3, 2}), text(b * 2 + c));
}

TEST(SimplifyIndex, DecidesComparisonsThroughTheDifference) {
  EXPECT_EQ(simplified(apply(Opcode::Lt, {a + b, b + fixed(4)}), {4, 100}), "true");
  EXPECT_EQ(simplified(apply(Opcode::Max, {a + b, b - fixed(1)}), {4, 100}), text(a + b));
  EXPECT_EQ(simplified(apply(Opcode::Lt, {a, b}), {4, 4}), "lt(a, b)");
}

TEST(SimplifyIndex, KeepsAQuotientOfASumThatMayWrap) {
  const Expr wraps = (a * 4 + fixed(INT64_MAX)) / 4;
  EXPECT_NE(simplified(wraps, {4}), text(a + fixed(INT64_MAX / 4)));
}

TEST(StaysInside, FindsTheFirstPointOutside) {
  // A convolution without `where`: row i + p of 4.
  const Verdict verdict = stays_inside(a + b, 4, box({4, 3}));
  EXPECT_EQ(verdict.kind, Verdict::Kind::Outside);
  EXPECT_EQ(verdict.point, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(verdict.value, 4);
  EXPECT_FALSE(verdict.always);
  EXPECT_TRUE(stays_inside(a + fixed(9), 4, box({4})).always);
}

TEST(StaysInside, ReasonsAboutCorrelatedTerms) {
  EXPECT_EQ(stays_inside(a - (a / 3) * 3 + b, 5, box({1'000'000'007, 3})).kind, Verdict::Kind::Inside);
  EXPECT_EQ(stays_inside(a - b, 10, box({10, 10}, {apply(Opcode::Le, {b, a})})).kind, Verdict::Kind::Inside);
}

TEST(StaysInside, UsesConditionsOnWhatIsRead) {
  scalar::Read read;
  read.source = scalar::TensorId{0};
  read.index = {a};
  for (DType dtype : {DType::I32, DType::I64}) {
    const Expr element =
        dtype == DType::I64 ? scalar::read(read, dtype) : scalar::cast(scalar::read(read, dtype), DType::I64);
    const Expr low = apply(Opcode::Ge, {element, fixed(0)}), high = apply(Opcode::Lt, {element, fixed(7)});
    EXPECT_EQ(stays_inside(element + a, 10, box({4}, {apply(Opcode::LazyAnd, {low, high})})).kind,
              Verdict::Kind::Inside);
    EXPECT_EQ(stays_inside(element + a, 10, box({4}, {low})).kind, Verdict::Kind::Unknown);
  }
}

TEST(StaysInside, DoesNotLetAConditionProveItself) {
  const Domain domain = box({5}, {apply(Opcode::Lt, {a, fixed(2)})});
  const Verdict verdict = stays_inside(a + fixed(8), 9, domain);
  EXPECT_EQ(verdict.kind, Verdict::Kind::Outside);
  EXPECT_EQ(verdict.point, (std::vector<std::int64_t>{1}));
}

TEST(StaysInside, HoldsOnEmptyDomains) {
  EXPECT_EQ(stays_inside(a, 0, box({0})).kind, Verdict::Kind::Inside);
  EXPECT_EQ(stays_inside(a + fixed(99), 4, box({4}, {apply(Opcode::Lt, {a, fixed(0)})})).kind, Verdict::Kind::Inside);
  EXPECT_EQ(stays_inside(a, 0, box({1})).kind, Verdict::Kind::Outside);
}

TEST(StaysInside, EnumeratesWhatIsNotAffine) {
  const Expr product = apply(Opcode::Mul, {a, b - fixed(2)}) + a * 2;
  EXPECT_EQ(stays_inside(product, 13, box({4, 5})).kind, Verdict::Kind::Inside);
  EXPECT_EQ(stays_inside(product, 12, box({4, 5})).point, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(stays_inside(product, 13, box({4'000'000, 5})).kind, Verdict::Kind::Unknown);
}

TEST(StaysInside, EndsOnHardQuestions) {
  Expr hard = a;
  for (int i = 0; i < 14; ++i) hard = (hard * 7 + b * (i + 2)) / 5 + (hard + c * 3) % (11 + i);
  stays_inside(hard, 1 << 20, box({100'000, 100'000, 100'000}));  // any verdict, in time
}

TEST(Footprint, IsExactForQuasiAffineSubscripts) {
  EXPECT_EQ(footprint(a * 2 + b - fixed(1), box({4, 3})), (Interval{-1, 7}));
  EXPECT_EQ(footprint(a - b, box({4, 4}, {apply(Opcode::Le, {b, a})})), (Interval{0, 3}));
  EXPECT_TRUE(footprint(a, box({0}))->empty());
}

TEST(Compare, OrdersByStructure) {
  EXPECT_EQ(compare(a + b, scalar::axis(AxisId{0}) + scalar::axis(AxisId{1})), 0);
  EXPECT_LT(compare(a + b, b + a), 0);
  EXPECT_GT(compare(b + a, a + b), 0);
}

class AffineProperty : public testing::TestWithParam<unsigned> {};

TEST_P(AffineProperty, IntervalsHoldEveryValue) {
  RandomIndex random(GetParam());
  for (int round = 0; round < 60; ++round) {
    const Domain domain = random.box();
    const Expr expr = random.index(domain, 4);
    const auto interval = interval_of(expr, ranges_of(domain));
    if (!interval) continue;
    for_each_point(domain, [&](const std::vector<std::int64_t>& point) {
      ASSERT_TRUE(interval->contains(value_at(expr, point))) << text(expr) << " seed " << GetParam();
    });
  }
}

TEST_P(AffineProperty, SimplifyingKeepsEveryValue) {
  RandomIndex random(GetParam());
  for (int round = 0; round < 60; ++round) {
    const Domain domain = random.box();
    const Expr expr = random.index(domain, 4), simpler = simplify_index(expr, ranges_of(domain));
    for_each_point(domain, [&](const std::vector<std::int64_t>& point) {
      ASSERT_EQ(value_at(expr, point), value_at(simpler, point))
          << text(expr) << " became " << text(simpler) << " seed " << GetParam();
    });
  }
}

TEST_P(AffineProperty, VerdictsAgreeWithEnumeration) {
  RandomIndex random(GetParam());
  for (int round = 0; round < 30; ++round) {
    Domain domain = random.box();
    if (random.number(0, 1) == 0) domain.conditions.push_back(random.condition(domain, 2));
    const Expr expr = random.index(domain, 3);
    const std::int64_t extent = random.number(1, 12);
    std::vector<std::int64_t> first;
    std::int64_t points = 0, outside = 0, low = INT64_MAX, high = INT64_MIN;
    for_each_point(domain, [&](const std::vector<std::int64_t>& point) {
      const std::int64_t value = value_at(expr, point);
      ++points;
      low = std::min(low, value), high = std::max(high, value);
      if (value >= 0 && value < extent) return;
      if (outside++ == 0) first = point;
    });
    const Verdict verdict = stays_inside(expr, extent, domain);
    const std::string where = text(expr) + " seed " + std::to_string(GetParam());
    ASSERT_EQ(verdict.kind, outside == 0 ? Verdict::Kind::Inside : Verdict::Kind::Outside) << where;
    ASSERT_EQ(verdict.point, first) << where;
    if (outside > 0) {
      ASSERT_EQ(verdict.value, value_at(expr, first)) << where;
    }
    ASSERT_EQ(verdict.always, outside > 0 && outside == points) << where;
    const auto covered = footprint(expr, domain);
    if (covered && points > 0) {
      ASSERT_TRUE(covered->low <= low && high <= covered->high) << where;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, AffineProperty, testing::Range(0u, 20u));

}  // namespace
}  // namespace corrloom::affine
