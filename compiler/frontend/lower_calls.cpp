#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/frontend/lower_expr.h"
#include "compiler/frontend/type_classes.h"
#include "ir/base/match.h"

namespace corrloom::frontend {
namespace {

using scalar::Opcode;
using scalar::Value;

constexpr std::string_view kWholeFunctions[] = {"matmul", "reshape", "transpose", "concat", "pad"};
constexpr std::string_view kOtherFunctions[] = {"clamp", "lowest", "highest", "epsilon"};

template <std::size_t N>
bool contains(const std::string_view (&list)[N], const std::string& name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

/// The least and greatest finite value of a dtype, and the step from 1 to the next value.
Value lowest_of(DType dtype) {
  if (dtype == DType::Bool) return Value::boolean(false);
  if (is_signed_integer(dtype)) return {dtype, std::uint64_t{1} << (bit_width(dtype) - 1)};
  return {dtype, 0};
}
Value highest_of(DType dtype) {
  switch (dtype) {
    case DType::Bool:
      return Value::boolean(true);
    case DType::F16:
      return {dtype, 0x7BFF};
    case DType::BF16:
      return {dtype, 0x7F7F};
    case DType::F32:
      return Value::f32(std::numeric_limits<float>::max());
    case DType::F64:
      return Value::f64(std::numeric_limits<double>::max());
    default:
      break;
  }
  const std::uint64_t ones = ~std::uint64_t{0} >> (64 - bit_width(dtype));
  return {dtype, is_signed_integer(dtype) ? ones >> 1 : ones};
}
double epsilon_of(DType dtype) {
  return std::ldexp(1.0, 1 - significand_bits(dtype));
}

}  // namespace

std::optional<DType> ExprLowering::dtype_named(const std::string& name) const {
  if (const auto dtype = parse_dtype(name)) return dtype;
  const Binding* binding = scope_.find(name);
  const auto* type = binding == nullptr ? nullptr : std::get_if<TypeName>(&binding->kind);
  return type == nullptr ? std::nullopt : std::optional(type->dtype);
}

/// The expression of an argument; null, with an error, for a list.
const ast::Expr* ExprLowering::argument(const ast::Call& call, std::size_t at) {
  if (const auto* expr = std::get_if<ast::ExprRef>(&call.arguments[at].kind)) return expr->get();
  context_.diagnostics.report(Code::E0229, call.arguments[at].span, "a list is given to " + quoted(call.callee.text),
                              "wanted a value");
  return nullptr;
}

bool ExprLowering::has_arguments(const ast::Call& call, std::size_t wanted) {
  if (!call.attributes.empty()) {
    context_.diagnostics.report(Code::E0222, call.attributes.front().span,
                                quoted(call.callee.text) + " has no attributes", "only ops have attributes");
    return false;
  }
  if (call.arguments.size() == wanted) return true;
  context_.diagnostics.report(Code::E0216, call.callee.span,
                              quoted(call.callee.text) + " takes " + counted(wanted, "argument"),
                              "is given " + std::to_string(call.arguments.size()));
  return false;
}

Expr ExprLowering::lower_call(const ast::Call& call, const ast::Expr& expr, std::optional<DType> wanted) {
  const std::string& name = call.callee.text;
  if (const auto dtype = dtype_named(name)) return lower_cast(call, *dtype);
  const Global global = find_global(module_, name);
  switch (global.kind) {
    case Global::Kind::Broken:
      return nullptr;
    case Global::Kind::Ambiguous:
      report_ambiguous(call.callee, global, context_.diagnostics);
      return nullptr;
    case Global::Kind::Unknown:
      return lower_builtin(call, expr, wanted);
    case Global::Kind::Item:
      break;
  }
  if (const ast::Fn* fn = global.fn()) return lower_fn(call, *global.module, *fn, *global.item, wanted, expr.span);
  if (global.constant() != nullptr) {
    context_.diagnostics.report(Code::E0229, call.callee.span, "the constant " + quoted(name) + " cannot be called",
                                "wanted a function");
    return nullptr;
  }
  context_.diagnostics
      .report(Code::E0218, expr.span, "the op " + quoted(name) + " is called in an expression of elements",
              "ops are called in statements of whole tensors")
      .help("name its result first: " + quoted("let t = " + name + "(...)"));
  return nullptr;
}

Expr ExprLowering::lower_cast(const ast::Call& call, DType to) {
  if (!has_arguments(call, 1)) return nullptr;
  const ast::Expr* operand = argument(call, 0);
  if (operand == nullptr) return nullptr;
  if (as_literal(*operand) && to != DType::Bool &&
      !std::holds_alternative<ast::Boolean>(as_literal(*operand)->literal->value))
    return lower(*operand, to);
  const Typing found = typing(*operand);
  const bool takes_dtype = found.is_literal() && to != DType::Bool;
  const Expr value = lower(*operand, takes_dtype ? std::optional(to) : std::nullopt);
  return value ? scalar::cast(value, to) : nullptr;
}

/// The dtype that `lowest`, `highest` or `epsilon` is asked about.
std::optional<DType> ExprLowering::dtype_argument(const ast::Call& call) const {
  if (call.arguments.size() != 1) return {};
  const auto* expr = std::get_if<ast::ExprRef>(&call.arguments[0].kind);
  const auto* read = expr == nullptr ? nullptr : std::get_if<ast::Read>(&(*expr)->kind);
  if (read == nullptr || !read->subscripts.empty() || read->padding) return {};
  return dtype_named(read->name.text);
}

Expr ExprLowering::lower_dtype_fact(const ast::Call& call) {
  if (!has_arguments(call, 1)) return nullptr;
  const auto dtype = dtype_argument(call);
  if (!dtype) {
    context_.diagnostics.report(Code::E0232, call.arguments[0].span,
                                quoted(call.callee.text) + " takes a dtype, such as `f32`", "this is none");
    return nullptr;
  }
  if (call.callee.text == "lowest") {
    Value value = is_float(*dtype) ? highest_of(*dtype) : lowest_of(*dtype);
    if (is_float(*dtype)) value.bits |= std::uint64_t{1} << (bit_width(*dtype) - 1);
    return scalar::constant(value);
  }
  if (call.callee.text == "highest") return scalar::constant(highest_of(*dtype));
  if (is_float(*dtype)) return scalar::constant(Value::floating(*dtype, epsilon_of(*dtype)));
  context_.diagnostics.report(Code::E0214, call.arguments[0].span, "`epsilon` does not take " + quoted(*dtype),
                              "takes floats");
  return nullptr;
}

Expr ExprLowering::lower_select(const ast::Call& call, const ast::Expr& expr, std::optional<DType> wanted) {
  if (!has_arguments(call, 3)) return nullptr;
  const ast::Expr *condition = argument(call, 0), *taken = argument(call, 1), *other = argument(call, 2);
  if (condition == nullptr || taken == nullptr || other == nullptr) return nullptr;
  const Expr chosen = lower_as(*condition, DType::Bool);
  const DType dtype = operand_dtype(typing(expr), wanted);
  return apply_checked(Opcode::Select, {chosen, lower(*taken, dtype), lower(*other, dtype)}, expr.span, "select");
}

Expr ExprLowering::lower_builtin(const ast::Call& call, const ast::Expr& expr, std::optional<DType> wanted) {
  const std::string& name = call.callee.text;
  if (name == "select") return lower_select(call, expr, wanted);
  if (const auto power = whole_power_of(call)) return lower_whole_power(call, *power, expr, wanted);
  if (name == "lowest" || name == "highest" || name == "epsilon") return lower_dtype_fact(call);
  const auto opcode = scalar::parse_opcode(name);
  const bool is_clamp = name == "clamp";
  if (is_clamp || (opcode && scalar::info(*opcode).callable)) {
    if (!has_arguments(call, is_clamp ? 3 : static_cast<std::size_t>(scalar::info(*opcode).arity))) return nullptr;
    const bool gives_truth = !is_clamp && scalar::info(*opcode).result == scalar::Result::Boolean;
    const Typing operands = typing_of_arguments(call, 0);
    std::optional<DType> context;
    if (operands.kind != Typing::Kind::Unknown) context = operand_dtype(operands, gives_truth ? std::nullopt : wanted);
    // A function of floats makes a float of an integer literal: `sqrt(2)`.
    const bool is_of_floats = !is_clamp && scalar::info(*opcode).operands == scalar::Operands::Float;
    if (is_of_floats && operands.kind == Typing::Kind::Integer && context && !is_float(*context)) context = DType::F32;
    std::vector<Expr> values;
    for (std::size_t k = 0; k < call.arguments.size(); ++k) {
      const ast::Expr* operand = argument(call, k);
      values.push_back(operand == nullptr ? nullptr : lower(*operand, context));
    }
    if (!is_clamp) return apply_checked(*opcode, std::move(values), expr.span, name);
    const Expr raised = apply_checked(Opcode::Max, {values[0], values[1]}, expr.span, name);
    return raised ? apply_checked(Opcode::Min, {raised, values[2]}, expr.span, name) : nullptr;
  }
  if (contains(kWholeFunctions, name)) {
    context_.diagnostics
        .report(Code::E0218, expr.span, quoted(name) + " stands in an expression of elements",
                "it takes and gives whole tensors")
        .help("name its result first: " + quoted("let t = " + name + "(...)"));
    return nullptr;
  }
  std::vector<std::string> candidates(std::begin(kOtherFunctions), std::end(kOtherFunctions));
  for (const scalar::OpcodeInfo& row : scalar::all_opcodes()) {
    if (row.callable) candidates.emplace_back(row.text);
  }
  for (std::string& global : names_in_scope(module_)) candidates.push_back(std::move(global));
  if (context_.has_gaps) return nullptr;
  Diagnostic& error = context_.diagnostics.report(
      Code::E0201, call.callee.span, "nothing defines the function " + quoted(name), "an unknown function");
  if (const auto nearest = nearest_name(name, candidates)) error.help("did you mean " + quoted(*nearest) + "?");
  return nullptr;
}

std::optional<std::map<std::string, DType>> ExprLowering::type_arguments_of(const ast::Call& call, const ast::Fn& fn,
                                                                            std::optional<DType> wanted, bool report) {
  std::map<std::string, DType> types;
  for (const ast::TypeParameter& parameter : fn.type_parameters) {
    std::optional<Typing> found;
    for (std::size_t k = 0; k < std::min(fn.parameters.size(), call.arguments.size()); ++k) {
      const auto* expr = std::get_if<ast::ExprRef>(&call.arguments[k].kind);
      if (expr == nullptr || fn.parameters[k].type.text != parameter.name.text) continue;
      found = found ? unify(*found, typing(**expr)) : typing(**expr);
    }
    if (!found || found->kind == Typing::Kind::Unknown) return {};
    const bool has_context = found->is_literal() && wanted && fn.result.text == parameter.name.text;
    const DType dtype = has_context ? *wanted : found->dtype_or_default();
    if (!is_in_class(parameter.type_class.text, dtype)) {
      if (report) {
        context_.diagnostics
            .report(Code::E0214, call.callee.span, quoted(fn.name.text) + " does not take " + quoted(dtype),
                    quoted(parameter.name.text) + " is of the class " + quoted(parameter.type_class.text))
            .note("declared here", parameter.span);
      }
      return {};
    }
    types[parameter.name.text] = dtype;
  }
  return types;
}

Expr ExprLowering::lower_fn(const ast::Call& call, const Module& module, const ast::Fn& fn, const ast::Item& item,
                            std::optional<DType> wanted, const Span& span) {
  if (!has_arguments(call, fn.parameters.size())) return nullptr;
  if (!context_.is_sound(module, item, call.callee.span)) return nullptr;
  const auto types = type_arguments_of(call, fn, wanted, true);
  Scope scope;
  ExprLowering body(context_, module, scope, Place::Function, site_);
  for (const ast::TypeParameter& parameter : fn.type_parameters) {
    if (types) scope.bind(parameter.name.text, {TypeName{types->at(parameter.name.text)}, "the type", parameter.span});
  }
  bool failed = !types;
  const bool is_shared = may_reduce(module, *fn.body);
  for (std::size_t k = 0; k < fn.parameters.size(); ++k) {
    const SharedValue shared(site_, is_shared);
    const ast::Expr* written = argument(call, k);
    const std::optional<DType> dtype = body.dtype_named(fn.parameters[k].type.text);
    Expr value;
    if (written != nullptr) value = dtype ? lower_as(*written, *dtype) : lower(*written, std::nullopt);
    failed = failed || !value || !dtype;
    if (value)
      scope.bind(fn.parameters[k].name.text, {ScalarName{fenced(value)}, "the parameter", fn.parameters[k].span});
  }
  if (failed) return nullptr;
  if (context_.call_depth >= kMaxCallDepth) {
    context_.diagnostics.report(Code::E0104, span, "calls are nested too deeply",
                                "at most " + std::to_string(kMaxCallDepth) + " in each other");
    return nullptr;
  }
  const std::optional<DType> result = body.dtype_named(fn.result.text);
  ++context_.call_depth;
  const Expr value = result ? body.lower_as(*fn.body, *result) : nullptr;
  --context_.call_depth;
  return value ? fenced(value) : nullptr;
}

}  // namespace corrloom::frontend
