#include <algorithm>

#include "compiler/frontend/entry.h"
#include "compiler/frontend/lower_op.h"
#include "compiler/frontend/type_classes.h"
#include "ir/base/match.h"

namespace corrloom::frontend {
namespace {

/// The pack of a shape, if it has one.
std::optional<std::string> pack_in(const ast::Type& type) {
  for (const ast::Dim& dim : type.dims) {
    if (const auto* pack = std::get_if<ast::Pack>(&dim.kind)) return pack->name.text;
  }
  return {};
}

}  // namespace

/// What a callee stands for. A derivative is derived when it is called first.
Global OpLowering::find_op(const ast::Name& callee) {
  Global global = find_global(module_, callee.text);
  if (global.kind == Global::Kind::Ambiguous) {
    report_ambiguous(callee, global, context_.diagnostics);
    return {Global::Kind::Broken};
  }
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
  Instance instance;
  const auto attributes = call_attributes(call, callee);
  const auto arguments = call_arguments(call, callee, name, instance);
  if (!attributes || !arguments) return {};
  if (context_.call_depth >= kMaxCallDepth) {
    context_.diagnostics.report(Code::E0104, span, "calls are nested too deeply",
                                "at most " + std::to_string(kMaxCallDepth) + " in each other");
    return {};
  }
  ++context_.call_depth;
  OpLowering inlined(context_, *global.module, callee, name + "." + callee.name.text + ".", numerics_,
                     std::move(instance));
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

/// The whole tensors among the arguments are evaluated first: they say what types and packs stand for.
std::optional<std::vector<CallArgument>> OpLowering::call_arguments(const ast::Call& call, const ast::Op& callee,
                                                                    const std::string& name, Instance& instance) {
  std::size_t least = callee.parameters.size();
  const auto may_be_left_out = [](const ast::Parameter& parameter) {
    return parameter.default_value.has_value() && parameter.type.dims.empty();
  };
  while (least > 0 && may_be_left_out(callee.parameters[least - 1])) --least;
  if (!has_arguments(call, least, callee.parameters.size())) return {};
  std::vector<CallArgument> arguments(callee.parameters.size());
  bool is_sound = true;
  for (std::size_t k = 0; k < arguments.size(); ++k) {
    const ast::Parameter& parameter = callee.parameters[k];
    if (k < call.arguments.size()) arguments[k].span = call.arguments[k].span;
    if (parameter.type.dims.empty()) continue;
    arguments[k].tensor = call_tensor(call, k, parameter, name, instance);
    is_sound = is_sound && arguments[k].tensor && suits(callee, parameter, arguments[k], instance);
  }
  for (std::size_t k = 0; is_sound && k < arguments.size(); ++k) {
    const ast::Parameter& parameter = callee.parameters[k];
    if (!parameter.type.dims.empty()) continue;
    const auto dtype = scalar_dtype(call, callee, k, instance);
    arguments[k].scalar = dtype ? call_scalar(call, k, parameter, *dtype, name) : nullptr;
    is_sound = arguments[k].scalar != nullptr;
  }
  if (!is_sound) return {};
  return arguments;
}

/// The tensor of an argument. One value stands for a tensor whose dimensions are a pack of none.
std::optional<TensorId> OpLowering::call_tensor(const ast::Call& call, std::size_t at, const ast::Parameter& parameter,
                                                const std::string& name, const Instance& instance) {
  const auto* expr = std::get_if<ast::ExprRef>(&call.arguments[at].kind);
  const bool is_pack = parameter.type.dims.size() == 1 && pack_in(parameter.type).has_value();
  if (expr == nullptr || !is_pack || is_whole(**expr)) return tensor_argument(call, at, name);
  Site site{name + "." + parameter.name.text, {}, numerics_};
  ExprLowering value = expressions(ExprLowering::Place::Statement, &site);
  const auto known = instance.types.find(parameter.type.name.text);
  const auto dtype =
      known != instance.types.end() ? std::optional(known->second) : parse_dtype(parameter.type.name.text);
  const Expr body = dtype ? value.lower_as(**expr, *dtype) : value.lower(**expr, {});
  return add_compute(std::move(site), {}, body, call.arguments[at].span);
}

/// Whether a tensor has the declared dtype and rank; a type parameter or pack that is not known yet takes its own.
bool OpLowering::suits(const ast::Op& callee, const ast::Parameter& parameter, const CallArgument& argument,
                       Instance& instance) {
  const tensor::Op& op = context_.graph.op(*argument.tensor);
  const std::size_t rank = op.extents.size(), declared = parameter.type.dims.size();
  std::size_t wanted_rank = declared;
  bool has_rank = rank == declared;
  if (const auto pack = pack_in(parameter.type)) {
    const bool fits = rank + 1 >= declared;
    const auto known = fits ? instance.ranks.emplace(*pack, rank + 1 - declared).first : instance.ranks.find(*pack);
    wanted_rank = declared - 1 + (known == instance.ranks.end() ? 0 : known->second);
    has_rank = fits && rank == wanted_rank;
  }
  const std::string& type = parameter.type.name.text;
  const auto fixed = parse_dtype(type);
  const DType wanted = fixed ? *fixed : instance.types.emplace(type, op.dtype).first->second;
  if (has_rank && wanted == op.dtype) return fixed || is_in_class_of(callee, parameter, op.dtype, argument.span);
  context_.diagnostics
      .report(has_rank ? Code::E0212 : Code::E0207, argument.span,
              quoted(parameter.name.text) + " of " + quoted(callee.name.text) + " is given " + quoted(op.dtype) +
                  " with " + counted(rank, "dimension"),
              "wanted " + std::string(parameter.type.span.text()) +
                  (has_rank                  ? fixed ? "" : ", where " + type + " is " + std::string(name_of(wanted))
                                    : wanted_rank == declared ? ""
                                             : " with " + counted(wanted_rank, "dimension")))
      .note("declared here", parameter.span);
  return false;
}

/// Whether the class of the parameter's type holds the dtype. Reports E0214.
bool OpLowering::is_in_class_of(const ast::Op& callee, const ast::Parameter& parameter, DType dtype, const Span& span) {
  const std::string& type = parameter.type.name.text;
  const auto declared = std::find_if(callee.type_parameters.begin(), callee.type_parameters.end(),
                                     [&](const ast::TypeParameter& one) { return one.name.text == type; });
  if (is_in_class(declared->type_class.text, dtype)) return true;
  context_.diagnostics
      .report(Code::E0214, span, quoted(callee.name.text) + " does not take " + quoted(dtype),
              quoted(type) + " is of the class " + quoted(declared->type_class.text))
      .note("declared here", declared->span);
  return false;
}

/// The dtype of a scalar parameter: declared, given by other arguments, or that of the value itself.
std::optional<DType> OpLowering::scalar_dtype(const ast::Call& call, const ast::Op& callee, std::size_t at,
                                              Instance& instance) {
  const ast::Parameter& parameter = callee.parameters[at];
  const std::string& type = parameter.type.name.text;
  if (const auto fixed = parse_dtype(type)) return fixed;
  if (const auto known = instance.types.find(type); known != instance.types.end()) return known->second;
  // Literals take the dtype of an argument that has one.
  Typing all;
  bool is_first = true;
  for (std::size_t k = 0; k < callee.parameters.size(); ++k) {
    if (callee.parameters[k].type.name.text != type) continue;
    const auto* expr = k < call.arguments.size() ? std::get_if<ast::ExprRef>(&call.arguments[k].kind) : nullptr;
    if (k < call.arguments.size() && expr == nullptr) continue;
    const Typing one = expr == nullptr ? typing_of(*callee.parameters[k].default_value)
                                       : expressions(ExprLowering::Place::Statement, nullptr).typing(**expr);
    all = is_first ? one : unify(all, one);
    is_first = false;
  }
  const DType dtype = all.dtype_or_default();
  if (!is_in_class_of(callee, parameter, dtype,
                      at < call.arguments.size() ? call.arguments[at].span : call.callee.span))
    return {};
  instance.types[type] = dtype;
  return dtype;
}

/// The value of a scalar argument, or of its default.
Expr OpLowering::call_scalar(const ast::Call& call, std::size_t at, const ast::Parameter& parameter, DType dtype,
                             const std::string& name) {
  if (at >= call.arguments.size()) {
    const auto value =
        value_of(*parameter.default_value, false, dtype, parameter.default_value->span, context_.diagnostics);
    return value ? scalar::constant(*value) : nullptr;
  }
  const auto* expr = std::get_if<ast::ExprRef>(&call.arguments[at].kind);
  if (expr == nullptr) {
    context_.diagnostics.report(Code::E0218, call.arguments[at].span, "a list stands where a value is wanted",
                                "wanted a value");
    return nullptr;
  }
  const auto value = scalar_argument(**expr, dtype, name + "." + parameter.name.text);
  return value ? value->scalar : nullptr;
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
