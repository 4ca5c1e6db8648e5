#include <gtest/gtest.h>

#include "ir/scalar/evaluate.h"
#include "ir/scalar/expr.h"
#include "random_expr.h"

namespace corrloom::scalar {
namespace {

const Expr kI = axis(AxisId{0});
const Expr kJ = axis(AxisId{1});
const Expr kF = symbol(SymbolId{0}, DType::F32);

Expr i64(std::int64_t value) {
  return constant_i64(value);
}
Expr op(Opcode opcode, std::vector<Expr> args) {
  return apply(opcode, std::move(args));
}

void expect_simplified(const Expr& from, const Expr& to) {
  const Names names = {[](AxisId id) { return std::string(1, static_cast<char>('i' + id.index)); },
                       [](SymbolId id) { return "N" + std::to_string(id.index); },
                       [](TensorId id) { return "%t" + std::to_string(id.index); },
                       [](int index, bool) { return "%s" + std::to_string(index); }};
  const Expr result = simplify(from);
  EXPECT_TRUE(same(result, to)) << to_text(from, names) << " gave " << to_text(result, names);
}

TEST(Simplify, NeutralAndAbsorbingOperands) {
  expect_simplified(op(Opcode::Add, {kI, i64(0)}), kI);
  expect_simplified(op(Opcode::Add, {i64(0), kI}), kI);
  expect_simplified(op(Opcode::Sub, {kI, i64(0)}), kI);
  expect_simplified(op(Opcode::Sub, {kI, kI}), i64(0));
  expect_simplified(op(Opcode::Mul, {i64(1), kI}), kI);
  expect_simplified(op(Opcode::Mul, {kI, i64(0)}), i64(0));
  expect_simplified(op(Opcode::FloorDiv, {kI, i64(1)}), kI);
  expect_simplified(op(Opcode::FloorDiv, {kI, i64(0)}), i64(0));
  expect_simplified(op(Opcode::Mod, {kI, i64(1)}), i64(0));
}

TEST(Simplify, NestedConstantsMeet) {
  const Expr plus_three = op(Opcode::Add, {kI, i64(3)});
  expect_simplified(op(Opcode::Add, {i64(2), plus_three}), op(Opcode::Add, {kI, i64(5)}));
  expect_simplified(op(Opcode::Sub, {plus_three, i64(3)}), kI);
  expect_simplified(op(Opcode::Sub, {plus_three, i64(5)}), op(Opcode::Sub, {kI, i64(2)}));
  expect_simplified(op(Opcode::Sub, {op(Opcode::Add, {kI, i64(7)}), plus_three}), i64(4));
  expect_simplified(op(Opcode::Mul, {i64(4), op(Opcode::Mul, {kI, i64(6)})}), op(Opcode::Mul, {kI, i64(24)}));
  expect_simplified(op(Opcode::FloorDiv, {op(Opcode::FloorDiv, {kI, i64(4)}), i64(6)}),
                    op(Opcode::FloorDiv, {kI, i64(24)}));
  const Expr mod = op(Opcode::Mod, {kI, kJ});
  expect_simplified(op(Opcode::Mod, {mod, kJ}), mod);
}

TEST(Simplify, KeepsWhatWrappingWouldBreak) {
  // (i * 4) // 4 is not i once i * 4 has wrapped.
  const Expr scaled = op(Opcode::FloorDiv, {op(Opcode::Mul, {kI, i64(4)}), i64(4)});
  EXPECT_EQ(simplify(scaled), scaled);
  const Expr large = i64(std::int64_t{1} << 40);
  const Expr twice = op(Opcode::FloorDiv, {op(Opcode::FloorDiv, {kI, large}), large});
  EXPECT_EQ(simplify(twice), twice);
}

TEST(Simplify, LeavesFloatsAndCastsAlone) {
  const Expr zero = constant(Value::f32(0));
  for (const Expr& kept : {op(Opcode::Add, {kF, zero}), op(Opcode::Mul, {kF, constant(Value::f32(1))}),
                           op(Opcode::Sub, {kF, kF}), op(Opcode::Eq, {kF, kF}), cast(kF, DType::F32)}) {
    EXPECT_EQ(simplify(kept), kept);
  }
}

TEST(Simplify, FoldsConstantsOfEveryKind) {
  expect_simplified(op(Opcode::Mul, {constant(Value::f32(3)), constant(Value::f32(0.5f))}), constant(Value::f32(1.5f)));
  expect_simplified(cast(i64(300), DType::I8), constant(Value::integer(DType::I8, 44)));
  expect_simplified(op(Opcode::Exp, {constant(Value::f32(0))}), constant(Value::f32(1)));
}

TEST(Simplify, DecidedChoicesKeepOneBranch) {
  const Expr yes = constant(Value::boolean(true));
  const Expr no = constant(Value::boolean(false));
  expect_simplified(op(Opcode::If, {yes, kI, kJ}), kI);
  expect_simplified(op(Opcode::Select, {no, kI, kJ}), kJ);
  const Expr test = op(Opcode::Lt, {kI, kJ});
  expect_simplified(op(Opcode::LazyAnd, {yes, test}), test);
  expect_simplified(op(Opcode::LazyAnd, {test, no}), no);
  expect_simplified(op(Opcode::LazyOr, {test, no}), test);
  expect_simplified(op(Opcode::LazyOr, {yes, test}), yes);
}

TEST(Simplify, AProductFromADecidedChoiceIsNotLaidOpenToContraction) {
  const Expr product = op(Opcode::Mul, {kF, kF});
  const Expr choice = op(Opcode::If, {constant(Value::boolean(true)), product, kF});
  expect_simplified(op(Opcode::Add, {choice, kF}), op(Opcode::Add, {op(Opcode::Fence, {product}), kF}));
}

TEST(Simplify, DivisionByTheHighestUnsignedNumberIsNotDivisionByMinusOne) {
  for (const DType dtype : kAllDTypes) {
    if (!is_integer(dtype) || is_signed_integer(dtype)) continue;
    const Expr x = symbol(SymbolId{0}, dtype);
    const Expr remainder = op(Opcode::Mod, {x, constant(Value::integer(dtype, -1))});
    expect_simplified(remainder, remainder);
  }
}

TEST(Simplify, KeepsTheBitsOfRandomExpressions) {
  testing::Random random(7);
  int smaller = 0;
  for (int round = 0; round < 6000; ++round) {
    const DType dtype = kAllDTypes[round % std::size(kAllDTypes)];
    const Expr expr = testing::random_expr(random, 12, dtype, !is_float(dtype) && round % 2 == 0);
    const Expr simpler = simplify(expr);
    EXPECT_EQ(simpler->dtype, dtype);
    smaller += same(simpler, expr) ? 0 : 1;
    for (int i = 0; i < 4; ++i) {
      const Environment environment = testing::random_environment(random);
      ASSERT_TRUE(testing::agree(evaluate(simpler, environment), evaluate(expr, environment))) << "round " << round;
    }
  }
  EXPECT_GT(smaller, 2000);
}

}  // namespace
}  // namespace corrloom::scalar
