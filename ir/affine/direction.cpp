#include "ir/affine/direction.h"

#include <algorithm>
#include <unordered_map>

namespace corrloom::affine {
namespace {

using scalar::Expr;
using scalar::Opcode;

using Known = std::unordered_map<const scalar::Node*, bool>;

bool is_nonnegative_node(const scalar::Node& node, const NeverNegative& symbols, const Known& known) {
  if (std::holds_alternative<scalar::AxisRef>(node.kind)) return true;
  if (const auto* constant = std::get_if<scalar::Constant>(&node.kind)) return constant->value.as_i64() >= 0;
  if (const auto* symbol = std::get_if<scalar::SymbolRef>(&node.kind)) return symbols(symbol->symbol);
  const auto* apply = std::get_if<scalar::Apply>(&node.kind);
  if (apply == nullptr) return false;
  const auto is_so = [&](const Expr& arg) { return known.at(arg.get()); };
  switch (apply->opcode) {
    case Opcode::Add:
    case Opcode::Mul:
    case Opcode::Min:
    case Opcode::FloorDiv:
      return std::all_of(apply->args.begin(), apply->args.end(), is_so);
    case Opcode::Max:
      return std::any_of(apply->args.begin(), apply->args.end(), is_so);
    default:
      return false;
  }
}

Known nonnegative_nodes(const Expr& expr, const NeverNegative& symbols) {
  Known known;
  scalar::for_each_node(expr, [&](const Expr& node) {
    known[node.get()] = node->dtype == DType::I64 && is_nonnegative_node(*node, symbols, known);
  });
  return known;
}

Direction opposite(Direction direction) {
  if (direction == Direction::Rises) return Direction::Falls;
  return direction == Direction::Falls ? Direction::Rises : direction;
}

/// Of a sum, minimum or maximum of two operands.
Direction joined(Direction a, Direction b) {
  if (a == Direction::Constant) return b;
  return b == Direction::Constant || a == b ? a : Direction::Unknown;
}

/// Computes the direction of each node once, operands first.
class Finder {
 public:
  Finder(const Expr& expr, scalar::AxisId axis, const NeverNegative& symbols)
      : axis_(axis), nonnegative_(nonnegative_nodes(expr, symbols)) {
    scalar::for_each_node(expr, [&](const Expr& node) { directions_[node.get()] = find(*node); });
  }
  Direction of(const Expr& expr) const { return directions_.at(expr.get()); }

 private:
  Direction find(const scalar::Node& node) const {
    if (const auto* own = std::get_if<scalar::AxisRef>(&node.kind))
      return own->axis == axis_ ? Direction::Rises : Direction::Constant;
    if (std::holds_alternative<scalar::Read>(node.kind)) return Direction::Unknown;
    const auto* apply = std::get_if<scalar::Apply>(&node.kind);
    return apply == nullptr ? Direction::Constant : of_apply(*apply, node.dtype);
  }

  Direction of_apply(const scalar::Apply& apply, DType dtype) const {
    const auto is_constant = [&](const Expr& arg) { return of(arg) == Direction::Constant; };
    if (std::all_of(apply.args.begin(), apply.args.end(), is_constant)) return Direction::Constant;
    if (dtype != DType::I64) return Direction::Unknown;  // narrow integers wrap
    switch (apply.opcode) {
      case Opcode::Add:
      case Opcode::Min:
      case Opcode::Max:
        return joined(of(apply.args[0]), of(apply.args[1]));
      case Opcode::Sub:
        return joined(of(apply.args[0]), opposite(of(apply.args[1])));
      case Opcode::Neg:
        return opposite(of(apply.args[0]));
      case Opcode::Mul:
        return is_constant(apply.args[1]) ? scaled(apply.args[0], apply.args[1]) : scaled(apply.args[1], apply.args[0]);
      case Opcode::FloorDiv:
        return scaled(apply.args[0], apply.args[1]);
      default:
        return Direction::Unknown;
    }
  }

  /// Of a product or quotient with a factor that must not use the axis.
  Direction scaled(const Expr& operand, const Expr& factor) const {
    if (of(factor) != Direction::Constant) return Direction::Unknown;
    if (nonnegative_.at(factor.get())) return of(operand);
    const auto value = scalar::as_i64(factor);
    return value && *value < 0 ? opposite(of(operand)) : Direction::Unknown;
  }

  scalar::AxisId axis_;
  Known nonnegative_;
  std::unordered_map<const scalar::Node*, Direction> directions_;
};

}  // namespace

bool is_nonnegative(const Expr& expr, const NeverNegative& symbols) {
  return nonnegative_nodes(expr, symbols).at(expr.get());
}

Direction direction_of(const Expr& expr, scalar::AxisId axis, const NeverNegative& symbols) {
  return Finder(expr, axis, symbols).of(expr);
}

}  // namespace corrloom::affine
