#include "compiler/passes/walked_rows.h"

#include <algorithm>

#include "compiler/passes/readers.h"

namespace corrloom::passes {

std::optional<std::size_t> walked_rows(const tensor::Graph& graph, const scalar::Read& read,
                                       const std::vector<tensor::Axis>& axes) {
  const std::vector<tensor::Expr>& extents = graph.op(read.source).extents;
  const auto begin = std::find_if(read.index.begin(), read.index.end(),
                                  [&](const tensor::Expr& subscript) { return axis_of(subscript) == axes.front().id; });
  const auto first = static_cast<std::size_t>(begin - read.index.begin());
  if (read.pad != scalar::PadMode::None || first + axes.size() > read.index.size()) return std::nullopt;
  for (std::size_t k = 0; k < read.index.size(); ++k) {
    if (k >= first && k < first + axes.size()) {
      const tensor::Axis& axis = axes[k - first];
      if (axis_of(read.index[k]) != axis.id || !scalar::same(axis.extent, extents[k])) return std::nullopt;
    } else if (uses_axis(read.index[k], [&](tensor::AxisId used) {
                 return std::any_of(axes.begin(), axes.end(), [&](const auto& axis) { return axis.id == used; });
               })) {
      return std::nullopt;
    }
  }
  return first;
}

}  // namespace corrloom::passes
