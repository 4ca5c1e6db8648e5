#include <algorithm>

#include "compiler/passes/lower_compute.h"

namespace corrloom::passes {

using loop::Binding;
using loop::ValueId;
using scalar::Opcode;
using schedule::Bind;
using tensor::Accumulator;

/// Whether vectors run along the result while the order of the reduction is by lanes.
bool ComputeLowering::lanes_take_turns() const {
  if (!compute_.reduction || compute_.reduction->order.kind != tensor::Order::Kind::Lanes) return false;
  return std::any_of(levels_.begin(), levels_.end(),
                     [](const Level& level) { return level.bind == Bind::Vector && !level.reduction; });
}

/// The accumulators of one lane of the order after another, at all points of the tile; those an unrolled loop apart
/// are under way together. What each turn leaves lies in memory until all are done: then the halving tree of
/// Order::Lanes is one of whole vectors.
ComputeLowering::Accumulators ComputeLowering::reduce_in_turn(std::vector<Point>& tile_points) {
  const std::int64_t lanes = compute_.reduction->order.lanes;
  const tensor::Axis& axis = compute_.reduction->axes.front();
  const ValueId rounds =
      builder_.apply(Opcode::FloorDiv, {trips_of(axis.id, tile_points.front()), builder_.index(lanes)});
  std::int64_t turns = lanes;
  for (const Level& level : levels_) {
    if (level.reduction && level.bind == Bind::Unroll) turns = level.step;
  }
  const Accumulators start = initial(tile_points);
  if (turns == 1) return turn(builder_.index(0), turns, rounds, tile_points, start);

  const std::vector<ValueId> one = flatten(start);
  const int width = builder_.type(one.front()).lanes;
  const auto at = [&](ValueId number, std::size_t k) {
    return std::vector<ValueId>{number, builder_.index(static_cast<std::int64_t>(k)),
                                builder_.ramp(builder_.index(0), 1, width)};
  };
  std::map<DType, loop::BufferId> buffers;
  for (ValueId value : one) {
    const DType dtype = builder_.type(value).dtype;
    if (!buffers.contains(dtype)) buffers[dtype] = turn_buffer(dtype, turns, one.size(), width);
  }
  builder_.for_loop(graph_.axis_names[static_cast<std::size_t>(axis.id.index)], builder_.index(turns), Binding::Serial,
                    {}, [&](ValueId number, std::span<const ValueId>) {
                      const std::vector<ValueId> done = flatten(turn(number, turns, rounds, tile_points, start));
                      for (std::size_t k = 0; k < done.size(); ++k)
                        builder_.store(buffers.at(builder_.type(done[k]).dtype), at(number, k), done[k]);
                      return std::vector<ValueId>{};
                    });
  const std::size_t each = compute_.reduction->accumulators.size();
  Accumulators out;
  for (std::size_t k = 0; k < tile_points.size(); ++k) {
    std::vector<std::vector<ValueId>> parts;
    for (std::int64_t number = 0; number < turns; ++number) {
      parts.emplace_back();
      for (std::size_t a = 0; a < each; ++a) {
        const std::size_t place = k * each + a;
        parts.back().push_back(
            builder_.load(buffers.at(builder_.type(one[place]).dtype), at(builder_.index(number), place)));
      }
    }
    out.push_back(merged_parts(std::move(parts), tile_points[k], width));
  }
  forget_reduction(tile_points);
  return out;
}

/// All elements of the lanes `number`, `number + turns`, ...: what they make together.
ComputeLowering::Accumulators ComputeLowering::turn(ValueId number, std::int64_t turns, ValueId rounds,
                                                    std::vector<Point>& tile_points, const Accumulators& start) {
  const std::int64_t lanes = compute_.reduction->order.lanes, together = lanes / turns;
  const tensor::Axis& axis = compute_.reduction->axes.front();
  const std::vector<ValueId> one = flatten(start);
  std::vector<ValueId> inits;
  for (std::int64_t copy = 0; copy < together; ++copy) inits.insert(inits.end(), one.begin(), one.end());
  const auto part = [&](std::span<const ValueId> values, std::int64_t copy) {
    return unflatten(values.subspan(static_cast<std::size_t>(copy) * one.size(), one.size()));
  };
  const auto body = [&](ValueId round, std::span<const ValueId> values) {
    std::vector<ValueId> out;
    for (std::int64_t copy = 0; copy < together; ++copy) {
      const ValueId element =
          builder_.add(builder_.mul(round, lanes), builder_.add(number, builder_.index(copy * turns)));
      for (Point& point : tile_points) point[axis.id] = {element, {}};
      const std::vector<ValueId> after = flatten(step(tile_points, part(values, copy)));
      out.insert(out.end(), after.begin(), after.end());
    }
    return out;
  };
  const std::vector<ValueId> all = builder_.for_loop(graph_.axis_names[static_cast<std::size_t>(axis.id.index)], rounds,
                                                     Binding::Serial, inits, body);
  Accumulators out;
  const int width = builder_.type(one.front()).lanes;
  for (std::size_t k = 0; k < tile_points.size(); ++k) {
    std::vector<std::vector<ValueId>> parts;
    for (std::int64_t copy = 0; copy < together; ++copy) parts.push_back(part(all, copy)[k]);
    out.push_back(merged_parts(std::move(parts), tile_points[k], width));
  }
  if (turns == 1) forget_reduction(tile_points);
  return out;
}

/// The halving tree over parts of a point, each lane of the order or what lanes so far apart made together.
std::vector<ValueId> ComputeLowering::merged_parts(std::vector<std::vector<ValueId>> parts, const Point& point,
                                                   int width) {
  for (std::size_t half = parts.size() / 2; half >= 1; half /= 2) {
    for (std::size_t k = 0; k < half; ++k) {
      const std::vector<ValueId> lower = parts[k];
      for (std::size_t a = 0; a < lower.size(); ++a)
        parts[k][a] = builder_.splat(
            evaluate(compute_.reduction->accumulators[a].merge, point, lower, parts[k + half], {}), width);
    }
  }
  return std::move(parts.front());
}

/// The reduction is over: its axes are no part of the result.
void ComputeLowering::forget_reduction(std::vector<Point>& tile_points) const {
  for (Point& point : tile_points) {
    for (const tensor::Axis& axis : compute_.reduction->axes) point.erase(axis.id);
  }
}

/// Memory for what turns leave: one buffer for all tiles, of the first one's size or as many more as they need.
loop::BufferId ComputeLowering::turn_buffer(DType dtype, std::int64_t turns, std::size_t values, int width) {
  const auto known = std::find_if(turn_buffers_.begin(), turn_buffers_.end(), [&](const TurnBuffer& buffer) {
    return buffer.dtype == dtype && buffer.width == width && buffer.values >= values;
  });
  if (known != turn_buffers_.end()) return known->id;
  const loop::BufferId id =
      builder_.add_buffer({op_.name + ".lanes",
                           dtype,
                           {scalar::constant_i64(turns), scalar::constant_i64(static_cast<std::int64_t>(values)),
                            scalar::constant_i64(width)},
                           loop::Space::Local,
                           /*written=*/true});
  turn_buffers_.push_back({dtype, width, values, id});
  return id;
}

}  // namespace corrloom::passes
