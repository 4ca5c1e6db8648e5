#include "ir/affine/border.h"

#include <algorithm>

namespace corrloom::affine {
namespace {

using scalar::Opcode;

/// a - b - less.
Expr minus(const Expr& a, const Expr& b, std::int64_t less) {
  return scalar::apply(Opcode::Sub, {scalar::apply(Opcode::Sub, {a, b}), scalar::constant_i64(less)});
}

/// a - b, or nothing when it is not affine.
std::optional<LinearForm> difference(const Expr& a, const Expr& b) {
  std::optional<LinearForm> form = linear_form(minus(a, b, 0));
  return form && form->is_affine() ? form : std::nullopt;
}

/// A form that is not negative where that one is, without its quotient: x // d + r >= 0 where x + d * r >= 0, and
/// r - x // d >= 0 where d * r + d - 1 - x >= 0. Nothing when another form than of one quotient is not affine.
std::optional<LinearForm> without_quotient(LinearForm form) {
  const auto is_opaque = [](const LinearForm::Term& term) {
    return !std::holds_alternative<scalar::AxisRef>(term.expr->kind);
  };
  const auto found = std::find_if(form.terms.begin(), form.terms.end(), is_opaque);
  if (found == form.terms.end()) return form;
  const scalar::Apply* quotient = scalar::as_apply(found->expr, Opcode::FloorDiv);
  const std::optional<std::int64_t> divisor = quotient == nullptr ? std::nullopt : scalar::as_i64(quotient->args[1]);
  const std::int64_t sign = found->coefficient;
  if (!divisor || *divisor < 1 || (sign != 1 && sign != -1)) return std::nullopt;
  const Expr dividend = quotient->args[0];
  form.terms.erase(found);
  const Expr rest = scalar::apply(Opcode::Mul, {to_expr(form), scalar::constant_i64(*divisor)});
  std::optional<LinearForm> whole =
      linear_form(sign == 1 ? scalar::apply(Opcode::Add, {dividend, rest}) : minus(rest, dividend, 1 - *divisor));
  return whole && whole->is_affine() ? whole : std::nullopt;
}

/// What is not negative where a >= b + more.
std::optional<LinearForm> at_least(const Expr& a, const Expr& b, std::int64_t more) {
  std::optional<LinearForm> form = linear_form(minus(a, b, more));
  return form ? without_quotient(*std::move(form)) : std::nullopt;
}

/// The condition of a choice, or null.
const scalar::Apply* condition_of(const scalar::Apply* choice) {
  return choice == nullptr ? nullptr : std::get_if<scalar::Apply>(&choice->args[0]->kind);
}

bool is_constant(const std::optional<LinearForm>& form, std::int64_t value) {
  return form && form->terms.empty() && form->constant == value;
}

}  // namespace

std::optional<LinearForm> not_negative_where(const scalar::Apply& comparison) {
  if (comparison.args.size() != 2 || comparison.args[0]->dtype != DType::I64) return std::nullopt;
  const Expr &a = comparison.args[0], &b = comparison.args[1];
  switch (comparison.opcode) {
    case Opcode::Ge:
      return at_least(a, b, 0);
    case Opcode::Gt:
      return at_least(a, b, 1);
    case Opcode::Le:
      return at_least(b, a, 0);
    case Opcode::Lt:
      return at_least(b, a, 1);
    default:
      return std::nullopt;
  }
}

Expr away_from_borders(const Expr& subscript) {
  return scalar::rewrite(subscript, [](const Expr& node) -> Expr {
    const scalar::Apply* choice = scalar::as_apply(node, Opcode::If);
    const scalar::Apply* condition = condition_of(choice);
    return condition != nullptr && not_negative_where(*condition) ? choice->args[1] : nullptr;
  });
}

bool folds_at_borders(const Expr& subscript, std::int64_t extent) {
  const Expr inside = away_from_borders(subscript);
  Expr rest = subscript;
  while (const scalar::Apply* choice = scalar::as_apply(rest, Opcode::If)) {
    const scalar::Apply* condition = condition_of(choice);
    const std::optional<LinearForm> holds = condition == nullptr ? std::nullopt : not_negative_where(*condition);
    if (!holds) return false;
    const Expr test = to_expr(*holds);
    const bool is_low = is_constant(difference(test, inside), 0),
               is_high = is_constant(linear_form(scalar::apply(Opcode::Add, {test, inside})), extent - 1);
    if (!is_low && !is_high) return false;
    const std::int64_t border = is_low ? 0 : extent - 1;
    const Expr& moved = choice->args[2];
    const bool is_mirrored = is_constant(linear_form(scalar::apply(Opcode::Add, {moved, inside})), 2 * border);
    if (!is_mirrored && !is_constant(linear_form(moved), border)) return false;
    rest = choice->args[1];
  }
  return scalar::same(rest, inside);
}

}  // namespace corrloom::affine
