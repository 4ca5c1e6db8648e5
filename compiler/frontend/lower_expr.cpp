#include "compiler/frontend/lower_expr.h"

#include "ir/base/errors.h"
#include "ir/base/match.h"

namespace corrloom::frontend {
namespace {

using scalar::Opcode;

Opcode opcode_of(ast::BinaryOp op) {
  switch (op) {
    case ast::BinaryOp::Multiply:
      return Opcode::Mul;
    case ast::BinaryOp::Divide:
      return Opcode::Div;
    case ast::BinaryOp::FloorDivide:
      return Opcode::FloorDiv;
    case ast::BinaryOp::Modulo:
      return Opcode::Mod;
    case ast::BinaryOp::Add:
      return Opcode::Add;
    case ast::BinaryOp::Subtract:
      return Opcode::Sub;
    case ast::BinaryOp::ShiftLeft:
      return Opcode::Shl;
    case ast::BinaryOp::ShiftRight:
      return Opcode::Shr;
    case ast::BinaryOp::BitAnd:
      return Opcode::And;
    case ast::BinaryOp::BitXor:
      return Opcode::Xor;
    case ast::BinaryOp::BitOr:
      return Opcode::Or;
    case ast::BinaryOp::Equal:
      return Opcode::Eq;
    case ast::BinaryOp::NotEqual:
      return Opcode::Ne;
    case ast::BinaryOp::Less:
      return Opcode::Lt;
    case ast::BinaryOp::LessEqual:
      return Opcode::Le;
    case ast::BinaryOp::Greater:
      return Opcode::Gt;
    case ast::BinaryOp::GreaterEqual:
      return Opcode::Ge;
    case ast::BinaryOp::And:
      return Opcode::LazyAnd;
    case ast::BinaryOp::Or:
      return Opcode::LazyOr;
  }
  return Opcode::Add;
}

Opcode opcode_of(ast::UnaryOp op) {
  return op == ast::UnaryOp::Negate ? Opcode::Neg : Opcode::Not;
}

std::string wanted_text(scalar::Operands operands) {
  switch (operands) {
    case scalar::Operands::Any:
      return "any dtype";
    case scalar::Operands::Number:
      return "integers and floats";
    case scalar::Operands::Integer:
      return "integers";
    case scalar::Operands::IntegerOrBool:
      return "integers and bools";
    case scalar::Operands::Float:
      return "floats";
    case scalar::Operands::Bool:
      return "bools";
  }
  return "";
}

}  // namespace

Expr ExprLowering::lower(const ast::Expr& expr, std::optional<DType> wanted) {
  Expr value = context_.enter(expr.span) ? lower_kind(expr, wanted) : nullptr;
  context_.leave();
  if (value && value->depth > scalar::kMaxDepth) {
    if (!context_.is_too_large) {
      context_.diagnostics.report(Code::E0104, expr.span, "the expression is nested too deeply",
                                  "with the functions that it calls put in place");
    }
    context_.is_too_large = true;
    return nullptr;
  }
  return value;
}

Expr ExprLowering::lower_as(const ast::Expr& expr, DType dtype) {
  return expect(expr, lower(expr, dtype), dtype);
}

/// The value when it has the dtype, or E0212.
Expr ExprLowering::expect(const ast::Expr& expr, Expr value, DType dtype) {
  if (!value || value->dtype == dtype) return value;
  const std::string found(name_of(value->dtype)), wanted(name_of(dtype));
  context_.diagnostics
      .report(Code::E0212, expr.span, quoted(value->dtype) + " stands where " + quoted(dtype) + " is wanted",
              "this is " + found)
      .help(dtype == DType::Bool ? "compare it with something, as in `x != 0`"
                                 : "conversions are written: " + quoted(wanted + "(...)"));
  return nullptr;
}

Expr ExprLowering::lower_index(const ast::Expr& expr) {
  const Expr value = lower_integer(expr);
  if (!value) return nullptr;
  return scalar::simplify(value->dtype == DType::I64 ? value : scalar::cast(value, DType::I64));
}

/// An integer in its own dtype, as it is written.
Expr ExprLowering::lower_integer(const ast::Expr& expr) {
  Expr value = lower(expr, typing(expr).is_literal() ? std::optional(DType::I64) : std::nullopt);
  if (!value) return nullptr;
  if (!is_integer(value->dtype)) {
    context_.diagnostics
        .report(Code::E0215, expr.span, quoted(value->dtype) + " stands where an integer is wanted",
                "this is " + std::string(name_of(value->dtype)))
        .help("conversions are written: `i64(...)`");
    return nullptr;
  }
  return value;
}

Expr ExprLowering::lower_kind(const ast::Expr& expr, std::optional<DType> wanted) {
  if (leaves_ != nullptr) {
    if (const auto leaf = leaves_->find(&expr); leaf != leaves_->end()) {
      scalar::Read read{leaf->second, {}};
      if (context_.rank(leaf->second) > 0) read.index = element_axes_;
      read.span = expr.span;
      return scalar::read(std::move(read), context_.graph.op(leaf->second).dtype);
    }
  }
  return match(
      expr.kind, [&](const ast::Literal& node) { return lower_literal(node, false, wanted, expr.span); },
      [&](const ast::Read& node) { return lower_read(node, expr, wanted); },
      [&](const ast::Call& node) { return lower_call(node, expr, wanted); },
      [&](const ast::Reduction& node) { return lower_reduction(node, expr, wanted); },
      [&](const ast::Unary& node) { return lower_unary(node, expr, wanted); },
      [&](const ast::Binary& node) { return lower_binary(node, expr, wanted); },
      [&](const ast::If& node) { return lower_if(node, expr, wanted); },
      [&](const ast::LetIn& node) { return lower_let(node, wanted); });
}

Expr ExprLowering::lower_literal(const ast::Literal& literal, bool negative, std::optional<DType> wanted,
                                 const Span& span) {
  const auto value = value_of(literal, negative, operand_dtype(typing_of(literal), wanted), span, context_.diagnostics);
  return value ? scalar::constant(*value) : nullptr;
}

DType ExprLowering::operand_dtype(const Typing& typing, std::optional<DType> wanted) const {
  return typing.is_known() || !wanted ? typing.dtype_or_default() : *wanted;
}

Expr ExprLowering::apply_checked(Opcode opcode, std::vector<Expr> operands, const Span& span,
                                 const std::string& written) {
  const scalar::OpcodeInfo& row = scalar::info(opcode);
  const std::size_t first = opcode == Opcode::Select || opcode == Opcode::If ? 1 : 0;
  for (const Expr& operand : operands) {
    if (!operand) return nullptr;
  }
  const DType dtype = operands[first]->dtype;
  for (std::size_t k = first + 1; k < operands.size(); ++k) {
    if (operands[k]->dtype == dtype) continue;
    context_.diagnostics
        .report(Code::E0213, span,
                quoted(written) + " is given " + quoted(dtype) + " and " + quoted(operands[k]->dtype),
                "operands have one dtype")
        .help("convert one of them: " + quoted(std::string(name_of(dtype)) + "(...)") + " or " +
              quoted(std::string(name_of(operands[k]->dtype)) + "(...)"));
    return nullptr;
  }
  if (!scalar::takes(row.operands, dtype)) {
    Diagnostic& error = context_.diagnostics.report(
        Code::E0214, span, quoted(written) + " does not take " + quoted(dtype), "takes " + wanted_text(row.operands));
    if (opcode == Opcode::Div && is_integer(dtype)) error.help("integers are divided by `//`, which rounds down");
    if (opcode == Opcode::FloorDiv && is_float(dtype))
      error.help("floats are divided by `/`; `floor(x / y)` rounds down");
    return nullptr;
  }
  return scalar::apply(opcode, std::move(operands));
}

Expr ExprLowering::lower_unary(const ast::Unary& unary, const ast::Expr& expr, std::optional<DType> wanted) {
  if (const auto literal = as_literal(expr)) return lower_literal(*literal->literal, true, wanted, expr.span);
  if (unary.op == ast::UnaryOp::Not) {
    const Expr operand = lower_as(*unary.operand, DType::Bool);
    return operand ? scalar::apply(Opcode::Not, {operand}) : nullptr;
  }
  const DType dtype = operand_dtype(typing(expr), wanted);
  return apply_checked(opcode_of(unary.op), {lower(*unary.operand, dtype)}, expr.span,
                       std::string(ast::spelling(unary.op)));
}

Expr ExprLowering::lower_binary(const ast::Binary& binary, const ast::Expr& expr, std::optional<DType> wanted) {
  if (binary.op == ast::BinaryOp::And || binary.op == ast::BinaryOp::Or) return lower_lazy(binary);
  const Opcode opcode = opcode_of(binary.op);
  const bool compares = scalar::info(opcode).result == scalar::Result::Boolean;
  const Typing operands = unify(typing(*binary.left), typing(*binary.right));
  const DType dtype = operand_dtype(operands, compares ? std::nullopt : wanted);
  const bool has_context = operands.kind != Typing::Kind::Unknown;
  const std::optional<DType> context = has_context ? std::optional(dtype) : std::nullopt;
  Expr left = lower(*binary.left, context);
  Expr right = lower(*binary.right, context);
  const bool divides = opcode == Opcode::FloorDiv || opcode == Opcode::Mod;
  if (divides && right && divisors_ != nullptr && lazy_depth_ == 0) divisors_->push_back({binary.right.get(), right});
  return apply_checked(opcode, {std::move(left), std::move(right)}, expr.span, std::string(ast::spelling(binary.op)));
}

Expr ExprLowering::lower_under(const Expr& condition, bool holds, const ast::Expr& expr, std::optional<DType> wanted) {
  const bool is_noted = site_ != nullptr && condition != nullptr;
  if (is_noted) site_->conditions.push_back(holds ? condition : scalar::apply(Opcode::Not, {condition}));
  ++lazy_depth_;
  Expr value = lower(expr, wanted);
  --lazy_depth_;
  if (is_noted) site_->conditions.pop_back();
  return value;
}

Expr ExprLowering::lower_condition(const ast::Expr& expr, bool is_shared) {
  const SharedValue shared(site_, is_shared);
  return lower_as(expr, DType::Bool);
}

Expr ExprLowering::lower_lazy(const ast::Binary& binary) {
  const bool is_and = binary.op == ast::BinaryOp::And;
  const Expr left = lower_condition(*binary.left, may_reduce(module_, *binary.right));
  const Expr right = expect(*binary.right, lower_under(left, is_and, *binary.right, DType::Bool), DType::Bool);
  if (!left || !right) return nullptr;
  return scalar::apply(opcode_of(binary.op), {left, right});
}

Expr ExprLowering::lower_if(const ast::If& choice, const ast::Expr& expr, std::optional<DType> wanted) {
  const Expr condition = lower_condition(
      *choice.condition, may_reduce(module_, *choice.then_value) || may_reduce(module_, *choice.else_value));
  const Typing branches = typing(expr);
  const std::optional<DType> context =
      branches.kind == Typing::Kind::Unknown ? wanted : std::optional(operand_dtype(branches, wanted));
  Expr then_value = lower_under(condition, true, *choice.then_value, context);
  Expr else_value = lower_under(condition, false, *choice.else_value, context);
  return apply_checked(Opcode::If, {condition, std::move(then_value), std::move(else_value)}, expr.span, "if");
}

Expr ExprLowering::lower_shared(const ast::Expr& expr, bool is_shared) {
  const SharedValue shared(site_, is_shared);
  return lower(expr, std::nullopt);
}

Expr ExprLowering::lower_let(const ast::LetIn& let, std::optional<DType> wanted) {
  const bool is_free = may_declare(let.name);
  Expr value = lower_shared(*let.value, may_reduce(module_, *let.body));
  if (!is_free) return nullptr;
  Binding binding{PoisonedName{}, "the name", let.name.span};
  if (value) binding.kind = ScalarName{fenced(value)};
  scope_.bind(let.name.text, std::move(binding));
  const Expr body = lower(*let.body, wanted);
  scope_.unbind(let.name.text);
  return body ? fenced(body) : nullptr;
}

}  // namespace corrloom::frontend
