#include "compiler/driver/size_expr.h"

#include <gtest/gtest.h>

#include "ir/scalar/evaluate.h"

namespace corrloom::driver {
namespace {

using scalar::apply;
using scalar::Expr;
using scalar::Opcode;
using scalar::Value;

const scalar::SymbolId kN{0}, kM{1};

Expr symbol(scalar::SymbolId id) {
  return scalar::symbol(id, DType::I64);
}

/// What the language gives.
std::int64_t meaning(const Expr& expr, std::int64_t n, std::int64_t m) {
  return scalar::evaluate(expr, {.axis = {},
                                 .symbol = [&](scalar::SymbolId id) { return Value::i64(id == kN ? n : m); },
                                 .accumulator = {},
                                 .read = {}})
      .as_i64();
}

/// Whether values that fit are those of the language.
void expect_meaning(const Expr& expr, const char* what) {
  const std::optional<kernel::SizeExpr> size = to_size(expr);
  ASSERT_TRUE(size.has_value()) << what;
  for (const std::int64_t n : {-9, -1, 0, 1, 2, 5, 63, 64, 1000}) {
    for (const std::int64_t m : {-3, -1, 0, 1, 4, 40, 64}) {
      const std::optional<std::int64_t> found = kernel::evaluate(*size, {n, m});
      EXPECT_TRUE(!found || *found == meaning(expr, n, m)) << what << " of " << n << " and " << m;
      EXPECT_TRUE(found || what == std::string("<<")) << what << " of " << n << " and " << m;
    }
  }
}

TEST(SizeExpr, MeansWhatTheLanguageMeans) {
  const Expr n = symbol(kN), m = symbol(kM);
  const std::pair<const char*, Opcode> kBinary[] = {
      {"+", Opcode::Add},  {"-", Opcode::Sub},  {"*", Opcode::Mul},   {"//", Opcode::FloorDiv},
      {"%", Opcode::Mod},  {"&", Opcode::And},  {"|", Opcode::Or},    {"^", Opcode::Xor},
      {"<<", Opcode::Shl}, {">>", Opcode::Shr}, {"min", Opcode::Min}, {"max", Opcode::Max}};
  for (const auto& [what, opcode] : kBinary) expect_meaning(apply(opcode, {n, m}), what);
  expect_meaning(apply(Opcode::Neg, {n}), "neg");
  expect_meaning(apply(Opcode::Abs, {n}), "abs");
  expect_meaning(apply(Opcode::Sign, {n}), "sign");
  expect_meaning(apply(Opcode::Not, {n}), "~");
  const Expr is_more = apply(Opcode::Gt, {n, m}), is_least = apply(Opcode::Ge, {m, n});
  for (const Opcode opcode : {Opcode::And, Opcode::Or, Opcode::Xor, Opcode::LazyAnd, Opcode::LazyOr})
    expect_meaning(apply(Opcode::If, {apply(opcode, {is_more, apply(Opcode::Not, {is_least})}), n, m}), "if");
}

TEST(SizeExpr, NoticesBitsThatAreLost) {
  const std::optional<kernel::SizeExpr> shifted = to_size(apply(Opcode::Shl, {symbol(kN), symbol(kM)}));
  ASSERT_TRUE(shifted.has_value());
  EXPECT_EQ(kernel::evaluate(*shifted, {1, 62}), std::int64_t{1} << 62);
  EXPECT_EQ(kernel::evaluate(*shifted, {1, 63}), std::nullopt);
  EXPECT_EQ(kernel::evaluate(*shifted, {-1, 63}), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(kernel::evaluate(*shifted, {3, 70}), std::nullopt);
  EXPECT_EQ(kernel::evaluate(*shifted, {0, 70}), 0);
}

TEST(SizeExpr, HasNoFloatsAndNoNarrowIntegers) {
  EXPECT_FALSE(to_size(scalar::cast(scalar::cast(symbol(kN), DType::F32), DType::I64)).has_value());
  EXPECT_FALSE(to_size(scalar::cast(scalar::cast(symbol(kN), DType::I8), DType::I64)).has_value());
}

}  // namespace
}  // namespace corrloom::driver
