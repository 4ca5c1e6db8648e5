#include "compiler/driver/size_expr.h"

#include "ir/base/match.h"

namespace corrloom::driver {
namespace {

using kernel::SizeOp;
using scalar::Expr;
using scalar::Opcode;

std::optional<SizeOp::Kind> size_op(Opcode opcode) {
  switch (opcode) {
    case Opcode::Add:
      return SizeOp::Kind::Add;
    case Opcode::Sub:
      return SizeOp::Kind::Sub;
    case Opcode::Mul:
      return SizeOp::Kind::Mul;
    case Opcode::FloorDiv:
      return SizeOp::Kind::FloorDiv;
    case Opcode::Mod:
      return SizeOp::Kind::Mod;
    case Opcode::Min:
      return SizeOp::Kind::Min;
    case Opcode::Max:
      return SizeOp::Kind::Max;
    case Opcode::Eq:
      return SizeOp::Kind::Eq;
    case Opcode::Ne:
      return SizeOp::Kind::Ne;
    case Opcode::Lt:
      return SizeOp::Kind::Lt;
    case Opcode::Le:
      return SizeOp::Kind::Le;
    case Opcode::And:
    case Opcode::LazyAnd:
      return SizeOp::Kind::And;
    case Opcode::Or:
    case Opcode::LazyOr:
      return SizeOp::Kind::Or;
    case Opcode::Not:
      return SizeOp::Kind::Not;
    case Opcode::If:
    case Opcode::Select:
      return SizeOp::Kind::Select;
    default:
      return std::nullopt;
  }
}

/// Sizes are i64; comparisons give bools over them.
bool is_size(DType dtype) {
  return dtype == DType::I64 || dtype == DType::Bool;
}

bool append(const Expr& expr, std::vector<SizeOp>& code) {
  if (!is_size(expr->dtype)) return false;
  return match(
      expr->kind,
      [&](const scalar::Constant& c) {
        code.push_back({SizeOp::Kind::Constant, c.value.as_i64()});
        return true;
      },
      [&](const scalar::SymbolRef& ref) {
        code.push_back({SizeOp::Kind::Symbol, ref.symbol.index});
        return true;
      },
      [&](const scalar::Apply& apply) {
        std::vector<Expr> args = apply.args;
        Opcode opcode = apply.opcode;
        // a > b is b < a.
        if (opcode == Opcode::Gt || opcode == Opcode::Ge) {
          std::swap(args[0], args[1]);
          opcode = opcode == Opcode::Gt ? Opcode::Lt : Opcode::Le;
        }
        const Expr zero = scalar::constant_i64(0);
        const auto negated = [&](const Expr& x) { return scalar::apply(Opcode::Sub, {zero, x}); };
        if (opcode == Opcode::Neg) return append(negated(args[0]), code);
        if (opcode == Opcode::Abs) return append(scalar::apply(Opcode::Max, {args[0], negated(args[0])}), code);
        if (opcode == Opcode::Cast && expr->dtype == DType::I64) return append(args[0], code);
        // Sizes have logic on truths, none on the bits of integers.
        const bool is_logic = opcode == Opcode::And || opcode == Opcode::Or || opcode == Opcode::Not;
        const std::optional<SizeOp::Kind> kind = size_op(opcode);
        if (!kind || (is_logic && expr->dtype != DType::Bool)) return false;
        for (const Expr& arg : args) {
          if (!append(arg, code)) return false;
        }
        code.push_back({*kind, 0});
        return true;
      },
      [](const auto&) { return false; });
}

}  // namespace

std::optional<kernel::SizeExpr> to_size(const Expr& expr) {
  kernel::SizeExpr size;
  if (!append(expr, size.code)) return std::nullopt;
  return size;
}

}  // namespace corrloom::driver
