#include "ir/affine/size_proof.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "ir/scalar/evaluate.h"

namespace corrloom::affine {
namespace {

using scalar::Opcode;

Expr number(std::int64_t value) {
  return scalar::constant_i64(value);
}
Expr apply(Opcode opcode, const Expr& a, const Expr& b) {
  return scalar::apply(opcode, {a, b});
}
Expr operator+(const Expr& a, const Expr& b) {
  return apply(Opcode::Add, a, b);
}
Expr operator-(const Expr& a, const Expr& b) {
  return apply(Opcode::Sub, a, b);
}
Expr operator*(const Expr& a, const Expr& b) {
  return apply(Opcode::Mul, a, b);
}
Expr floordiv(const Expr& a, const Expr& b) {
  return apply(Opcode::FloorDiv, a, b);
}
Expr mod(const Expr& a, const Expr& b) {
  return apply(Opcode::Mod, a, b);
}

Expr axis(int k) {
  return scalar::axis(AxisId{k});
}
Expr size(int k) {
  return scalar::symbol(scalar::SymbolId{k}, DType::I64);
}
const Expr H = size(0), W = size(1), C = size(2);
const Expr i = axis(0), j = axis(1), k = axis(2);

SizeProof proof_over(const std::vector<Expr>& extents) {
  std::vector<SizedAxis> axes;
  for (std::size_t n = 0; n < extents.size(); ++n) axes.push_back({AxisId{static_cast<int>(n)}, extents[n]});
  return SizeProof(std::move(axes), [](scalar::SymbolId) { return true; });
}

/// Calls `visit` with an environment for each point of the box, for all sizes up to `most`.
void for_each_point(const std::vector<Expr>& extents, std::int64_t most,
                    const std::function<void(const scalar::Environment&)>& visit) {
  std::vector<std::int64_t> sizes(3), point(extents.size());
  scalar::Environment environment;
  environment.symbol = [&](scalar::SymbolId id) {
    return scalar::Value::i64(sizes[static_cast<std::size_t>(id.index)]);
  };
  environment.axis = [&](AxisId id) { return scalar::Value::i64(point[static_cast<std::size_t>(id.index)]); };
  const std::function<void(std::size_t)> walk = [&](std::size_t depth) {
    if (depth == extents.size()) return visit(environment);
    const std::int64_t extent = scalar::evaluate(extents[depth], environment).as_i64();
    for (point[depth] = 0; point[depth] < extent; ++point[depth]) walk(depth + 1);
  };
  for (sizes[0] = 0; sizes[0] <= most; ++sizes[0]) {
    for (sizes[1] = 0; sizes[1] <= most; ++sizes[1]) {
      for (sizes[2] = 0; sizes[2] <= most; ++sizes[2]) walk(0);
    }
  }
}

TEST(SizeProof, SeesWindowsInside) {
  const SizeProof window = proof_over({apply(Opcode::Max, H - W + number(1), number(0)), W});
  EXPECT_TRUE(window.stays_inside(i + j, H));
  EXPECT_FALSE(window.stays_inside(i + j + number(1), H));
  EXPECT_FALSE(window.stays_inside(i + j - number(1), H));
  // Strided, as the extents of convolutions are written.
  const SizeProof strided = proof_over({floordiv(H - W, number(3)) + number(1), W});
  EXPECT_TRUE(strided.stays_inside(number(3) * i + j, H));
  EXPECT_FALSE(strided.stays_inside(number(4) * i + j, H));
}

TEST(SizeProof, TakesReshapesApart) {
  const SizeProof proof = proof_over({C, H, W});
  const Expr position = (i * H + j) * W + k;
  EXPECT_TRUE(proof.stays_inside(position, C * H * W));
  EXPECT_FALSE(proof.stays_inside(position + number(1), C * H * W));
  EXPECT_TRUE(scalar::same(proof.simplify(mod(position, W)), k));
  EXPECT_TRUE(scalar::same(proof.simplify(floordiv(position, H * W)), i));
  EXPECT_TRUE(scalar::same(proof.simplify(mod(floordiv(position, W), H)), j));
  EXPECT_TRUE(scalar::same(proof.simplify(floordiv(i, C)), number(0)));
  const Expr other = mod(position, H);
  EXPECT_TRUE(scalar::same(proof.simplify(other), other));
}

TEST(SizeProof, FollowsRangesThatDependOnOthers) {
  const SizeProof triangle = proof_over({H, i + number(1)});
  EXPECT_TRUE(triangle.stays_inside(j, H));
  EXPECT_TRUE(triangle.stays_inside(i - j, H));
  EXPECT_FALSE(triangle.stays_inside(i + j, H));
}

/// A random sum of products of axes and sizes, with quotients and remainders here and there.
Expr random_index(std::mt19937_64& random, int depth) {
  const auto pick = [&](int count) { return static_cast<int>(random() % static_cast<std::uint64_t>(count)); };
  if (depth == 0) {
    const int leaf = pick(7);
    return leaf < 3 ? axis(leaf) : leaf < 6 ? size(leaf - 3) : number(pick(4) - 1);
  }
  const Expr a = random_index(random, depth - 1), b = random_index(random, depth - 1);
  switch (pick(8)) {
    case 0:
    case 1:
      return a + b;
    case 2:
      return a - b;
    case 3:
      return a * b;
    case 4:
      return floordiv(a, pick(2) == 0 ? size(pick(3)) : number(1 + pick(3)));
    case 5:
      return mod(a, pick(2) == 0 ? size(pick(3)) : number(1 + pick(3)));
    case 6:
      return apply(pick(2) == 0 ? Opcode::Min : Opcode::Max, a, b);
    default:
      return a;
  }
}

class SizeProofLaws : public ::testing::TestWithParam<int> {};

TEST_P(SizeProofLaws, WhatIsProvenHoldsAtEveryPoint) {
  std::mt19937_64 random(static_cast<std::uint64_t>(GetParam()));
  int proven = 0, simplified = 0;
  for (int round = 0; round < 120; ++round) {
    const std::vector<Expr> extents = {size(static_cast<int>(random() % 3)), size(static_cast<int>(random() % 3)),
                                       round % 3 == 0 ? i + number(1) : size(static_cast<int>(random() % 3))};
    const SizeProof proof = proof_over(extents);
    const Expr index = random_index(random, 3);
    const bool never_negative = proof.is_never_negative(index);
    const Expr simple = proof.simplify(index);
    proven += never_negative ? 1 : 0;
    simplified += simple == index ? 0 : 1;
    for_each_point(extents, 3, [&](const scalar::Environment& at) {
      const std::int64_t value = scalar::evaluate(index, at).as_i64();
      if (never_negative) {
        ASSERT_GE(value, 0) << "round " << round;
      }
      ASSERT_EQ(scalar::evaluate(simple, at).as_i64(), value) << "round " << round;
    });
  }
  EXPECT_GT(proven, 5);
  EXPECT_GT(simplified, 0);
}
INSTANTIATE_TEST_SUITE_P(Seeds, SizeProofLaws, ::testing::Range(1, 9));

}  // namespace
}  // namespace corrloom::affine
