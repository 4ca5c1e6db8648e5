#include "ir/affine/border.h"

namespace corrloom::affine {
namespace {

using scalar::Opcode;

/// a - b - less, or nothing when it is not affine.
std::optional<LinearForm> difference(const Expr& a, const Expr& b, std::int64_t less) {
  const Expr minus = scalar::apply(Opcode::Sub, {scalar::apply(Opcode::Sub, {a, b}), scalar::constant_i64(less)});
  std::optional<LinearForm> form = linear_form(minus);
  return form && form->is_affine() ? form : std::nullopt;
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
      return difference(a, b, 0);
    case Opcode::Gt:
      return difference(a, b, 1);
    case Opcode::Le:
      return difference(b, a, 0);
    case Opcode::Lt:
      return difference(b, a, 1);
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
    const bool is_low = is_constant(difference(test, inside, 0), 0),
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
