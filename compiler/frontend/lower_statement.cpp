#include <algorithm>

#include "compiler/frontend/lower_op.h"
#include "ir/base/match.h"

namespace corrloom::frontend {
namespace {

/// The names that a statement defines.
std::vector<const ast::Name*> defined_names(const ast::Statement& statement) {
  std::vector<const ast::Name*> names;
  match(
      statement.target, [&](const ast::Name& name) { names.push_back(&name); },
      [&](const ast::IndexedTarget& target) { names.push_back(&target.name); },
      [&](const ast::TupleTarget& target) {
        for (const ast::Name& name : target.names) names.push_back(&name);
      });
  return names;
}

}  // namespace

bool OpLowering::lower_statement(const ast::Statement& statement) {
  if (statement.along) {
    report_unsupported(context_.diagnostics, statement.along->span, "`along`");
    return false;
  }
  return match(
      statement.target, [&](const ast::Name& target) { return lower_named(statement, target); },
      [&](const ast::IndexedTarget& target) { return lower_indexed(statement, target); },
      [&](const ast::TupleTarget& target) { return lower_tuple(statement, target); });
}

/// After an error: what the statement would have defined can be used without another one.
void OpLowering::poison(const ast::Statement& statement) {
  for (const ast::Name* name : defined_names(statement)) {
    const auto result = results_.find(name->text);
    if (!statement.is_let && result != results_.end()) {
      result->second.is_defined = true;
      if (result->second.value) continue;
      scope_.bind(name->text, {PoisonedName{}, "the result", name->span});
    } else if (statement.is_let && scope_.find(name->text) == nullptr) {
      scope_.bind(name->text, {PoisonedName{}, "the tensor", name->span});
    }
  }
}

/// The result that a statement without `let` defines, or null after an error.
OpLowering::ResultState* OpLowering::result_for(const ast::Name& name) {
  const auto found = results_.find(name.text);
  if (found == results_.end()) {
    std::vector<std::string> candidates;
    for (const auto& [result, state] : results_) candidates.push_back(result);
    Diagnostic& error = context_.diagnostics.report(Code::E0210, name.span, quoted(name.text) + " is no result",
                                                    "results are declared in the signature");
    const auto nearest = nearest_name(name.text, candidates);
    if (nearest && scope_.find(name.text) == nullptr) error.help("did you mean " + quoted(*nearest) + "?");
    if (scope_.find(name.text) == nullptr) error.help("a local tensor is defined by `let " + name.text + "...`");
    return nullptr;
  }
  ResultState& result = found->second;
  if (!result.is_defined) return &result;
  context_.diagnostics
      .report(Code::E0202, name.span, "the result " + quoted(name.text) + " is defined twice", "second definition")
      .note("the first definition is here", result.defined_at);
  return nullptr;
}

bool OpLowering::may_define_local(const ast::Name& name) {
  return expressions(ExprLowering::Place::Statement, nullptr).may_declare(name);
}

/// Binds the name to the tensor. A tensor that exists for something else already is copied for a result.
bool OpLowering::define(const ast::Name& name, ResultState* result, std::optional<TensorId> value, bool is_fresh) {
  if (!value) return false;
  const tensor::Op& op = context_.graph.op(*value);
  const bool is_data =
      std::holds_alternative<tensor::Input>(op.kind) || std::holds_alternative<tensor::Literal>(op.kind);
  if (result != nullptr && (!is_fresh || is_data)) {
    const std::vector<Expr> extents = op.extents;
    std::vector<tensor::Axis> axes = axes_over(extents);
    scalar::Read read{*value, {}};
    for (const tensor::Axis& axis : axes) read.index.push_back(scalar::axis(axis.id));
    read.span = name.span;
    const Expr body = scalar::read(std::move(read), op.dtype);
    value = add_compute({prefix_ + name.text, {}, numerics_}, std::move(axes), body, name.span);
  } else if (is_fresh && !is_data) {
    context_.graph.op(*value).name = prefix_ + name.text;
  }
  if (result != nullptr) {
    result->value = value;
    result->is_defined = true;
    result->defined_at = name.span;
  }
  scope_.bind(name.text, {TensorName{*value}, result != nullptr ? "the result" : "the tensor", name.span});
  return true;
}

std::optional<TensorId> OpLowering::add_compute(Site site, std::vector<tensor::Axis> axes, Expr body,
                                                const Span& span) {
  if (!body) return {};
  tensor::Op op{site.name, body->dtype, {}, {}, span};
  for (const tensor::Axis& axis : axes) op.extents.push_back(axis.extent);
  op.kind = tensor::Compute{std::move(axes), std::move(site.attached), std::move(body), site.numerics};
  return context_.graph.add(std::move(op));
}

// ---- Statements with indices ----

bool OpLowering::lower_indexed(const ast::Statement& statement, const ast::IndexedTarget& target) {
  ResultState* result = statement.is_let ? nullptr : result_for(target.name);
  if (!statement.is_let && result == nullptr) return false;
  bool is_sound = !statement.is_let || may_define_local(target.name);
  // The body must not read the name that it defines.
  std::vector<tensor::Axis> axes;
  std::vector<std::string> bound;
  is_sound = bind_left(statement, target, result, axes, bound) && is_sound;
  Site site{prefix_ + target.name.text, {}, numerics_};
  for (const tensor::Axis& axis : axes) site.axes.push_back(axis.id);
  ExprLowering body = expressions(ExprLowering::Place::Statement, &site);
  const Expr value =
      result != nullptr ? body.lower_as(*statement.value, result->dtype) : body.lower(*statement.value, std::nullopt);
  for (const std::string& name : bound) scope_.unbind(name);
  if (!value || !is_sound) return false;
  const auto tensor = add_compute(std::move(site), std::move(axes), value, statement.target_span);
  return define(target.name, result, tensor, true);
}

/// Puts the variables of the left side in scope, with their ranges.
bool OpLowering::bind_left(const ast::Statement& statement, const ast::IndexedTarget& target, const ResultState* result,
                           std::vector<tensor::Axis>& axes, std::vector<std::string>& bound) {
  const bool is_clear = has_one_pack(target);
  bool is_sound = is_clear && has_rank(statement, target, result);
  for (const ast::Index& index : target.indices) {
    const std::string& name = index.name.text;
    if (std::find(bound.begin(), bound.end(), name) != bound.end()) {
      context_.diagnostics.report(Code::E0208, index.span, "the index " + quoted(name) + " stands twice on the left",
                                  "each dimension has a variable of its own");
      is_sound = false;
      continue;
    }
    if (!may_define_local(index.name)) {
      is_sound = false;
      continue;
    }
    bound.push_back(name);
    scope_.bind(name, {PoisonedName{}, "the index variable", index.name.span});
    const auto extents = is_clear ? left_extents(statement, target, index, result, axes.size()) : std::nullopt;
    is_sound = is_sound && extents;
    if (!extents) continue;
    if (index.is_pack) {
      expressions(ExprLowering::Place::Statement, nullptr).bind_pack(index.name, *extents, axes, bound);
      continue;
    }
    const AxisId axis = context_.new_axis(name, extents->front());
    axes.push_back({axis, name, extents->front()});
    scope_.bind(name, {IndexVariable{axis, scalar::axis(axis)}, "the index variable", index.name.span});
  }
  return is_sound;
}

/// How many dimensions could not be told with two packs.
bool OpLowering::has_one_pack(const ast::IndexedTarget& target) {
  const auto is_pack = [](const ast::Index& index) { return index.is_pack; };
  const auto first = std::find_if(target.indices.begin(), target.indices.end(), is_pack);
  if (first == target.indices.end()) return true;
  const auto second = std::find_if(std::next(first), target.indices.end(), is_pack);
  if (second == target.indices.end()) return true;
  context_.diagnostics.report(Code::E0208, second->span, "two packs stand on the left", "wanted one at most");
  return false;
}

/// Whether the left side has an index for each dimension of the result.
bool OpLowering::has_rank(const ast::Statement& statement, const ast::IndexedTarget& target,
                          const ResultState* result) {
  if (result == nullptr || !result->extents) return true;
  const std::size_t given = target.indices.size(), rank = result->extents->size();
  const bool has_pack =
      std::any_of(target.indices.begin(), target.indices.end(), [](const ast::Index& index) { return index.is_pack; });
  if (has_pack ? given <= rank + 1 : given == rank) return true;
  context_.diagnostics
      .report(Code::E0207, statement.target_span,
              quoted(target.name.text) + " has " + counted(rank, "dimension") + ", not " + std::to_string(given),
              "defined with " + counted(given, "index variable"))
      .note(quoted(target.name.text) + " is declared here", result->declared->span);
  return false;
}

/// The extent of one index of the left side, or those of a pack. `axis` is its first dimension.
std::optional<std::vector<Expr>> OpLowering::left_extents(const ast::Statement& statement,
                                                          const ast::IndexedTarget& target, const ast::Index& index,
                                                          const ResultState* result, std::size_t axis) {
  if (result == nullptr) {
    if (index.is_pack)
      return expressions(ExprLowering::Place::Statement, nullptr).pack_extents(*statement.value, index);
    const Expr extent = left_extent(statement, index);
    return extent ? std::optional(std::vector<Expr>{extent}) : std::nullopt;
  }
  if (index.range) {
    context_.diagnostics.report(Code::E0208, index.span, "the range of " + quoted(index.name.text) + " is written",
                                "the ranges of a result are its declared extents");
    return {};
  }
  if (!result->extents) return {};
  const std::vector<Expr>& declared = *result->extents;
  const std::size_t others = target.indices.size() - 1;
  const std::size_t count = !index.is_pack ? 1 : declared.size() > others ? declared.size() - others : 0;
  if (axis + count > declared.size()) return {};
  const auto first = declared.begin() + static_cast<std::ptrdiff_t>(axis);
  return std::vector<Expr>(first, first + static_cast<std::ptrdiff_t>(count));
}

/// The extent of a local tensor: written, or that of the reads in which the variable stands alone.
Expr OpLowering::left_extent(const ast::Statement& statement, const ast::Index& index) {
  const std::string& name = index.name.text;
  if (!index.range) {
    ExprLowering reads = expressions(ExprLowering::Place::Statement, nullptr);
    const Expr extent = reads.extent_from(reads.range_sources(*statement.value, name), name);
    if (!extent && !context_.has_gaps && !reads.has_unknown_sources()) {
      context_.diagnostics
          .report(Code::E0206, index.name.span, "the range of the index " + quoted(name) + " is not known",
                  "never stands alone as a subscript of a plain read")
          .help("write its range: " + quoted(name + ": " + context_.some_extent()));
    }
    return extent;
  }
  const auto* literal = index.range->begin ? std::get_if<ast::Literal>(&index.range->begin->kind) : nullptr;
  const auto* begin = literal == nullptr ? nullptr : std::get_if<ast::Integer>(&literal->value);
  if (index.range->begin && (begin == nullptr || begin->magnitude != 0 || begin->overflows)) {
    context_.diagnostics.report(Code::E0208, index.range->span, "a range on the left does not begin at 0",
                                "elements are counted from 0");
    return nullptr;
  }
  ExprLowering shapes = expressions(ExprLowering::Place::Statement, nullptr);
  std::vector<Divisor> divisors;
  shapes.note_divisors(&divisors);
  const Expr end = shapes.lower_index(*index.range->end);
  if (!end) return nullptr;
  shapes.require_divisors(divisors);
  if (is_symbolic(end)) return at_least_zero(context_.graph, end);
  context_.diagnostics.report(Code::E0208, index.range->span, "an extent on the left depends on an index or a tensor",
                              "wanted dimensions, attributes and constants");
  return nullptr;
}

// ---- Statements without indices ----

bool OpLowering::lower_named(const ast::Statement& statement, const ast::Name& target) {
  ResultState* result = statement.is_let ? nullptr : result_for(target);
  if (!statement.is_let && result == nullptr) return false;
  const bool is_sound = !statement.is_let || may_define_local(target);
  if (!is_whole(*statement.value)) return lower_rank_zero(statement, target, result) && is_sound;
  const std::size_t before = context_.graph.ops.size();
  const std::optional<DType> wanted = result != nullptr ? std::optional(result->dtype) : std::nullopt;
  const auto value = lower_whole(*statement.value, wanted, prefix_ + target.text);
  if (!value || !is_sound) return false;
  if (result != nullptr) {
    if (!result->extents) return false;
    if (!has_declared_extents(*result, *value, statement.value->span)) return false;
  }
  return define(target, result, value, static_cast<std::size_t>(value->index) >= before);
}

/// Whether a whole tensor has the extents that the result is declared with; those that differ for some arguments only
/// become conditions.
bool OpLowering::has_declared_extents(const ResultState& result, TensorId value, const Span& span) {
  const std::vector<Expr> given = context_.extents(value);
  const std::vector<Expr>& declared = *result.extents;
  const std::string& name = result.declared->name.text;
  if (given.size() != declared.size()) {
    context_.diagnostics
        .report(
            Code::E0207, span,
            quoted(name) + " has " + counted(declared.size(), "dimension") + ", not " + std::to_string(given.size()),
            "gives " + counted(given.size(), "dimension"))
        .note(quoted(name) + " is declared here", result.declared->span);
    return false;
  }
  const std::vector<DimPlace> places = places_of(result.declared->type);
  for (std::size_t k = 0; k < given.size(); ++k) {
    context_.require_equal(declared[k], given[k],
                           quoted(name) + " is declared with another extent along axis " + std::to_string(k) +
                               " than its definition gives",
                           span, {{"declared " + quoted(text_of(places[k])), declared[k]}, {"given", given[k]}});
  }
  return true;
}

bool OpLowering::lower_rank_zero(const ast::Statement& statement, const ast::Name& target, ResultState* result) {
  Site site{prefix_ + target.text, {}, numerics_};
  ExprLowering body = expressions(ExprLowering::Place::Statement, &site);
  if (result != nullptr && !result->extents) return false;
  if (result != nullptr && !result->extents->empty()) {
    context_.diagnostics
        .report(Code::E0207, target.span,
                quoted(target.text) + " has " + counted(result->extents->size(), "dimension") + ", not 0",
                "is defined as one value")
        .help("name its indices: " + quoted(target.text + "[i, ...] = ..."));
    return false;
  }
  const Expr value =
      result != nullptr ? body.lower_as(*statement.value, result->dtype) : body.lower(*statement.value, std::nullopt);
  const auto tensor = add_compute(std::move(site), {}, value, statement.target_span);
  return define(target, result, tensor, true);
}

bool OpLowering::lower_tuple(const ast::Statement& statement, const ast::TupleTarget& target) {
  const auto* call = std::get_if<ast::Call>(&statement.value->kind);
  const Global global = call == nullptr ? Global{} : find_op(call->callee);
  if (global.kind == Global::Kind::Broken) return false;
  if (global.op() == nullptr) {
    context_.diagnostics.report(Code::E0218, statement.value->span,
                                "several results are taken from what is no call of an op", "wanted `op(...)`");
    return false;
  }
  bool is_sound = true;
  if (global.op()->results.size() != target.names.size()) {
    context_.diagnostics
        .report(Code::E0216, statement.target_span,
                quoted(call->callee.text) + " gives " + counted(global.op()->results.size(), "result"),
                "takes " + std::to_string(target.names.size()))
        .note("declared here", global.op()->name.span);
    is_sound = false;
  }
  std::vector<ResultState*> results;
  for (std::size_t k = 0; k < target.names.size(); ++k) {
    const ast::Name& name = target.names[k];
    const auto is_it = [&](const ast::Name& other) { return other.text == name.text; };
    if (std::any_of(target.names.begin(), target.names.begin() + static_cast<std::ptrdiff_t>(k), is_it)) {
      context_.diagnostics.report(Code::E0202, name.span, quoted(name.text) + " is defined twice", "second definition");
      is_sound = false;
    }
    results.push_back(statement.is_let ? nullptr : result_for(name));
    is_sound = (statement.is_let ? may_define_local(name) : results.back() != nullptr) && is_sound;
  }
  const auto values = lower_op_call(*call, statement.value->span, prefix_ + target.names.front().text);
  if (!values || !is_sound) return false;
  for (std::size_t k = 0; k < values->size(); ++k) {
    if (results[k] != nullptr) {
      if (!results[k]->extents) return false;
      const DType given = context_.graph.op((*values)[k]).dtype;
      if (given != results[k]->dtype) {
        context_.diagnostics.report(Code::E0212, target.names[k].span,
                                    quoted(target.names[k].text) + " is declared as " + quoted(results[k]->dtype) +
                                        ", and " + quoted(call->callee.text) + " gives " + quoted(given),
                                    "is given " + std::string(name_of(given)));
        return false;
      }
      if (!has_declared_extents(*results[k], (*values)[k], target.names[k].span)) return false;
    }
    define(target.names[k], results[k], (*values)[k], true);
  }
  return true;
}

}  // namespace corrloom::frontend
