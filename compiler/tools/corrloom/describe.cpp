#include "compiler/tools/corrloom/describe.h"

#include <algorithm>
#include <optional>

#include "ir/affine/affine.h"
#include "ir/base/match.h"

namespace corrloom::tools {
namespace {

using scalar::Expr;
using scalar::Opcode;

/// An operator of the language: how tightly it binds, higher is tighter.
struct Operator {
  Opcode opcode;
  const char* text;
  int strength;
};
constexpr Operator kOperators[] = {
    {Opcode::Mul, " * ", 8}, {Opcode::FloorDiv, " // ", 8}, {Opcode::Div, " / ", 8},      {Opcode::Mod, " % ", 8},
    {Opcode::Add, " + ", 7}, {Opcode::Sub, " - ", 7},       {Opcode::And, " & ", 5},      {Opcode::Or, " | ", 4},
    {Opcode::Eq, " == ", 3}, {Opcode::Ne, " != ", 3},       {Opcode::Lt, " < ", 3},       {Opcode::Le, " <= ", 3},
    {Opcode::Gt, " > ", 3},  {Opcode::Ge, " >= ", 3},       {Opcode::LazyAnd, " && ", 2}, {Opcode::LazyOr, " || ", 1}};

const Operator* operator_of(Opcode opcode) {
  const auto* found = std::find_if(std::begin(kOperators), std::end(kOperators),
                                   [&](const Operator& one) { return one.opcode == opcode; });
  return found == std::end(kOperators) ? nullptr : found;
}

/// Writes until the text is long enough: a shared sub-expression could otherwise be written exponentially often.
class Writer {
 public:
  explicit Writer(const tensor::Graph& graph) : graph_(graph) {}

  std::string run(const Expr& expr) {
    write(expr, 0);
    return is_full() ? text_ + "..." : std::move(text_);
  }

 private:
  static constexpr std::size_t kLongest = 200;
  static constexpr int kDeepest = 200;
  bool is_full() const { return text_.size() > kLongest || depth_ > kDeepest; }

  void write(const Expr& expr, int strength) {
    if (is_full()) return;
    ++depth_;
    match(
        expr->kind, [&](const scalar::Constant& node) { text_ += scalar::to_text(node.value); },
        [&](const scalar::AxisRef& node) { text_ += graph_.axis_names[static_cast<std::size_t>(node.axis.index)]; },
        [&](const scalar::SymbolRef& node) {
          text_ += graph_.symbols[static_cast<std::size_t>(node.symbol.index)].name;
        },
        [&](const scalar::AccRef&) { text_ += "..."; },
        [&](const scalar::Read& node) { write_list(graph_.op(node.source).name + "[", node.index, "]"); },
        [&](const scalar::Apply& node) { write_apply(node, expr->dtype, strength); });
    if (depth_ <= kDeepest) --depth_;
  }

  void write_apply(const scalar::Apply& node, DType dtype, int strength) {
    const Operator* infix = operator_of(node.opcode);
    if (infix == nullptr) {
      const bool is_cast = node.opcode == Opcode::Cast;
      write_list(std::string(is_cast ? name_of(dtype) : scalar::info(node.opcode).text) + "(", node.args, ")");
      return;
    }
    const bool bracketed = infix->strength < strength;
    if (bracketed) text_ += "(";
    write(node.args[0], infix->strength);
    text_ += infix->text;
    write(node.args[1], infix->strength + 1);
    if (bracketed) text_ += ")";
  }

  void write_list(const std::string& open, const std::vector<Expr>& parts, const char* close) {
    text_ += open;
    for (std::size_t k = 0; k < parts.size(); ++k) {
      if (k > 0) text_ += ", ";
      write(parts[k], 0);
    }
    text_ += close;
  }

