#include "ir/schedule/regions.h"

#include <algorithm>

#include "ir/affine/affine.h"

namespace corrloom::schedule {
namespace {

using scalar::AxisId;
using scalar::Expr;
using tensor::Compute;
using tensor::TensorId;
using AxisRegions = std::map<AxisId, Region>;

std::optional<TensorId> compute_named(const tensor::Graph& graph, const std::string& name) {
  for (std::size_t k = 0; k < graph.ops.size(); ++k) {
    if (graph.ops[k].name == name && std::holds_alternative<Compute>(graph.ops[k].kind))
      return TensorId{static_cast<std::int32_t>(k)};
  }
  return std::nullopt;
}

/// The tile of the consumer's axes inside that loop; -1: inside none.
std::optional<AxisRegions> tile_of(const Compute& compute, const Stage& stage, int loop) {
  AxisRegions out;
  const auto add = [&](const tensor::Axis& axis, bool reduced) {
    const std::optional<std::int64_t> extent = scalar::as_i64(axis.extent);
    if (!extent) return false;
    Region region{0, {{axis.id, 1}}, reduced ? std::max<std::int64_t>(*extent, 1) : *extent};
    for (int k = 0; k <= loop && k < static_cast<int>(stage.loops.size()); ++k) {
      const Loop& walked = stage.loops[static_cast<std::size_t>(k)];
      if (walked.axis == axis.name) region.size = std::min(region.size, walked.step);
    }
    if (reduced && region.size >= *extent) region.factors.clear();
    out[axis.id] = region;
    return true;
  };
  for (const tensor::Axis& axis : compute.axes) {
    if (!add(axis, false)) return std::nullopt;
  }
  if (!compute.reduction) return out;
  for (const tensor::Axis& axis : compute.reduction->axes) {
    if (!add(axis, true)) return std::nullopt;
  }
  return out;
}

/// The elements that a subscript reaches: all of the axis where it is not affine.
Region reached(const Expr& subscript, const AxisRegions& axes, std::int64_t extent) {
  const Region all{0, {}, extent};
  const std::optional<affine::LinearForm> form = affine::linear_form(subscript);
  if (!form || !form->is_affine()) return all;
  Region region{form->constant, {}, 1};
  for (const affine::LinearForm::Term& term : form->terms) {
    const auto axis = axes.find(std::get<scalar::AxisRef>(term.expr->kind).axis);
    if (axis == axes.end()) return all;
    std::int64_t spread = 0;
    if (__builtin_mul_overflow(term.coefficient, axis->second.size - 1, &spread)) return all;
    region.constant += term.coefficient * axis->second.constant + std::min<std::int64_t>(spread, 0);
    region.size += spread < 0 ? -spread : spread;
    for (const auto& [id, factor] : axis->second.factors) region.factors[id] += term.coefficient * factor;
    if (region.size >= extent) return all;
  }
  std::erase_if(region.factors, [](const auto& factor) { return factor.second == 0; });
  return region.size >= extent ? all : region;
}

/// The smallest region that holds both.
Region joined(const Region& a, const Region& b, std::int64_t extent) {
  if (a.factors != b.factors) return {0, {}, extent};
  const std::int64_t low = std::min(a.constant, b.constant);
  const std::int64_t high = std::max(a.constant + a.size, b.constant + b.size);
  return high - low >= extent ? Region{0, {}, extent} : Region{low, a.factors, high - low};
}

/// Adds what an op reads when its axes walk those regions.
bool add_reads(const tensor::Graph& graph, const tensor::Op& op, AxisRegions axes, Regions& regions) {
  const auto& compute = std::get<Compute>(op.kind);
  if (compute.reduction) {
    for (const tensor::Axis& axis : compute.reduction->axes) {
      if (axes.contains(axis.id)) continue;
      const std::optional<std::int64_t> extent = scalar::as_i64(axis.extent);
      if (!extent) return false;
      axes[axis.id] = {0, {}, std::max<std::int64_t>(*extent, 1)};
    }
  }
  bool known = true;
  tensor::for_each_expr(op, [&](const Expr& root) {
    scalar::for_each_node(root, [&](const Expr& node) {
      const scalar::Read* read = scalar::as_read(node);
      if (read == nullptr) return;
      std::vector<Region> here;
      for (std::size_t k = 0; k < read->index.size(); ++k) {
        const std::optional<std::int64_t> extent = scalar::as_i64(graph.op(read->source).extents[k]);
        known &= extent.has_value();
        here.push_back(reached(read->index[k], axes, extent.value_or(1)));
      }
      const auto [found, is_new] = regions.emplace(read->source, here);
      for (std::size_t k = 0; !is_new && k < here.size(); ++k) {
        const std::int64_t extent = scalar::as_i64(graph.op(read->source).extents[k]).value_or(1);
        found->second[k] = joined(found->second[k], here[k], extent);
      }
    });
  });
  return known;
}

/// The stages that are placed at loops from `first` to `last` of the consumer.
std::vector<TensorId> placed(const tensor::Graph& graph, const Schedule& schedule, const Stage& consumer, int first,
                             int last) {
  std::vector<TensorId> out;
  for (const Stage& stage : schedule.stages) {
    const Placement& where = stage.placement;
    if (where.kind != Placement::Kind::At || where.consumer != consumer.compute) continue;
    if (where.loop < first || where.loop > last) continue;
    if (const std::optional<TensorId> id = compute_named(graph, stage.compute)) out.push_back(*id);
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

std::vector<TensorId> computed_at(const tensor::Graph& graph, const Schedule& schedule, const Stage& consumer,
                                  int loop) {
  return placed(graph, schedule, consumer, loop, loop);
}

std::vector<TensorId> computed_inside(const tensor::Graph& graph, const Schedule& schedule, const Stage& consumer) {
  return placed(graph, schedule, consumer, 0, static_cast<int>(consumer.loops.size()));
}

std::optional<Regions> regions_at(const tensor::Graph& graph, const Schedule& schedule, const Stage& consumer, int loop,
                                  std::string& why) {
  const std::optional<TensorId> id = compute_named(graph, consumer.compute);
  why = "an extent is not known";
  if (!id) return std::nullopt;
  const auto& compute = std::get<Compute>(graph.op(*id).kind);
  const std::optional<AxisRegions> tile = tile_of(compute, consumer, loop);
  Regions regions;
  if (!tile || !add_reads(graph, graph.op(*id), *tile, regions)) return std::nullopt;
  std::vector<TensorId> inside = placed(graph, schedule, consumer, loop, static_cast<int>(consumer.loops.size()));
  for (auto producer = inside.rbegin(); producer != inside.rend(); ++producer) {
    const auto needed = regions.find(*producer);
    if (needed == regions.end()) continue;
    const auto& axes = std::get<Compute>(graph.op(*producer).kind).axes;
    AxisRegions walked;
    for (std::size_t k = 0; k < axes.size(); ++k) walked[axes[k].id] = needed->second[k];
    if (!add_reads(graph, graph.op(*producer), walked, regions)) return std::nullopt;
  }
  why.clear();
  return regions;
}

}  // namespace corrloom::schedule
