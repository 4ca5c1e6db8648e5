#include "ir/affine/border.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "ir/scalar/evaluate.h"

namespace corrloom::affine {
namespace {

using scalar::Opcode;
using scalar::Value;

const Expr i = scalar::axis(AxisId{0});

Expr number(std::int64_t value) {
  return scalar::constant_i64(value);
}
Expr apply(Opcode opcode, const Expr& a, const Expr& b) {
  return scalar::apply(opcode, {a, b});
}
Expr choice(const Expr& condition, const Expr& then, const Expr& otherwise) {
  return scalar::apply(Opcode::If, {condition, then, otherwise});
}
std::int64_t at(const Expr& expr, std::int64_t place) {
  scalar::Environment environment;
  environment.axis = [&](AxisId) { return Value::i64(place); };
  return scalar::evaluate(expr, environment).as_i64();
}

/// `factor` * i + `offset`, moved below 0 and from `extent` on to what is given.
Expr moved(const Expr& x, const Expr& below, const Expr& above, std::int64_t extent) {
  return choice(apply(Opcode::Lt, x, number(extent)), choice(apply(Opcode::Ge, x, number(0)), x, below), above);
}

TEST(Borders, FoldsOnlyWhatStaysAsFarFromTheEnd) {
  // Brute force: every move by a sum or difference, over places on both sides of a tensor.
  const std::int64_t extent = 6;
  const Expr x = apply(Opcode::Sub, i, number(4));
  int found = 0;
  for (const bool mirrors : {false, true}) {
    for (std::int64_t low = -8; low <= 8; ++low) {
      for (std::int64_t high = -14; high <= 14; ++high) {
        const auto to = [&](std::int64_t constant) {
          return mirrors ? apply(Opcode::Sub, number(constant), x) : number(constant);
        };
        const Expr subscript = moved(x, to(low), to(high), extent);
        EXPECT_TRUE(scalar::same(away_from_borders(subscript), x));
        bool folds = true;
        for (std::int64_t place = 0; place < 14; ++place) {
          const std::int64_t reached = place - 4, end = reached < 0 ? 0 : extent - 1;
          if (reached >= 0 && reached < extent) continue;
          folds &= at(subscript, place) == (mirrors ? 2 * end - reached : end);
        }
        EXPECT_EQ(folds_at_borders(subscript, extent), folds) << mirrors << " " << low << " " << high;
        found += folds ? 1 : 0;
      }
    }
  }
  EXPECT_EQ(found, 2);  // the edge, and the mirror
}

TEST(Borders, OtherSubscriptsDoNotFold) {
  const Expr x = apply(Opcode::Add, i, number(1));
  EXPECT_TRUE(folds_at_borders(x, 5));
  const Expr wraps = choice(apply(Opcode::Lt, x, number(5)), x, apply(Opcode::Sub, x, number(5)));
  EXPECT_FALSE(folds_at_borders(wraps, 5));
  // A test that is not one for the end of the tensor.
  EXPECT_FALSE(folds_at_borders(choice(apply(Opcode::Lt, x, number(4)), x, number(4)), 5));
  // A choice within a sum.
  EXPECT_FALSE(folds_at_borders(apply(Opcode::Add, choice(apply(Opcode::Lt, x, number(5)), x, number(4)), i), 5));
}

TEST(Borders, ComparisonsAreForms) {
  for (const Opcode opcode : {Opcode::Lt, Opcode::Le, Opcode::Gt, Opcode::Ge}) {
    const Expr test = apply(opcode, apply(Opcode::Mul, i, number(3)), apply(Opcode::Add, i, number(5)));
    const std::optional<LinearForm> form = not_negative_where(*scalar::as_apply(test, opcode));
    ASSERT_TRUE(form);
    scalar::Environment environment;
    for (std::int64_t place = -6; place < 7; ++place) {
      environment.axis = [&](AxisId) { return Value::i64(place); };
      EXPECT_EQ(scalar::evaluate(test, environment).as_bool(), at(to_expr(*form), place) >= 0) << place;
    }
  }
}

TEST(Borders, OneQuotientIsCompared) {
  // Brute force: i // 3 and 2 - (i - 4) // 5 against constants and sums.
  const Expr third = apply(Opcode::FloorDiv, i, number(3));
  const Expr away = apply(Opcode::Sub, number(2), apply(Opcode::FloorDiv, apply(Opcode::Sub, i, number(4)), number(5)));
  for (const Opcode opcode : {Opcode::Lt, Opcode::Le, Opcode::Gt, Opcode::Ge}) {
    for (const Expr& side : {third, away}) {
      for (const Expr& other : {number(-2), number(0), number(3), apply(Opcode::Sub, i, number(5))}) {
        const Expr test = apply(opcode, side, other);
        const std::optional<LinearForm> form = not_negative_where(*scalar::as_apply(test, opcode));
        ASSERT_TRUE(form && form->is_affine());
        scalar::Environment environment;
        for (std::int64_t place = -30; place < 31; ++place) {
          environment.axis = [&](AxisId) { return Value::i64(place); };
          EXPECT_EQ(scalar::evaluate(test, environment).as_bool(), at(to_expr(*form), place) >= 0) << place;
        }
      }
    }
  }
  const auto has_form = [](const Expr& x) {
    return not_negative_where(*scalar::as_apply(apply(Opcode::Ge, x, number(0)), Opcode::Ge)).has_value();
  };
  EXPECT_FALSE(has_form(apply(Opcode::Mul, third, number(2))));
  EXPECT_FALSE(has_form(apply(Opcode::Mod, i, number(3))));
  EXPECT_FALSE(has_form(apply(Opcode::Add, third, apply(Opcode::FloorDiv, i, number(2)))));
}

}  // namespace
}  // namespace corrloom::affine
