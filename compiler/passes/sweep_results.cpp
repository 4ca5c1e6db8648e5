#include <algorithm>
#include <numeric>

#include "compiler/passes/lower_compute.h"
#include "ir/base/errors.h"

namespace corrloom::passes {

using loop::Binding;
using loop::ValueId;
using schedule::Bind;

namespace {

/// Whether the sums of the tile at that loop lie in the result.
bool lie_in_result(const KernelState& kernel, const tensor::Op& op, const schedule::Stage& stage, std::size_t loop) {
  std::int64_t bytes = byte_size(op.dtype);
  for (const std::optional<std::int64_t>& size :
       schedule::swept_sizes(stage, std::get<tensor::Compute>(op.kind), loop)) {
    if (!size || __builtin_mul_overflow(bytes, *size, &bytes)) bytes = kernel.most_own_bytes + 1;
  }
  return bytes > kernel.most_own_bytes && schedule::sums_are_results(kernel.graph, op);
}

}  // namespace

/// Sweeps over the tile of results, one for each part of the first reduction axis: operands are then read as they lie
/// in memory, or stay near. Between sweeps the sums are in memory, in their own dtype, so that no bit changes.
void ComputeLowering::sweep(std::size_t level, const Tiles& tiles) {
  const Level& here = levels_[level];
  const std::optional<std::int64_t> size = reduction_extent(here.axis);
  CORRLOOM_CHECK(size.has_value(), "sweeps over a reduction axis whose extent is not known");
  const std::int64_t full = *size / here.step, rest = *size % here.step;
  if (*size > 0 && *size <= here.step) {
    if (here.step == 1) parts_[here.axis] = {builder_.index(0), builder_.index(1)};
    serial_loops(level + 1, tiles);
    parts_.erase(here.axis);
    return;
  }
  add_sums(level, tiles);
  const auto walk = [&](Sweep sweep) {
    sweep_ = sweep;
    serial_loops(level + 1, tiles);
  };
  const auto add = [&](Sweep sweep, ValueId base, std::int64_t count) {
    parts_[here.axis] = {base, builder_.index(count)};
    walk(sweep);
    parts_.erase(here.axis);
  };
  if (full + (rest > 0 ? 1 : 0) == 2) {
    add(Sweep::First, builder_.index(0), here.step);
    add(Sweep::Last, builder_.index(here.step), *size - here.step);
    sweep_ = Sweep::None;
    return;
  }
  walk(Sweep::Begin);
  builder_.for_loop(graph_.axis_names[static_cast<std::size_t>(here.axis.index)], builder_.index(full), Binding::Serial,
                    {}, [&](ValueId number, std::span<const ValueId>) {
                      add(Sweep::Add, builder_.mul(number, here.step), here.step);
                      return std::vector<ValueId>{};
                    });
  if (rest > 0) add(Sweep::Add, builder_.index(full * here.step), rest);
  if (!lie_in_result(kernel_, op_, stage_, level)) walk(Sweep::Finish);
  sweep_ = Sweep::None;
}

/// Memory for the sums of the tile: the result itself where they are all that it holds, else buffers of the kernel.
void ComputeLowering::add_sums(std::size_t level, const Tiles& tiles) {
  sums_.clear();
  sum_origin_.clear();
  const bool in_result = lie_in_result(kernel_, op_, stage_, level);
  order_sums(in_result);
  if (in_result) {
    sums_.push_back(kernel_.buffers.at(id_));
    for (std::size_t k = 0; k < compute_.axes.size(); ++k) sum_origin_.push_back(builder_.index(0));
    return;
  }
  const std::vector<std::optional<std::int64_t>> sizes = schedule::swept_sizes(stage_, compute_, level);
  std::vector<scalar::Expr> extents;
  for (std::size_t k : sum_axes_) extents.push_back(scalar::constant_i64(*sizes[k]));
  if (sum_lanes() > 1) extents.push_back(scalar::constant_i64(sum_lanes()));
  for (const tensor::Accumulator& accumulator : compute_.reduction->accumulators)
    sums_.push_back(
        builder_.add_buffer({op_.name + ".sums", accumulator.dtype, extents, loop::Space::Local, /*written=*/true}));
  for (std::size_t k : sum_axes_) sum_origin_.push_back(tiles.at(compute_.axes[k].id).base);
}

/// Sums in memory of their own lie along the vectors of the tile, whatever the result looks like.
void ComputeLowering::order_sums(bool in_result) {
  sum_axes_.resize(compute_.axes.size());
  std::iota(sum_axes_.begin(), sum_axes_.end(), std::size_t{0});
  if (in_result) return;
  std::stable_partition(sum_axes_.begin(), sum_axes_.end(), [&](std::size_t k) {
    return std::none_of(levels_.begin(), levels_.end(), [&](const Level& level) {
      return level.bind == Bind::Vector && level.axis == compute_.axes[k].id;
    });
  });
}

/// Sums of one element of the result: one in each lane of a reduction by lanes.
int ComputeLowering::sum_lanes() const {
  const tensor::Order& order = compute_.reduction->order;
  return order.kind == tensor::Order::Kind::Lanes ? static_cast<int>(order.lanes) : 1;
}

void ComputeLowering::swept_tile(std::size_t level, const Tiles& tiles) {
  std::vector<Point> points = points_of(level, tiles);
  Accumulators sums;
  if (sweep_ == Sweep::Begin || sweep_ == Sweep::First) {
    sums = initial(points);
  } else {
    for (const Point& point : points) {
      sums.emplace_back();
      for (loop::BufferId buffer : sums_)
        sums.back().push_back(builder_.load(buffer, swept_index(point), mask_of(point)));
    }
  }
  if (sweep_ == Sweep::First || sweep_ == Sweep::Add || sweep_ == Sweep::Last)
    sums = reduce(level, points, std::move(sums));
  if (sweep_ == Sweep::Finish || sweep_ == Sweep::Last) {
    if (sum_lanes() > 1) merge_lanes(points, sums);
    return store_tile(points, sums);
  }
  for (std::size_t k = 0; k < points.size(); ++k) {
    for (std::size_t a = 0; a < sums_.size(); ++a)
      builder_.store(sums_[a], swept_index(points[k]), sums[k][a], mask_of(points[k]));
  }
}

/// Where the sums of a point lie.
std::vector<ValueId> ComputeLowering::swept_index(const Point& point) {
  std::vector<ValueId> index;
  for (std::size_t k = 0; k < sum_axes_.size(); ++k) {
    const ValueId place = point.at(compute_.axes[sum_axes_[k]].id).value;
    index.push_back(builder_.apply(scalar::Opcode::Sub, {place, sum_origin_[k]}));
  }
  if (sum_lanes() > 1) index.push_back(builder_.ramp(builder_.index(0), 1, sum_lanes()));
  return index;
}

}  // namespace corrloom::passes
