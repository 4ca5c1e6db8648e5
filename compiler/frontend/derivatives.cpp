#include "compiler/frontend/derivatives.h"

#include <algorithm>
#include <set>
#include <unordered_set>

#include "compiler/frontend/format.h"
#include "compiler/frontend/lower_op.h"
#include "compiler/frontend/parser.h"
#include "compiler/grad/write_op.h"
#include "ir/base/errors.h"

namespace corrloom::frontend {
namespace {

/// A stretch of source text on one line, without comments.
std::string one_line(const Span& span) {
  std::string text;
  bool in_comment = false;
  for (const char c : span.text()) {
    if (c == '#') in_comment = true;
    const bool is_space = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (c == '\n' || c == '\r') in_comment = false;
    if (in_comment) continue;
    if (is_space && (text.empty() || text.back() == ' ')) continue;
    text += is_space ? ' ' : c;
  }
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

/// Puts a request together: what is taken from the text of the op, what is found in its graph.
class Deriver {
 public:
  Deriver(Context& context, const Module& module, const ast::Op& op, const DerivativeRequest& request)
      : context_(context), module_(module), op_(op), request_(request) {}

  std::optional<std::string> run(std::vector<grad::Choice>* choices) {
    context_.is_generic = true;
    context_.is_derived = true;
    choose_instance();
    OpLowering lowering(context_, module_, op_, "", {}, instance_);
    const bool had_errors = context_.diagnostics.has_errors();
    if (!lowering.lower_entry({})) {
      if (!had_errors && !context_.diagnostics.has_errors())
        refuse("its form depends on the value of an attribute", op_.name.span);
      return {};
    }
    if (!find_variables() || !read_signature()) return {};
    auto derived = grad::differentiate(context_.graph, variables_, request_.with_values);
    if (const auto* refusal = std::get_if<grad::Refusal>(&derived)) {
      refuse(refusal->title, refusal->span);
      return {};
    }
    auto& derivative = std::get<grad::Derivative>(derived);
    add_conditions(derivative);
    std::vector<grad::Choice> made = grad::reduce_work(derivative, request_.intermediates);
    if (choices != nullptr) *choices = std::move(made);
    auto text = laid_out(definitions_ + grad::write_op(derivative, signature_, context_.graph));
    if (!text) refuse("it cannot be written for every number of dimensions", op_.name.span);
    return text;
  }

 private:
  void refuse(const std::string& why, const Span& where) {
    context_.diagnostics
        .report(Code::E0261, request_.span, quoted(op_.name.text) + " has no derivative", "is asked for here")
        .note(why, where ? where : op_.name.span);
  }

  // ---- Type parameters and packs ----

  /// A generic op is derived once, for dtypes that stand for its type parameters and packs of one dimension; the text
  /// names the parameters again. A dtype that the op or what it calls mentions cannot stand for another one.
  void choose_instance() {
    std::unordered_set<const ast::Item*> seen;
    mention_dtypes(module_, op_, seen);
    for (const ast::TypeParameter& parameter : op_.type_parameters) {
      const bool is_integral = parameter.type_class.text == "integer";
      const std::vector<DType> floats = {DType::F64, DType::F32, DType::F16, DType::BF16};
      const std::vector<DType> integers = {DType::I32, DType::I16, DType::U32, DType::I64};
      for (const DType dtype : is_integral ? integers : floats) {
        if (!mentioned_.insert(dtype).second) continue;
        instance_.types[parameter.name.text] = dtype;
        signature_.dtype_names[dtype] = parameter.name.text;
        break;
      }
      // With more parameters than dtypes one dtype has two names, of which the text has the first.
      instance_.types.try_emplace(parameter.name.text, is_integral ? DType::I64 : DType::F64);
      signature_.type_parameters.push_back(parameter.name.text + ": " + (is_integral ? "integer" : "float"));
    }
    for (const ast::Parameter& parameter : op_.parameters) {
      for (const ast::Dim& dim : parameter.type.dims) {
        if (const auto* pack = std::get_if<ast::Pack>(&dim.kind)) instance_.ranks[pack->name.text] = 1;
      }
    }
  }

  void mention_dtypes(const Module& module, const ast::Op& op, std::unordered_set<const ast::Item*>& seen) {
    for (const ast::Parameter& parameter : op.parameters) mention_dtype(parameter.type.name.text);
    for (const ast::Result& result : op.results) mention_dtype(result.type.name.text);
    for (const ast::Statement& statement : op.statements) mention_dtypes(module, *statement.value, seen);
  }
  void mention_dtypes(const Module& module, const ast::Expr& expr, std::unordered_set<const ast::Item*>& seen) {
    for_each_child(expr, [&](const ast::Expr& child) { mention_dtypes(module, child, seen); });
    const auto* call = std::get_if<ast::Call>(&expr.kind);
    if (call == nullptr) return;
    mention_dtype(call->callee.text);
    const Global global = find_global(module, call->callee.text);
    if (global.item == nullptr || !seen.insert(global.item).second) return;
    if (global.op() != nullptr) mention_dtypes(*global.module, *global.op(), seen);
    if (const ast::Fn* fn = global.fn()) {
      for (const ast::FnParameter& parameter : fn->parameters) mention_dtype(parameter.type.text);
      mention_dtypes(*global.module, *fn->body, seen);
    }
  }
  void mention_dtype(const std::string& name) {
    if (const auto dtype = parse_dtype(name)) mentioned_.insert(*dtype);
  }

  DType dtype_of(const ast::Type& type) const {
    const auto found = instance_.types.find(type.name.text);
    return found != instance_.types.end() ? found->second : parse_dtype(type.name.text).value_or(DType::Bool);
  }

  // ---- What is asked for ----

  Diagnostic& report_variable(const ast::Name& name, const std::string& title, const std::string& label) {
    return context_.diagnostics.report(Code::E0260, name.span ? name.span : request_.span, title, label);
  }

  bool find_variables() {
    bool is_sound = true;
    std::unordered_set<std::string> known;
    for (const ast::Name& name : request_.wrt) {
      const auto is_it = [&](const ast::Parameter& one) { return one.name.text == name.text; };
      const auto parameter = std::find_if(op_.parameters.begin(), op_.parameters.end(), is_it);
      if (parameter == op_.parameters.end()) {
        std::vector<std::string> candidates;
        for (const ast::Parameter& one : op_.parameters) candidates.push_back(one.name.text);
        Diagnostic& error = report_variable(name, quoted(op_.name.text) + " has no argument " + quoted(name.text),
                                            "wanted one of its float arguments");
        if (const auto nearest = nearest_name(name.text, candidates))
          error.help("did you mean " + quoted(*nearest) + "?");
        is_sound = false;
        continue;
      }
      if (!known.insert(name.text).second) {
        report_variable(name, quoted(name.text) + " is named twice", "one derivative for each argument");
        is_sound = false;
        continue;
      }
      is_sound = add_variable(name, *parameter) && is_sound;
    }
    return is_sound;
  }

  bool add_variable(const ast::Name& name, const ast::Parameter& parameter) {
    const tensor::Graph& graph = context_.graph;
    DType dtype = DType::F32;
    for (const TensorId id : graph.inputs) {
      if (graph.op(id).name != name.text) continue;
      dtype = graph.op(id).dtype;
      variables_.push_back({name.text, id});
    }
    for (std::size_t k = 0; parameter.type.dims.empty() && k < graph.symbols.size(); ++k) {
      if (graph.symbols[k].name != name.text) continue;
      dtype = graph.symbols[k].dtype;
      variables_.push_back({name.text, SymbolId{static_cast<std::int32_t>(k)}});
    }
    signature_.results.push_back({name.text, "", one_line(parameter.type.span)});
    if (is_float(dtype)) return true;
    report_variable(name, quoted(name.text) + " of " + quoted(op_.name.text) + " is of " + quoted(dtype),
                    "only floats have derivatives")
        .note("declared here", parameter.span);
    return false;
  }

  bool read_signature() {
    signature_.name = request_.name;
    for (const ast::Attribute& attribute : op_.attributes) {
      signature_.attributes.push_back({attribute.name.text, one_line(attribute.span), ""});
      if (attribute.default_value) define_names(*attribute.default_value);
    }
    for (const ast::Parameter& parameter : op_.parameters) {
      const std::string type = one_line(parameter.type.span);
      signature_.parameters.push_back({parameter.name.text, parameter.name.text + ": " + type, type});
      define_names(parameter.type);
    }
    for (const ast::Result& result : op_.results) {
      define_names(result.type);
      if (request_.with_values)
        signature_.values.push_back({result.name.text, "", one_line(result.type.span)});
      else if (is_float(dtype_of(result.type)))
        signature_.cotangents.push_back({result.name.text, "", one_line(result.type.span)});
    }
    const ast::Type& first = op_.results.front().type;
    if (request_.with_values && !(first.dims.empty() && is_float(dtype_of(first)))) {
      refuse("its first result is not the one number that it would be derived from, a float of rank 0", first.span);
      return false;
    }
    if (!request_.with_values && signature_.cotangents.empty()) {
      refuse("none of its results is a float", op_.results.front().span);
      return false;
    }
    for (const ast::ExprRef& clause : op_.where) {
      signature_.where.push_back(one_line(clause->span));
      define_names(*clause);
    }
    for (const ast::With& with : op_.with) signature_.with.push_back("with " + one_line(with.span));
    return true;
  }

  void define_names(const ast::Type& type) {
    for (const ast::Dim& dim : type.dims) {
      if (const auto* expr = std::get_if<ast::ExprRef>(&dim.kind)) define_names(**expr);
    }
  }

  /// The text stands by itself: constants and functions that the signature uses come with it.
  void define_names(const ast::Expr& expr) {
    for (const std::string& name : names_in(expr)) define_name(name);
    for_each_child(expr, [&](const ast::Expr& child) { define_names(child); });
    if (const auto* call = std::get_if<ast::Call>(&expr.kind)) define_name(call->callee.text);
  }
  void define_name(const std::string& name) {
    const Global global = find_global(module_, name);
    if (global.op() != nullptr || global.item == nullptr || !defined_.insert(name).second) return;
    signature_.taken.push_back(name);
    if (const ast::Fn* fn = global.fn()) {
      define_names(*fn->body);
      definitions_ += one_line(fn->span) + "\n\n";
      return;
    }
    const ast::Const* constant = global.constant();
    const ConstantValue* value = constant == nullptr ? nullptr : context_.constant_value(*global.module, *constant);
    if (value == nullptr || !value->extents.empty()) return;
    definitions_ += "const " + name + ": " + std::string(name_of(value->dtype)) + " = " +
                    scalar::to_text(value->values.front()) + "\n\n";
  }

  /// What the body of the op asks for at entry; the signature asks for its own again.
  void add_conditions(grad::Derivative& derivative) const {
    for (const tensor::Condition& condition : context_.graph.conditions) {
      const auto is_inside = [&](const Span& span) {
        return span.file == condition.span.file && span.begin <= condition.span.begin && condition.span.end <= span.end;
      };
      const bool is_repeated =
          is_inside(op_.signature_span) || std::any_of(op_.where.begin(), op_.where.end(),
                                                       [&](const ast::ExprRef& one) { return is_inside(one->span); });
      if (!is_repeated) derivative.required.push_back(condition.holds);
    }
  }

  /// The text in canonical form; nothing when a pack stands where it cannot.
  std::optional<std::string> laid_out(const std::string& text) const {
    Diagnostics diagnostics;
    const ast::File file = parse(std::make_shared<const SourceFile>("derivative", text), diagnostics);
    if (!diagnostics.has_errors()) return format(file);
    CORRLOOM_CHECK(!instance_.ranks.empty(), "a derivative does not parse:\n", diagnostics.render(), text);
    return {};
  }

  Context& context_;
  const Module& module_;
  const ast::Op& op_;
  const DerivativeRequest& request_;
  std::vector<grad::Variable> variables_;
  grad::Signature signature_;
  std::string definitions_;
  std::unordered_set<std::string> defined_;
  Instance instance_;
  std::set<DType> mentioned_;
};

}  // namespace

std::optional<std::string> derivative_text(Context& context, const Module& module, const ast::Op& op,
                                           const DerivativeRequest& request, std::vector<grad::Choice>* choices) {
  return Deriver(context, module, op, request).run(choices);
}

const Module& add_derived(Library& library, const Module& module, const ast::Item& item, const std::string& text) {
  library.derived.push_back(std::make_unique<Module>());
  Module& derived = *library.derived.back();
  derived.path = module.path + ": " + name_of(item)->text;
  Diagnostics none;
  derived.file = parse(std::make_shared<const SourceFile>(derived.path, text), none);
  CORRLOOM_CHECK(!none.has_errors(), "a derivative does not parse:\n", none.render());
  for (const ast::Item& one : derived.file.items) {
    if (const ast::Name* name = name_of(one)) derived.items.emplace(name->text, &one);
  }
  const auto owner = std::find_if(library.modules.begin(), library.modules.end(),
                                  [&](const auto& one) { return one.get() == &module; });
  CORRLOOM_CHECK(owner != library.modules.end(), "a derivative of a module that is not of the library");
  (*owner)->derived.emplace(&item, std::pair(&derived, derived.items.at(name_of(item)->text)));
  return derived;
}

}  // namespace corrloom::frontend
