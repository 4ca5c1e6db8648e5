// `pow` to a power that is written as a whole number: products, of integers too.
#include "compiler/frontend/lower_expr.h"
#include "compiler/frontend/scope.h"

namespace corrloom::frontend {
namespace {

using scalar::Opcode;

/// Up to this power the products of a float stay within 4 ulp: each adds at most half a one.
constexpr std::uint64_t kMostFloatFactors = 8;

/// base^count by repeated squaring, count > 0.
Expr power(const Expr& base, std::uint64_t count) {
  Expr square = base, product;
  for (std::uint64_t left = count;; left /= 2) {
    if (left % 2 == 1) product = product ? scalar::apply(Opcode::Mul, {product, square}) : square;
    if (left < 2) return product;
    square = scalar::apply(Opcode::Mul, {square, square});
  }
}

}  // namespace

std::optional<WholePower> whole_power_of(const ast::Call& call) {
  if (call.callee.text != "pow" || call.arguments.size() != 2) return {};
  const auto* expr = std::get_if<ast::ExprRef>(&call.arguments[1].kind);
  const auto literal = expr == nullptr ? std::nullopt : as_literal(**expr);
  const auto* integer = literal ? std::get_if<ast::Integer>(&literal->literal->value) : nullptr;
  if (integer == nullptr || integer->overflows) return {};
  return WholePower{integer->magnitude, literal->negative && integer->magnitude != 0};
}

Expr ExprLowering::lower_whole_power(const ast::Call& call, const WholePower& exponent, const ast::Expr& expr,
                                     std::optional<DType> wanted) {
  if (!has_arguments(call, 2)) return nullptr;
  const ast::Expr* written = argument(call, 0);
  if (written == nullptr) return nullptr;
  const Typing found = typing(*written);
  std::optional<DType> context;
  if (found.kind != Typing::Kind::Unknown) context = operand_dtype(found, wanted);
  const Expr base = lower(*written, context);
  if (!base) return nullptr;
  const DType dtype = base->dtype;
  if (!scalar::takes(scalar::Operands::Number, dtype)) {
    context_.diagnostics.report(Code::E0214, expr.span, "`pow` does not take " + quoted(dtype), "takes numbers");
    return nullptr;
  }
  if (is_integer(dtype) && exponent.negative) {
    context_.diagnostics.report(Code::E0214, expr.span, "`pow` does not take " + quoted(dtype) + " to a negative power",
                                "takes floats");
    return nullptr;
  }
  if (exponent.magnitude == 0) {
    return scalar::constant(is_float(dtype) ? scalar::Value::floating(dtype, 1) : scalar::Value::integer(dtype, 1));
  }
  // f16 and bf16 are computed in f32 and rounded once.
  const bool is_narrow = is_narrow_float(dtype);
  const Expr wide = is_narrow ? scalar::cast(base, DType::F32) : base;
  Expr result;
  if (is_integer(dtype) || (!exponent.negative && exponent.magnitude <= kMostFloatFactors)) {
    result = power(wide, exponent.magnitude);
  } else {
    const double value = static_cast<double>(exponent.magnitude);
    const auto y = scalar::Value::floating(wide->dtype, exponent.negative ? -value : value);
    result = scalar::apply(Opcode::Pow, {wide, scalar::constant(y)});
  }
  return is_narrow ? scalar::cast(result, dtype) : fenced(result);
}

}  // namespace corrloom::frontend
