#include <algorithm>
#include <map>
#include <unordered_set>

#include "compiler/frontend/constants.h"
#include "compiler/frontend/derivatives.h"
#include "compiler/frontend/library.h"
#include "compiler/frontend/lower_op.h"
#include "compiler/frontend/type_classes.h"
#include "ir/base/match.h"

namespace corrloom::frontend {
namespace {

/// Checks definitions, each once, those that it uses first.
class Checker {
 public:
  Checker(Library& library, Diagnostics& diagnostics) : library_(library), diagnostics_(diagnostics) {}

  void run() {
    for (const auto& module : library_.modules) {
      for (const ast::Item& item : module->file.items) {
        // A constant's value is wanted whoever uses it.
        if (!module->is_standard || std::holds_alternative<ast::Const>(item)) is_sound(*module, item, {}, 0, 0);
      }
    }
  }

 private:
  enum class State { Open, Sound, Broken };

  /// True for a definition without errors. `depth` is that of the syntax around its use.
  bool is_sound(const Module& module, const ast::Item& item, const Span& use, int depth, int call_depth) {
    const ast::Name* name = name_of(item);
    if (name == nullptr) return true;
    const auto known = states_.find(&item);
    if (known != states_.end()) {
      if (known->second != State::Open) return known->second == State::Sound;
      if (in_cycles_.insert(&item).second) report_cycle(*name, use);
      return false;
    }
    if (call_depth >= kMaxCallDepth) {
      diagnostics_.report(Code::E0104, use ? use : name->span, "definitions use each other in too long a chain",
                          "at most " + std::to_string(kMaxCallDepth));
      return false;
    }
    states_[&item] = State::Open;
    open_.push_back(name->text);
    const bool sound = check(module, item, depth, call_depth + 1);
    open_.pop_back();
    states_[&item] = sound ? State::Sound : State::Broken;
    return sound;
  }

  void report_cycle(const ast::Name& name, const Span& use) {
    std::string way;
    const auto first = std::find(open_.begin(), open_.end(), name.text);
    for (auto one = first; one != open_.end(); ++one) way += *one + " uses ";
    diagnostics_.report(Code::E0219, use ? use : name.span, quoted(name.text) + " refers to itself", way + name.text)
        .note("defined here", name.span);
  }

  bool check(const Module& module, const ast::Item& item, int depth, int call_depth) {
    return match(
        item, [](const ast::Import&) { return true; },
        [&](const ast::Const& constant) { return check_constant(module, constant, depth, call_depth); },
        [&](const ast::Fn& fn) { return check_fn(module, fn, depth, call_depth); },
        [&](const ast::Op& op) { return check_op(module, op, depth, call_depth); },
        [&](const ast::Grad& grad) { return check_grad(module, item, grad, depth, call_depth); });
  }

  /// Derives the op, and checks what came out like any other.
  bool check_grad(const Module& module, const ast::Item& item, const ast::Grad& grad, int depth, int call_depth) {
    Global of = find_global(module, grad.of.text);
    if (of.grad() != nullptr && is_sound(*of.module, *of.item, grad.of.span, depth, call_depth))
      of = find_global(module, grad.of.text);
    if (of.kind == Global::Kind::Broken || of.grad() != nullptr) return false;
    if (of.op() == nullptr) {
      report_no_op(module, grad.of);
      return false;
    }
    if (!is_sound(*of.module, *of.item, grad.of.span, depth, call_depth)) return false;
    Context context = context_at(depth);
    connect(context, call_depth);
    const auto text = derivative_text(context, *of.module, *of.op(), {grad.name.text, grad.wrt, grad.of.span, {}});
    if (!text) return false;
    const Module& derived = add_derived(library_, module, item, *text);
    return is_sound(derived, *derived.items.at(grad.name.text), grad.name.span, depth, call_depth);
  }

