#include "compiler/passes/tile_guards.h"

#include <optional>
#include <set>

#include "ir/affine/border.h"

namespace corrloom::passes {
namespace {

using affine::LinearForm;
using scalar::Expr;
using scalar::Opcode;

void add_guards(const Expr& condition, std::set<const scalar::Node*>& seen, std::vector<Guard>& out) {
  const auto* apply = std::get_if<scalar::Apply>(&condition->kind);
  if (apply == nullptr || !seen.insert(condition.get()).second) return;
  if (apply->opcode == Opcode::LazyAnd) {
    for (const Expr& part : apply->args) add_guards(part, seen, out);
  } else if (std::optional<LinearForm> form = affine::not_negative_where(*apply)) {
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
