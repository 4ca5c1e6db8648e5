#include "ir/scalar/expand.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/scalar/evaluate.h"
#include "mpfr_reference.h"
#include "random_expr.h"

namespace corrloom::scalar {
namespace {

using testing::agree;
using testing::Random;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Opcode(x) as a function of values, expanded.
class Unary {
 public:
  Unary(Opcode opcode, DType dtype) : Unary(apply(opcode, {symbol(SymbolId{0}, dtype)})) {}
  explicit Unary(const Expr& of_symbol) : evaluator_(expand(of_symbol)) {
    environment_.symbol = [this](SymbolId) { return x_; };
  }
  Unary(const Unary&) = delete;

  Value operator()(const Value& x) {
    x_ = x;
    return evaluator_(environment_);
  }

 private:
  Evaluator evaluator_;
  Environment environment_;
  Value x_;
};

TEST(Expand, LeavesOnlyWhatBackEndsLowerAndKeepsEveryBit) {
  Random random(11);
  for (int round = 0; round < 8000; ++round) {
    const DType dtype = kAllDTypes[round % std::size(kAllDTypes)];
    const Expr expr = testing::random_expr(random, 10, dtype);
    const Expr expanded = expand(expr);
    ASSERT_EQ(expanded->dtype, dtype);
    for_each_node(expanded, [&](const Expr& node) { ASSERT_TRUE(is_lowerable(node)) << "round " << round; });
    for (int i = 0; i < 4; ++i) {
      const Environment environment = testing::random_environment(random);
      ASSERT_TRUE(agree(evaluate(expanded, environment), evaluate(expr, environment))) << "round " << round;
    }
  }
}

TEST(Expand, FunctionsHaveNoBranches) {
  for (const OpcodeInfo& row : all_opcodes()) {
    if (row.kind != OpcodeKind::Function) continue;
    for (const DType dtype : kAllDTypes) {
      if (!takes(row.operands, dtype)) continue;
      for_each_node(
          expand(apply(row.opcode, std::vector<Expr>(static_cast<std::size_t>(row.arity), symbol(SymbolId{0}, dtype)))),
          [&](const Expr& node) {
            EXPECT_TRUE(is_lowerable(node)) << row.text << " " << name_of(dtype);
            EXPECT_EQ(as_apply(node, Opcode::If), nullptr) << row.text;
          });
    }
  }
}

TEST(Expand, KeepsIndexArithmeticAndSharing) {
  const Expr i = axis(AxisId{0});
  const Expr index = apply(Opcode::FloorDiv, {apply(Opcode::Add, {i, constant_i64(3)}), constant_i64(2)});
  const Expr x = read(Read{.source = TensorId{0}, .index = {index}}, DType::F32);
  const Expr sum = apply(Opcode::Add, {x, x});
  EXPECT_EQ(expand(sum), sum);
  const Expr e = apply(Opcode::Exp, {x});
  const Expr expanded = expand(apply(Opcode::Add, {e, e}));
  const Apply* add = as_apply(expanded, Opcode::Add);
  ASSERT_NE(add, nullptr);
  EXPECT_EQ(add->args[0], add->args[1]);
}

TEST(Expand, NestedFunctionsGrowLinearly) {
  Expr x = symbol(SymbolId{0}, DType::BF16);
  for (int i = 0; i < 1000; ++i) x = apply(Opcode::Tanh, {x});
  std::size_t nodes = 0;
  for_each_node(expand(x), [&](const Expr&) { ++nodes; });
  EXPECT_LT(nodes, 80000u);
}

TEST(Expand, NarrowingOfEveryMidpointIsRoundedOnce) {
  testing::Real exact;
  for (const DType to : {DType::F16, DType::BF16}) {
    for (const DType from : {DType::F32, DType::F64}) {
      Unary narrow(cast(symbol(SymbolId{0}, from), to));
      for (std::uint64_t bits = 0; bits < 0x7c00; bits += from == DType::F64 ? 1 : 5) {
        const double middle = Value{to, bits}.as_f64() / 2 + Value{to, bits + 1}.as_f64() / 2;
        if (std::isinf(middle)) continue;
        const std::uint64_t at = Value::floating(from, middle).bits;
        const std::uint64_t sign = std::uint64_t{bits & 1} << (bit_width(from) - 1);
        for (const std::uint64_t beside : {at - 1, at, at + 1}) {
          if (at == 0) continue;
          const Value x{from, beside | sign};
          testing::set(exact, x);
          ASSERT_TRUE(agree(narrow(x), testing::round_to(exact, to))) << name_of(from) << " " << to_text(x);
        }
      }
    }
  }
}

TEST(Expand, LargeIntegersAreRoundedOnceToNarrowFloats) {
  // Beside a tie of bf16, by less than f64 can tell at the upper exponents.
  for (const DType from : {DType::I32, DType::U32, DType::I64, DType::U64}) {
    for (const DType to : {DType::F16, DType::BF16}) {
      Unary narrow(cast(symbol(SymbolId{0}, from), to));
      for (int shift = 0; shift < bit_width(from) - 9; ++shift) {
        for (const std::int64_t tie : {std::int64_t{0x101} << shift, std::int64_t{0x103} << shift}) {
          for (const std::int64_t x : {tie - 1, tie, tie + 1, -tie - 1, -tie, 1 - tie}) {
            const Value value = Value::integer(from, x);
            const Value wanted = evaluate(Opcode::Cast, std::span(&value, 1), to);
            ASSERT_EQ(narrow(value), wanted) << to_text(value) << " " << name_of(from) << " to " << name_of(to);
          }
        }
      }
    }
  }
}

TEST(Expand, NarrowOperationsAreThoseOfEvaluate) {
  Random random(13);
  for (const DType dtype : {DType::F16, DType::BF16}) {
    Unary tanh(Opcode::Tanh, dtype);
    Unary negated(Opcode::Neg, dtype);
    for (std::uint64_t bits = 0; bits < 0x10000; bits += 7) {
      const Value x{dtype, bits};
      const Value wide = evaluate(Opcode::Cast, std::span(&x, 1), DType::F32);
      const Value wide_tanh = evaluate(Opcode::Tanh, std::span(&wide, 1), DType::F32);
      ASSERT_TRUE(agree(tanh(x), evaluate(Opcode::Cast, std::span(&wide_tanh, 1), dtype))) << bits;
      ASSERT_TRUE(agree(negated(x), evaluate(Opcode::Neg, std::span(&x, 1), dtype))) << bits;
    }
  }
}

TEST(FunctionValues, SpecialOnesAreExact) {
  struct Row {
    Opcode opcode;
    double x, wanted;
  };
  const double nan = std::nan("");
  const Row rows[] = {{Opcode::Exp, 0, 1},
                      {Opcode::Exp, -0.0, 1},
                      {Opcode::Exp, kInfinity, kInfinity},
                      {Opcode::Exp, -kInfinity, 0},
                      {Opcode::Exp, nan, nan},
                      {Opcode::Exp, 1000, kInfinity},
                      {Opcode::Exp, -1000, 0},
                      {Opcode::Log, 1, 0},
                      {Opcode::Log, 0, -kInfinity},
                      {Opcode::Log, -0.0, -kInfinity},
                      {Opcode::Log, -1, nan},
                      {Opcode::Log, -kInfinity, nan},
                      {Opcode::Log, kInfinity, kInfinity},
                      {Opcode::Log, nan, nan},
                      {Opcode::Tanh, 0, 0},
                      {Opcode::Tanh, -0.0, -0.0},
                      {Opcode::Tanh, kInfinity, 1},
                      {Opcode::Tanh, -kInfinity, -1},
                      {Opcode::Tanh, nan, nan},
                      {Opcode::Tanh, 30, 1},
                      {Opcode::Erf, 0, 0},
                      {Opcode::Erf, -0.0, -0.0},
                      {Opcode::Erf, kInfinity, 1},
                      {Opcode::Erf, -kInfinity, -1},
                      {Opcode::Erf, nan, nan},
                      {Opcode::Erf, -7, -1},
                      {Opcode::Sign, 3, 1},
                      {Opcode::Sign, -0.5, -1},
                      {Opcode::Sign, 0, 0},
                      {Opcode::Sign, -0.0, -0.0},
                      {Opcode::Sign, nan, nan},
                      {Opcode::Sign, -kInfinity, -1}};
  for (const DType dtype : {DType::F16, DType::BF16, DType::F32, DType::F64}) {
    for (const Row& row : rows) {
      Unary compute(row.opcode, dtype);
      EXPECT_TRUE(agree(compute(Value::floating(dtype, row.x)), Value::floating(dtype, row.wanted)))
          << info(row.opcode).text << " " << name_of(dtype) << " " << row.x;
    }
  }
}

TEST(FunctionValues, NansOfEveryPayloadStayNans) {
  Random random(23);
  for (const OpcodeInfo& row : all_opcodes()) {
    if (row.kind != OpcodeKind::Function || row.arity != 1) continue;
    for (const DType dtype : {DType::F32, DType::F64}) {
      Unary compute(row.opcode, dtype);
      const std::uint64_t infinity = Value::floating(dtype, kInfinity).bits;
      for (int i = 0; i < 500; ++i) {
        const Value nan{dtype, infinity | (random() & (dtype == DType::F32 ? 0x807fffff : 0x800fffffffffffff)) | 1};
        ASSERT_TRUE(std::isnan(compute(nan).as_f64())) << row.text << " " << to_text(nan);
      }
    }
  }
}

TEST(FunctionValues, ExpGivesDenormals) {
  Unary compute(Opcode::Exp, DType::F32);
  EXPECT_EQ(compute(Value::f32(-103.2f)), (Value{DType::F32, 1}));
  EXPECT_EQ(compute(Value::f32(-104.0f)), Value::f32(0));
  EXPECT_NEAR(compute(Value::f32(-88.0f)).as_f64(), std::exp(-88.0), 0x1p-149);
}

}  // namespace
}  // namespace corrloom::scalar
