
#include "compiler/frontend/bind_known.h"
#include "compiler/frontend/entry.h"
#include "compiler/frontend/frontend.h"
#include "compiler/frontend/library.h"
#include "compiler/frontend/lowering.h"
#include "ir/base/errors.h"

namespace corrloom::frontend {
namespace {

using scalar::Value;

std::string shape_text(const TensorType& type) {
  std::string text(name_of(type.dtype));
  text += "[";
  for (std::size_t axis = 0; axis < type.extents.size(); ++axis)
    text += (axis == 0 ? "" : ", ") + std::to_string(type.extents[axis]);
  return text + "]";
}

class Binder {
 public:
  /// `may_be_open`: extents may be `kOpenExtent`.
  Binder(const OpSignature& signature, const tensor::Graph& graph, const Arguments& arguments, bool may_be_open,
         Diagnostics& diagnostics)
      : signature_(signature),
        graph_(graph),
        arguments_(arguments),
        may_be_open_(may_be_open),
        diagnostics_(diagnostics) {}

  std::optional<SymbolValues> run() {
    const bool are_known = check_names();
    std::size_t tensors = 0;
    for (const ParameterSignature& parameter : signature_.parameters) {
      if (!parameter.is_tensor) {
        bind_scalar(parameter);
        continue;
      }
      const tensor::Op& input = graph_.op(graph_.inputs[tensors++]);
      if (const TensorType* type = type_of(parameter)) bind_extents(parameter, input, *type);
    }
    if (failed_ || !are_known) return {};
    tensors = 0;
    for (const ParameterSignature& parameter : signature_.parameters) {
      if (parameter.is_tensor) compare_extents(parameter, graph_.op(graph_.inputs[tensors++]));
    }
    if (failed_) return {};
    return values_;
  }

 private:
  Diagnostic& fail(Code code, const ParameterSignature& parameter, std::string title, std::string label = {}) {
    failed_ = true;
    return diagnostics_.report(code, parameter.span, std::move(title), std::move(label));
  }

  bool check_names() {
    bool known = true;
    const auto check = [&](const std::string& name, bool is_tensor) {
      const ParameterSignature* parameter = signature_.parameter(name);
      if (parameter != nullptr && parameter->is_tensor == is_tensor) return;
      known = false;
      const std::string is_not = is_tensor ? " is a scalar, not a tensor" : " is a tensor, not a scalar";
      Diagnostic& error =
          diagnostics_.report(Code::E0245, parameter != nullptr ? parameter->span : signature_.span,
                              parameter != nullptr ? "the argument " + quoted(name) + is_not
                                                   : quoted(signature_.name) + " has no argument " + quoted(name));
      std::vector<std::string> candidates;
      for (const ParameterSignature& one : signature_.parameters) candidates.push_back(one.name);
      if (const auto nearest = nearest_name(name, candidates); nearest && parameter == nullptr)
        error.help("did you mean " + quoted(*nearest) + "?");
    };
    for (const auto& [name, type] : arguments_.tensors) check(name, true);
    for (const auto& [name, value] : arguments_.scalars) check(name, false);
    return known;
  }

  void bind_scalar(const ParameterSignature& parameter) {
    const auto given = arguments_.scalars.find(parameter.name);
    if (given == arguments_.scalars.end()) {
      if (parameter.default_value) {
        values_[parameter.name] = *parameter.default_value;
      } else if (arguments_.tensors.count(parameter.name) == 0) {
        fail(Code::E0245, parameter, "the argument " + quoted(parameter.name) + " is not given",
             "wanted " + declared_text(parameter));
      }
    } else if (given->second.dtype != parameter.dtype) {
      fail(Code::E0241, parameter,
           "the argument " + quoted(parameter.name) + " is of " + quoted(given->second.dtype) + ", not " +
               quoted(parameter.dtype),
           "declared as " + declared_text(parameter));
    } else {
      values_[parameter.name] = given->second;
    }
  }

  /// The argument's type when dtype and rank are those declared.
  const TensorType* type_of(const ParameterSignature& parameter) {
    const auto given = arguments_.tensors.find(parameter.name);
    if (given == arguments_.tensors.end()) {
      if (arguments_.scalars.count(parameter.name) == 0)
        fail(Code::E0245, parameter, "the argument " + quoted(parameter.name) + " is not given",
             "wanted " + declared_text(parameter));
      failed_ = true;
      return nullptr;
    }
    const TensorType& type = given->second;
    bool fits = true;
    if (type.dtype != parameter.dtype) {
      fail(Code::E0241, parameter,
           "the argument " + quoted(parameter.name) + " is of " + quoted(type.dtype) + ", not " +
               quoted(parameter.dtype),
           "declared as " + declared_text(parameter))
          .note("the argument is " + shape_text(type));
      fits = false;
    }
    if (type.extents.size() != parameter.dims.size()) {
      fail(Code::E0240, parameter,
           "the argument " + quoted(parameter.name) + " has " + counted(type.extents.size(), "dimension") + ", not " +
               std::to_string(parameter.dims.size()),
           "declared as " + declared_text(parameter))
          .note("the argument is " + shape_text(type));
      fits = false;
    }
    for (const std::int64_t extent : type.extents) {
      if (extent >= 0 || is_open(extent)) continue;
      fail(Code::E0242, parameter, "the argument " + quoted(parameter.name) + " has a negative extent")
          .note("the argument is " + shape_text(type));
      fits = false;
    }
    return fits ? &type : nullptr;
  }

