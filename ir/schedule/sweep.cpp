#include <algorithm>

#include "ir/schedule/schedule.h"

namespace corrloom::schedule {
namespace {

bool walks(const Loop& loop, const std::vector<tensor::Axis>& axes) {
  return std::any_of(axes.begin(), axes.end(), [&](const tensor::Axis& axis) { return axis.name == loop.axis; });
}

}  // namespace

bool is_sweep(const Stage& stage, const tensor::Compute& compute, std::size_t loop) {
  const Loop& here = stage.loops[loop];
  if (!compute.reduction || here.bind != Bind::Serial || !walks(here, compute.reduction->axes)) return false;
  return std::any_of(stage.loops.begin() + static_cast<std::ptrdiff_t>(loop), stage.loops.end(),
                     [&](const Loop& inner) { return inner.bind == Bind::Serial && walks(inner, compute.axes); });
}

bool sums_are_results(const tensor::Graph& graph, const tensor::Op& op) {
  const auto& compute = std::get<tensor::Compute>(op.kind);
  const auto* sum = std::get_if<scalar::AccRef>(&compute.body->kind);
  const bool takes_over = std::any_of(graph.outputs.begin(), graph.outputs.end(), [](const tensor::Output& output) {
    return static_cast<bool>(output.storage_of);
  });
  return sum != nullptr && !takes_over && compute.reduction->accumulators.size() == 1 &&
         compute.reduction->order.kind != tensor::Order::Kind::Lanes &&
         compute.reduction->accumulators[0].dtype == op.dtype;
}

std::vector<std::optional<std::int64_t>> swept_sizes(const Stage& stage, const tensor::Compute& compute,
                                                     std::size_t loop) {
  std::vector<std::optional<std::int64_t>> sizes;
  for (const tensor::Axis& axis : compute.axes) {
    std::optional<std::int64_t> size = scalar::as_i64(axis.extent);
    for (std::size_t k = 0; k < loop; ++k) {
      if (stage.loops[k].axis == axis.name) size = size ? std::min(*size, stage.loops[k].step) : stage.loops[k].step;
    }
    sizes.push_back(size);
  }
  return sizes;
}

}  // namespace corrloom::schedule
