#include "compiler/frontend/lower_op.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "compiler/frontend/entry.h"
#include "ir/base/match.h"
#include "ir/tensor/verify.h"

namespace corrloom::frontend {
namespace {

using scalar::Opcode;
using scalar::Value;

/// A value as the literal that a float attribute stands for.
LiteralName literal_of(double value, const Span& span) {
  LiteralName name;
  name.negative = std::signbit(value);
  const std::string text = scalar::to_text(Value::f64(std::abs(value)));
  name.literal.text = text;
  name.literal.span = span;
  if (std::isnan(value)) {
    name.literal.value = ast::NotANumber{};
    name.negative = false;
  } else if (std::isinf(value)) {
    name.literal.value = ast::Infinity{};
  } else {
    name.literal.value = ast::Decimal{text};
  }
  return name;
}

}  // namespace

OpLowering::OpLowering(Context& context, const Module& module, const ast::Op& op, std::string prefix,
                       tensor::Numerics inherited, Instance instance)
    : context_(context),
      module_(module),
      op_(op),
      prefix_(std::move(prefix)),
      numerics_(inherited),
      instance_(std::move(instance)) {
  read_numerics();
}

/// An op with a `with` of its own takes nothing from its caller.
void OpLowering::read_numerics() {
  if (op_.with.empty()) return;
  numerics_ = {};
  for (const ast::With& with : op_.with) {
    if (with.name.text == "order" && with.value.text == "strict") numerics_.order = tensor::Numerics::OrderMode::Strict;
    if (with.name.text == "order" && with.value.text == "any") numerics_.order = tensor::Numerics::OrderMode::Any;
    if (with.name.text == "math" && with.value.text == "fast") numerics_.fast_math = true;
  }
}

// ---- The signature ----

bool OpLowering::check_type(const ast::Type& type) {
  bool is_sound = true;
  if (!parse_dtype(type.name.text) && instance_.types.count(type.name.text) == 0) {
    context_.diagnostics.report(Code::E0232, type.name.span, "there is no dtype " + quoted(type.name.text),
                                "wanted `f32`, `i64`, `bool` or another dtype");
    is_sound = false;
  }
  const ast::Dim* first = nullptr;
  for (const ast::Dim& dim : type.dims) {
    const auto* pack = std::get_if<ast::Pack>(&dim.kind);
    if (pack == nullptr) continue;
    if (first != nullptr) {
      context_.diagnostics
          .report(Code::E0218, dim.span, "a shape has two packs", "how many dimensions each has could not be told")
          .note("the first one is here", first->span);
      is_sound = false;
    } else if (instance_.ranks.count(pack->name.text) == 0) {
      context_.diagnostics.report(Code::E0217, dim.span,
                                  "no argument gives the dimensions " + quoted("..." + pack->name.text),
                                  "wanted a pack of a tensor argument");
      is_sound = false;
    }
    first = &dim;
  }
  return is_sound;
}

/// Type parameters are dtypes in the whole op. Each must follow from an argument.
bool OpLowering::bind_type_parameters() {
  bool is_sound = true;
  for (const ast::TypeParameter& parameter : op_.type_parameters) {
    const auto known = instance_.types.find(parameter.name.text);
    const Binding poisoned{PoisonedName{}, "the type"};
    is_sound = bind_name(parameter.name,
                         known == instance_.types.end() ? poisoned : Binding{TypeName{known->second}, "the type"}) &&
               is_sound;
    const auto uses = [&](const ast::Parameter& one) { return one.type.name.text == parameter.name.text; };
    if (std::any_of(op_.parameters.begin(), op_.parameters.end(), uses)) continue;
    context_.diagnostics.report(Code::E0232, parameter.span,
                                "no argument is of the type " + quoted(parameter.name.text),
                                "could not be told from a call");
    is_sound = false;
  }
  return is_sound;
}

DType OpLowering::dtype_of(const ast::Type& type) const {
  const auto parameter = instance_.types.find(type.name.text);
  return parameter != instance_.types.end() ? parameter->second : parse_dtype(type.name.text).value();
}

/// What can be said of the signature before any name of it is used.
bool OpLowering::check_signature() {
  bool is_sound = true;
  for (const ast::Parameter& parameter : op_.parameters) is_sound = check_type(parameter.type) && is_sound;
  for (const ast::Result& result : op_.results) is_sound = check_type(result.type) && is_sound;
  for (const ast::Attribute& attribute : op_.attributes) {
    if (attribute_dtype(attribute)) continue;
    context_.diagnostics.report(Code::E0222, attribute.type.span,
                                "an attribute cannot be of the kind " + quoted(attribute.type.text),
                                "wanted `int`, `float` or `bool`");
    is_sound = false;
  }
  std::unordered_set<std::string> settings;
  for (const ast::With& with : op_.with) {
    const bool is_order = with.name.text == "order" && (with.value.text == "strict" || with.value.text == "any");
    const bool is_math = with.name.text == "math" && with.value.text == "fast";
    const bool is_new = settings.insert(with.name.text).second;
    if ((is_order || is_math) && is_new) continue;
    context_.diagnostics.report(Code::E0226, with.span,
                                is_new ? "there is no " + quoted("with " + std::string(with.span.text()))
                                       : quoted(with.name.text) + " is set twice",
                                "wanted `order = strict`, `order = any` or `math = fast`");
    is_sound = false;
  }
  return is_sound;
}

bool OpLowering::bind_name(const ast::Name& name, Binding binding) {
  const Binding* other = scope_.find(name.text);
  if (other == nullptr) {
    binding.span = name.span;
    scope_.bind(name.text, std::move(binding));
    return true;
  }
  context_.diagnostics.report(Code::E0202, name.span, quoted(name.text) + " is defined twice", "second definition")
      .note(other->what + " of that name is declared here", other->span);
  scope_.bind(name.text, {PoisonedName{}, other->what, other->span});
  return false;
}

// ---- Attributes ----

std::optional<DType> OpLowering::attribute_dtype(const ast::Attribute& attribute) {
  if (attribute.type.text == "int") return DType::I64;
  if (attribute.type.text == "float") return DType::F64;
  if (attribute.type.text == "bool") return DType::Bool;
  return {};
}

Binding OpLowering::attribute_binding(const ast::Attribute& attribute, const Value& value) {
  Binding binding{ScalarName{scalar::constant(value)}, "the attribute", attribute.name.span};
  if (value.dtype == DType::F64) binding.kind = literal_of(value.as_f64(), attribute.name.span);
  return binding;
}

/// The default, computed from literals, constants and functions; a float literal keeps its digits.
std::optional<Binding> OpLowering::default_of(const ast::Attribute& attribute) {
  const DType dtype = attribute_dtype(attribute).value();
  if (dtype == DType::F64) {
    if (const auto literal = as_literal(*attribute.default_value)) {
      if (!value_of(*literal->literal, literal->negative, dtype, attribute.default_value->span, context_.diagnostics))
        return {};
      LiteralName name{*literal->literal, literal->negative};
      if (const auto* integer = std::get_if<ast::Integer>(&name.literal.value))
        name.literal.value = ast::Decimal{std::to_string(integer->magnitude)};
      return Binding{name, "the attribute", attribute.name.span};
    }
  }
  Scope nothing;
  ExprLowering expressions(context_, module_, nothing, ExprLowering::Place::Constant, nullptr);
  const Expr value = expressions.lower_as(*attribute.default_value, dtype);
  if (!value) return {};
  const EntryValue known = evaluate_at_entry(value, {});
  if (known.kind == EntryValue::Kind::Exact) return attribute_binding(attribute, known.value);
  context_.diagnostics.report(Code::E0227, attribute.default_value->span,
                              "the default of " + quoted(attribute.name.text) + " cannot be computed",
                              "wanted a value that is known at compile time");
  return {};
}

bool OpLowering::bind_entry_attributes(const std::map<std::string, Value>& given) {
  bool is_sound = true;
  for (const ast::Attribute& attribute : op_.attributes) {
    const DType dtype = attribute_dtype(attribute).value();
    std::optional<Binding> binding;
    if (attribute.default_value) {
      binding = default_of(attribute);
      is_sound = is_sound && binding;
    }
    const auto value = given.find(attribute.name.text);
    if (value != given.end()) {
      if (value->second.dtype != dtype) {
        context_.diagnostics.report(
            Code::E0222, attribute.span,
            "the attribute " + quoted(attribute.name.text) + " is given a value of " + quoted(value->second.dtype),
            "is declared as " + quoted(attribute.type.text));
        is_sound = false;
      } else {
        binding = attribute_binding(attribute, value->second);
      }
    } else if (context_.is_generic && dtype != DType::F64) {
      const SymbolId symbol =
          context_.graph.new_symbol({attribute.name.text, dtype, tensor::Symbol::Kind::Scalar, attribute.name.span});
      context_.attribute_symbols.insert(symbol);
      binding = Binding{ScalarName{scalar::symbol(symbol, dtype)}, "the attribute"};
    } else if (context_.is_generic && !binding) {
      binding = attribute_binding(attribute, Value::f64(1.5));
    } else if (!binding && !attribute.default_value) {
      context_.diagnostics
          .report(Code::E0222, attribute.span, "the attribute " + quoted(attribute.name.text) + " is not given",
                  "has no default")
          .help("set it where the op is called or run: " + quoted(attribute.name.text + " = ..."));
      is_sound = false;
    }
    if (auto* literal = binding ? std::get_if<LiteralName>(&binding->kind) : nullptr;
        literal != nullptr && context_.is_derived)
      literal->attribute = attribute.name.text;
    is_sound = bind_name(attribute.name, binding ? *binding : Binding{PoisonedName{}, "the attribute"}) && is_sound;
  }
  for (const auto& [name, value] : given) {
    const auto declared = [&](const ast::Attribute& attribute) { return attribute.name.text == name; };
    if (std::any_of(op_.attributes.begin(), op_.attributes.end(), declared)) continue;
    std::vector<std::string> candidates;
    for (const ast::Attribute& attribute : op_.attributes) candidates.push_back(attribute.name.text);
    Diagnostic& error = context_.diagnostics.report(Code::E0222, op_.name.span,
                                                    quoted(op_.name.text) + " has no attribute " + quoted(name),
                                                    candidates.empty() ? "has no attributes" : "");
    if (const auto nearest = nearest_name(name, candidates)) error.help("did you mean " + quoted(*nearest) + "?");
    is_sound = false;
  }
  return is_sound;
}

// ---- Dimensions and arguments ----

std::vector<OpLowering::DimPlace> OpLowering::places_of(const ast::Type& type) const {
  std::vector<DimPlace> places;
  for (const ast::Dim& dim : type.dims) {
    const auto* pack = std::get_if<ast::Pack>(&dim.kind);
    const std::size_t rank = pack == nullptr ? 1 : instance_.ranks.at(pack->name.text);
    for (std::size_t part = 0; part < rank; ++part) places.push_back({&dim, part});
  }
  return places;
}

std::string OpLowering::text_of(const DimPlace& place) {
  const auto* pack = std::get_if<ast::Pack>(&place.dim->kind);
  return pack != nullptr ? pack_part(pack->name.text, place.part) : std::string(place.dim->span.text());
}

/// The name of a dimension that stands alone and is no attribute and no constant: it takes the argument's extent.
std::optional<std::string> OpLowering::bare_dimension(const DimPlace& place) const {
  if (std::holds_alternative<ast::Pack>(place.dim->kind)) return text_of(place);
  const auto* expr = std::get_if<ast::ExprRef>(&place.dim->kind);
  const auto* read = expr == nullptr ? nullptr : std::get_if<ast::Read>(&(*expr)->kind);
  if (read == nullptr || !read->subscripts.empty() || read->padding || read->name.is_dotted()) return {};
  const auto is_it = [&](const ast::Attribute& attribute) { return attribute.name.text == read->name.text; };
  if (std::any_of(op_.attributes.begin(), op_.attributes.end(), is_it)) return {};
  const Global global = find_global(module_, read->name.text);
  // What a file that could not be imported might define is not taken for a constant.
  const bool is_constant = (global.kind == Global::Kind::Broken && global.module != nullptr) ||
                           global.kind == Global::Kind::Ambiguous || global.constant() != nullptr;
  if (is_constant) return {};
  return read->name.text;
}

/// The names of packs, whose parts are bound as dimensions.
bool OpLowering::bind_packs() {
  bool is_sound = true;
  for (const ast::Parameter& parameter : op_.parameters) {
    for (const ast::Dim& dim : parameter.type.dims) {
      const auto* pack = std::get_if<ast::Pack>(&dim.kind);
      if (pack == nullptr) continue;
      const Binding* known = scope_.find(pack->name.text);
      if (known != nullptr && std::holds_alternative<PackName>(known->kind)) continue;
      const PackName name{PackName::Holds::Dimensions, instance_.ranks.at(pack->name.text)};
      is_sound = bind_name(pack->name, {name, "the pack of dimensions"}) && is_sound;
    }
  }
  return is_sound;
}

bool OpLowering::declare_entry_arguments() {
  bool is_sound = bind_packs();
  for (const ast::Parameter& parameter : op_.parameters) {
    for (const DimPlace& place : places_of(parameter.type)) {
      const auto name = bare_dimension(place);
      const Span& span = place.dim->span;
      if (!name || scope_.find(*name) != nullptr) continue;
      const SymbolId symbol = context_.graph.new_symbol({*name, DType::I64, tensor::Symbol::Kind::Dimension, span});
      scope_.bind(*name, {ScalarName{scalar::symbol(symbol, DType::I64)}, "the dimension", span});
    }
  }
  std::vector<std::pair<const ast::Parameter*, Binding>> arguments;
  for (const ast::Parameter& parameter : op_.parameters) {
    const DType dtype = dtype_of(parameter.type);
    Binding binding{PoisonedName{}, "the argument"};
    is_sound = has_suitable_default(parameter, dtype) && is_sound;
    if (parameter.type.dims.empty()) {
      const SymbolId symbol =
          context_.graph.new_symbol({parameter.name.text, dtype, tensor::Symbol::Kind::Scalar, parameter.span});
      binding.kind = ScalarName{scalar::symbol(symbol, dtype)};
    } else if (auto extents = lower_dims(parameter.type, false, parameter.name.text)) {
      tensor::Op input{parameter.name.text, dtype, std::move(*extents), tensor::Input{parameter.is_owned},
                       parameter.span};
      const TensorId id = context_.graph.add(std::move(input));
      context_.graph.inputs.push_back(id);
      binding.kind = TensorName{id};
    } else {
      is_sound = false;
    }
    arguments.emplace_back(&parameter, std::move(binding));
  }
  // Bound only now: an argument is no dimension.
  is_sound = declare_results() && is_sound;
  for (auto& [parameter, binding] : arguments) is_sound = bind_name(parameter->name, std::move(binding)) && is_sound;
  return is_sound;
}

bool OpLowering::has_suitable_default(const ast::Parameter& parameter, DType dtype) {
  if (!parameter.default_value) return true;
  if (!parameter.type.dims.empty() && !parameter.is_owned) {
    context_.diagnostics
        .report(Code::E0211, parameter.default_value->span,
                "the tensor " + quoted(parameter.name.text) + " cannot have a default", "a single number")
        .help("scalars have defaults; of a `param`, which a module owns, it is what every element starts from");
    return false;
  }
  return value_of(*parameter.default_value, false, dtype, parameter.default_value->span, context_.diagnostics)
      .has_value();
}

bool OpLowering::bind_call_arguments(const std::vector<CallArgument>& arguments, const Span& call) {
  bind_packs();
  std::map<std::string, std::pair<std::string, Expr>> first;  // where each dimension was met, and the extent
  for (std::size_t k = 0; k < op_.parameters.size(); ++k) {
    const ast::Parameter& parameter = op_.parameters[k];
    const std::vector<DimPlace> places = places_of(parameter.type);
    for (std::size_t axis = 0; arguments[k].tensor && axis < places.size(); ++axis) {
      const auto name = bare_dimension(places[axis]);
      if (!name) continue;
      const Expr extent = context_.extents(*arguments[k].tensor)[axis];
      const std::string place = extent_text(parameter.name.text, axis);
      const auto [known, is_new] = first.emplace(*name, std::pair(place, extent));
      if (is_new) {
        scope_.bind(*name, {ScalarName{extent}, "the dimension", places[axis].dim->span});
      } else {
        context_.require_equal(known->second.second, extent,
                               "the arguments of " + quoted(op_.name.text) + " do not agree on " + quoted(*name), call,
                               {{known->second.first, known->second.second}, {place, extent}});
      }
    }
  }
  bool is_sound = true;
  for (std::size_t k = 0; k < op_.parameters.size(); ++k) {
    const ast::Parameter& parameter = op_.parameters[k];
    const std::vector<DimPlace> places = places_of(parameter.type);
    for (std::size_t axis = 0; arguments[k].tensor && axis < places.size(); ++axis) {
      const ast::Dim& dim = *places[axis].dim;
      if (bare_dimension(places[axis])) continue;
      const std::string place = extent_text(parameter.name.text, axis);
      const Expr wanted = lower_dim(places[axis], place, false);
      if (!wanted) {
        is_sound = false;
        continue;
      }
      const Expr extent = context_.extents(*arguments[k].tensor)[axis];
      context_.require_equal(extent, wanted,
                             "the argument " + quoted(parameter.name.text) + " of " + quoted(op_.name.text) +
                                 " has another extent along axis " + std::to_string(axis) + " than " +
                                 quoted(std::string(dim.span.text())),
                             call, {{place, extent}, {quoted(std::string(dim.span.text())), wanted}});
    }
  }
  is_sound = declare_results() && is_sound;
  for (std::size_t k = 0; k < op_.parameters.size(); ++k) {
    Binding binding{PoisonedName{}, "the argument"};
    if (arguments[k].tensor) binding.kind = TensorName{*arguments[k].tensor};
    if (arguments[k].scalar) binding.kind = ScalarName{arguments[k].scalar};
    is_sound = bind_name(op_.parameters[k].name, std::move(binding)) && is_sound;
  }
  return is_sound;
}

/// The extent that a shape states. `title` names it; that of a result must not be negative.
Expr OpLowering::lower_dim(const DimPlace& place, const std::string& title, bool is_result) {
  if (std::holds_alternative<ast::Pack>(place.dim->kind))
    return std::get<ScalarName>(scope_.find(text_of(place))->kind).value;
  const ast::Expr& expr = *std::get<ast::ExprRef>(place.dim->kind);
  ExprLowering shapes = expressions(ExprLowering::Place::Shape, nullptr);
  std::vector<Divisor> divisors;
  shapes.note_divisors(&divisors);
  const Expr written = shapes.lower(expr, DType::I64);
  if (!written) return nullptr;
  if (!is_integer(written->dtype)) {
    context_.diagnostics.report(Code::E0215, expr.span, "an extent is of " + quoted(written->dtype),
                                "wanted an integer");
    return nullptr;
  }
  shapes.require_divisors(divisors);
  const Expr extent = written->dtype == DType::I64 ? written : scalar::cast(written, DType::I64);
  const bool is_plain =
      std::holds_alternative<scalar::SymbolRef>(extent->kind) && is_nonnegative(context_.graph, extent);
  if (is_result && !is_plain) {
    std::vector<tensor::Condition::Shown> shown = {{quoted(std::string(expr.span.text())), extent}};
    for (auto& one : shapes.shown_names(expr)) shown.push_back(std::move(one));
    context_.require({scalar::apply(Opcode::Ge, {extent, scalar::constant_i64(0)}), title + " is negative", expr.span,
                      std::move(shown)});
  }
  // Folding would hide a division by zero.
  const bool divides_by_zero = std::any_of(divisors.begin(), divisors.end(), [](const Divisor& divisor) {
    const Value* value = scalar::as_constant(divisor.value);
    return value != nullptr && value->bits == 0;
  });
  return divides_by_zero ? extent : collapsed_extent(scalar::simplify(extent));
}

std::optional<std::vector<Expr>> OpLowering::lower_dims(const ast::Type& type, bool is_result,
                                                        const std::string& name) {
  std::vector<Expr> extents;
  bool failed = false;
  for (const DimPlace& place : places_of(type)) {
    Expr extent = lower_dim(place, extent_text(name, extents.size()), is_result);
    failed = failed || !extent;
    extents.push_back(std::move(extent));
  }
  if (failed) return {};
  return extents;
}

bool OpLowering::declare_results() {
  bool is_sound = true;
  for (const ast::Result& result : op_.results) {
    auto extents = lower_dims(result.type, true, result.name.text);
    const bool is_known = extents.has_value();
    ResultState state{&result, std::move(extents), dtype_of(result.type)};
    Binding binding{PoisonedName{}, "the result"};
    if (is_known) binding.kind = PendingResult{};
    is_sound = bind_name(result.name, std::move(binding)) && is_known && is_sound;
    results_.emplace(result.name.text, std::move(state));
  }
  return is_sound;
}

bool OpLowering::check_where() {
  bool is_sound = true;
  for (const ast::ExprRef& clause : op_.where) {
    ExprLowering shapes = expressions(ExprLowering::Place::Shape, nullptr);
    std::vector<Divisor> divisors;
    shapes.note_divisors(&divisors);
    const Expr holds = shapes.lower_as(*clause, DType::Bool);
    is_sound = is_sound && holds;
    if (!holds) continue;
    shapes.require_divisors(divisors);
    context_.require(
        {holds, quoted("where " + text_of(*clause)) + " does not hold", clause->span, shapes.shown_names(*clause)});
  }
  return is_sound;
}

// ---- The whole op ----

bool OpLowering::lower_entry(const std::map<std::string, Value>& attributes) {
  context_.graph.name = op_.name.text;
  if (!check_signature()) return false;
  bool is_sound = bind_type_parameters();
  is_sound = bind_entry_attributes(attributes) && is_sound;
  is_sound = declare_entry_arguments() && is_sound;
  is_sound = run() && is_sound;
  return is_sound && publish();
}

std::optional<std::vector<TensorId>> OpLowering::lower_call(const std::map<std::string, Binding>& attributes,
                                                            const std::vector<CallArgument>& arguments,
                                                            const Span& call) {
  bool is_sound = bind_type_parameters();
  for (const ast::Attribute& attribute : op_.attributes) {
    const auto given = attributes.find(attribute.name.text);
    std::optional<Binding> binding;
    if (given != attributes.end()) {
      binding = given->second;
    } else if (attribute.default_value) {
      binding = default_of(attribute);
    }
    is_sound = is_sound && binding;
    is_sound = bind_name(attribute.name, binding ? *binding : Binding{PoisonedName{}, "the attribute"}) && is_sound;
  }
  is_sound = bind_call_arguments(arguments, call) && is_sound;
  if (!is_sound || !run()) return {};
  std::vector<TensorId> values;
  for (const ast::Result& result : op_.results) values.push_back(results_.at(result.name.text).value.value());
  return values;
}

bool OpLowering::run() {
  const bool had_gaps = context_.has_gaps;
  context_.has_gaps = had_gaps || op_.is_broken;
  bool is_sound = check_where();
  for (const ast::Statement& statement : op_.statements) {
    if (lower_statement(statement)) continue;
    is_sound = false;
    poison(statement);
    if (context_.is_too_large) break;
  }
  for (const ast::Result& result : op_.results) {
    const ResultState& state = results_.at(result.name.text);
    if (state.is_defined || context_.has_gaps || context_.is_too_large) continue;
    context_.diagnostics
        .report(Code::E0209, result.span, "the result " + quoted(result.name.text) + " is never defined",
                "needs one statement")
        .help("write " + quoted(result.name.text + (result.type.dims.empty() ? "" : "[...]") + " = ..."));
    is_sound = false;
  }
  is_sound = is_sound && !context_.has_gaps;
  context_.has_gaps = had_gaps;
  return is_sound;
}

/// Makes the results outputs of the graph.
bool OpLowering::publish() {
  bool is_sound = true;
  std::unordered_set<std::string> taken;
  for (const ast::Result& result : op_.results) {
    const TensorId value = results_.at(result.name.text).value.value();
    tensor::Output output{result.name.text, value};
    if (result.in) {
      const Binding* binding = scope_.find(result.in->text);
      const auto* tensor = binding == nullptr ? nullptr : std::get_if<TensorName>(&binding->kind);
      const bool is_input =
          tensor != nullptr && std::holds_alternative<tensor::Input>(context_.graph.op(tensor->id).kind);
      const bool is_free = taken.insert(result.in->text).second;
      if (!is_input || !is_free) {
        context_.diagnostics.report(Code::E0224, result.in->span,
                                    is_input ? "two results take over the storage of " + quoted(result.in->text)
                                             : quoted(result.in->text) + " is no tensor argument",
                                    "wanted an argument that no other result takes over");
        is_sound = false;
        continue;
      }
      output.storage_of = tensor->id;
      is_sound = check_storage(result, value, tensor->id) && is_sound;
    }
    context_.graph.outputs.push_back(std::move(output));
  }
  return is_sound;
}

/// A result may take over an input's storage when it has its type and each element is computed from the same one only.
bool OpLowering::check_storage(const ast::Result& result, TensorId value, TensorId input) {
  const tensor::Op &from = context_.graph.op(value), &to = context_.graph.op(input);
  bool same_type = from.dtype == to.dtype && from.extents.size() == to.extents.size();
  for (std::size_t k = 0; same_type && k < from.extents.size(); ++k)
    same_type = same_extent(from.extents[k], to.extents[k]);
  const std::string title = quoted(result.name.text) + " cannot take over the storage of " + quoted(result.in->text);
  if (!same_type) {
    context_.diagnostics.report(Code::E0224, result.in->span, title, "has another dtype or other extents");
    return false;
  }
  tensor::Graph alone = context_.graph;
  alone.outputs = {{result.name.text, value, input}};
  for (const tensor::Violation& violation : tensor::verify(alone)) {
    if (violation.rule != "T22") continue;
    context_.diagnostics.report(Code::E0224, result.in->span, title, "an element is computed from another one of it")
        .note("elements that are overwritten already would be read")
        .help("leave out `in " + result.in->text + "`");
    return false;
  }
  return true;
}

}  // namespace corrloom::frontend
