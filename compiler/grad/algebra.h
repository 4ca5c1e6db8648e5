#pragma once

#include <string_view>
#include <vector>

#include "ir/scalar/expr.h"

/// Builders of float and bool expressions that leave out what a person would not write: `0 + x`, `1 * x`, two terms
/// that are one. A product with 0 is 0: derivatives are built from them, and what has no influence has derivative 0.
namespace corrloom::grad {

using scalar::Expr;

Expr number(DType dtype, double value);
bool is_number(const Expr& expr, double value);

Expr negate(const Expr& a);
Expr add(const Expr& a, const Expr& b);
Expr subtract(const Expr& a, const Expr& b);
Expr multiply(const Expr& a, const Expr& b);
Expr divide(const Expr& a, const Expr& b);
/// A function of the table by its name in the language.
Expr call(std::string_view name, std::vector<Expr> args);
Expr cast_to(const Expr& expr, DType dtype);

/// `if condition then a else b`, `b` null for 0.
Expr choose(const Expr& condition, const Expr& a, const Expr& b = nullptr);
/// The opposite truth: a comparison of integers is turned round.
Expr opposite(const Expr& condition);
/// `a && b`; either may be null for true.
Expr both(const Expr& a, const Expr& b);
Expr compare(scalar::Opcode opcode, const Expr& a, const Expr& b);

}  // namespace corrloom::grad
