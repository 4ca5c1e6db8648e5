#include "compiler/passes/view_places.h"

#include <utility>

#include "compiler/passes/strides.h"

namespace corrloom::passes {

using tensor::AxisId;
using tensor::Expr;
using tensor::Graph;
using tensor::Op;
using tensor::Reshape;
using tensor::TensorId;
using tensor::View;

bool is_view(const Op& op) {
  return std::holds_alternative<View>(op.kind);
}

bool is_virtual(const Graph& graph, TensorId id) {
  const Op& op = graph.op(id);
  const auto* reshape = std::get_if<Reshape>(&op.kind);
  return is_view(op) || (reshape != nullptr && is_virtual(graph, reshape->source));
}

std::vector<Expr> index_in_source(const View& view, const std::vector<Expr>& index) {
  std::vector<Expr> composed;
  for (const Expr& subscript : view.index) {
    composed.push_back(scalar::substitute_axes(subscript, [&](AxisId id) -> Expr {
      for (std::size_t k = 0; k < view.axes.size(); ++k) {
        if (view.axes[k].id == id) return index[k];
      }
      return nullptr;
    }));
  }
  return composed;
}

Place shown_by(const Graph& graph, const Place& place) {
  const Op& op = graph.op(place.source);
  if (const auto* view = std::get_if<View>(&op.kind)) return {view->source, index_in_source(*view, place.index)};
  const TensorId source = std::get<Reshape>(op.kind).source;
  return {source, index_at(linear_position(place.index, op.extents), graph.op(source).extents)};
}

Place resolve(const Graph& graph, Place place) {
  while (is_virtual(graph, place.source)) place = shown_by(graph, place);
  return place;
}

}  // namespace corrloom::passes
