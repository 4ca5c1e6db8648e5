#include "compiler/passes/specialise.h"

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/passes/readers.h"
#include "compiler/passes/size_proofs.h"
#include "ir/affine/affine.h"
#include "ir/base/errors.h"

namespace corrloom::passes {
namespace {

using tensor::Condition;
using tensor::Expr;
using tensor::Graph;
using tensor::Op;
using tensor::Symbol;
using tensor::SymbolId;

/// What stands in place of each symbol: a constant, or the symbol under its new number.
std::vector<Expr> bind_symbols(Graph& graph, const PassContext& ctx) {
  std::vector<Expr> replacements;
  std::vector<Symbol> unbound;
  for (Symbol& symbol : graph.symbols) {
    const auto bound = ctx.bindings.find(symbol.name);
    if (bound == ctx.bindings.end()) {
      replacements.push_back(scalar::symbol(SymbolId{static_cast<std::int32_t>(unbound.size())}, symbol.dtype));
      unbound.push_back(std::move(symbol));
      continue;
    }
    CORRLOOM_CHECK(bound->second.dtype == symbol.dtype, "the symbol ", symbol.name, " of ", name_of(symbol.dtype),
                   " is bound to a value of ", name_of(bound->second.dtype));
    replacements.push_back(scalar::constant(bound->second));
  }
  graph.symbols = std::move(unbound);
  return replacements;
}

Expr substitute(const Expr& expr, const std::vector<Expr>& replacements) {
  return scalar::rewrite(expr, [&](const Expr& node) -> Expr {
    const auto* symbol = std::get_if<scalar::SymbolRef>(&node->kind);
    return symbol == nullptr ? nullptr : replacements[static_cast<std::size_t>(symbol->symbol.index)];
  });
}

/// True when nothing but constants is left, so that a wrap is certain.
bool is_closed(const Expr& expr) {
  bool closed = true;
  scalar::for_each_node(expr, [&](const Expr& node) {
    closed = closed && (std::holds_alternative<scalar::Constant>(node->kind) ||
                        std::holds_alternative<scalar::Apply>(node->kind));
  });
  return closed;
}

const affine::Ranges kNoAxes = [](tensor::AxisId) { return std::optional<affine::Interval>(); };

bool overflows(const Expr& expr) {
  return is_closed(expr) && affine::may_wrap(expr, kNoAxes);
}

/// `H = 3, P = 5`: the shown names whose values are known.
std::string values_of(const Condition& condition) {
  std::string text;
  for (const Condition::Shown& shown : condition.shown) {
    const scalar::Value* value = scalar::as_constant(shown.value);
    if (value == nullptr) continue;
    text += (text.empty() ? "" : ", ") + shown.name + " = " + scalar::to_text(*value);
  }
  return text;
}

/// Decides a condition; true when it need not be kept.
bool decide(const Condition& condition, bool arithmetic_overflows, Diagnostics& diagnostics) {
  const scalar::Value* holds = scalar::as_constant(condition.holds);
  if (holds == nullptr) return false;
  if (holds->as_bool() && !arithmetic_overflows) return true;
  const Code code = arithmetic_overflows ? Code::E0251 : Code::E0250;
  Diagnostic& error = diagnostics.report(code, condition.span, condition.title);
  if (arithmetic_overflows) error.note("its arithmetic overflows 64 bits");
  const std::string values = values_of(condition);
  if (!values.empty()) error.note(values);
  return true;
}

void specialise_conditions(Graph& graph, const std::vector<Expr>& replacements, Diagnostics& diagnostics) {
  std::vector<Condition> kept;
  for (Condition& condition : graph.conditions) {
    condition.holds = substitute(condition.holds, replacements);
    const bool arithmetic_overflows = overflows(condition.holds);
    condition.holds = affine::simplify_index(condition.holds, kNoAxes);
    for (Condition::Shown& shown : condition.shown)
      shown.value = scalar::simplify(substitute(shown.value, replacements));
    if (!decide(condition, arithmetic_overflows, diagnostics)) kept.push_back(std::move(condition));
  }
  graph.conditions = std::move(kept);
}

/// Reports an extent that no tensor can have; true when it did.
bool report_bad_extent(const Op& op, const Expr& extent, std::size_t dimension, Diagnostics& diagnostics) {
  const std::string place = "dimension " + std::to_string(dimension) + " of " + op.name;
  if (overflows(extent)) {
    diagnostics.report(Code::E0251, op.span, "the extent of " + place + " overflows 64 bits");
    return true;
  }
  const std::optional<std::int64_t> value = scalar::as_i64(scalar::simplify(extent));
  if (!value || *value >= 0) return false;
  diagnostics.report(Code::E0251, op.span, "the extent of " + place + " is negative")
      .note("it would be " + std::to_string(*value));
  return true;
}

/// Reports a tensor whose elements or bytes cannot be counted in 63 bits. Unknown extents are left out.
void report_bad_size(const Op& op, Diagnostics& diagnostics) {
  std::int64_t bytes = byte_size(op.dtype);
  std::string extents;
  bool too_large = false;
  for (const Expr& extent : op.extents) {
    const std::optional<std::int64_t> value = scalar::as_i64(extent);
    if (value == 0) return;
    if (value) too_large = __builtin_mul_overflow(bytes, *value, &bytes) || too_large;
    extents += (extents.empty() ? "" : ", ") + (value ? std::to_string(*value) : std::string("?"));
  }
  if (!too_large) return;
  diagnostics.report(Code::E0251, op.span, op.name + " has 2^63 bytes or more")
      .note("its extents are [" + extents + "], of " + std::string(name_of(op.dtype)));
}

/// Checks the extents of an op as they are after substitution; false when one is impossible.
bool check_extents(const Op& op, Diagnostics& diagnostics) {
  bool possible = true;
  for (std::size_t k = 0; k < op.extents.size(); ++k)
    possible = !report_bad_extent(op, op.extents[k], k, diagnostics) && possible;
  for (const tensor::Axis& axis : bound_axes(op)) {
    if (!overflows(axis.extent)) continue;
    diagnostics.report(Code::E0251, op.span, "the range of " + axis.name + " overflows 64 bits");
    possible = false;
  }
  return possible;
}

/// Says of a reduction in any order that its order is free: simplified, its operations may no longer show that.
void keep_order_free(Op& op) {
  auto* compute = std::get_if<tensor::Compute>(&op.kind);
  if (compute == nullptr || !compute->reduction) return;
  if (compute->reduction->order.kind == tensor::Order::Kind::Any)
    compute->numerics.order = tensor::Numerics::OrderMode::Any;
}

/// Where the reads of an expression stand in the source.
std::set<std::pair<std::uint32_t, std::uint32_t>> reads_of(const Expr& expr) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> out;
  scalar::for_each_node(expr, [&](const Expr& node) {
    if (const scalar::Read* read = scalar::as_read(node)) out.emplace(read->span.begin, read->span.end);
  });
  return out;
}

void simplify_op(const Graph& graph, Op& op) {
  const affine::Ranges ranges = ranges_of(op);
  const bool is_open = has_dimensions(graph);
  const affine::SizeProof proof = size_proof_of(graph, op);
  keep_order_free(op);
  tensor::rewrite_exprs(op, [&](const Expr& expr) {
    const Expr open = is_open ? with_simple_subscripts(expr, proof) : expr;
    const Expr simple = scalar::simplify(affine::simplify_index(open, ranges));
    // What a read needs at entry holds whether or not its value matters (`x % (v % 2)` is 0 for all v), so reads have
    // to stay until check_bounds has seen them.
    return reads_of(simple) == reads_of(expr) ? simple : expr;
  });
}

}  // namespace

Graph specialise(Graph graph, PassContext& ctx) {
  const std::vector<Expr> replacements = bind_symbols(graph, ctx);
  specialise_conditions(graph, replacements, ctx.diagnostics);
  // A condition that does not hold explains an impossible extent better than the extent itself.
  const bool conditions_hold = !ctx.diagnostics.has_errors();
  for (Op& op : graph.ops) {
    tensor::rewrite_exprs(op, [&](const Expr& expr) { return substitute(expr, replacements); });
    if (!conditions_hold) continue;
    if (!check_extents(op, ctx.diagnostics)) continue;
    simplify_op(graph, op);
    report_bad_size(op, ctx.diagnostics);
  }
  return graph;
}

}  // namespace corrloom::passes
