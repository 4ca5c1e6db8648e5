#include "compiler/frontend/extremes.h"

#include "ir/affine/direction.h"

namespace corrloom::frontend {
namespace {

using affine::Direction;
using scalar::Opcode;

/// How many operations deep bounds are sought: shared operands could be visited very often.
constexpr int kDeepest = 12;

/// Dimensions are not negative. Attributes of an op that is only checked count as well chosen: the values that it is
/// compiled for are judged then.
affine::NeverNegative never_negative(const Context& context) {
  return [&context](scalar::SymbolId symbol) {
    return context.graph.symbols[static_cast<std::size_t>(symbol.index)].kind == tensor::Symbol::Kind::Dimension ||
           context.attribute_symbols.count(symbol) != 0;
  };
}

Expr bound_at(const Context& context, const Expr& expr, bool upper, int depth) {
  if (const Expr extreme = extreme_of(context, expr, upper)) return extreme;
  const auto* apply = std::get_if<scalar::Apply>(&expr->kind);
  if (apply == nullptr || depth > kDeepest) return nullptr;
  const bool is_difference = apply->opcode == Opcode::Sub;
  const bool is_joined =
      is_difference || apply->opcode == Opcode::Add || apply->opcode == Opcode::Min || apply->opcode == Opcode::Max;
  if (!is_joined) return nullptr;
  const Expr left = bound_at(context, apply->args[0], upper, depth + 1);
  const Expr right = bound_at(context, apply->args[1], is_difference ? !upper : upper, depth + 1);
  // One operand is enough of a minimum that shall not exceed something.
  if (apply->opcode == (upper ? Opcode::Min : Opcode::Max) && (left == nullptr) != (right == nullptr))
    return left ? left : right;
  return left && right ? scalar::apply(apply->opcode, {left, right}) : nullptr;
}

}  // namespace

Expr extreme_of(const Context& context, const Expr& expr, bool greatest) {
  Expr value = expr;
  for (std::vector<AxisId> axes = axes_in(value); !axes.empty(); axes = axes_in(value)) {
    // An inner axis first: its extent may depend on outer ones.
    const AxisId axis = axes.back();
    const Direction direction = affine::direction_of(value, axis, never_negative(context));
    if (direction == Direction::Unknown) return nullptr;
    const Expr& extent = context.axis_extents[static_cast<std::size_t>(axis.index)];
    const Expr last = scalar::apply(Opcode::Sub, {extent, scalar::constant_i64(1)});
    const Expr end = (direction == Direction::Rises) == greatest ? last : scalar::constant_i64(0);
    value = scalar::substitute_axes(value, [&](AxisId used) { return used == axis ? end : nullptr; });
  }
  return is_symbolic(value) ? value : nullptr;
}

Expr bound_of(const Context& context, const Expr& expr, bool upper) {
  return bound_at(context, expr, upper, 0);
}

}  // namespace corrloom::frontend
