#include "compiler/grad/absorb.h"

#include "compiler/grad/algebra.h"
#include "compiler/grad/polynomial.h"

namespace corrloom::grad {
namespace {

using scalar::Opcode;

class Absorber {
 public:
  Absorber(const Notation& notation, AxisId axis, const Expr& end)
      : notation_(notation), axis_(axis), end_(Polynomial::of(end)) {}

  /// The expression made to vanish where the axis is outside; null when it cannot be.
  Expr vanishing(const Expr& expr) const {
    if (const scalar::Read* read = scalar::as_read(expr)) return padded_read(*read, expr);
    if (is_number(expr, 0)) return expr;
    const auto* apply = std::get_if<scalar::Apply>(&expr->kind);
    if (apply == nullptr) return nullptr;
    switch (apply->opcode) {
      case Opcode::Mul:
        return product(*apply);
      case Opcode::Div: {
        const Expr numerator = mentions(apply->args[1], axis_) ? nullptr : vanishing(apply->args[0]);
        return numerator ? scalar::apply(Opcode::Div, {numerator, apply->args[1]}) : nullptr;
      }
      case Opcode::Add:
      case Opcode::Sub: {
        const Expr left = vanishing(apply->args[0]), right = vanishing(apply->args[1]);
        return left && right ? scalar::apply(apply->opcode, {left, right}) : nullptr;
      }
      case Opcode::Neg: {
        const Expr inner = vanishing(apply->args[0]);
        return inner ? scalar::apply(Opcode::Neg, {inner}) : nullptr;
      }
      case Opcode::Cast: {
        const Expr inner = is_float(apply->args[0]->dtype) ? vanishing(apply->args[0]) : nullptr;
        return inner ? scalar::cast(inner, expr->dtype) : nullptr;
      }
      case Opcode::If: {
        if (mentions(apply->args[0], axis_)) return nullptr;
        const Expr taken = vanishing(apply->args[1]), other = vanishing(apply->args[2]);
        return taken && other ? scalar::apply(Opcode::If, {apply->args[0], taken, other}) : nullptr;
      }
      default:
        return nullptr;
    }
  }

 private:
  Expr product(const scalar::Apply& apply) const {
    const Expr left = vanishing(apply.args[0]), right = vanishing(apply.args[1]);
    if (left && right) return scalar::apply(Opcode::Mul, {left, right});
    if (left && !mentions(apply.args[1], axis_)) return scalar::apply(Opcode::Mul, {left, apply.args[1]});
    if (right && !mentions(apply.args[0], axis_)) return scalar::apply(Opcode::Mul, {apply.args[0], right});
    return nullptr;
  }

  Expr padded_read(const scalar::Read& read, const Expr& expr) const {
    if (!is_float(expr->dtype)) return nullptr;
    const bool is_plain = read.pad == scalar::PadMode::None;
    if (!is_plain && (read.pad != scalar::PadMode::Value || !is_number(read.pad_value, 0))) return nullptr;
    const std::vector<Expr>& extents = notation_.tensor(read.source).extents;
    bool stands_alone = false;
    for (std::size_t k = 0; k < read.index.size(); ++k) {
      // A read with a pad gives no range to a pack, which cannot have a written one.
      if (is_pack_extent(notation_, extents[k])) return nullptr;
      if (!mentions(read.index[k], axis_)) continue;
      if (!std::holds_alternative<scalar::AxisRef>(read.index[k]->kind)) return nullptr;
      if (!(Polynomial::of(extents[k]) == end_)) return nullptr;
      stands_alone = true;
    }
    if (!stands_alone) return nullptr;
    scalar::Read padded = read;
    padded.pad = scalar::PadMode::Value;
    padded.pad_value = number(expr->dtype, 0);
    return scalar::read(std::move(padded), expr->dtype);
  }

  const Notation& notation_;
  AxisId axis_;
  Polynomial end_;
};

}  // namespace

Expr padded_at(const Notation& notation, const Expr& value, AxisId axis, const Expr& end) {
  return Absorber(notation, axis, end).vanishing(value);
}

}  // namespace corrloom::grad
