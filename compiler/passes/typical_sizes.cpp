#include "compiler/passes/typical_sizes.h"

#include <algorithm>
#include <set>

namespace corrloom::passes {
namespace {

using scalar::Expr;
using scalar::SymbolId;
using schedule::Bind;
using schedule::Loop;
using tensor::Axis;
using tensor::Compute;

/// Sizes of a dimension, of one that is a window's, and of an extent that would have less than two elements.
constexpr std::int64_t kTypical = 512, kTypicalWindow = 3, kLeast = 64;

std::set<SymbolId> symbols_in(const Expr& expr) {
  std::set<SymbolId> symbols;
  scalar::for_each_node(expr, [&](const Expr& node) {
    if (const auto* symbol = std::get_if<scalar::SymbolRef>(&node->kind)) symbols.insert(symbol->symbol);
  });
  return symbols;
}

/// The dimensions that extents take off others.
std::set<SymbolId> windows_of(const tensor::Graph& graph) {
  std::set<SymbolId> windows;
  for (const tensor::Op& op : graph.ops) {
    for (const Expr& extent : op.extents) {
      scalar::for_each_node(extent, [&](const Expr& node) {
        const scalar::Apply* difference = scalar::as_apply(node, scalar::Opcode::Sub);
        if (difference == nullptr) return;
        const std::set<SymbolId> whole = symbols_in(difference->args[0]);
        for (const SymbolId symbol : symbols_in(difference->args[1])) {
          if (!whole.contains(symbol)) windows.insert(symbol);
        }
      });
    }
  }
  return windows;
}

/// At least a few elements, where the size was not known.
Expr at_least_some(const Expr& typical, const Expr& actual) {
  const std::optional<std::int64_t> size = scalar::as_i64(typical);
  return !scalar::as_i64(actual) && size && *size < 2 ? scalar::constant_i64(kLeast) : typical;
}

bool is_open(const Axis& axis) {
  return !scalar::as_i64(axis.extent);
}

const Axis* axis_named(const std::vector<Axis>& axes, const std::string& name) {
  const auto found = std::find_if(axes.begin(), axes.end(), [&](const Axis& axis) { return axis.name == name; });
  return found == axes.end() ? nullptr : &*found;
}

}  // namespace

tensor::Graph with_typical_sizes(tensor::Graph graph) {
  const std::set<SymbolId> windows = windows_of(graph);
  const auto typical = [&](const Expr& expr) {
    return scalar::simplify(scalar::rewrite(expr, [&](const Expr& node) -> Expr {
      const auto* symbol = std::get_if<scalar::SymbolRef>(&node->kind);
      if (symbol == nullptr) return nullptr;
      const tensor::Symbol& known = graph.symbols[static_cast<std::size_t>(symbol->symbol.index)];
      if (known.kind != tensor::Symbol::Kind::Dimension) return nullptr;
      return scalar::constant_i64(windows.contains(symbol->symbol) ? kTypicalWindow : kTypical);
    }));
  };
  for (tensor::Op& op : graph.ops) {
    const tensor::Op before = op;
    tensor::rewrite_exprs(op, typical);
    for (std::size_t k = 0; k < op.extents.size(); ++k) op.extents[k] = at_least_some(op.extents[k], before.extents[k]);
    auto* compute = std::get_if<Compute>(&op.kind);
    if (compute == nullptr) continue;
    const auto& compute_before = std::get<Compute>(before.kind);
    const auto settle = [](std::vector<Axis>& axes, const std::vector<Axis>& axes_before) {
      for (std::size_t k = 0; k < axes.size(); ++k)
        axes[k].extent = at_least_some(axes[k].extent, axes_before[k].extent);
    };
    settle(compute->axes, compute_before.axes);
    if (compute->reduction) settle(compute->reduction->axes, compute_before.reduction->axes);
  }
  return graph;
}

schedule::Stage for_open_sizes(schedule::Stage stage, const tensor::Op& op) {
  const auto& compute = std::get<Compute>(op.kind);
  std::vector<Loop> loops;
  std::set<std::string> walked;
  for (Loop loop : stage.loops) {
    const Axis* reduced = compute.reduction ? axis_named(compute.reduction->axes, loop.axis) : nullptr;
    const Axis* output = axis_named(compute.axes, loop.axis);
    if (reduced != nullptr && is_open(*reduced)) {
      if (loop.step != 1) continue;
      if (loop.bind == Bind::Unroll) loop.bind = Bind::Serial;
    }
    const bool is_first = walked.insert(loop.axis).second;
    if (output != nullptr && is_open(*output) && is_first && loop.bind == Bind::Unroll) {
      const auto after =
          std::find_if(loops.begin(), loops.end(), [](const Loop& one) { return one.bind != Bind::Block; });
      loops.insert(after, {loop.axis, loop.step, Bind::Block});
      continue;
    }
    loops.push_back(std::move(loop));
  }
  stage.loops = std::move(loops);
  return stage;
}

}  // namespace corrloom::passes