  void report_no_op(const Module& module, const ast::Name& name) {
    std::vector<std::string> candidates;
    for (const auto& [global, item] : module.items) {
      if (std::holds_alternative<ast::Op>(*item)) candidates.push_back(global);
    }
    Diagnostic& error = diagnostics_.report(Code::E0201, name.span, "there is no op " + quoted(name.text),
                                            "wanted the op to be derived");
    if (const auto nearest = nearest_name(name.text, candidates)) error.help("did you mean " + quoted(*nearest) + "?");
  }

  Context context_at(int depth) {
    Context context(library_, diagnostics_);
    context.is_generic = true;
    context.depth = depth;
    return context;
  }
  /// Definitions that are used are checked first; they continue at the depth of the use.
  void connect(Context& context, int call_depth) {
    context.is_sound = [this, &context, call_depth](const Module& module, const ast::Item& item, const Span& use) {
      return is_sound(module, item, use, context.depth, call_depth);
    };
    context.find_constant = [this, &context, call_depth](const Module& module, const ast::Const& constant,
                                                         const Span& use) -> const ConstantValue* {
      const ast::Item* item = module.items.at(constant.name.text);
      if (!is_sound(module, *item, use, context.depth, call_depth)) return nullptr;
      const auto value = library_.constants.find(&constant);
      return value == library_.constants.end() ? nullptr : &value->second;
    };
  }

  bool check_constant(const Module& module, const ast::Const& constant, int depth, int call_depth) {
    Context context = context_at(depth);
    connect(context, call_depth);
    auto value = evaluate_constant(context, module, constant);
    if (!value) return false;
    library_.constants.emplace(&constant, std::move(*value));
    return true;
  }

  /// An op is checked for one dtype of each kind that its type parameters take, and for packs of one and two
  /// dimensions: what suits these suits all.
  bool check_op(const Module& module, const ast::Op& op, int depth, int call_depth) {
    if (!are_type_parameters_sound(op.type_parameters)) return false;
    const std::unordered_set<std::string> packs = packs_of(op);
    const std::size_t most_dimensions = packs.empty() ? 1 : 2;
    for (const Types& types : rounds_of(op.type_parameters)) {
      for (std::size_t rank = 1; rank <= most_dimensions; ++rank) {
        Instance instance{types, {}};
        for (const std::string& pack : packs) instance.ranks[pack] = rank;
        Context context = context_at(depth);
        connect(context, call_depth);
        if (!OpLowering(context, module, op, "", {}, instance).lower_entry({})) return false;
      }
    }
    return true;
  }

  static std::unordered_set<std::string> packs_of(const ast::Op& op) {
    std::unordered_set<std::string> packs;
    for (const ast::Parameter& parameter : op.parameters) {
      for (const ast::Dim& dim : parameter.type.dims) {
        if (const auto* pack = std::get_if<ast::Pack>(&dim.kind)) packs.insert(pack->name.text);
      }
    }
    return packs;
  }

  // ---- Type parameters ----

  using Types = std::map<std::string, DType>;

  bool are_type_parameters_sound(const std::vector<ast::TypeParameter>& parameters) {
    bool is_sound = true;
    for (const ast::TypeParameter& parameter : parameters) {
      if (parse_dtype(parameter.name.text)) {
        diagnostics_.report(Code::E0204, parameter.name.span,
                            quoted(parameter.name.text) + " hides the dtype of that name", "wanted a new name");
        is_sound = false;
      }
      if (!kinds_of_class(parameter.type_class.text).empty()) continue;
      diagnostics_.report(Code::E0232, parameter.type_class.span,
                          "there is no class " + quoted(parameter.type_class.text),
                          "wanted `float`, `integer`, `number` or `any`");
      is_sound = false;
    }
    return is_sound;
  }

