#include "compiler/passes/unwrap_remainders.h"

#include <optional>
#include <utility>
#include <vector>

#include "compiler/passes/readers.h"
#include "ir/affine/affine.h"

namespace corrloom::passes {
namespace {

using scalar::Expr;
using scalar::Opcode;

/// Largest divisor and bound of which a few can be added up.
constexpr std::int64_t kFar = std::int64_t{1} << 40;

std::int64_t floor_quotient(std::int64_t value, std::int64_t by) {
  return value / by - (value % by < 0 ? 1 : 0);
}

Expr moved(const Expr& expr, std::int64_t by, const affine::Ranges& ranges) {
  return affine::simplify_index(scalar::apply(Opcode::Sub, {expr, scalar::constant_i64(by)}), ranges);
}

/// The remainder as a choice, or null.
Expr unwrapped(const Expr& node, const affine::Ranges& ranges) {
  const scalar::Apply* mod = scalar::as_apply(node, Opcode::Mod);
  if (mod == nullptr || node->dtype != DType::I64) return nullptr;
  const Expr& dividend = mod->args[0];
  const std::optional<std::int64_t> divisor = scalar::as_i64(mod->args[1]);
  const std::optional<affine::LinearForm> form = affine::linear_form(dividend);
  const std::optional<affine::Interval> reached = affine::interval_of(dividend, ranges);
  if (!divisor || *divisor < 2 || *divisor > kFar || !form || !form->is_affine() || !reached) return nullptr;
  if (reached->low < -kFar || reached->high > kFar) return nullptr;
  const std::int64_t first = floor_quotient(reached->low, *divisor), last = floor_quotient(reached->high, *divisor);
  const auto at = [&](std::int64_t period) { return moved(dividend, period * *divisor, ranges); };
  const auto from = [&](std::int64_t period, Expr then, Expr otherwise) {
    const Expr is_there = scalar::apply(Opcode::Ge, {dividend, scalar::constant_i64(period * *divisor)});
    return scalar::apply(Opcode::If, {is_there, std::move(then), std::move(otherwise)});
  };
  const auto before = [&](std::int64_t period, Expr then, Expr otherwise) {
    const Expr is_there = scalar::apply(Opcode::Lt, {dividend, scalar::constant_i64(period * *divisor)});
    return scalar::apply(Opcode::If, {is_there, std::move(then), std::move(otherwise)});
  };
  if (last == first + 2) return before(last, from(first + 1, at(first + 1), at(first)), at(last));
  if (last != first + 1) return nullptr;
  const std::int64_t border = last * *divisor;
  const bool more_above = reached->high - border + 1 >= border - reached->low;
  return more_above ? from(last, at(last), at(first)) : before(last, at(first), at(last));
}

}  // namespace

tensor::Graph unwrap_remainders(tensor::Graph graph, PassContext&) {
  for (tensor::Op& op : graph.ops) {
    if (!std::holds_alternative<tensor::Compute>(op.kind)) continue;
    const affine::Ranges ranges = ranges_of(op);
    tensor::rewrite_exprs(op, [&](const Expr& expr) {
      return scalar::rewrite(expr, [&](const Expr& node) -> Expr {
        const scalar::Read* read = scalar::as_read(node);
        if (read == nullptr) return nullptr;
        scalar::Read changed = *read;
        bool any = false;
        for (Expr& subscript : changed.index) {
          const Expr before = subscript;
          subscript = scalar::rewrite(before, [&](const Expr& inner) { return unwrapped(inner, ranges); });
          any |= subscript != before;
        }
        return any ? scalar::read(std::move(changed), node->dtype) : nullptr;
      });
    });
  }
  return graph;
}

}  // namespace corrloom::passes
