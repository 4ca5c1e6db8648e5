#include "compiler/passes/narrow_picks.h"

#include <cstdint>
#include <limits>
#include <optional>

#include "compiler/passes/readers.h"
#include "ir/affine/affine.h"
#include "ir/tensor/picks.h"

namespace corrloom::passes {
namespace {

using scalar::Expr;
using scalar::Opcode;

/// Whether the integer may take the place of every index: none is the greatest, which stands for no place.
bool holds(const std::optional<affine::Interval>& indices) {
  using Short = std::numeric_limits<std::int32_t>;
  return indices && indices->low >= Short::min() && indices->high < Short::max();
}

void narrow(tensor::Compute& compute, const affine::Ranges& ranges) {
  tensor::Reduction& reduction = *compute.reduction;
  std::optional<tensor::Pick> pick = tensor::pick_of(reduction);
  if (!pick || pick->variable->dtype != DType::I64) return;
  const tensor::Axis& axis = reduction.axes.front();
  const std::optional<std::int64_t> extent = scalar::as_i64(axis.extent);
  if (!extent || *extent < 1 || !holds(affine::interval_of(pick->variable, ranges))) return;
  const Expr first = scalar::substitute_axes(
      pick->variable, [&](scalar::AxisId id) { return id == axis.id ? scalar::constant_i64(0) : nullptr; });
  pick->variable = scalar::cast(pick->variable, DType::I32);
  reduction.accumulators = tensor::pick_accumulators(*pick, tensor::PickSteps::Ascending);
  const Expr place = scalar::accumulator(1, DType::I32);
  const Expr none = scalar::apply(Opcode::Eq, {place, reduction.accumulators[1].init});
  const Expr result = scalar::apply(Opcode::Select, {none, scalar::simplify(first), scalar::cast(place, DType::I64)});
  compute.body = scalar::rewrite(compute.body, [&](const Expr& node) -> Expr {
    const auto* reference = std::get_if<scalar::AccRef>(&node->kind);
    return reference != nullptr && reference->index == 1 ? result : nullptr;
  });
}

}  // namespace

tensor::Graph narrow_picks(tensor::Graph graph, PassContext&) {
  for (tensor::Op& op : graph.ops) {
    auto* compute = std::get_if<tensor::Compute>(&op.kind);
    if (compute != nullptr && compute->reduction) narrow(*compute, ranges_of(op));
  }
  return graph;
}

}  // namespace corrloom::passes
