#include "compiler/grad/algebra.h"

#include "ir/base/errors.h"

namespace corrloom::grad {
namespace {

using scalar::Opcode;
using scalar::Value;

/// coefficient * rest; `rest` is null for a constant.
struct Scaled {
  double coefficient = 1;
  Expr rest;
};

Scaled scaled(const Expr& expr) {
  if (const Value* value = scalar::as_constant(expr)) return {value->as_f64(), nullptr};
  if (const scalar::Apply* negated = scalar::as_apply(expr, Opcode::Neg)) {
    Scaled inner = scaled(negated->args[0]);
    inner.coefficient = -inner.coefficient;
    return inner;
  }
  if (const scalar::Apply* product = scalar::as_apply(expr, Opcode::Mul)) {
    if (const Value* value = scalar::as_constant(product->args[0])) return {value->as_f64(), product->args[1]};
    // A constant at the left end of a chain of products.
    const Scaled left = scaled(product->args[0]);
    if (left.rest && left.rest != product->args[0])
      return {left.coefficient, scalar::apply(Opcode::Mul, {left.rest, product->args[1]})};
  }
  return {1, expr};
}

/// The constant stays at the left end of a chain of products, where one writes it.
Expr times(double coefficient, const Expr& rest) {
  if (coefficient == 0) return number(rest->dtype, 0);
  if (coefficient == 1) return rest;
  if (coefficient == -1) return scalar::apply(Opcode::Neg, {rest});
  if (coefficient < 0) return scalar::apply(Opcode::Neg, {times(-coefficient, rest)});
  if (const scalar::Apply* product = scalar::as_apply(rest, Opcode::Mul))
    return scalar::apply(Opcode::Mul, {times(coefficient, product->args[0]), product->args[1]});
  return scalar::apply(Opcode::Mul, {number(rest->dtype, coefficient), rest});
}

/// a * b with the factors of b appended one by one, as they are written.
Expr chained(const Expr& a, const Expr& b) {
  const scalar::Apply* product = scalar::as_apply(b, Opcode::Mul);
  if (product == nullptr) return scalar::apply(Opcode::Mul, {a, b});
  return scalar::apply(Opcode::Mul, {chained(a, product->args[0]), product->args[1]});
}

/// a + coefficient * rest merged into the term of `a` that has the same rest; null when there is none.
Expr merged(const Expr& a, const Scaled& term) {
  const Scaled own = scaled(a);
  if (own.rest && scalar::same(own.rest, term.rest)) return times(own.coefficient + term.coefficient, term.rest);
  const auto* sum = std::get_if<scalar::Apply>(&a->kind);
  if (sum == nullptr || (sum->opcode != Opcode::Add && sum->opcode != Opcode::Sub)) return nullptr;
  if (const Expr left = merged(sum->args[0], term))
    return sum->opcode == Opcode::Add ? add(left, sum->args[1]) : subtract(left, sum->args[1]);
  const Scaled flipped{sum->opcode == Opcode::Add ? term.coefficient : -term.coefficient, term.rest};
  const Expr right = merged(sum->args[1], flipped);
  if (!right) return nullptr;
  return sum->opcode == Opcode::Add ? add(sum->args[0], right) : subtract(sum->args[0], right);
}

/// The parts of `if c then x else 0`.
const scalar::Apply* as_condition(const Expr& expr) {
  const scalar::Apply* choice = scalar::as_apply(expr, Opcode::If);
  return choice != nullptr && is_number(choice->args[2], 0) ? choice : nullptr;
}

}  // namespace

Expr number(DType dtype, double value) {
  return scalar::constant(is_float(dtype) ? Value::floating(dtype, value)
                                          : Value::integer(dtype, static_cast<std::int64_t>(value)));
}

bool is_number(const Expr& expr, double value) {
  const Value* constant = scalar::as_constant(expr);
  return constant != nullptr && constant->dtype != DType::Bool && constant->as_f64() == value;
}

Expr negate(const Expr& a) {
  if (const Value* value = scalar::as_constant(a)) return number(value->dtype, value->bits == 0 ? 0 : -value->as_f64());
  if (const scalar::Apply* negated = scalar::as_apply(a, Opcode::Neg)) return negated->args[0];
  if (const scalar::Apply* difference = scalar::as_apply(a, Opcode::Sub))
    return scalar::apply(Opcode::Sub, {difference->args[1], difference->args[0]});
  if (const scalar::Apply* condition = as_condition(a)) return choose(condition->args[0], negate(condition->args[1]));
  return scalar::apply(Opcode::Neg, {a});
}

Expr add(const Expr& a, const Expr& b) {
  if (is_number(a, 0)) return b;
  if (is_number(b, 0)) return a;
  const Scaled left = scaled(a), right = scaled(b);
  if (!left.rest && !right.rest) return number(a->dtype, left.coefficient + right.coefficient);
  if (const Expr one = right.rest ? merged(a, right) : nullptr) return one;
  if (const scalar::Apply* one = as_condition(a), *other = as_condition(b); one != nullptr && other != nullptr) {
    if (scalar::same(one->args[0], other->args[0])) return choose(one->args[0], add(one->args[1], other->args[1]));
    if (scalar::same(opposite(one->args[0]), other->args[0])) return choose(one->args[0], one->args[1], other->args[1]);
  }
  if (const scalar::Apply* negated = scalar::as_apply(b, Opcode::Neg))
    return scalar::apply(Opcode::Sub, {a, negated->args[0]});
  if (const scalar::Apply* negated = scalar::as_apply(a, Opcode::Neg))
    return scalar::apply(Opcode::Sub, {b, negated->args[0]});
  if (right.coefficient < 0 && !right.rest)
    return scalar::apply(Opcode::Sub, {a, number(b->dtype, -right.coefficient)});
  return scalar::apply(Opcode::Add, {a, b});
}

Expr subtract(const Expr& a, const Expr& b) {
  return add(a, negate(b));
}

Expr multiply(const Expr& a, const Expr& b) {
  if (is_number(a, 0)) return a;
  if (is_number(b, 0)) return b;
  if (const scalar::Apply* condition = as_condition(a))
    return choose(condition->args[0], multiply(condition->args[1], b));
  const Scaled left = scaled(a), right = scaled(b);
  const double coefficient = left.coefficient * right.coefficient;
  if (!left.rest && !right.rest) return number(a->dtype, coefficient);
  if (!left.rest) return times(coefficient, right.rest);
  if (!right.rest) return times(coefficient, left.rest);
  // (x / y) * z reads better as x * z / y, and x * (1 / y) as x / y.
  if (const scalar::Apply* quotient = scalar::as_apply(left.rest, Opcode::Div))
    return times(coefficient, divide(multiply(quotient->args[0], right.rest), quotient->args[1]));
  if (const scalar::Apply* quotient = scalar::as_apply(right.rest, Opcode::Div))
    return times(coefficient, divide(multiply(left.rest, quotient->args[0]), quotient->args[1]));
  return times(coefficient, chained(left.rest, right.rest));
}

Expr divide(const Expr& a, const Expr& b) {
  if (is_number(a, 0) || is_number(b, 1)) return a;
  if (const scalar::Apply* condition = as_condition(a))
    return choose(condition->args[0], divide(condition->args[1], b));
  if (const scalar::Apply* negated = scalar::as_apply(a, Opcode::Neg)) return negate(divide(negated->args[0], b));
  if (const scalar::Apply* negated = scalar::as_apply(b, Opcode::Neg)) return negate(divide(a, negated->args[0]));
  if (const scalar::Apply* quotient = scalar::as_apply(a, Opcode::Div))
    return divide(quotient->args[0], multiply(quotient->args[1], b));
  return scalar::apply(Opcode::Div, {a, b});
}

Expr call(std::string_view name, std::vector<Expr> args) {
  const auto opcode = scalar::parse_opcode(name);
  CORRLOOM_CHECK(opcode.has_value(), "there is no function ", name);
  return scalar::apply(*opcode, std::move(args));
}

Expr cast_to(const Expr& expr, DType dtype) {
  if (expr->dtype == dtype) return expr;
  if (const Value* value = scalar::as_constant(expr); value != nullptr && is_float(value->dtype) && is_float(dtype))
    return number(dtype, value->as_f64());
  if (const scalar::Apply* condition = as_condition(expr))
    return choose(condition->args[0], cast_to(condition->args[1], dtype));
  return scalar::cast(expr, dtype);
}

Expr choose(const Expr& condition, const Expr& a, const Expr& b) {
  if (!condition) return a;
  const Expr other = b ? b : number(a->dtype, 0);
  if (const Value* known = scalar::as_constant(condition)) return known->as_bool() ? a : other;
  if (is_number(a, 0) && is_number(other, 0)) return a;
  if (is_number(a, 0)) return choose(opposite(condition), other);
  if (const scalar::Apply* inner = as_condition(a); inner != nullptr && is_number(other, 0))
    return choose(both(condition, inner->args[0]), inner->args[1]);
  return scalar::apply(Opcode::If, {condition, a, other});
}

Expr opposite(const Expr& condition) {
  const auto* apply = std::get_if<scalar::Apply>(&condition->kind);
  if (apply == nullptr) return scalar::apply(Opcode::Not, {condition});
  if (apply->opcode == Opcode::Not) return apply->args[0];
  if (apply->opcode == Opcode::Eq) return compare(Opcode::Ne, apply->args[0], apply->args[1]);
  if (apply->opcode == Opcode::Ne) return compare(Opcode::Eq, apply->args[0], apply->args[1]);
  // With a NaN neither a < b nor a >= b holds.
  const bool is_ordered = !apply->args.empty() && is_integer(apply->args[0]->dtype);
  if (is_ordered && apply->opcode == Opcode::Lt) return compare(Opcode::Ge, apply->args[0], apply->args[1]);
  if (is_ordered && apply->opcode == Opcode::Ge) return compare(Opcode::Lt, apply->args[0], apply->args[1]);
  if (is_ordered && apply->opcode == Opcode::Gt) return compare(Opcode::Le, apply->args[0], apply->args[1]);
  if (is_ordered && apply->opcode == Opcode::Le) return compare(Opcode::Gt, apply->args[0], apply->args[1]);
  return scalar::apply(Opcode::Not, {condition});
}

Expr both(const Expr& a, const Expr& b) {
  if (!a) return b;
  if (!b || scalar::same(a, b)) return a;
  return scalar::apply(Opcode::LazyAnd, {a, b});
}

Expr compare(Opcode opcode, const Expr& a, const Expr& b) {
  return scalar::apply(opcode, {a, b});
}

}  // namespace corrloom::grad
