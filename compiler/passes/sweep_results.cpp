#include "compiler/passes/lower_compute.h"
#include "ir/base/errors.h"

namespace corrloom::passes {

using loop::Binding;
using loop::ValueId;

/// Sweeps over the tile of results, one for each part of the first reduction axis: operands are then read as they lie
/// in memory. Between sweeps the sums are in a buffer of the kernel, in their own dtype, so that no bit changes.
void ComputeLowering::sweep(std::size_t level, const Tiles& tiles) {
  const Level& here = levels_[level];
  const std::optional<std::int64_t> size = reduction_extent(here.axis);
  CORRLOOM_CHECK(size.has_value(), "sweeps over a reduction axis whose extent is not known");
  std::vector<scalar::Expr> extents;
  for (const std::optional<std::int64_t>& extent : schedule::swept_sizes(stage_, compute_, level))
    extents.push_back(scalar::constant_i64(*extent));
  sums_.clear();
  for (const tensor::Accumulator& accumulator : compute_.reduction->accumulators)
    sums_.push_back(
        builder_.add_buffer({op_.name + ".sums", accumulator.dtype, extents, loop::Space::Local, /*written=*/true}));
  sum_origin_.clear();
  for (const tensor::Axis& axis : compute_.axes) sum_origin_.push_back(tiles.at(axis.id).base);

  const auto walk = [&](Sweep sweep) {
    sweep_ = sweep;
    serial_loops(level + 1, tiles);
  };
  const auto add = [&](ValueId base, std::int64_t count) {
    parts_[here.axis] = {base, builder_.index(count)};
    walk(Sweep::Add);
    parts_.erase(here.axis);
  };
  walk(Sweep::Begin);
  const std::int64_t full = *size / here.step, rest = *size % here.step;
  builder_.for_loop(graph_.axis_names[static_cast<std::size_t>(here.axis.index)], builder_.index(full), Binding::Serial,
                    {}, [&](ValueId number, std::span<const ValueId>) {
                      add(builder_.mul(number, here.step), here.step);
                      return std::vector<ValueId>{};
                    });
  if (rest > 0) add(builder_.index(full * here.step), rest);
  walk(Sweep::Finish);
  sweep_ = Sweep::None;
}

void ComputeLowering::swept_tile(std::size_t level, const Tiles& tiles) {
  std::vector<Point> points;
  add_points(level, tiles, {}, points);
  Accumulators sums;
  if (sweep_ == Sweep::Begin) {
    sums = initial(points);
  } else {
    for (const Point& point : points) {
      sums.emplace_back();
      for (loop::BufferId buffer : sums_)
        sums.back().push_back(builder_.load(buffer, swept_index(point), mask_of(point)));
    }
  }
  if (sweep_ == Sweep::Add) sums = reduce(level, points, std::move(sums));
  if (sweep_ == Sweep::Finish) return store_tile(points, sums);
  for (std::size_t k = 0; k < points.size(); ++k) {
    for (std::size_t a = 0; a < sums_.size(); ++a)
      builder_.store(sums_[a], swept_index(points[k]), sums[k][a], mask_of(points[k]));
  }
}

/// Where the sums of a point lie.
std::vector<ValueId> ComputeLowering::swept_index(const Point& point) {
  std::vector<ValueId> index;
  for (std::size_t k = 0; k < compute_.axes.size(); ++k)
    index.push_back(builder_.apply(scalar::Opcode::Sub, {point.at(compute_.axes[k].id).value, sum_origin_[k]}));
  return index;
}

}  // namespace corrloom::passes
