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

/// Operations on the bits of integers; logic on truths has the same opcodes.
std::optional<SizeOp::Kind> bit_op(Opcode opcode) {
  switch (opcode) {
    case Opcode::And:
      return SizeOp::Kind::BitAnd;
    case Opcode::Or:
      return SizeOp::Kind::BitOr;
    case Opcode::Xor:
      return SizeOp::Kind::BitXor;
    case Opcode::Shl:
      return SizeOp::Kind::Shl;
    case Opcode::Shr:
      return SizeOp::Kind::Shr;
    default:
      return std::nullopt;
  }
}

/// What sizes have no operation for, in those that they have.
std::optional<Expr> rewritten(Opcode opcode, const std::vector<Expr>& args, DType dtype) {
  const Expr zero = scalar::constant_i64(0), one = scalar::constant_i64(1), ones = scalar::constant_i64(-1);
  const auto negated = [&](const Expr& x) { return scalar::apply(Opcode::Sub, {zero, x}); };
  const auto below = [](const Expr& a, const Expr& b) { return scalar::apply(Opcode::Lt, {a, b}); };
  switch (opcode) {
    case Opcode::Gt:
      return below(args[1], args[0]);
    case Opcode::Ge:
      return scalar::apply(Opcode::Le, {args[1], args[0]});
    case Opcode::Neg:
      return negated(args[0]);
    case Opcode::Abs:
      return scalar::apply(Opcode::Max, {args[0], negated(args[0])});
    case Opcode::Sign: {
      const Expr not_positive = scalar::apply(Opcode::Select, {below(args[0], zero), ones, zero});
      return scalar::apply(Opcode::Select, {below(zero, args[0]), one, not_positive});
    }
    case Opcode::Not:
      return dtype == DType::I64 ? std::optional(scalar::apply(Opcode::Xor, {args[0], ones})) : std::nullopt;
    case Opcode::Xor:
      return dtype == DType::Bool ? std::optional(scalar::apply(Opcode::Ne, args)) : std::nullopt;
    case Opcode::Cast:
      return dtype == DType::I64 ? std::optional(args[0]) : std::nullopt;
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
        if (const auto other = rewritten(apply.opcode, apply.args, expr->dtype)) return append(*other, code);
        const std::optional<SizeOp::Kind> bits = expr->dtype == DType::I64 ? bit_op(apply.opcode) : std::nullopt;
        const std::optional<SizeOp::Kind> kind = bits ? bits : size_op(apply.opcode);
        if (!kind) return false;
        for (const Expr& arg : apply.args) {
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