  bool is_open(std::int64_t extent) const { return may_be_open_ && extent == kOpenExtent; }

  const tensor::Symbol& symbol(scalar::SymbolId id) const { return graph_.symbols[static_cast<std::size_t>(id.index)]; }

  void bind_extents(const ParameterSignature& parameter, const tensor::Op& input, const TensorType& type) {
    for (std::size_t axis = 0; axis < input.extents.size(); ++axis) {
      const auto* reference = std::get_if<scalar::SymbolRef>(&input.extents[axis]->kind);
      if (is_open(type.extents[axis])) continue;
      if (reference == nullptr || symbol(reference->symbol).kind != tensor::Symbol::Kind::Dimension) continue;
      const std::string& name = symbol(reference->symbol).name;
      const Value value = Value::i64(type.extents[axis]);
      const auto [known, is_new] = values_.emplace(name, value);
      const std::string place = extent_text(parameter.name, axis);
      if (is_new) {
        first_met_[name] = {place, parameter.span};
      } else if (known->second != value) {
        fail(Code::E0242, parameter,
             "the arguments do not agree on " + quoted(name) + ": " + std::to_string(known->second.as_i64()) + " and " +
                 std::to_string(type.extents[axis]),
             place + " is " + std::to_string(type.extents[axis]))
            .note(first_met_[name].first + " is " + std::to_string(known->second.as_i64()), first_met_[name].second);
      }
    }
  }

  /// The dimensions that are no plain names: numbers, constants and formulas.
  void compare_extents(const ParameterSignature& parameter, const tensor::Op& input) {
    const TensorType& type = arguments_.tensors.at(parameter.name);
    for (std::size_t axis = 0; axis < input.extents.size(); ++axis) {
      if (is_open(type.extents[axis])) continue;
      const EntryValue wanted = evaluate_at_entry(input.extents[axis], [&](scalar::SymbolId id) {
        const auto found = values_.find(symbol(id).name);
        return found == values_.end() ? std::nullopt : std::optional(found->second);
      });
      const std::string dim = quoted(parameter.dims[axis]);
      const std::string place = extent_text(parameter.name, axis);
      Diagnostic* error = nullptr;
      if (may_be_open_ && wanted.kind == EntryValue::Kind::Unknown) continue;
      if (wanted.kind != EntryValue::Kind::Exact) {
        error = &fail(Code::E0244, parameter, place + ", " + dim + ", cannot be computed",
                      wanted.kind == EntryValue::Kind::ZeroDivisor ? "divides by zero" : "leaves 64 bits");
      } else if (wanted.value.as_i64() != type.extents[axis]) {
        error = &fail(Code::E0242, parameter,
                      place + " is " + std::to_string(type.extents[axis]) + ", but " + dim + " is " +
                          std::to_string(wanted.value.as_i64()),
                      "declared as " + declared_text(parameter));
      }
      if (error == nullptr) continue;
      error->note("the argument is " + shape_text(type));
      std::vector<tensor::Condition::Shown> names;
      show_symbols(graph_, input.extents[axis], names);
      for (const auto& shown : names) {
        const auto value = values_.find(shown.name);
        if (value != values_.end()) error->note(shown.name + " = " + scalar::to_text(value->second));
      }
    }
  }

  const OpSignature& signature_;
  const tensor::Graph& graph_;
  const Arguments& arguments_;
  bool may_be_open_;
  Diagnostics& diagnostics_;
  SymbolValues values_;
  std::map<std::string, std::pair<std::string, Span>> first_met_;
  bool failed_ = false;
};

/// Judges the conditions of a graph, then its extents.
class EntryCheck {
 public:
  /// `may_be_open`: what uses a symbol without a value is left to the call.
  EntryCheck(const tensor::Graph& graph, const SymbolLookup& symbols, bool may_be_open, Diagnostics& diagnostics)
      : graph_(graph), symbols_(symbols), may_be_open_(may_be_open), diagnostics_(diagnostics) {}

  bool run() {
    bool holds = true;
    for (const tensor::Condition& condition : graph_.conditions) holds = !is_false(condition) && holds;
    // A divisor that is zero is a condition of its own.
    const bool is_told = !holds;
    for (const tensor::Condition& condition : graph_.conditions) holds = has_value(condition, is_told) && holds;
    for (const tensor::Op& op : graph_.ops) holds = holds && has_extents(op);
    return holds;
  }

