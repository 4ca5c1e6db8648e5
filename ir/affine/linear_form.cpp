#include <algorithm>
#include <unordered_map>

#include "ir/affine/affine.h"
#include "ir/affine/order.h"
#include "ir/base/match.h"

namespace corrloom::affine {
namespace {

using scalar::Apply;
using scalar::Opcode;

AxisId axis_of(const Expr& expr) {
  const auto* reference = std::get_if<scalar::AxisRef>(&expr->kind);
  return reference == nullptr ? AxisId{} : reference->axis;
}

/// Axes by id, then the opaque terms in structural order: one spelling for equal sums.
bool stands_before(const LinearForm::Term& a, const LinearForm::Term& b) {
  const AxisId left = axis_of(a.expr), right = axis_of(b.expr);
  if (left && right) return left < right;
  if (left || right) return static_cast<bool>(left);
  return compare(a.expr, b.expr) < 0;
}

/// a + factor * b; nothing on overflow.
std::optional<LinearForm> add_scaled(LinearForm a, const LinearForm& b, std::int64_t factor) {
  const auto accumulate = [&](std::int64_t& sum, std::int64_t value) {
    std::int64_t scaled;
    return !__builtin_mul_overflow(value, factor, &scaled) && !__builtin_add_overflow(sum, scaled, &sum);
  };
  if (!accumulate(a.constant, b.constant)) return std::nullopt;
  for (const LinearForm::Term& term : b.terms) {
    auto place = std::find_if(a.terms.begin(), a.terms.end(),
                              [&](const LinearForm::Term& other) { return scalar::same(other.expr, term.expr); });
    if (place == a.terms.end()) place = a.terms.insert(a.terms.end(), {term.expr, 0});
    if (!accumulate(place->coefficient, term.coefficient)) return std::nullopt;
    if (place->coefficient == 0) a.terms.erase(place);
  }
  return a;
}

LinearForm opaque(const Expr& expr) {
  return {0, {{expr, 1}}};
}

/// The form of one operation, given those of its operands.
std::optional<LinearForm> combine(const Expr& expr, const Apply& apply, const LinearForm& x, const LinearForm& y) {
  switch (apply.opcode) {
    case Opcode::Add:
      return add_scaled(x, y, 1);
    case Opcode::Sub:
      return add_scaled(x, y, -1);
    case Opcode::Neg:
      return add_scaled({}, x, -1);
    case Opcode::Mul:
      if (y.terms.empty()) return add_scaled({}, x, y.constant);
      if (x.terms.empty()) return add_scaled({}, y, x.constant);
      return opaque(expr);
    default:
      return opaque(expr);
  }
}

bool is_linear_operation(Opcode opcode) {
  return opcode == Opcode::Add || opcode == Opcode::Sub || opcode == Opcode::Neg || opcode == Opcode::Mul;
}

using Known = std::unordered_map<const scalar::Node*, std::optional<LinearForm>>;

const std::optional<LinearForm>& form_of(const Expr& expr, Known& known) {
  const auto found = known.find(expr.get());
  if (found != known.end()) return found->second;
  std::optional<LinearForm> form = opaque(expr);
  const auto* apply = std::get_if<Apply>(&expr->kind);
  if (const auto value = scalar::as_i64(expr)) {
    form = LinearForm{*value, {}};
  } else if (apply != nullptr && is_linear_operation(apply->opcode)) {
    const std::optional<LinearForm> x = form_of(apply->args[0], known);
    const std::optional<LinearForm> y = apply->args.size() > 1 ? form_of(apply->args[1], known) : LinearForm{};
    form = x && y ? combine(expr, *apply, *x, *y) : std::nullopt;
  }
  return known[expr.get()] = std::move(form);
}

/// coefficient * expr for a positive coefficient.
Expr scaled(const Expr& expr, std::int64_t coefficient) {
  return coefficient == 1 ? expr : scalar::apply(Opcode::Mul, {expr, scalar::constant_i64(coefficient)});
}

/// sum + coefficient * expr, where a null sum is 0.
Expr plus(const Expr& sum, const Expr& expr, std::int64_t coefficient) {
  // The lowest integer has no opposite; adding it is as good.
  const bool subtract = coefficient < 0 && coefficient != INT64_MIN;
  if (sum)
    return scalar::apply(subtract ? Opcode::Sub : Opcode::Add,
                         {sum, scaled(expr, subtract ? -coefficient : coefficient)});
  if (coefficient == -1) return scalar::apply(Opcode::Neg, {expr});
  return scaled(expr, coefficient);
}

}  // namespace

std::int64_t LinearForm::coefficient_of(AxisId axis) const {
  for (const Term& term : terms) {
    if (axis_of(term.expr) == axis) return term.coefficient;
  }
  return 0;
}

bool LinearForm::is_affine() const {
  return std::all_of(terms.begin(), terms.end(),
                     [](const Term& term) { return static_cast<bool>(axis_of(term.expr)); });
}

std::optional<LinearForm> linear_form(const Expr& expr) {
  if (expr->dtype != DType::I64) return std::nullopt;
  Known known;
  std::optional<LinearForm> form = form_of(expr, known);
  if (form) std::sort(form->terms.begin(), form->terms.end(), stands_before);
  return form;
}

Expr to_expr(const LinearForm& form) {
  std::vector<LinearForm::Term> terms = form.terms;
  std::sort(terms.begin(), terms.end(), stands_before);
  Expr sum = nullptr;
  for (const LinearForm::Term& term : terms) sum = plus(sum, term.expr, term.coefficient);
  if (!sum) return scalar::constant_i64(form.constant);
  if (form.constant == 0) return sum;
  const bool subtract = form.constant < 0 && form.constant != INT64_MIN;
  return scalar::apply(subtract ? Opcode::Sub : Opcode::Add,
                       {sum, scalar::constant_i64(subtract ? -form.constant : form.constant)});
}

}  // namespace corrloom::affine
