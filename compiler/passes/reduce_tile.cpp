#include <algorithm>
#include <bit>

#include "compiler/passes/lower_compute.h"
#include "compiler/passes/readers.h"
#include "compiler/passes/tile_shuffles.h"
#include "ir/base/errors.h"

namespace corrloom::passes {

using loop::Binding;
using loop::ValueId;
using scalar::AxisId;
using scalar::Expr;
using scalar::Opcode;
using schedule::Bind;
using tensor::Accumulator;

namespace {

/// Most elements by which a step of an axis moves a window: more share nothing.
constexpr std::int64_t kMostWindowStep = 8;
/// Sums that must be under way so that none waits for the one before.
constexpr std::size_t kIndependent = 4;

}  // namespace

/// The accumulators before the first element, in as many lanes as the steps will have.
ComputeLowering::Accumulators ComputeLowering::initial(const std::vector<Point>& tile_points) {
  int lanes = 1;
  for (const Level& level : levels_) {
    if (level.bind == Bind::Vector)
      lanes = static_cast<int>(level.reduction ? compute_.reduction->order.lanes : level.enclosing);
  }
  Accumulators out;
  for (const Point& point : tile_points) {
    std::vector<ValueId> start;
    for (const Accumulator& accumulator : compute_.reduction->accumulators) {
      start.push_back(builder_.splat(evaluate(accumulator.init, point, {}, {}, mask_of(point)), lanes));
    }
    out.push_back(std::move(start));
  }
  return out;
}

/// One element of the reduction at every point of the tile.
ComputeLowering::Accumulators ComputeLowering::step(std::vector<Point>& tile_points, const Accumulators& accumulators) {
  Accumulators out;
  for (std::size_t k = 0; k < tile_points.size(); ++k) out.push_back(step(tile_points[k], accumulators[k]));
  for (const Accumulator& accumulator : compute_.reduction->accumulators) prefetch(accumulator.step, tile_points);
  return out;
}

std::vector<ValueId> ComputeLowering::step(const Point& point, const std::vector<ValueId>& accumulators) {
  const ValueId mask = mask_of(point);
  std::vector<ValueId> next;
  for (std::size_t a = 0; a < accumulators.size(); ++a) {
    const ValueId value = evaluate(compute_.reduction->accumulators[a].step, point, accumulators, {}, mask);
    next.push_back(builder_.splat(value, builder_.type(accumulators[a]).lanes));
  }
  return next;
}

ValueId ComputeLowering::extent_of(AxisId axis, const Point& point) {
  for (const tensor::Axis& candidate : compute_.reduction->axes) {
    if (candidate.id == axis) return evaluate(candidate.extent, point, {}, {}, {});
  }
  CORRLOOM_CHECK(false, "not a reduction axis");
  return {};
}

/// How often the loop of a reduction axis runs: its extent, or not at all where a read of its range would leave a
/// tensor.
ValueId ComputeLowering::trips_of(AxisId axis, const Point& point) {
  const ValueId extent = extent_of(axis, point);
  const std::vector<tensor::Axis>& axes = compute_.reduction->axes;
  ValueId inside;
  for (const tensor::RangeCheck& check : range_checks_) {
    const scalar::Read& read = *scalar::as_read(check.read);
    if (axes[check.axis].id != axis || !may_leave(read, check.dimension)) continue;
    const Expr& limit = graph_.op(read.source).extents[check.dimension];
    ValueId runs = builder_.apply(Opcode::Gt, {extent, builder_.index(0)});
    const ValueId made = check.holds ? evaluate(check.holds, point, {}, {}, {}) : ValueId();
    if (made) runs = builder_.apply(Opcode::And, {made, runs});
    const Expr subscript = tensor::checked_subscript(check, axes[check.axis].extent, limit);
    const ValueId tested = evaluate(subscript, point, {}, {}, {});
    ValueId ok = builder_.check(site_of(read, check.dimension), tested, evaluate(limit, point, {}, {}, {}), runs);
    if (made) ok = builder_.apply(Opcode::Or, {ok, builder_.apply(Opcode::Not, {made})});
    inside = inside ? builder_.apply(Opcode::And, {inside, ok}) : ok;
  }
  return inside ? builder_.apply(Opcode::Select, {inside, extent, builder_.index(0)}) : extent;
}

/// True unless a proof or its bounds show that the subscript stays inside.
bool ComputeLowering::may_leave(const scalar::Read& read, std::size_t dimension) const {
  if (read.check != scalar::ReadCheck::Runtime) return false;
  const std::optional<std::int64_t> limit = scalar::as_i64(graph_.op(read.source).extents[dimension]);
  const std::optional<affine::Interval> bounds = affine::interval_of(read.index[dimension], ranges_);
  return !limit || !bounds || bounds->low < 0 || bounds->high >= *limit;
}

bool ComputeLowering::is_checked_as_range(const Expr& read, std::size_t dimension) const {
  return std::any_of(range_checks_.begin(), range_checks_.end(), [&](const tensor::RangeCheck& check) {
    return check.read == read && check.dimension == dimension && check.holds == nullptr;
  });
}

int ComputeLowering::site_of(const scalar::Read& read, std::size_t dimension) const {
  const std::string extent = tensor::extent_text(graph_, graph_.op(read.source).extents[dimension]);
  const tensor::CheckSite wanted = tensor::check_site(graph_, read, dimension, extent);
  const auto found = std::lower_bound(kernel_.sites.begin(), kernel_.sites.end(), wanted);
  CORRLOOM_CHECK(found != kernel_.sites.end() && !(wanted < *found), "a check without a site: ", wanted.read);
  return static_cast<int>(found - kernel_.sites.begin());
}

/// The check that a subscript needs by itself: none where its bounds show that it stays inside, or where the range that
/// it belongs to is checked.
std::optional<TileEvaluator::Check> ComputeLowering::check_of(const Expr& node, std::size_t dimension) {
  const scalar::Read& read = *scalar::as_read(node);
  if (!may_leave(read, dimension) || is_checked_as_range(node, dimension)) return std::nullopt;
  return TileEvaluator::Check{site_of(read, dimension),
                              evaluate(graph_.op(read.source).extents[dimension], {}, {}, {}, {})};
}

/// Sweeps in single steps have no loop inside.
void ComputeLowering::place_single_steps(std::size_t level, std::vector<Point>& tile_points) const {
  for (const auto& [axis, part] : parts_) {
    const bool has_loop = std::any_of(levels_.begin() + static_cast<std::ptrdiff_t>(level), levels_.end(),
                                      [axis = axis](const Level& inner) { return inner.axis == axis; });
    if (has_loop) continue;
    for (Point& point : tile_points) point.try_emplace(axis, PointAxis{part.base, {}});
  }
}

ComputeLowering::Accumulators ComputeLowering::reduce(std::size_t level, std::vector<Point>& tile_points,
                                                      Accumulators accumulators) {
  while (level < levels_.size() && !levels_[level].reduction) ++level;
  place_single_steps(level, tile_points);
  if (level == levels_.size()) return step(tile_points, accumulators);
  const Level& here = levels_[level];
  if (needs_turned_lanes()) {
    if (const std::optional<std::int64_t> elements = elements_of_short_rows())
      return reduce_short_rows(*elements, tile_points, std::move(accumulators));
    return reduce_rows(0, builder_.index(0), tile_points, std::move(accumulators));
  }
  if (here.bind == Bind::Vector) return reduce_lanes(tile_points, std::move(accumulators));
  if (here.step > 1) return reduce_parts(here, tile_points, std::move(accumulators), level + 1);
  if (here.bind == Bind::Unroll) {
    const Part part = part_of(here.axis, tile_points.front());
    const std::optional<std::int64_t> trips = builder_.as_index(part.count);
    CORRLOOM_CHECK(trips.has_value(), "an unrolled reduction loop has an extent that is not known");
    const bool innermost = std::none_of(levels_.begin() + static_cast<std::ptrdiff_t>(level) + 1, levels_.end(),
                                        [](const Level& inner) { return inner.reduction; });
    if (innermost) return reduce_window(here.axis, part.base, *trips, tile_points, std::move(accumulators));
    for (std::int64_t at = 0; at < *trips; ++at) {
      for (Point& point : tile_points) point[here.axis] = {builder_.add(part.base, builder_.index(at)), {}};
      accumulators = reduce(level + 1, tile_points, std::move(accumulators));
    }
    return accumulators;
  }
  return reduce_loop(here, tile_points, std::move(accumulators), level + 1);
}

/// The taps of an unrolled window, in the order in which points need new elements: what neighbours read together is
/// read once and soon done with. At each point the taps keep their order.
ComputeLowering::Accumulators ComputeLowering::reduce_window(AxisId axis, ValueId base, std::int64_t taps,
                                                             std::vector<Point>& tile_points,
                                                             Accumulators accumulators) {
  const Window window = window_of(axis);
  const auto first = [&](const Point& point) { return window.axis ? point.at(window.axis).position * window.step : 0; };
  std::int64_t last = 0;
  for (const Point& point : tile_points) last = std::max(last, first(point));
  for (std::int64_t element = 0; element <= last + (taps - 1) * window.tap; ++element) {
    for (std::size_t k = 0; k < tile_points.size(); ++k) {
      const std::int64_t distance = element - first(tile_points[k]), tap = distance / window.tap;
      if (distance < 0 || distance % window.tap != 0 || tap >= taps) continue;
      tile_points[k][axis] = {builder_.add(base, builder_.index(tap)), {}};
      accumulators[k] = step(tile_points[k], accumulators[k]);
    }
  }
  return accumulators;
}

/// The output axis whose neighbours read elements of an unrolled window again, if any.
ComputeLowering::Window ComputeLowering::window_of(AxisId reduced) const {
  Window found;
  for (const Accumulator& accumulator : compute_.reduction->accumulators) {
    scalar::for_each_node(accumulator.step, [&](const Expr& node) {
      const scalar::Read* read = scalar::as_read(node);
      if (read == nullptr) return;
      for (const Expr& subscript : read->index) {
        const std::optional<affine::LinearForm> form = affine::linear_form(subscript);
        const std::int64_t tap = form ? form->coefficient_of(reduced) : 0;
        if (tap < 1 || tap > kMostWindowStep) continue;
        for (const tensor::Axis& axis : compute_.axes) {
          const std::int64_t step = form->coefficient_of(axis.id);
          if (step > 0 && step <= kMostWindowStep) found = {axis.id, step, tap};
        }
      }
    });
  }
  return found;
}

/// What the loops so far leave of a reduction axis.
ComputeLowering::Part ComputeLowering::part_of(AxisId axis, const Point& point) {
  const auto found = parts_.find(axis);
  return found != parts_.end() ? found->second : Part{builder_.index(0), trips_of(axis, point)};
}

/// Whole steps of a reduction axis, then what is left of it: the loops further in see a constant size.
ComputeLowering::Accumulators ComputeLowering::reduce_parts(const Level& here, std::vector<Point>& tile_points,
                                                            Accumulators accumulators, std::size_t next) {
  const Part whole = part_of(here.axis, tile_points.front());
  const std::optional<std::int64_t> size = builder_.as_index(whole.count);
  CORRLOOM_CHECK(size.has_value(), "a reduction axis is cut whose extent is not known");
  const auto run = [&](ValueId base, std::int64_t count, Accumulators values) {
    parts_[here.axis] = {base, builder_.index(count)};
    return reduce(next, tile_points, std::move(values));
  };
  const std::string& name = graph_.axis_names[static_cast<std::size_t>(here.axis.index)];
  const std::int64_t full = *size / here.step, rest = *size % here.step;
  const auto body = [&](ValueId number, std::span<const ValueId> values) {
    return flatten(run(builder_.add(whole.base, builder_.mul(number, here.step)), here.step, unflatten(values)));
  };
  accumulators = unflatten(builder_.for_loop(name, builder_.index(full), Binding::Serial, flatten(accumulators), body));
  if (rest > 0)
    accumulators = run(builder_.add(whole.base, builder_.index(full * here.step)), rest, std::move(accumulators));
  parts_[here.axis] = whole;
  return accumulators;
}

/// A loop that carries every accumulator of the tile.
ComputeLowering::Accumulators ComputeLowering::reduce_loop(const Level& here, std::vector<Point>& tile_points,
                                                           Accumulators accumulators, std::size_t next) {
  const Part part = part_of(here.axis, tile_points.front());
  const ValueId trips = part.count;
  CORRLOOM_CHECK(builder_.type(trips).lanes == 1, "the range of a reduction depends on the vector axis");
  const std::string& name = graph_.axis_names[static_cast<std::size_t>(here.axis.index)];
  const auto body = [&](ValueId number, std::span<const ValueId> values) {
    const ValueId at = builder_.add(part.base, number);
    for (Point& point : tile_points) point[here.axis] = {at, {}};
    return flatten(reduce(next, tile_points, unflatten(values)));
  };
  return unflatten(builder_.for_loop(name, trips, Binding::Serial, flatten(accumulators), body));
}

/// The halving tree of Order::Lanes at every point. Points beside each other in the result, in powers of two, share its
/// operations and become one point whose last axis is a ramp.
void ComputeLowering::merge_lanes(std::vector<Point>& points, Accumulators& accumulators) {
  const auto lanes = static_cast<std::size_t>(compute_.reduction->order.lanes);
  std::vector<Point> merged_points;
  Accumulators merged_values;
  for (const std::vector<std::size_t>& run : runs_of(points)) {
    for (std::size_t first = 0; first < run.size();) {
      const std::size_t size = std::min(std::bit_floor(run.size() - first), lanes);
      std::vector<std::vector<ValueId>> part;
      for (std::size_t k = first; k < first + size; ++k) part.push_back(accumulators[run[k]]);
      Point point = points[run[first]];
      merged_values.push_back(merged(std::move(part), point));
      if (size > 1) {
        PointAxis& last = point.at(compute_.axes.back().id);
        last = {builder_.ramp(last.value, 1, static_cast<int>(size)), {}, static_cast<int>(size)};
      }
      // The reduction is over: its axes, and the lanes that existed, are no part of the result.
      for (const tensor::Axis& axis : compute_.reduction->axes) point.erase(axis.id);
      merged_points.push_back(std::move(point));
      first += size;
    }
  }
  points = std::move(merged_points);
  accumulators = std::move(merged_values);
}

/// The finished accumulators of a run of points, each a vector with a lane a point.
std::vector<ValueId> ComputeLowering::merged(std::vector<std::vector<ValueId>> run, const Point& point) {
  const std::size_t each = compute_.reduction->accumulators.size();
  int segments = 1;
  for (int width = static_cast<int>(compute_.reduction->order.lanes); width > 1; width /= 2) {
    std::vector<std::vector<ValueId>> next;
    for (std::size_t k = 0; k < run.size(); k += 2) {
      const bool pair = k + 1 < run.size();
      std::vector<ValueId> lower, upper;
      for (std::size_t a = 0; a < each; ++a) {
        const Halves halves = split_runs(builder_, run[k][a], pair ? run[k + 1][a] : ValueId{}, segments);
        lower.push_back(halves.first);
        upper.push_back(halves.second);
      }
      std::vector<ValueId> values;
      for (std::size_t a = 0; a < each; ++a) {
        const ValueId value = evaluate(compute_.reduction->accumulators[a].merge, point, lower, upper, {});
        values.push_back(builder_.splat(value, builder_.type(lower[a]).lanes));
      }
      next.push_back(std::move(values));
    }
    if (run.size() > 1) segments *= 2;
    run = std::move(next);
  }
  return run.front();
}

/// Whether lanes cannot follow the last axis alone: element numbers and its indices do not agree modulo the lanes, and
/// the order decides bits.
bool ComputeLowering::needs_turned_lanes() const {
  if (compute_.reduction->order.kind != tensor::Order::Kind::Lanes || tensor::is_order_free(*compute_.reduction))
    return false;
  const std::vector<tensor::Axis>& axes = compute_.reduction->axes;
  const std::optional<std::int64_t> last = scalar::as_i64(axes.back().extent);
  return axes.size() > 1 && !(last && *last % compute_.reduction->order.lanes == 0);
}

/// All elements of a reduction whose rows are known to be shorter than a vector, which holds several of them then.
std::optional<std::int64_t> ComputeLowering::elements_of_short_rows() const {
  constexpr std::int64_t kMost = std::int64_t{1} << 24;
  // A range that is found to leave a tensor leaves no elements.
  const bool is_checked = std::any_of(range_checks_.begin(), range_checks_.end(), [&](const auto& check) {
    return may_leave(*scalar::as_read(check.read), check.dimension);
  });
  if (is_checked) return std::nullopt;
  std::int64_t elements = 1;
  for (const tensor::Axis& axis : compute_.reduction->axes) {
    const std::optional<std::int64_t> extent = scalar::as_i64(axis.extent);
    if (!extent || *extent < 1 || *extent > kMost || elements > kMost) return std::nullopt;
    elements *= *extent;
  }
  const bool short_rows = *scalar::as_i64(compute_.reduction->axes.back().extent) < compute_.reduction->order.lanes;
  return short_rows ? std::optional(elements) : std::nullopt;
}

/// Vectors of consecutive elements, whose places along the axes are remainders of their numbers.
ComputeLowering::Accumulators ComputeLowering::reduce_short_rows(std::int64_t elements, std::vector<Point>& tile_points,
                                                                 Accumulators accumulators) {
  const std::vector<tensor::Axis>& axes = compute_.reduction->axes;
  const int lanes = static_cast<int>(compute_.reduction->order.lanes);
  std::vector<ValueId> extents;
  for (const tensor::Axis& axis : axes) extents.push_back(builder_.index(*scalar::as_i64(axis.extent)));
  const auto vector_at = [&](ValueId number, ValueId mask, const Accumulators& before) {
    Point at;
    ValueId rest = builder_.ramp(builder_.mul(number, lanes), 1, lanes);
    for (std::size_t k = axes.size(); k-- > 0;) {
      at[axes[k].id] = {k == 0 ? rest : builder_.apply(Opcode::Mod, {rest, extents[k]}), mask};
      if (k > 0) rest = builder_.apply(Opcode::FloorDiv, {rest, extents[k]});
    }
    return lanes_step(at, mask, tile_points, before, std::nullopt);
  };
  const auto body = [&](ValueId number, std::span<const ValueId> values) {
    return flatten(vector_at(number, {}, unflatten(values)));
  };
  const std::string& name = graph_.axis_names[static_cast<std::size_t>(axes.back().id.index)];
  const std::int64_t whole = elements / lanes, left = elements % lanes;
  accumulators =
      unflatten(builder_.for_loop(name, builder_.index(whole), Binding::Serial, flatten(accumulators), body));
  if (left == 0) return accumulators;
  const ValueId lane = builder_.ramp(builder_.index(0), 1, lanes);
  const ValueId mask = builder_.apply(Opcode::Lt, {lane, builder_.splat(builder_.index(left), lanes)});
  return vector_at(builder_.index(whole), mask, accumulators);
}

/// Rows of the last axis that begin in the lane where the row before has ended: `row` of them lie before those of the
/// axes from `depth` on.
ComputeLowering::Accumulators ComputeLowering::reduce_rows(std::size_t depth, ValueId row,
                                                           std::vector<Point>& tile_points, Accumulators accumulators) {
  const tensor::Axis& axis = compute_.reduction->axes[depth];
  const ValueId trips = trips_of(axis.id, tile_points.front());
  const std::string& name = graph_.axis_names[static_cast<std::size_t>(axis.id.index)];
  if (depth + 1 < compute_.reduction->axes.size()) {
    const ValueId before = builder_.apply(Opcode::Mul, {row, trips});
    const auto body = [&](ValueId number, std::span<const ValueId> values) {
      for (Point& point : tile_points) point[axis.id] = {number, {}};
      return flatten(reduce_rows(depth + 1, builder_.add(before, number), tile_points, unflatten(values)));
    };
    return unflatten(builder_.for_loop(name, trips, Binding::Serial, flatten(accumulators), body));
  }
  const int lanes = static_cast<int>(compute_.reduction->order.lanes);
  const ValueId width = builder_.index(lanes);
  // The vectors begin that many elements before the row.
  const ValueId early = builder_.apply(Opcode::Mod, {builder_.apply(Opcode::Mul, {row, trips}), width});
  const ValueId end = builder_.add(early, trips), whole = builder_.apply(Opcode::FloorDiv, {end, width});
  const ValueId lane = builder_.ramp(builder_.index(0), 1, lanes);
  const auto vector_at = [&](ValueId number, ValueId mask, const Accumulators& values) {
    const ValueId element = builder_.apply(Opcode::Sub, {builder_.mul(number, lanes), early});
    return lanes_step({{axis.id, {builder_.ramp(element, 1, lanes), mask}}}, mask, tile_points, values, std::nullopt);
  };
  const ValueId begun = builder_.apply(Opcode::Ge, {lane, early}), open = builder_.apply(Opcode::Lt, {lane, end});
  accumulators = vector_at(builder_.index(0), builder_.apply(Opcode::And, {begun, open}), accumulators);
  const ValueId one = builder_.index(1), inner = builder_.apply(Opcode::Sub, {whole, one});
  const auto body = [&](ValueId number, std::span<const ValueId> values) {
    return flatten(vector_at(builder_.add(number, one), {}, unflatten(values)));
  };
  accumulators = unflatten(builder_.for_loop(name, builder_.apply(Opcode::Max, {inner, builder_.index(0)}),
                                             Binding::Serial, flatten(accumulators), body));
  // Where the first vector is the last one, no lane is left of it.
  const ValueId left = builder_.apply(Opcode::Mod, {end, width});
  const ValueId last =
      builder_.apply(Opcode::Select, {builder_.apply(Opcode::Gt, {whole, builder_.index(0)}), left, builder_.index(0)});
  return vector_at(whole, builder_.apply(Opcode::Lt, {lane, last}), accumulators);
}

/// The last reduction axis in the lanes of a vector: whole vectors of consecutive elements, then a masked one for the
/// rest. Where no order changes the bits, few points have several accumulators each, so that vectors do not
/// wait for one another. A maximum or minimum is tracked as three values until the end.
ComputeLowering::Accumulators ComputeLowering::reduce_lanes(std::vector<Point>& tile_points,
                                                            Accumulators accumulators) {
  const tensor::Axis& axis = compute_.reduction->axes.back();
  const int lanes = static_cast<int>(compute_.reduction->order.lanes);
  const auto [base, count] = part_of(axis.id, tile_points.front());
  const std::optional<Extreme> extreme = extreme_of_step();
  if (extreme) {
    for (std::vector<ValueId>& value : accumulators) value = tracked(value.front());
  }
  const std::size_t each = accumulators.front().size();
  const auto step_at = [&](ValueId number, ValueId mask, const Accumulators& before) {
    const ValueId elements = builder_.ramp(builder_.add(base, number), 1, lanes);
    return lanes_step({{axis.id, {elements, mask}}}, mask, tile_points, before, extreme);
  };
  const ValueId full = builder_.apply(Opcode::FloorDiv, {count, builder_.index(lanes)});
  const std::string& name = graph_.axis_names[static_cast<std::size_t>(axis.id.index)];
  ValueId done = builder_.index(0);
  const auto copies = static_cast<std::int64_t>(independent_copies(tile_points.size()));
  const std::optional<std::int64_t> trips = builder_.as_index(full);
  if (copies > 1 && (!trips || *trips >= 2 * copies)) {
    const ValueId rounds = builder_.apply(Opcode::FloorDiv, {full, builder_.index(copies)});
    Accumulators fresh = initial(tile_points);
    for (std::vector<ValueId>& value : fresh) value = extreme ? tracked(value.front()) : value;
    accumulators = reduce_copies(name, rounds, copies, lanes, accumulators, fresh, step_at, extreme.has_value());
    done = builder_.mul(rounds, copies);
  }
  const auto body = [&](ValueId number, std::span<const ValueId> values) {
    return flatten(step_at(builder_.mul(builder_.add(done, number), lanes), {}, unflatten(values, each)));
  };
  accumulators = unflatten(
      builder_.for_loop(name, builder_.apply(Opcode::Sub, {full, done}), Binding::Serial, flatten(accumulators), body),
      each);
  const ValueId rest = builder_.apply(Opcode::Mod, {count, builder_.index(lanes)});
  if (builder_.as_index(rest) != std::optional<std::int64_t>(0)) {
    const ValueId mask = builder_.apply(Opcode::Lt, {builder_.ramp(builder_.index(0), 1, lanes), rest});
    accumulators = step_at(builder_.mul(full, lanes), mask, accumulators);
  }
  if (extreme) {
    for (std::vector<ValueId>& value : accumulators) value = {untracked(value)};
  }
  return accumulators;
}

/// One vector of elements at every point: those at these places along reduction axes.
ComputeLowering::Accumulators ComputeLowering::lanes_step(const Point& at, ValueId mask,
                                                          const std::vector<Point>& tile_points,
                                                          const Accumulators& before,
                                                          const std::optional<Extreme>& extreme) {
  const int lanes = static_cast<int>(compute_.reduction->order.lanes);
  Accumulators out;
  std::vector<Point> points;
  for (std::size_t k = 0; k < tile_points.size(); ++k) {
    Point& point = points.emplace_back(tile_points[k]);
    for (const auto& [axis, place] : at) point[axis] = place;
    if (extreme) {
      const ValueId element = builder_.splat(evaluate(extreme->element, point, {}, {}, mask), lanes);
      out.push_back(with_element(*extreme, before[k], element));
    } else {
      out.emplace_back();
      for (const Accumulator& accumulator : compute_.reduction->accumulators)
        out.back().push_back(builder_.splat(evaluate(accumulator.step, point, before[k], {}, mask), lanes));
    }
    for (std::size_t a = 0; mask && a < out.back().size(); ++a)
      out.back()[a] = builder_.apply(Opcode::Select, {mask, out.back()[a], before[k][a]});
  }
  if (mask) return out;
  for (const Accumulator& accumulator : compute_.reduction->accumulators) prefetch(accumulator.step, points);
  return out;
}

/// Accumulators that each of so many points can have.
std::size_t ComputeLowering::independent_copies(std::size_t points) const {
  if (!tensor::is_order_free(*compute_.reduction)) return 1;
  return std::max<std::size_t>(1, kIndependent / std::max<std::size_t>(points, 1));
}

/// Rounds of several vectors, each with accumulators of its own, and what they make together. The first go on from
/// `start`, the others begin `fresh`.
ComputeLowering::Accumulators ComputeLowering::reduce_copies(const std::string& name, ValueId rounds,
                                                             std::int64_t copies, int lanes, const Accumulators& start,
                                                             const Accumulators& fresh, const StepAt& step_at,
                                                             bool is_tracked) {
  const std::size_t each = start.front().size();
  const std::vector<ValueId> one = flatten(start), other_one = flatten(fresh);
  std::vector<ValueId> inits = one;
  for (std::int64_t copy = 1; copy < copies; ++copy) inits.insert(inits.end(), other_one.begin(), other_one.end());
  const auto part = [&](std::span<const ValueId> values, std::int64_t copy) {
    return unflatten(values.subspan(static_cast<std::size_t>(copy) * one.size(), one.size()), each);
  };
  const auto body = [&](ValueId round, std::span<const ValueId> values) {
    std::vector<ValueId> out;
    for (std::int64_t copy = 0; copy < copies; ++copy) {
      const ValueId vector = builder_.add(builder_.mul(round, copies), builder_.index(copy));
      const std::vector<ValueId> after = flatten(step_at(builder_.mul(vector, lanes), {}, part(values, copy)));
      out.insert(out.end(), after.begin(), after.end());
    }
    return out;
  };
  const std::vector<ValueId> all = builder_.for_loop(name, rounds, Binding::Serial, inits, body);
  const auto made_by = [&](std::int64_t copy) {
    Accumulators values = part(all, copy);
    for (std::vector<ValueId>& value : values) {
      if (is_tracked) value = {untracked(value)};
    }
    return values;
  };
  Accumulators merged_values = made_by(0);
  for (std::int64_t copy = 1; copy < copies; ++copy) {
    const Accumulators other = made_by(copy);
    for (std::size_t k = 0; k < merged_values.size(); ++k) {
      const std::vector<ValueId> before = merged_values[k];
      for (std::size_t a = 0; a < before.size(); ++a)
        merged_values[k][a] =
            builder_.splat(evaluate(compute_.reduction->accumulators[a].merge, {}, before, other[k], {}), lanes);
    }
  }
  for (std::vector<ValueId>& value : merged_values) {
    if (is_tracked) value = tracked(value.front());
  }
  return merged_values;
}

std::vector<ValueId> ComputeLowering::flatten(const Accumulators& accumulators) {
  std::vector<ValueId> flat;
  for (const auto& point : accumulators) flat.insert(flat.end(), point.begin(), point.end());
  return flat;
}

ComputeLowering::Accumulators ComputeLowering::unflatten(std::span<const ValueId> flat) const {
  return unflatten(flat, compute_.reduction->accumulators.size());
}

ComputeLowering::Accumulators ComputeLowering::unflatten(std::span<const ValueId> flat, std::size_t each) {
  Accumulators out;
  for (std::size_t k = 0; k < flat.size(); k += each)
    out.emplace_back(flat.begin() + static_cast<std::ptrdiff_t>(k),
                     flat.begin() + static_cast<std::ptrdiff_t>(k + each));
  return out;
}

}  // namespace corrloom::passes
