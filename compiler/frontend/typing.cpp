#include "compiler/frontend/lower_expr.h"
#include "ir/base/match.h"

namespace corrloom::frontend {

Typing ExprLowering::typing(const ast::Expr& expr) {
  const auto known = typings_.find(&expr);
  if (known != typings_.end()) return known->second;
  const Typing found = typing_of_kind(expr);
  typings_.emplace(&expr, found);
  return found;
}

Typing ExprLowering::typing_of_kind(const ast::Expr& expr) {
  if (leaves_ != nullptr) {
    const auto leaf = leaves_->find(&expr);
    if (leaf != leaves_->end()) return Typing::known(context_.graph.op(leaf->second).dtype);
  }
  return match(
      expr.kind, [](const ast::Literal& literal) { return typing_of(literal); },
      [&](const ast::Read& read) { return typing_of_read(read); },
      [&](const ast::Call& call) { return typing_of_call(call); },
      [&](const ast::Reduction& reduction) {
        switch (reduction.kind) {
          case ast::ReductionKind::Any:
          case ast::ReductionKind::All:
            return Typing::known(DType::Bool);
          case ast::ReductionKind::Argmax:
          case ast::ReductionKind::Argmin:
            return Typing::known(DType::I64);
          default:
            break;
        }
        return typing_of_body(reduction);
      },
      [&](const ast::Unary& unary) {
        return unary.op == ast::UnaryOp::Not ? Typing::known(DType::Bool) : typing(*unary.operand);
      },
      [&](const ast::Binary& binary) {
        const bool is_truth = binary.op >= ast::BinaryOp::Equal;
        return is_truth ? Typing::known(DType::Bool) : unify(typing(*binary.left), typing(*binary.right));
      },
      [&](const ast::If& choice) { return unify(typing(*choice.then_value), typing(*choice.else_value)); },
      [&](const ast::LetIn& let) {
        const Typing value = typing(*let.value);
        const bool is_typed = value.kind != Typing::Kind::Unknown;
        typed_names_[let.name.text] = is_typed ? Typing::known(value.dtype_or_default()) : value;
        const Typing body = typing(*let.body);
        typed_names_.erase(let.name.text);
        return body;
      });
}

Typing ExprLowering::typing_of_body(const ast::Reduction& reduction) {
  for (const ast::Index& index : reduction.indices) typed_names_[index.name.text] = Typing::known(DType::I64);
  const Typing body = typing(*reduction.body);
  for (const ast::Index& index : reduction.indices) typed_names_.erase(index.name.text);
  return body;
}

Typing ExprLowering::typing_of_read(const ast::Read& read) {
  const std::string& name = read.name.text;
  if (const auto typed = typed_names_.find(name); typed != typed_names_.end()) return typed->second;
  if (const Binding* binding = scope_.find(name)) {
    return match(
        binding->kind, [](const IndexVariable&) { return Typing::known(DType::I64); },
        [&](const TensorName& tensor) { return Typing::known(context_.graph.op(tensor.id).dtype); },
        [](const ScalarName& scalar) { return Typing::known(scalar.value->dtype); },
        [](const LiteralName&) { return Typing{Typing::Kind::Decimal}; }, [](const TypeName&) { return Typing{}; },
        [](const PackName&) { return Typing{}; }, [](const PendingResult&) { return Typing{}; },
        [](const PoisonedName&) { return Typing{}; });
  }
  const Global global = find_global(module_, name);
  const ast::Const* constant = global.constant();
  const ConstantValue* value =
      constant == nullptr ? nullptr : context_.constant_value(*global.module, *constant, read.name.span);
  return value == nullptr ? Typing{} : Typing::known(value->dtype);
}

Typing ExprLowering::typing_of_arguments(const ast::Call& call, std::size_t first) {
  std::optional<Typing> all;
  for (std::size_t k = first; k < call.arguments.size(); ++k) {
    const auto* expr = std::get_if<ast::ExprRef>(&call.arguments[k].kind);
    const Typing one = expr == nullptr ? Typing{} : typing(**expr);
    all = all ? unify(*all, one) : one;
  }
  return all.value_or(Typing{});
}

Typing ExprLowering::typing_of_call(const ast::Call& call) {
  const std::string& name = call.callee.text;
  if (const auto dtype = dtype_named(name)) return Typing::known(*dtype);
  const Global global = find_global(module_, name);
  if (const ast::Fn* fn = global.fn()) {
    if (const auto dtype = parse_dtype(fn->result.text)) return Typing::known(*dtype);
    const auto types = type_arguments_of(call, *fn, std::nullopt, false);
    const auto found = types ? types->find(fn->result.text) : std::map<std::string, DType>::const_iterator{};
    if (types && found != types->end()) return Typing::known(found->second);
    return typing_of_arguments(call, 0);
  }
  if (global.kind != Global::Kind::Unknown) return {};
  if (name == "lowest" || name == "highest" || name == "epsilon") {
    const auto dtype = dtype_argument(call);
    return dtype ? Typing::known(*dtype) : Typing{};
  }
  if (whole_power_of(call)) {
    const auto* base = std::get_if<ast::ExprRef>(&call.arguments[0].kind);
    return base == nullptr ? Typing{} : typing(**base);
  }
  const auto opcode = scalar::parse_opcode(name);
  if (opcode && scalar::info(*opcode).result == scalar::Result::Boolean) return Typing::known(DType::Bool);
  const Typing arguments = typing_of_arguments(call, name == "select" ? 1 : 0);
  const bool is_of_floats = opcode && scalar::info(*opcode).operands == scalar::Operands::Float;
  return is_of_floats && arguments.kind == Typing::Kind::Integer ? Typing{Typing::Kind::Decimal} : arguments;
}

}  // namespace corrloom::frontend
