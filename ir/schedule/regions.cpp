#include "ir/schedule/regions.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "ir/affine/affine.h"
#include "ir/affine/border.h"

namespace corrloom::schedule {
namespace {

using scalar::AxisId;
using scalar::Expr;
using tensor::Compute;
using tensor::TensorId;

/// What a compute walks of one of its axes: a region, and how far at most it is moved up or down to lie inside. All
/// that lies there is computed.
struct Walk {
  Region region;
  std::int64_t moved_up = 0, moved_down = 0;
  std::int64_t extent = 0;  ///< of the axis, where it may move
  bool moves() const { return moved_up > 0 || moved_down > 0; }
};
using Walks = std::map<AxisId, Walk>;

/// The axes of the result and of the reduction.
std::vector<tensor::Axis> bound_axes(const Compute& compute) {
  std::vector<tensor::Axis> axes = compute.axes;
  if (compute.reduction) axes.insert(axes.end(), compute.reduction->axes.begin(), compute.reduction->axes.end());
  return axes;
}

/// More elements than an axis has.
constexpr std::int64_t kFar = std::int64_t{1} << 60;

std::optional<TensorId> compute_named(const tensor::Graph& graph, const std::string& name) {
  for (std::size_t k = 0; k < graph.ops.size(); ++k) {
    if (graph.ops[k].name == name && std::holds_alternative<Compute>(graph.ops[k].kind))
      return TensorId{static_cast<std::int32_t>(k)};
  }
  return std::nullopt;
}

/// The tile of the consumer's axes inside that loop; -1: inside none.
std::optional<Walks> tile_of(const Compute& compute, const Stage& stage, int loop) {
  Walks out;
  const auto add = [&](const tensor::Axis& axis, bool reduced) {
    const std::optional<std::int64_t> extent = scalar::as_i64(axis.extent);
    if (!extent) return false;
    Region region{0, {{axis.id, 1}}, reduced ? std::max<std::int64_t>(*extent, 1) : *extent, false, 1, 0};
    for (int k = 0; k <= loop && k < static_cast<int>(stage.loops.size()); ++k) {
      const Loop& walked = stage.loops[static_cast<std::size_t>(k)];
      if (walked.axis != axis.name) continue;
      region.size = std::min(region.size, walked.step);
      region.multiple = walked.step;
    }
    if (reduced && region.size >= *extent) region.factors.clear();
    out[axis.id] = {region};
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

/// Makes room in the region that a subscript reaches: a walk that is moved inside its axis reaches further, unless the
/// region is moved at that end as far.
void widen(Region& region, const Walk& walk, std::int64_t coefficient, std::int64_t extent, bool is_alone) {
  std::int64_t up = walk.moved_up, down = walk.moved_down;
  if (coefficient < 0) std::swap(up, down);
  if (is_alone && coefficient > 0) {
    // Of the elements for one place, the first and the last, counted from `coefficient` * place.
    const std::int64_t first = region.constant - coefficient * walk.region.constant;
    const std::int64_t last = first + region.size - 1 - coefficient * (walk.region.size - 1);
    if (first <= 0) up = 0;
    if (coefficient * (walk.extent - 1) + last >= extent - 1) down = 0;
  }
  region.constant -= std::abs(coefficient) * down;
  region.size += std::abs(coefficient) * (up + down);
}

/// The blocks of so many elements in which those elements lie: all where the first one may stand anywhere in its block.
Region blocks_of(const Region& elements, std::int64_t block, const Region& all) {
  if (elements.size >= kFar || elements.multiple % block != 0) return all;
  const std::int64_t within = (elements.constant % block + block) % block;
  Region region = elements;
  region.constant = (elements.constant - within) / block;
  region.size = (within + elements.size - 1) / block + 1;
  region.divisor = elements.divisor * block;
  region.multiple = elements.multiple / block;
  return region.size >= all.size ? all : region;
}

/// The elements that a subscript reaches: all of the axis where it is not affine.
Region reached(const Expr& subscript, const Walks& walks, std::int64_t extent) {
  const Region all{0, {}, extent};
  if (const scalar::Apply* block = scalar::as_apply(subscript, scalar::Opcode::FloorDiv)) {
    const std::optional<std::int64_t> by = scalar::as_i64(block->args[1]);
    return by && *by > 0 ? blocks_of(reached(block->args[0], walks, kFar), *by, all) : all;
  }
  const Expr inside = affine::away_from_borders(subscript);
  const bool folds = inside != subscript;
  const std::optional<affine::LinearForm> form = affine::linear_form(inside);
  if (!form || !form->is_affine() || (folds && !affine::folds_at_borders(subscript, extent))) return all;
  Region region{form->constant, {}, 1, folds, 1, 0};
  std::vector<std::pair<const Walk*, std::int64_t>> moving;
  for (const affine::LinearForm::Term& term : form->terms) {
    const auto found = walks.find(std::get<scalar::AxisRef>(term.expr->kind).axis);
    if (found == walks.end()) return all;
    const Walk& walk = found->second;
    if (walk.region.divisor != 1 && (form->terms.size() != 1 || term.coefficient != 1)) return all;
    region.divisor = walk.region.divisor;
    std::int64_t spread = 0;
    if (__builtin_mul_overflow(term.coefficient, walk.region.size - 1, &spread)) return all;
    region.constant += term.coefficient * walk.region.constant + std::min<std::int64_t>(spread, 0);
    region.size += spread < 0 ? -spread : spread;
    for (const auto& [id, factor] : walk.region.factors) region.factors[id] += term.coefficient * factor;
    region.multiple = walk.moves() ? 1 : std::gcd(region.multiple, term.coefficient * walk.region.multiple);
    if (walk.moves()) moving.emplace_back(&walk, term.coefficient);
    if (region.size >= extent) return all;
  }
  for (const auto& [walk, coefficient] : moving) widen(region, *walk, coefficient, extent, moving.size() == 1);
  std::erase_if(region.factors, [](const auto& factor) { return factor.second == 0; });
  return region.size >= extent ? all : region;
}

/// The smallest region that holds both.
Region joined(const Region& a, const Region& b, std::int64_t extent) {
  if (a.factors != b.factors || a.divisor != b.divisor) return {0, {}, extent};
  const std::int64_t low = std::min(a.constant, b.constant);
  const std::int64_t high = std::max(a.constant + a.size, b.constant + b.size);
  if (high - low >= extent) return {0, {}, extent};
  return {low, a.factors, high - low, a.folds || b.folds, a.divisor, std::gcd(a.multiple, b.multiple)};
}

/// How a compute walks an axis of which that region is needed. `extents` are those of the axes that move the region. It
/// is all of the axis when reads outside are of elements in the region, and that may lie wholly outside: moved inside,
/// it would not hold them.
Walk walk_of(const Region& region, const std::map<AxisId, std::int64_t>& extents, std::int64_t extent) {
  const Walk all{{0, {}, extent}};
  std::int64_t lowest = region.constant, highest = region.constant;
  for (const auto& [axis, factor] : region.factors) {
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(factor, std::max<std::int64_t>(extents.at(axis) - 1, 0), &reach)) return all;
    (reach < 0 ? lowest : highest) += reach / region.divisor;
  }
  if (region.folds && (lowest <= -region.size || highest >= extent)) return all;
  return {region, std::max<std::int64_t>(-lowest, 0), std::max<std::int64_t>(highest + region.size - extent, 0),
          extent};
}

/// Adds what an op reads when its axes walk so.
bool add_reads(const tensor::Graph& graph, const tensor::Op& op, Walks walks, Regions& regions) {
  const auto& compute = std::get<Compute>(op.kind);
  if (compute.reduction) {
    for (const tensor::Axis& axis : compute.reduction->axes) {
      if (walks.contains(axis.id)) continue;
      const std::optional<std::int64_t> extent = scalar::as_i64(axis.extent);
      if (!extent) return false;
      walks[axis.id] = {{0, {}, std::max<std::int64_t>(*extent, 1)}};
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
        here.push_back(reached(read->index[k], walks, extent.value_or(1)));
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

/// What the body of that loop reads. `whole` are axes that producers further in walk from end to end.
std::optional<Regions> regions_inside(const tensor::Graph& graph, const Schedule& schedule, const Stage& consumer,
                                      TensorId id, int loop, const std::set<std::pair<TensorId, std::size_t>>& whole) {
  const auto& compute = std::get<Compute>(graph.op(id).kind);
  const std::optional<Walks> tile = tile_of(compute, consumer, loop);
  Regions regions;
  if (!tile || !add_reads(graph, graph.op(id), *tile, regions)) return std::nullopt;
  std::map<AxisId, std::int64_t> extents;
  for (const tensor::Axis& axis : bound_axes(compute)) extents[axis.id] = scalar::as_i64(axis.extent).value_or(1);
  const std::vector<TensorId> inside = placed(graph, schedule, consumer, loop, static_cast<int>(consumer.loops.size()));
  for (auto producer = inside.rbegin(); producer != inside.rend(); ++producer) {
    const auto needed = regions.find(*producer);
    if (needed == regions.end()) continue;
    const auto& axes = std::get<Compute>(graph.op(*producer).kind).axes;
    Walks walked;
    for (std::size_t k = 0; k < axes.size(); ++k) {
      const std::int64_t extent = scalar::as_i64(graph.op(*producer).extents[k]).value_or(1);
      Region& region = needed->second[k];
      const Walk walk = whole.contains({*producer, k}) ? Walk{{0, {}, extent}} : walk_of(region, extents, extent);
      region = walk.region;
      walked[axes[k].id] = walk;
    }
    if (!add_reads(graph, graph.op(*producer), walked, regions)) return std::nullopt;
  }
  return regions;
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
  // From the innermost places on: what a compute walks there, it walks for everything that is computed further out.
  std::set<std::pair<TensorId, std::size_t>> whole;
  std::optional<Regions> regions;
  for (int place = static_cast<int>(consumer.loops.size()); place >= loop; --place) {
    const std::vector<TensorId> here = placed(graph, schedule, consumer, place, place);
    if (here.empty() && place > loop) continue;
    regions = regions_inside(graph, schedule, consumer, *id, place, whole);
    if (!regions) return std::nullopt;
    for (const TensorId producer : here) {
      const auto found = regions->find(producer);
      for (std::size_t k = 0; found != regions->end() && k < found->second.size(); ++k) {
        if (found->second[k].size >= scalar::as_i64(graph.op(producer).extents[k]).value_or(1))
          whole.emplace(producer, k);
      }
    }
  }
  why.clear();
  return regions;
}

std::optional<std::int64_t> copied_bytes(const tensor::Graph& graph, const tensor::Op& op, const Stage& stage,
                                         const Staging& staging, const Copy& copy) {
  const std::optional<Walks> tile = tile_of(std::get<Compute>(op.kind), stage, staging.loop);
  if (!tile) return std::nullopt;
  std::int64_t bytes = byte_size(graph.op(copy.staged.tensor).dtype);
  for (std::size_t dim = 0; dim < staging.layout.size(); ++dim) {
    const Region region = reached(index_in(copy, staging, dim), *tile, extent_in(copy, staging, dim));
    if (__builtin_mul_overflow(bytes, region.size, &bytes)) return std::nullopt;
  }
  return bytes;
}

}  // namespace corrloom::schedule