 private:
  bool is_left(const EntryValue& value) const { return may_be_open_ && value.kind == EntryValue::Kind::Unknown; }

  /// Why there is no value.
  static std::string reason_of(const EntryValue& value) {
    return value.kind == EntryValue::Kind::ZeroDivisor ? "divides by zero" : "leaves 64 bits";
  }

  bool is_false(const tensor::Condition& condition) {
    const EntryValue value = evaluate_at_entry(condition.holds, symbols_);
    if (value.kind != EntryValue::Kind::Exact || value.value.as_bool()) return false;
    show(condition, diagnostics_.report(Code::E0243, condition.span, condition.title));
    return true;
  }

  bool has_value(const tensor::Condition& condition, bool zero_is_told) {
    const EntryValue value = evaluate_at_entry(condition.holds, symbols_);
    if (value.kind == EntryValue::Kind::Exact || is_left(value)) return true;
    if (value.kind == EntryValue::Kind::ZeroDivisor && zero_is_told) return false;
    show(condition, diagnostics_.report(Code::E0244, condition.span, "a size cannot be computed", reason_of(value)));
    return false;
  }

  void show(const tensor::Condition& condition, Diagnostic& error) const {
    for (const tensor::Condition::Shown& shown : condition.shown) {
      const EntryValue one = evaluate_at_entry(shown.value, symbols_);
      if (is_left(one)) continue;
      error.note(shown.name + (one.kind == EntryValue::Kind::Exact ? " = " + scalar::to_text(one.value)
                                                                   : std::string(" cannot be computed")));
    }
  }

  bool has_extents(const tensor::Op& op) {
    for (const Expr& extent : op.extents) {
      const EntryValue value = evaluate_at_entry(extent, symbols_);
      const bool is_exact = value.kind == EntryValue::Kind::Exact;
      if (is_left(value) || (is_exact && value.value.as_i64() >= 0)) continue;
      Diagnostic& error =
          diagnostics_.report(Code::E0244, op.span, "an extent of " + quoted(op.name) + " cannot be computed",
                              is_exact ? "is negative" : reason_of(value));
      std::vector<tensor::Condition::Shown> names;
      show_symbols(graph_, extent, names);
      for (const auto& shown : names) {
        const EntryValue one = evaluate_at_entry(shown.value, symbols_);
        if (one.kind == EntryValue::Kind::Exact) error.note(shown.name + " = " + scalar::to_text(one.value));
      }
      return false;
    }
    return true;
  }

  const tensor::Graph& graph_;
  const SymbolLookup& symbols_;
  bool may_be_open_;
  Diagnostics& diagnostics_;
};

}  // namespace

std::optional<SymbolValues> bind(const OpSignature& signature, const tensor::Graph& graph, const Arguments& arguments,
                                 Diagnostics& diagnostics) {
  auto values = Binder(signature, graph, arguments, /*may_be_open=*/false, diagnostics).run();
  if (!values || !check_entry(graph, in_symbol_order(graph, *values), diagnostics)) return {};
  return values;
}

std::optional<SymbolValues> bind_known(const OpSignature& signature, const tensor::Graph& graph,
                                       const Arguments& arguments, Diagnostics& diagnostics) {
  auto values = Binder(signature, graph, arguments, /*may_be_open=*/true, diagnostics).run();
  if (!values) return {};
  const SymbolLookup lookup = [&](scalar::SymbolId id) -> std::optional<Value> {
    const auto found = values->find(graph.symbols[static_cast<std::size_t>(id.index)].name);
    return found == values->end() ? std::nullopt : std::optional(found->second);
  };
  if (!EntryCheck(graph, lookup, /*may_be_open=*/true, diagnostics).run()) return {};
  return values;
}

std::vector<scalar::Value> in_symbol_order(const tensor::Graph& graph, const SymbolValues& values) {
  std::vector<Value> list;
  for (const tensor::Symbol& symbol : graph.symbols) {
    const auto found = values.find(symbol.name);
    CORRLOOM_CHECK(found != values.end(), "the symbol ", symbol.name, " has no value");
    list.push_back(found->second);
  }
  return list;
}

bool check_entry(const tensor::Graph& graph, const std::vector<scalar::Value>& symbols, Diagnostics& diagnostics) {
  const SymbolLookup lookup = [&](scalar::SymbolId id) -> std::optional<Value> {
    const auto at = static_cast<std::size_t>(id.index);
    return at < symbols.size() ? std::optional(symbols[at]) : std::nullopt;
  };
  return EntryCheck(graph, lookup, /*may_be_open=*/false, diagnostics).run();
}

}  // namespace corrloom::frontend
