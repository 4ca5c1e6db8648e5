#include "compiler/passes/running_reduction.h"

#include <algorithm>

#include "compiler/passes/readers.h"
#include "ir/affine/direction.h"

namespace corrloom::passes {
namespace {

using tensor::Axis;
using tensor::AxisId;
using tensor::Expr;
using tensor::Reduction;

bool uses(const Expr& expr, AxisId axis) {
  return expr != nullptr && uses_axis(expr, [&](AxisId used) { return used == axis; });
}

/// True when the axis is used by nothing of the reduction but the extent of its first range.
bool only_ends_first_range(const Reduction& reduction, AxisId axis) {
  const auto range_uses = [&](const Axis& reduced) {
    const bool is_first = &reduced == &reduction.axes.front();
    return uses(reduced.origin, axis) || (!is_first && uses(reduced.extent, axis));
  };
  const auto accumulator_uses = [&](const tensor::Accumulator& accumulator) {
    return uses(accumulator.init, axis) || uses(accumulator.step, axis) || uses(accumulator.merge, axis);
  };
  return uses(reduction.axes.front().extent, axis) &&
         std::none_of(reduction.axes.begin(), reduction.axes.end(), range_uses) &&
         std::none_of(reduction.accumulators.begin(), reduction.accumulators.end(), accumulator_uses);
}

}  // namespace

AxisId running_axis(const tensor::Graph& graph, const tensor::Compute& compute) {
  if (!compute.reduction || compute.reduction->axes.empty()) return {};
  if (compute.reduction->order.kind == tensor::Order::Kind::Lanes) return {};  // lanes begin anew at each place
  const Reduction& reduction = *compute.reduction;
  const auto is_dimension = [&](scalar::SymbolId symbol) {
    return graph.symbols[static_cast<std::size_t>(symbol.index)].kind == tensor::Symbol::Kind::Dimension;
  };
  for (auto axis = compute.axes.rbegin(); axis != compute.axes.rend(); ++axis) {
    if (!only_ends_first_range(reduction, axis->id)) continue;
    const affine::Direction end = affine::direction_of(reduction.axes.front().extent, axis->id, is_dimension);
    if (end == affine::Direction::Rises) return axis->id;
  }
  return {};
}

}  // namespace corrloom::passes