  const tensor::Graph& graph_;
  std::string text_;
  int depth_ = 0;
};

/// The end of a range before it was cut at 0: extents are written `max(end - begin, 0)`.
Expr without_floor(const Expr& extent) {
  const scalar::Apply* max = scalar::as_apply(extent, Opcode::Max);
  return max != nullptr && scalar::is_constant_i64(max->args[1], 0) ? max->args[0] : extent;
}

/// `N`, or `i - 2..i + 1` for a range that begins elsewhere or may be empty.
std::string range_text(const tensor::Axis& axis, const tensor::Graph& graph) {
  const Expr length = without_floor(axis.extent);
  const bool begins_at_zero = axis.origin == nullptr || scalar::is_constant_i64(axis.origin, 0);
  if (begins_at_zero) return (length == axis.extent ? "" : "0..") + in_source_form(length, graph);
  const Expr end = scalar::apply(Opcode::Add, {axis.origin, length});
  const std::optional<affine::LinearForm> form = affine::linear_form(end);
  return in_source_form(axis.origin, graph) + ".." + in_source_form(form ? affine::to_expr(*form) : end, graph);
}

/// `b.0: B.0` of a pack that an example gives some dimensions: the names of both without their number.
std::optional<std::string> pack_text(const std::string& axis, const std::string& range) {
  const auto is_first = [](const std::string& name) { return name.size() > 2 && name.ends_with(".0"); };
  if (!is_first(axis) || !is_first(range)) return std::nullopt;
  return "..." + axis.substr(0, axis.size() - 2) + ": ..." + range.substr(0, range.size() - 2);
}

std::string axes_text(const std::vector<tensor::Axis>& axes, const tensor::Graph& graph) {
  std::string text, pack_prefix;
  for (const tensor::Axis& axis : axes) {
    const std::string range = range_text(axis, graph);
    const std::optional<std::string> pack = pack_text(axis.name, range);
    const bool is_rest_of_pack = !pack && !pack_prefix.empty() && axis.name.starts_with(pack_prefix);
    if (is_rest_of_pack) continue;
    pack_prefix = pack ? axis.name.substr(0, axis.name.size() - 1) : "";
    text += (text.empty() ? "" : ", ") + (pack ? *pack : axis.name + ": " + range);
  }
  return text;
}

/// Whether it is not below 0 for any dimensions, as its form shows.
bool is_never_negative(const Expr& expr, const tensor::Graph& graph) {
  if (const std::optional<std::int64_t> known = scalar::as_i64(expr)) return *known >= 0;
  if (const auto* symbol = std::get_if<scalar::SymbolRef>(&expr->kind))
    return graph.symbols[static_cast<std::size_t>(symbol->symbol.index)].kind == tensor::Symbol::Kind::Dimension;
  const auto* apply = std::get_if<scalar::Apply>(&expr->kind);
  if (apply == nullptr) return false;
  const auto operand = [&](std::size_t k) { return is_never_negative(apply->args[k], graph); };
  switch (apply->opcode) {
    case Opcode::Add:
    case Opcode::Mul:
    case Opcode::FloorDiv:
      return operand(0) && operand(1);
    case Opcode::Mod:
      return operand(1);
    case Opcode::Max:
      return operand(0) || operand(1);
    case Opcode::Min:
      return operand(0) && operand(1);
    default:
      return false;
  }
}

/// Whether a condition says something: neither true by itself nor a size that cannot be negative.
bool is_worth_telling(const Expr& holds, const tensor::Graph& graph) {
  const scalar::Value* known = scalar::as_constant(holds);
  if (known != nullptr) return !known->as_bool();
  const scalar::Apply* at_least = scalar::as_apply(holds, Opcode::Ge);
  return at_least == nullptr || !scalar::is_constant_i64(at_least->args[1], 0) ||
         !is_never_negative(at_least->args[0], graph);
}

/// A value that the op's own text defines: those of calls and parts of whole-tensor forms have names with a point.
bool is_named(const tensor::Op& op) {
  return op.name.find('.') == std::string::npos;
}

std::string value_line(const tensor::Op& op, const tensor::Graph& graph) {
  const auto& compute = std::get<tensor::Compute>(op.kind);
  std::string text = "  " + op.name + (compute.axes.empty() ? "" : "[" + axes_text(compute.axes, graph) + "]") + ": " +
                     std::string(name_of(op.dtype));
  if (compute.reduction) text += " over " + axes_text(compute.reduction->axes, graph);
  return text + "\n";
}

}  // namespace

std::string in_source_form(const scalar::Expr& expr, const tensor::Graph& graph) {
  return Writer(graph).run(scalar::simplify(expr));
}

std::string describe(const tensor::Graph& graph) {
  std::string text;
  int inside = 0;
  for (const tensor::Op& op : graph.ops) {
    if (!std::holds_alternative<tensor::Compute>(op.kind)) continue;
    if (is_named(op))
      text += value_line(op, graph);
    else
      ++inside;
  }
  if (inside > 0)
    text +=
        "  and " + std::to_string(inside) + (inside == 1 ? " value" : " values") + " inside of calls and expressions\n";
  std::vector<std::string> told;
  for (const tensor::Condition& condition : graph.conditions) {
    const Expr holds = scalar::simplify(condition.holds);
    const std::string needs = "  needs " + in_source_form(holds, graph) + "\n";
    if (!is_worth_telling(holds, graph) || std::find(told.begin(), told.end(), needs) != told.end()) continue;
    told.push_back(needs);
    text += needs;
  }
  return text;
}

}  // namespace corrloom::tools
