#include "compiler/passes/tile_guards.h"

#include <optional>
#include <set>

namespace corrloom::passes {
namespace {

using affine::LinearForm;
using scalar::Expr;
using scalar::Opcode;

/// a - b - less, or nothing when it is not affine.
std::optional<LinearForm> difference(const Expr& a, const Expr& b, std::int64_t less) {
  const Expr minus = scalar::apply(Opcode::Sub, {scalar::apply(Opcode::Sub, {a, b}), scalar::constant_i64(less)});
  std::optional<LinearForm> form = affine::linear_form(minus);
  return form && form->is_affine() ? form : std::nullopt;
}

std::optional<LinearForm> form_of(const scalar::Apply& apply) {
  if (apply.args.size() != 2 || apply.args[0]->dtype != DType::I64) return std::nullopt;
  switch (apply.opcode) {
    case Opcode::Ge:
      return difference(apply.args[0], apply.args[1], 0);
    case Opcode::Gt:
      return difference(apply.args[0], apply.args[1], 1);
    case Opcode::Le:
      return difference(apply.args[1], apply.args[0], 0);
    case Opcode::Lt:
      return difference(apply.args[1], apply.args[0], 1);
    default:
      return std::nullopt;
  }
}

void add_guards(const Expr& condition, std::set<const scalar::Node*>& seen, std::vector<Guard>& out) {
  const auto* apply = std::get_if<scalar::Apply>(&condition->kind);
  if (apply == nullptr || !seen.insert(condition.get()).second) return;
  if (apply->opcode == Opcode::LazyAnd) {
    for (const Expr& part : apply->args) add_guards(part, seen, out);
  } else if (std::optional<LinearForm> form = form_of(*apply)) {
    out.push_back({condition, *std::move(form)});
  }
}

}  // namespace

std::vector<Guard> guards_of(const tensor::Op& op) {
  std::vector<Guard> out;
  std::set<const scalar::Node*> seen;
  tensor::for_each_expr(op, [&](const Expr& root) {
    scalar::for_each_node(root, [&](const Expr& node) {
      const scalar::Apply* choice = scalar::as_apply(node, Opcode::If);
      if (choice != nullptr) add_guards(choice->args[0], seen, out);
    });
  });
  return out;
}

}  // namespace corrloom::passes