  /// One dtype for each type parameter, in as many ways as show every kind of each.
  static std::vector<Types> rounds_of(const std::vector<ast::TypeParameter>& parameters) {
    std::size_t count = 1;
    for (const ast::TypeParameter& parameter : parameters)
      count = std::max(count, kinds_of_class(parameter.type_class.text).size());
    std::vector<Types> rounds(count);
    for (std::size_t round = 0; round < count; ++round) {
      for (const ast::TypeParameter& parameter : parameters) {
        const std::vector<DType> kinds = kinds_of_class(parameter.type_class.text);
        rounds[round][parameter.name.text] = kinds[std::min(round, kinds.size() - 1)];
      }
    }
    return rounds;
  }

  // ---- Functions ----

  bool check_fn(const Module& module, const ast::Fn& fn, int depth, int call_depth) {
    if (!check_fn_signature(fn)) return false;
    for (const Types& types : rounds_of(fn.type_parameters)) {
      if (!check_fn_body(module, fn, types, depth, call_depth)) return false;
    }
    return true;
  }

  bool check_fn_signature(const ast::Fn& fn) {
    bool is_sound = true;
    std::unordered_set<std::string> names;
    const auto is_new = [&](const ast::Name& name) {
      if (names.insert(name.text).second) return true;
      diagnostics_.report(Code::E0202, name.span, quoted(name.text) + " is defined twice", "second definition");
      return false;
    };
    std::unordered_set<std::string> types;
    for (const ast::TypeParameter& parameter : fn.type_parameters) {
      is_sound = is_new(parameter.name) && is_sound;
      types.insert(parameter.name.text);
    }
    is_sound = are_type_parameters_sound(fn.type_parameters) && is_sound;
    const auto is_type = [&](const ast::Name& name) {
      if (parse_dtype(name.text) || types.count(name.text) != 0) return true;
      diagnostics_.report(Code::E0232, name.span, "there is no dtype " + quoted(name.text),
                          "wanted `f32`, `i64`, `bool` or another dtype");
      return false;
    };
    for (const ast::FnParameter& parameter : fn.parameters) {
      is_sound = is_new(parameter.name) && is_sound;
      is_sound = is_type(parameter.type) && is_sound;
    }
    for (const ast::TypeParameter& parameter : fn.type_parameters) {
      const auto uses = [&](const ast::FnParameter& one) { return one.type.text == parameter.name.text; };
      if (std::any_of(fn.parameters.begin(), fn.parameters.end(), uses)) continue;
      diagnostics_.report(Code::E0232, parameter.span, "no parameter is of the type " + quoted(parameter.name.text),
                          "could not be told from a call");
      is_sound = false;
    }
    return is_type(fn.result) && is_sound;
  }

  bool check_fn_body(const Module& module, const ast::Fn& fn, const Types& types, int depth, int call_depth) {
    Context context = context_at(depth);
    connect(context, call_depth);
    const auto dtype_of = [&](const ast::Name& name) {
      const auto found = types.find(name.text);
      return found == types.end() ? parse_dtype(name.text).value() : found->second;
    };
    Scope scope;
    for (const ast::TypeParameter& parameter : fn.type_parameters)
      scope.bind(parameter.name.text, {TypeName{types.at(parameter.name.text)}, "the type", parameter.span});
    for (const ast::FnParameter& parameter : fn.parameters) {
      const DType dtype = dtype_of(parameter.type);
      const SymbolId symbol =
          context.graph.new_symbol({parameter.name.text, dtype, tensor::Symbol::Kind::Scalar, parameter.span});
      scope.bind(parameter.name.text, {ScalarName{scalar::symbol(symbol, dtype)}, "the parameter", parameter.span});
    }
    Site site{fn.name.text};
    ExprLowering body(context, module, scope, ExprLowering::Place::Function, &site);
    return body.lower_as(*fn.body, dtype_of(fn.result)) != nullptr;
  }

  Library& library_;
  Diagnostics& diagnostics_;
  std::unordered_map<const ast::Item*, State> states_;
  std::vector<std::string> open_;
  std::unordered_set<const ast::Item*> in_cycles_;  ///< each is reported once
};

}  // namespace

void check_library(Library& library, Diagnostics& diagnostics) {
  Checker(library, diagnostics).run();
}

}  // namespace corrloom::frontend
