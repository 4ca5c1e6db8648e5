#include <algorithm>

#include "compiler/frontend/entry.h"
#include "compiler/frontend/lower_op.h"
#include "ir/base/match.h"

namespace corrloom::frontend {

/// What a callee stands for. A derivative is derived when it is called first.
Global OpLowering::find_op(const ast::Name& callee) {
  Global global = find_global(module_, callee.text);
  if (global.grad() == nullptr) return global;
  if (!context_.is_sound(*global.module, *global.item, callee.span)) return {Global::Kind::Broken};
  return find_global(module_, callee.text);
}

/// The op called, in place: its tensors are named by the call.
std::optional<std::vector<TensorId>> OpLowering::lower_op_call(const ast::Call& call, const Span& span,
                                                               const std::string& name) {
  const Global global = find_op(call.callee);
  const ast::Op& callee = *global.op();
  if (!context_.is_sound(*global.module, *global.item, call.callee.span)) return {};
  const auto attributes = call_attributes(call, callee);
  const auto arguments = call_arguments(call, callee, name);
  if (!attributes || !arguments) return {};
  if (context_.call_depth >= kMaxCallDepth) {
    context_.diagnostics.report(Code::E0104, span, "calls are nested too deeply",
                                "at most " + std::to_string(kMaxCallDepth) + " in each other");
    return {};
  }
  ++context_.call_depth;
  OpLowering inlined(context_, *global.module, callee, name + "." + callee.name.text + ".", numerics_);
  auto results = inlined.lower_call(*attributes, *arguments, span);
  --context_.call_depth;
  return results;
}

std::optional<std::map<std::string, Binding>> OpLowering::call_attributes(const ast::Call& call,
                                                                          const ast::Op& callee) {
  std::map<std::string, Binding> bindings;
  bool is_sound = true;
  for (const ast::NamedArgument& given : call.attributes) {
    const auto is_it = [&](const ast::Attribute& one) { return one.name.text == given.name.text; };
    const auto declared = std::find_if(callee.attributes.begin(), callee.attributes.end(), is_it);
    if (declared == callee.attributes.end()) {
      std::vector<std::string> candidates;
      for (const ast::Attribute& attribute : callee.attributes) candidates.push_back(attribute.name.text);
      Diagnostic& error = context_.diagnostics.report(
          Code::E0222, given.name.span, quoted(callee.name.text) + " has no attribute " + quoted(given.name.text),
          candidates.empty() ? "has no attributes" : "");
      if (const auto nearest = nearest_name(given.name.text, candidates))
        error.help("did you mean " + quoted(*nearest) + "?");
      error.note("declared here", callee.name.span);
      is_sound = false;
    } else if (bindings.count(given.name.text) != 0) {
      context_.diagnostics.report(Code::E0222, given.name.span,
                                  "the attribute " + quoted(given.name.text) + " is given twice", "second value");
      is_sound = false;
    } else if (auto binding = call_attribute(given, *declared)) {
      bindings.emplace(given.name.text, std::move(*binding));
    } else {
      is_sound = false;
    }
  }
  for (const ast::Attribute& attribute : callee.attributes) {
    const auto is_it = [&](const ast::NamedArgument& given) { return given.name.text == attribute.name.text; };
    if (attribute.default_value || std::any_of(call.attributes.begin(), call.attributes.end(), is_it)) continue;
    context_.diagnostics
        .report(Code::E0222, call.callee.span, "the attribute " + quoted(attribute.name.text) + " is not given",
                "has no default")
        .note("declared here", attribute.span);
    is_sound = false;
  }
  if (!is_sound) return {};
  return bindings;
}

/// The value of an attribute at a call: of literals, constants and the caller's own attributes.
std::optional<Binding> OpLowering::call_attribute(const ast::NamedArgument& given, const ast::Attribute& declared) {
  const DType dtype = attribute_dtype(declared).value();
  ExprLowering shapes = expressions(ExprLowering::Place::Shape, nullptr);
  if (const auto* read = std::get_if<ast::Read>(&given.value->kind); read != nullptr && dtype == DType::F64) {
    const Binding* own = scope_.find(read->name.text);
    // A float attribute that is passed on keeps its digits.
    if (own != nullptr && std::holds_alternative<LiteralName>(own->kind) && read->subscripts.empty() && !read->padding)
      return *own;
  }
  const Expr value = shapes.lower_as(*given.value, dtype);
  if (!value) return {};
  const EntryValue known = evaluate_at_entry(value, {});
  if (known.kind == EntryValue::Kind::Exact) {
    const auto literal = as_literal(*given.value);
    const auto* decimal = literal ? std::get_if<ast::Decimal>(&literal->literal->value) : nullptr;
    if (decimal != nullptr && dtype == DType::F64)
      return Binding{LiteralName{*literal->literal, literal->negative}, "the attribute", declared.name.span};
    return attribute_binding(declared, known.value);
  }
  bool is_fixed = context_.is_generic && known.kind == EntryValue::Kind::Unknown;
  scalar::for_each_node(value, [&](const Expr& node) {
    const auto* symbol = std::get_if<scalar::SymbolRef>(&node->kind);
    if (symbol != nullptr) is_fixed = is_fixed && context_.attribute_symbols.count(symbol->symbol) != 0;
  });
  if (is_fixed) return Binding{ScalarName{value}, "the attribute", declared.name.span};
  context_.diagnostics.report(Code::E0227, given.value->span,
                              "the attribute " + quoted(given.name.text) + " is given a value that is not fixed",
                              "wanted literals, constants and attributes");
  return {};
}

std::optional<std::vector<CallArgument>> OpLowering::call_arguments(const ast::Call& call, const ast::Op& callee,
                                                                    const std::string& name) {
  std::size_t least = callee.parameters.size();
  const auto may_be_left_out = [](const ast::Parameter& parameter) {
    return parameter.default_value.has_value() && parameter.type.dims.empty();
  };
  while (least > 0 && may_be_left_out(callee.parameters[least - 1])) --least;
  if (!has_arguments(call, least, callee.parameters.size())) return {};
  std::vector<CallArgument> arguments;
  bool is_sound = true;
  for (std::size_t k = 0; k < callee.parameters.size(); ++k) {
    const ast::Parameter& parameter = callee.parameters[k];
    const DType dtype = parse_dtype(parameter.type.name.text).value();
    CallArgument argument;
    if (k >= call.arguments.size()) {
      const auto value =
          value_of(*parameter.default_value, false, dtype, parameter.default_value->span, context_.diagnostics);
      is_sound = is_sound && value;
      if (value) argument.scalar = scalar::constant(*value);
      arguments.push_back(std::move(argument));
      continue;
    }
    argument.span = call.arguments[k].span;
    const auto* expr = std::get_if<ast::ExprRef>(&call.arguments[k].kind);
    if (parameter.type.dims.empty()) {
      const auto value =
          expr == nullptr ? std::nullopt : scalar_argument(**expr, dtype, name + "." + parameter.name.text);
      if (expr == nullptr)
        context_.diagnostics.report(Code::E0218, argument.span, "a list stands where a value is wanted",
                                    "wanted a value");
      is_sound = is_sound && value;
      if (value) argument.scalar = value->scalar;
    } else if (const auto tensor = tensor_argument(call, k, name)) {
      const tensor::Op& op = context_.graph.op(*tensor);
      if (op.dtype != dtype || op.extents.size() != parameter.type.dims.size()) {
        const bool same_rank = op.extents.size() == parameter.type.dims.size();
        context_.diagnostics
            .report(same_rank ? Code::E0212 : Code::E0207, argument.span,
                    quoted(parameter.name.text) + " of " + quoted(callee.name.text) + " is given " + quoted(op.dtype) +
                        " with " + counted(op.extents.size(), "dimension"),
                    "wanted " + std::string(parameter.type.span.text()))
            .note("declared here", parameter.span);
        is_sound = false;
      }
      argument.tensor = tensor;
    } else {
      is_sound = false;
    }
    arguments.push_back(std::move(argument));
  }
  if (!is_sound) return {};
  return arguments;
}

/// A value that is passed on: over symbols as it is, anything else computed once as a tensor of rank 0.
std::optional<CallArgument> OpLowering::scalar_argument(const ast::Expr& expr, DType dtype, const std::string& name) {
  if (is_whole(expr)) {
    const auto tensor = lower_whole(expr, dtype, name);
    if (!tensor) return {};
    if (context_.rank(*tensor) == 0) {
      scalar::Read read{*tensor, {}};
      read.span = expr.span;
      return CallArgument{{}, scalar::read(std::move(read), dtype), expr.span};
    }
    context_.diagnostics.report(
        Code::E0207, expr.span,
        "a tensor with " + counted(context_.rank(*tensor), "dimension") + " stands where a value is wanted",
        "wanted one value");
    return {};
  }
  Site site{name, {}, numerics_};
  const Expr value = expressions(ExprLowering::Place::Statement, &site).lower_as(expr, dtype);
  if (!value) return {};
  if (!site.attached && is_symbolic(value)) return CallArgument{{}, fenced(value), expr.span};
  const auto tensor = add_compute(std::move(site), {}, value, expr.span);
  scalar::Read read{*tensor, {}};
  read.span = expr.span;
  return CallArgument{{}, scalar::read(std::move(read), dtype), expr.span};
}

}  // namespace corrloom::frontend
