#include "compiler/passes/axis_ranges.h"

namespace corrloom::passes {

AxisRanges axis_ranges(const tensor::Graph& graph) {
  AxisRanges ranges;
  const auto add = [&](const std::vector<tensor::Axis>& axes) {
    for (const tensor::Axis& axis : axes) {
      const std::optional<std::int64_t> extent = scalar::as_i64(axis.extent);
      if (extent && *extent > 0) ranges[axis.id] = {0, *extent - 1};
    }
  };
  for (const tensor::Op& op : graph.ops) {
    if (const auto* compute = std::get_if<tensor::Compute>(&op.kind)) {
      add(compute->axes);
      if (compute->reduction) add(compute->reduction->axes);
    } else if (const auto* view = std::get_if<tensor::View>(&op.kind)) {
      add(view->axes);
    }
  }
  return ranges;
}

affine::Ranges lookup(const AxisRanges& ranges) {
  return [&ranges](scalar::AxisId axis) -> std::optional<affine::Interval> {
    const auto found = ranges.find(axis);
    return found == ranges.end() ? std::nullopt : std::optional(found->second);
  };
}

}  // namespace corrloom::passes
