#include "compiler/passes/fuse_epilogue.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "compiler/passes/constant_values.h"
#include "compiler/passes/readers.h"

namespace corrloom::passes {
namespace {

using scalar::Read;
using tensor::Axis;
using tensor::AxisId;
using tensor::Compute;
using tensor::Expr;
using tensor::Graph;
using tensor::Op;
using tensor::TensorId;

bool is_at_own_element(const Read& read, const Compute& consumer) {
  if (read.index.size() != consumer.axes.size() || read.check == scalar::ReadCheck::Runtime) return false;
  for (std::size_t k = 0; k < read.index.size(); ++k) {
    if (axis_of(read.index[k]) != consumer.axes[k].id) return false;
  }
  return true;
}

bool reads_only_own_element(const Op& op, const Compute& consumer, TensorId source) {
  bool result = true;
  for_each_use(op, [&](TensorId used, const Read* read) {
    if (used == source) result = result && read != nullptr && is_at_own_element(*read, consumer);
  });
  return result;
}

bool have_same_extents(const Op& a, const Op& b) {
  return std::equal(a.extents.begin(), a.extents.end(), b.extents.begin(), b.extents.end(), scalar::same);
}

/// By op: whether its value is made once, before the calls. Nothing is where a dimension is open.
std::vector<bool> made_before_calls(const Graph& graph, const PassContext& ctx) {
  const bool is_open = std::any_of(graph.symbols.begin(), graph.symbols.end(), [](const tensor::Symbol& symbol) {
    return symbol.kind == tensor::Symbol::Kind::Dimension;
  });
  if (ctx.constants.empty() || is_open) return std::vector<bool>(graph.ops.size(), false);
  return constant_values(graph, ctx.constants);
}

/// The reduction that `op` can take over, or an id that names nothing.
TensorId reduction_to_fuse(const Graph& graph, const Op& op, const Compute& consumer, const std::vector<int>& readers) {
  TensorId found;
  for_each_use(op, [&](TensorId source, const Read*) {
    if (found) return;
    const Op& producer = graph.op(source);
    const auto* compute = std::get_if<Compute>(&producer.kind);
    if (compute == nullptr || !compute->reduction || readers[static_cast<std::size_t>(source.index)] != 1) return;
    if (compute->numerics.fast_math != consumer.numerics.fast_math || !have_same_extents(producer, op)) return;
    if (compute->body->depth + consumer.body->depth > scalar::kMaxDepth) return;
    if (reads_only_own_element(op, consumer, source)) found = source;
  });
  return found;
}

/// The producer's compute with the consumer's axes and new reduction axes: an axis is bound once in a graph.
Compute on_axes_of(const Compute& consumer, const Op& producer, Graph& graph) {
  Op moved = producer;
  auto& compute = std::get<Compute>(moved.kind);
  std::map<AxisId, AxisId> names;
  for (std::size_t k = 0; k < consumer.axes.size(); ++k) names[compute.axes[k].id] = consumer.axes[k].id;
  for (Axis& axis : compute.reduction->axes) axis.id = names[axis.id] = graph.new_axis(axis.name);
  tensor::rewrite_exprs(moved, [&](const Expr& expr) {
    return scalar::substitute_axes(expr, [&](AxisId axis) -> Expr {
      const auto found = names.find(axis);
      return found == names.end() ? nullptr : scalar::axis(found->second);
    });
  });
  compute.axes = consumer.axes;
  return std::move(compute);
}

}  // namespace

Graph fuse_epilogue(Graph graph, PassContext& ctx) {
  const std::vector<int> readers = count_readers(graph);
  const std::vector<bool> constant = made_before_calls(graph, ctx);
  // Producers stand before readers: a chain of epilogues is taken up in this one sweep.
  for (std::size_t k = 0; k < graph.ops.size(); ++k) {
    const auto* compute = std::get_if<Compute>(&graph.ops[k].kind);
    if (compute == nullptr || compute->reduction) continue;
    const Compute consumer = *compute;
    const TensorId source = reduction_to_fuse(graph, graph.ops[k], consumer, readers);
    if (!source || (constant[static_cast<std::size_t>(source.index)] && !constant[k])) continue;
    Compute fused = on_axes_of(consumer, graph.op(source), graph);
    const Expr result = fused.body;
    fused.body = scalar::rewrite(consumer.body, [&](const Expr& node) -> Expr {
      const Read* read = scalar::as_read(node);
      return read != nullptr && read->source == source ? result : nullptr;
    });
    graph.ops[k].kind = std::move(fused);
    ctx.count("epilogues fused");
  }
  return graph;
}

}  // namespace corrloom::passes
