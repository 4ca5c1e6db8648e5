#include "compiler/passes/readers.h"

#include <algorithm>
#include <map>
#include <set>

namespace corrloom::passes {

using tensor::Axis;
using tensor::AxisId;
using tensor::Compute;
using tensor::Expr;
using tensor::Graph;
using tensor::Op;
using tensor::Reshape;
using tensor::TensorId;
using tensor::View;

void for_each_use(const Op& op, const std::function<void(TensorId, const scalar::Read*)>& visit) {
  if (const auto* view = std::get_if<View>(&op.kind)) visit(view->source, nullptr);
  if (const auto* reshape = std::get_if<Reshape>(&op.kind)) visit(reshape->source, nullptr);
  tensor::for_each_expr(op, [&](const Expr& expr) {
    scalar::for_each_node(expr, [&](const Expr& node) {
      if (const scalar::Read* read = scalar::as_read(node)) visit(read->source, read);
    });
  });
}

std::vector<int> count_readers(const Graph& graph) {
  std::vector<int> readers(graph.ops.size(), 0);
  for (const Op& op : graph.ops) {
    std::set<TensorId> sources;
    for_each_use(op, [&](TensorId source, const scalar::Read*) { sources.insert(source); });
    for (TensorId source : sources) ++readers[static_cast<std::size_t>(source.index)];
  }
  for (const tensor::Output& output : graph.outputs) ++readers[static_cast<std::size_t>(output.value.index)];
  return readers;
}

std::vector<Axis> bound_axes(const Op& op) {
  std::vector<Axis> axes;
  if (const auto* view = std::get_if<View>(&op.kind)) axes = view->axes;
  if (const auto* compute = std::get_if<Compute>(&op.kind)) {
    axes = compute->axes;
    if (compute->reduction) axes.insert(axes.end(), compute->reduction->axes.begin(), compute->reduction->axes.end());
  }
  return axes;
}

affine::Ranges ranges_of(const Op& op) {
  std::map<AxisId, affine::Interval> known;
  const auto look_up = [](const std::map<AxisId, affine::Interval>& ranges, AxisId axis) {
    const auto found = ranges.find(axis);
    return found == ranges.end() ? std::nullopt : std::optional(found->second);
  };
  for (const Axis& axis : bound_axes(op)) {
    const auto extent = affine::interval_of(axis.extent, [&](AxisId outer) { return look_up(known, outer); });
    if (!extent) {
      known.emplace(axis.id, affine::Interval{0, INT64_MAX - 1});
    } else {
      known.emplace(axis.id, affine::Interval{0, extent->empty() ? -1 : std::max<std::int64_t>(extent->high, 0) - 1});
    }
  }
  return [known = std::move(known), look_up](AxisId axis) { return look_up(known, axis); };
}

TensorId storage_root(const Graph& graph, TensorId id) {
  while (const auto* reshape = std::get_if<Reshape>(&graph.op(id).kind)) id = reshape->source;
  return id;
}

AxisId axis_of(const Expr& expr) {
  const auto* reference = std::get_if<scalar::AxisRef>(&expr->kind);
  return reference == nullptr ? AxisId{} : reference->axis;
}

bool uses_axis(const Expr& expr, const std::function<bool(AxisId)>& is_wanted) {
  bool found = false;
  scalar::for_each_node(expr, [&](const Expr& node) {
    const AxisId axis = axis_of(node);
    found = found || (axis && is_wanted(axis));
  });
  return found;
}

bool reads_tensor(const Expr& expr) {
  bool found = false;
  scalar::for_each_node(expr, [&](const Expr& node) { found = found || scalar::as_read(node) != nullptr; });
  return found;
}

}  // namespace corrloom::passes
