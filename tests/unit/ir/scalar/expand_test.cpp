#include "ir/scalar/expand.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <ostream>

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
      for_each_node(expand(apply(row.opcode, {symbol(SymbolId{0}, dtype)})), [&](const Expr& node) {
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

// ---- the error of the functions

struct Function {
  Opcode opcode;
  int (*exact)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t);
  double (*in_f64)(double);  ///< a second reference, good to a few parts in 2^53: enough for f32, and fast
  double low, high;          ///< where the function is neither trivial nor infinite
  double bound_f32;          ///< what was measured, rounded up
  double bound_f64;
};

/// For GoogleTest's messages.
void PrintTo(const Function& function, std::ostream* out) {
  *out << info(function.opcode).text;
}

const Function kFunctions[] = {
    {Opcode::Exp, mpfr_exp, std::exp, -110, 90, 0.90, 0.90},
    {Opcode::Log, mpfr_log, std::log, 0, 4, 0.83, 0.83},
    {Opcode::Tanh, mpfr_tanh, std::tanh, -10, 10, 2.60, 2.60},
    {Opcode::Erf, mpfr_erf, std::erf, -6, 6, 1.25, 1.10},
};

/// Points of one sweep: optimised builds take the full set. CORRLOOM_SWEEP=K multiplies it.
std::size_t sweep_points(std::size_t count) {
#ifndef __OPTIMIZE__
  count /= 16;
#endif
  const char* factor = std::getenv("CORRLOOM_SWEEP");
  return factor == nullptr ? count : count * std::max<std::size_t>(1, std::strtoul(factor, nullptr, 10));
}

double special_points(std::size_t index) {
  static const double kPoints[] = {0.0,
                                   -0.0,
                                   kInfinity,
                                   -kInfinity,
                                   std::nan(""),
                                   1,
                                   -1,
                                   0x1p-149,
                                   -0x1p-149,
                                   0x1p-126,
                                   0x1.fffffcp-127,
                                   0x1p-1074,
                                   -0x1p-1074,
                                   0x1p-1022,
                                   0x1.fffffffffffffp-1023,
                                   0x1.fffffep127,
                                   -0x1.fffffep127,
                                   0x1.fffffffffffffp1023,
                                   88.72283,
                                   88.72284,
                                   -87.33654,
                                   -87.33655,
                                   -103.97207,
                                   -103.97208,
                                   -103.9,
                                   709.782712893384,
                                   709.7827128933841,
                                   -708.3964185322641,
                                   -745.1332191019411,
                                   -745.1332191019412,
                                   0x1.fffffep-1,
                                   0x1.000002p0,
                                   0x1.0000000000001p0,
                                   0x1.fffffffffffffp-1,
                                   0.70710678118654752,
                                   0.70710678118654757,
                                   1.4142135623730951,
                                   0.34657359,
                                   0.5493061,
                                   3.9,
                                   4,
                                   5.9,
                                   6,
                                   9.01,
                                   10,
                                   19.06,
                                   20};
  return kPoints[index % std::size(kPoints)];
}

/// Bits at random (every exponent), points near the edges, and points of the interesting range, in turn.
Value sweep_point(Random& random, const Function& function, DType dtype, std::size_t index) {
  if (index < 64) return Value::floating(dtype, special_points(index));
  const int unused = 64 - bit_width(dtype);
  if (index % 3 == 0) return {dtype, random() >> unused};
  if (index % 16 == 1) {
    Value near = Value::floating(dtype, special_points(random()));
    near.bits += random() % 64;
    return near;
  }
  const double scale = dtype == DType::F64 && function.opcode == Opcode::Exp ? 8.3 : 1;
  return Value::floating(dtype, scale * std::uniform_real_distribution<double>(function.low, function.high)(random));
}

double ulps_from_f64(const Value& computed, double exact) {
  const float nearest = static_cast<float>(exact);
  const float result = static_cast<float>(computed.as_f64());
  if (std::isnan(nearest) || std::isinf(nearest) || std::isnan(result) || std::isinf(result)) {
    return agree(computed, Value::floating(DType::F32, nearest)) ? 0 : kInfinity;
  }
  if (exact == 0) return result == 0 ? 0 : kInfinity;
  return std::abs(static_cast<double>(result) - exact) / std::ldexp(1.0, std::max(std::ilogb(exact) - 23, -149));
}

struct Worst {
  double ulps = 0;
  Value at;

  void take(double error, const Value& x) {
    if (!(error > ulps)) return;
    ulps = error;
    at = x;
  }
};

class FunctionError : public ::testing::TestWithParam<Function> {};

TEST_P(FunctionError, F32StaysInItsBound) {
  const Function& function = GetParam();
  Unary compute(function.opcode, DType::F32);
  testing::Real exact(120);
  Random random(17);
  Worst worst;
  const std::size_t points = sweep_points(std::size_t{1} << 20);
  for (std::size_t i = 0; i < points; ++i) {
    const Value x = sweep_point(random, function, DType::F32, i);
    const Value result = compute(x);
    worst.take(ulps_from_f64(result, function.in_f64(x.as_f64())), x);
    if (i % 64 != 0 && i > 4096) continue;
    testing::set(exact, x);
    function.exact(exact.get(), exact.get(), MPFR_RNDN);
    worst.take(testing::ulps(result, exact), x);
  }
  RecordProperty("worst_ulps", std::to_string(worst.ulps));
  EXPECT_LE(worst.ulps, function.bound_f32) << "at " << to_text(worst.at);
}

TEST_P(FunctionError, F64StaysInItsBound) {
  const Function& function = GetParam();
  Unary compute(function.opcode, DType::F64);
  testing::Real exact(160);
  Random random(19);
  Worst worst;
  const std::size_t points = sweep_points(std::size_t{1} << 15);
  for (std::size_t i = 0; i < points; ++i) {
    const Value x = sweep_point(random, function, DType::F64, i);
    testing::set(exact, x);
    function.exact(exact.get(), exact.get(), MPFR_RNDN);
    worst.take(testing::ulps(compute(x), exact), x);
  }
  RecordProperty("worst_ulps", std::to_string(worst.ulps));
  EXPECT_LE(worst.ulps, function.bound_f64) << "at " << to_text(worst.at);
}

INSTANTIATE_TEST_SUITE_P(All, FunctionError, ::testing::ValuesIn(kFunctions),
                         [](const auto& param) { return std::string(scalar::info(param.param.opcode).text); });

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
  for (const Function& function : kFunctions) {
    for (const DType dtype : {DType::F32, DType::F64}) {
      Unary compute(function.opcode, dtype);
      const std::uint64_t infinity = Value::floating(dtype, kInfinity).bits;
      for (int i = 0; i < 2000; ++i) {
        const Value nan{dtype, infinity | (random() & (dtype == DType::F32 ? 0x807fffff : 0x800fffffffffffff)) | 1};
        ASSERT_TRUE(std::isnan(compute(nan).as_f64())) << info(function.opcode).text << " " << to_text(nan);
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
