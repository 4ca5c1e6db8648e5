#include "compiler/tools/corrloom/describe.h"

#include <algorithm>

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

std::string axes_text(const std::vector<tensor::Axis>& axes, const tensor::Graph& graph) {
  std::string text;
  for (const tensor::Axis& axis : axes) {
    const std::string extent = in_source_form(axis.extent, graph);
    const std::string origin = axis.origin == nullptr ? "" : in_source_form(axis.origin, graph);
    const std::string range = origin.empty() || origin == "0" ? extent : "from " + origin + ", " + extent + " times";
    text += (text.empty() ? "" : ", ") + axis.name + ": " + range;
  }
  return text;
}

}  // namespace

std::string in_source_form(const scalar::Expr& expr, const tensor::Graph& graph) {
  return Writer(graph).run(scalar::simplify(expr));
}

std::string describe(const tensor::Graph& graph) {
  std::string text;
  for (const tensor::Op& op : graph.ops) {
    const auto* compute = std::get_if<tensor::Compute>(&op.kind);
    if (compute == nullptr) continue;
    text += "  " + op.name + (compute->axes.empty() ? "" : "[" + axes_text(compute->axes, graph) + "]");
    if (compute->reduction) text += " over " + axes_text(compute->reduction->axes, graph);
    text += "\n";
  }
  for (const tensor::Condition& condition : graph.conditions) {
    const scalar::Value* known = scalar::as_constant(condition.holds);
    if (known == nullptr || !known->as_bool()) text += "  needs " + in_source_form(condition.holds, graph) + "\n";
  }
  return text;
}

}  // namespace corrloom::tools
