#include <algorithm>

#include "compiler/frontend/derivatives.h"
#include "compiler/frontend/entry.h"
#include "compiler/frontend/frontend.h"
#include "compiler/frontend/library.h"
#include "compiler/frontend/lower_op.h"
#include "compiler/frontend/type_classes.h"
#include "ir/base/errors.h"
#include "ir/base/match.h"

namespace corrloom::frontend {
namespace {

std::vector<std::string> dims_of(const ast::Type& type, const Instance* instance) {
  std::vector<std::string> dims;
  for (const ast::Dim& dim : type.dims) {
    const auto* pack = std::get_if<ast::Pack>(&dim.kind);
    if (pack == nullptr) {
      dims.emplace_back(dim.span.text());
    } else if (instance == nullptr) {
      dims.push_back("..." + pack->name.text);
    } else {
      for (std::size_t part = 0; part < instance->ranks.at(pack->name.text); ++part)
        dims.push_back(pack_part(pack->name.text, part));
    }
  }
  return dims;
}

/// The dtype of a type, and its name when that is a type parameter which stays open.
std::pair<DType, std::string> dtype_of(const ast::Op& op, const ast::Type& type, const Instance* instance) {
  const std::string& name = type.name.text;
  if (const auto dtype = parse_dtype(name)) return {*dtype, ""};
  if (instance != nullptr) return {instance->types.at(name), ""};
  const auto parameter = std::find_if(op.type_parameters.begin(), op.type_parameters.end(),
                                      [&](const ast::TypeParameter& one) { return one.name.text == name; });
  return {kinds_of_class(parameter->type_class.text).front(), name};
}

/// The ops that can be named from outside: of the file itself and of what it imports.
void list_ops(Library& library) {
  const Module& root = library.root();
  for (const ast::Item& item : root.file.items) {
    const bool is_op = std::holds_alternative<ast::Op>(item) || std::holds_alternative<ast::Grad>(item);
    if (!is_op) continue;
    const Global global = find_global(root, name_of(item)->text);
    library.ops.push_back(signature_of(library, *global.module, *global.op()));
  }
  for (const Module::Link& link : root.links) {
    for (const auto& [name, item] : link.module->items) {
      const std::string known_as = link.alias.empty() ? name : link.alias + "." + name;
      const Global global = find_global(root, known_as);
      if (global.op() == nullptr || global.module == &root) continue;
      library.imported.emplace(known_as, signature_of(library, *global.module, *global.op()));
    }
  }
}

std::vector<std::string> names_of_ops(const Library& library) {
  std::vector<std::string> names;
  for (const OpSignature& op : library.ops) names.push_back(op.name);
  const auto own = static_cast<std::ptrdiff_t>(names.size());
  for (const auto& [name, signature] : library.imported) names.push_back(name);
  std::sort(names.begin() + own, names.end());
  return names;
}

Context lowering_context(const Library& library, Diagnostics& diagnostics) {
  Context context(library, diagnostics);
  context.find_constant = [&library](const Module&, const ast::Const& constant, const Span&) -> const ConstantValue* {
    const auto found = library.constants.find(&constant);
    return found == library.constants.end() ? nullptr : &found->second;
  };
  return context;
}

/// The value of an attribute's default, in the dtype of its kind.
std::optional<scalar::Value> default_value(const Library& library, const Module& module,
                                           const ast::Attribute& attribute, DType dtype) {
  if (!attribute.default_value) return {};
  Diagnostics unused;
  Context context = lowering_context(library, unused);
  Scope nothing;
  ExprLowering expressions(context, module, nothing, ExprLowering::Place::Constant, nullptr);
  const Expr value = expressions.lower_as(*attribute.default_value, dtype);
  const EntryValue known = value ? evaluate_at_entry(value, {}) : EntryValue{};
  return known.kind == EntryValue::Kind::Exact ? std::optional(known.value) : std::nullopt;
}

/// Reports E0201 when there is no op of that name.
Global find_op(const Library& library, const std::string& name, Diagnostics& diagnostics) {
  Global global = find_global(library.root(), name);
  if (global.op() != nullptr) return global;
  Diagnostic& error = diagnostics.report(Code::E0201, {}, library.root().path + " has no op " + quoted(name));
  if (const auto nearest = nearest_name(name, names_of_ops(library)))
    error.help("did you mean " + quoted(*nearest) + "?");
  return global;
}

}  // namespace

const ParameterSignature* OpSignature::parameter(const std::string& wanted) const {
  const auto found = std::find_if(parameters.begin(), parameters.end(),
                                  [&](const ParameterSignature& one) { return one.name == wanted; });
  return found == parameters.end() ? nullptr : &*found;
}

OpSignature signature_of(const Library& library, const Module& module, const ast::Op& op, const Instance* instance) {
  OpSignature signature;
  if (instance != nullptr) {
    signature.instance = *instance;
  } else {
    for (const ast::TypeParameter& parameter : op.type_parameters)
      signature.type_parameters.push_back({parameter.name.text, parameter.type_class.text});
  }
  signature.name = op.name.text;
  signature.text = op.signature_span.text();
  signature.span = op.signature_span;
  for (const ast::Attribute& attribute : op.attributes) {
    const DType dtype = OpLowering::attribute_dtype(attribute).value();
    signature.attributes.push_back(
        {attribute.name.text, dtype, default_value(library, module, attribute, dtype), attribute.span});
  }
  for (const ast::Parameter& parameter : op.parameters) {
    const auto [dtype, type_parameter] = dtype_of(op, parameter.type, instance);
    ParameterSignature one;
    one.name = parameter.name.text;
    one.is_tensor = !parameter.type.dims.empty();
    one.dtype = dtype;
    one.type_parameter = type_parameter;
    one.dims = dims_of(parameter.type, instance);
    one.is_owned = parameter.is_owned;
    one.span = parameter.span;
    Diagnostics unused;
    if (parameter.default_value)
      (one.is_tensor ? one.initial_value : one.default_value) =
          value_of(*parameter.default_value, false, dtype, parameter.default_value->span, unused);
    signature.parameters.push_back(std::move(one));
  }
  for (const ast::Result& result : op.results) {
    const auto [dtype, type_parameter] = dtype_of(op, result.type, instance);
    signature.results.push_back({result.name.text, dtype, type_parameter, dims_of(result.type, instance),
                                 result.in ? result.in->text : "", result.span});
  }
  return signature;
}

Program::Program(std::shared_ptr<const Library> library) : library_(std::move(library)) {}

std::optional<Program> Program::load(const SourceRef& source, const ImportResolver& imports, Diagnostics& diagnostics) {
  // Other errors of the caller's list do not concern this file.
  Diagnostics own;
  return checked(load_modules(source, imports, own), own, diagnostics);
}

std::optional<Program> Program::load_standard_library(Diagnostics& diagnostics) {
  Diagnostics own;
  return checked(load_standard_modules(own), own, diagnostics);
}

std::optional<Program> Program::checked(std::unique_ptr<Library> library, Diagnostics& own, Diagnostics& diagnostics) {
  check_library(*library, own);
  for (const Diagnostic& error : own.entries()) {
    diagnostics.report(error.code, error.span, error.title, error.label).notes = error.notes;
  }
  if (own.has_errors()) return {};
  list_ops(*library);
  return Program(std::shared_ptr<const Library>(std::move(library)));
}

const std::vector<OpSignature>& Program::ops() const {
  return library_->ops;
}

std::vector<std::string> Program::op_names() const {
  return names_of_ops(*library_);
}

const OpSignature* Program::find(const std::string& name) const {
  for (const OpSignature& op : library_->ops) {
    if (op.name == name) return &op;
  }
  const auto imported = library_->imported.find(name);
  return imported == library_->imported.end() ? nullptr : &imported->second;
}

OpSignature Program::instantiate(const std::string& name, const Instance& instance) const {
  const Global global = find_global(library_->root(), name);
  CORRLOOM_CHECK(global.op() != nullptr, "there is no op ", name);
  return signature_of(*library_, *global.module, *global.op(), &instance);
}

std::optional<tensor::Graph> Program::lower(const std::string& name,
                                            const std::map<std::string, scalar::Value>& attributes,
                                            Diagnostics& diagnostics, const Instance& instance) const {
  const Global global = find_op(*library_, name, diagnostics);
  if (global.op() == nullptr) return {};
  Context context = lowering_context(*library_, diagnostics);
  OpLowering lowering(context, *global.module, *global.op(), "", {}, instance);
  if (!lowering.lower_entry(attributes)) return {};
  return std::move(context.graph);
}

std::vector<DerivativeText> Program::declared_derivatives() const {
  std::vector<DerivativeText> texts;
  const Module& root = library_->root();
  for (const ast::Item& item : root.file.items) {
    const auto derived = root.derived.find(&item);
    if (derived == root.derived.end()) continue;
    texts.push_back({name_of(item)->text, derived->second.first->file.source->text(), {}});
  }
  return texts;
}

std::optional<DerivativeText> Program::derivative(const std::string& name, const DerivativeOptions& options,
                                                  Diagnostics& diagnostics) const {
  const Global global = find_op(*library_, name, diagnostics);
  if (global.op() == nullptr) return {};
  const std::string& own = global.op()->name.text;
  DerivativeRequest request{options.name, {}, {}, {}, options.with_values};
  if (request.name.empty()) request.name = options.with_values ? own + "_and_grad" : "d_" + own;
  for (const std::string& variable : options.wrt) request.wrt.push_back({variable, {}});
  using Mode = grad::Intermediates::Mode;
  switch (options.intermediates) {
    case DerivativeOptions::Intermediates::ByCost:
      break;
    case DerivativeOptions::Intermediates::KeepAll:
      request.intermediates.mode = Mode::KeepAll;
      break;
    case DerivativeOptions::Intermediates::RecomputeAll:
      request.intermediates.mode = Mode::RecomputeAll;
      break;
  }
  request.intermediates.keep.insert(options.keep.begin(), options.keep.end());
  request.intermediates.recompute.insert(options.recompute.begin(), options.recompute.end());
  Context context = lowering_context(*library_, diagnostics);
  std::vector<grad::Choice> choices;
  auto text = derivative_text(context, *global.module, *global.op(), request, &choices);
  if (!text) return {};
  DerivativeText result{request.name, std::move(*text), {}};
  for (const grad::Choice& choice : choices) {
    result.intermediates.push_back(quoted(choice.name) + (choice.is_kept ? " is kept: " : " is computed again: ") +
                                   choice.reason);
  }
  return result;
}

}  // namespace corrloom::frontend
