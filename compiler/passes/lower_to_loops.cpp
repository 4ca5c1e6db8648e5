#include "compiler/passes/lower_to_loops.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>

#include "compiler/passes/evaluate_tile.h"
#include "compiler/passes/function_builder.h"
#include "compiler/passes/readers.h"
#include "compiler/passes/running_reduction.h"
#include "compiler/passes/tile_shuffles.h"
#include "ir/base/errors.h"
#include "ir/tensor/check_site.h"
#include "ir/tensor/range_check.h"

namespace corrloom::passes {
namespace {

using loop::Binding;
using loop::BufferId;
using loop::ValueId;
using scalar::AxisId;
using scalar::Expr;
using scalar::Opcode;
using scalar::TensorId;
using schedule::Bind;
using tensor::Accumulator;
using tensor::Compute;

/// What the loops so far leave of an axis: the elements [base, base + count).
struct Tile {
  ValueId base;
  ValueId count;
  std::optional<std::int64_t> size;  ///< the count, where it is known
  std::int64_t full = 0;             ///< where it is not: it is this, or the rest of the extent by it
};

/// An axis at one point of the register tile: a scalar or a ramp, and the lanes that exist (a default id: all).
struct PointAxis {
  ValueId value;
  ValueId mask;
  int lanes = 1;  ///< how many exist
};
using Point = std::map<AxisId, PointAxis>;
using Tiles = std::map<AxisId, Tile>;

/// Fewest rows of a tile for which a store that is contiguous along them goes through a transpose.
constexpr std::size_t kTransposedRows = 4;

/// Builds the loops of one compute.
class Lowering {
 public:
  /// `sites` are those of the graph.
  Lowering(const tensor::Graph& graph, TensorId id, const schedule::Stage& stage,
           const std::vector<tensor::CheckSite>& sites);
  LoweredKernel run();

 private:
  struct Level {
    AxisId axis;
    std::int64_t step;
    Bind bind;
    bool reduction;
    std::int64_t enclosing;  ///< step of the next outer loop of the axis, 0 when this is the outermost
  };

  void add_buffers();
  void thread_loops(std::size_t begin, std::size_t end, Tiles tiles);
  void guard_threads(std::size_t level, std::size_t end, Tiles tiles);
  void serial_loops(std::size_t level, Tiles tiles);
  bool walked_again(std::size_t level) const;
  void outer_serial_loop(std::size_t level, const Tiles& tiles);
  void settle_sizes(std::size_t level, Tiles tiles);
  void register_tile(std::size_t level, const Tiles& tiles);
  std::vector<Point> points(std::size_t level, const Tiles& tiles);
  void add_points(std::size_t level, const Tiles& tiles, Point point, std::vector<Point>& out);

  /// What one point of the tile becomes.
  struct Result {
    Point point;
    ValueId value;
  };
  void store(const std::vector<Result>& results);
  void store_one(const Result& result);
  void store_transposed(const std::vector<const Result*>& part, AxisId vector, int lanes);

  using Accumulators = std::vector<std::vector<ValueId>>;  ///< by point, then accumulator
  Accumulators reduce(std::size_t level, std::vector<Point>& tile_points, Accumulators accumulators);
  Accumulators reduce_loop(const Level& level, std::vector<Point>& tile_points, Accumulators accumulators,
                           std::size_t next);
  /// The elements [base, base + count) of a reduction axis.
  struct Part {
    ValueId base, count;
  };
  Part part_of(AxisId axis, const Point& point);
  Accumulators reduce_parts(const Level& level, std::vector<Point>& tile_points, Accumulators accumulators,
                            std::size_t next);
  bool rows_fill_lanes() const;
  Accumulators reduce_lanes(std::size_t first, std::vector<Point>& tile_points, Accumulators accumulators);
  static std::vector<ValueId> flatten(const Accumulators& accumulators);
  Accumulators unflatten(std::span<const ValueId> flat) const;
  Accumulators step(std::vector<Point>& tile_points, const Accumulators& accumulators);
  void merge_lanes(std::vector<Point>& points, Accumulators& accumulators);
  std::vector<ValueId> merged(std::vector<std::vector<ValueId>> run, const Point& point);
  std::vector<std::vector<std::size_t>> runs_of(const std::vector<Point>& points) const;
  Accumulators initial(const std::vector<Point>& tile_points);
  bool runs_along(std::size_t level) const;
  void running_tile(std::size_t level, const Tiles& tiles);
  std::vector<ValueId> running_place(std::size_t level, std::vector<Point>& tile_points,
                                     std::span<const ValueId> carried);
  void store_tile(const std::vector<Point>& tile_points, const Accumulators& accumulators);

  ValueId evaluate(const Expr& expr, const Point& point, const std::vector<ValueId>& accumulators,
                   const std::vector<ValueId>& others, ValueId guard);
  ValueId mask_of(const Point& point);
  std::int64_t constant_extent(AxisId axis) const;
  std::size_t first(Bind bind, bool reduction) const;
  ValueId extent_of(AxisId axis, const Point& point);
  ValueId trips_of(AxisId axis, const Point& point, ValueId reached = {});
  bool may_leave(const scalar::Read& read, std::size_t dimension) const;
  bool is_checked_as_range(const Expr& read, std::size_t dimension) const;
  int site_of(const scalar::Read& read, std::size_t dimension) const;
  std::optional<TileEvaluator::Check> check_of(const Expr& read, std::size_t dimension);

  const tensor::Graph& graph_;
  const std::vector<tensor::CheckSite>& sites_;
  TensorId id_;
  const tensor::Op& op_;
  const Compute& compute_;
  affine::Ranges ranges_;
  std::vector<tensor::RangeCheck> range_checks_;
  AxisId running_;  ///< the axis of a running reduction, or none
  std::vector<Level> levels_;
  FunctionBuilder builder_;
  std::map<TensorId, BufferId> buffers_;
  std::vector<TensorId> order_;
  std::map<AxisId, Part> parts_;  ///< of reduction axes that are cut
  BufferId result_;
};

std::string kernel_name(const tensor::Graph& graph, const tensor::Op& op) {
  return graph.name + "." + op.name;
}

Lowering::Lowering(const tensor::Graph& graph, TensorId id, const schedule::Stage& stage,
                   const std::vector<tensor::CheckSite>& sites)
    : graph_(graph),
      sites_(sites),
      id_(id),
      op_(graph.op(id)),
      compute_(std::get<Compute>(op_.kind)),
      ranges_(ranges_of(op_)),
      running_(running_axis(graph, compute_)),
      builder_(kernel_name(graph, op_), loop::Stage::Mapped, graph.symbols) {
  if (compute_.reduction) range_checks_ = tensor::range_checks(*compute_.reduction);
  const auto axis_named = [&](const std::string& name) -> std::pair<AxisId, bool> {
    for (const tensor::Axis& axis : compute_.axes) {
      if (axis.name == name) return {axis.id, false};
    }
    for (const tensor::Axis& axis : compute_.reduction->axes) {
      if (axis.name == name) return {axis.id, true};
    }
    CORRLOOM_CHECK(false, "the schedule names an unknown axis ", name);
    return {};
  };
  std::map<AxisId, std::int64_t> steps;
  for (const schedule::Loop& loop : stage.loops) {
    const auto [axis, reduction] = axis_named(loop.axis);
    levels_.push_back({axis, loop.step, loop.bind, reduction, steps[axis]});
    steps[axis] = loop.step;
  }
}

/// One buffer for each tensor that the compute reads, in the order of their ids, and one for the result.
void Lowering::add_buffers() {
  std::vector<TensorId> read;
  tensor::for_each_expr(op_, [&](const Expr& expr) {
    scalar::for_each_node(expr, [&](const Expr& node) {
      if (const scalar::Read* found = scalar::as_read(node)) read.push_back(found->source);
    });
  });
  std::sort(read.begin(), read.end());
  read.erase(std::unique(read.begin(), read.end()), read.end());
  const auto add = [&](TensorId tensor, bool written) {
    const tensor::Op& op = graph_.op(tensor);
    order_.push_back(tensor);
    return builder_.add_buffer({op.name, op.dtype, op.extents, loop::Space::Global, written});
  };
  for (TensorId tensor : read) buffers_.emplace(tensor, add(tensor, false));
  result_ = add(id_, true);
}

std::int64_t Lowering::constant_extent(AxisId axis) const {
  for (const tensor::Axis& candidate : compute_.axes) {
    if (candidate.id != axis) continue;
    const std::optional<std::int64_t> extent = scalar::as_i64(candidate.extent);
    CORRLOOM_CHECK(extent.has_value(), "axis ", candidate.name, " has an extent that is not known");
    return *extent;
  }
  CORRLOOM_CHECK(false, "not an output axis");
  return 0;
}

LoweredKernel Lowering::run() {
  add_buffers();
  Tiles tiles;
  for (const tensor::Axis& axis : compute_.axes) {
    const std::int64_t extent = constant_extent(axis.id);
    tiles[axis.id] = {builder_.index(0), builder_.index(extent), extent};
  }
  std::size_t blocks = 0;
  while (blocks < levels_.size() && levels_[blocks].bind == Bind::Block) ++blocks;
  // The blocks of the launch are numbered in one dimension; each block finds its place along every axis.
  std::int64_t count = 1;
  for (std::size_t k = 0; k < blocks; ++k) {
    const std::int64_t trips = (*tiles[levels_[k].axis].size + levels_[k].step - 1) / levels_[k].step;
    CORRLOOM_CHECK(!__builtin_mul_overflow(count, std::max<std::int64_t>(trips, 0), &count),
                   "the number of blocks overflows");
  }
  builder_.for_loop("block", builder_.index(count), Binding::Block, {}, [&](ValueId block, std::span<const ValueId>) {
    std::int64_t below = count;
    for (std::size_t k = 0; k < blocks; ++k) {
      Tile& tile = tiles[levels_[k].axis];
      const std::int64_t step = levels_[k].step, extent = *tile.size;
      const std::int64_t trips = std::max<std::int64_t>((extent + step - 1) / step, 1);
      below /= trips;
      const ValueId number = builder_.apply(
          Opcode::Mod, {builder_.apply(Opcode::FloorDiv, {block, builder_.index(std::max<std::int64_t>(below, 1))}),
                        builder_.index(trips)});
      tile.base = builder_.add(tile.base, builder_.mul(number, step));
      if (extent % step == 0) {
        tile.size = step;
        tile.count = builder_.index(step);
      } else if (trips == 1) {
        tile.size = extent;
      } else {
        tile.size = std::nullopt;
        tile.full = step;
        tile.count = builder_.apply(
            Opcode::Min, {builder_.index(step), builder_.apply(Opcode::Sub, {builder_.index(extent), tile.base})});
      }
    }
    std::size_t threads = blocks;
    while (threads < levels_.size() && levels_[threads].bind == Bind::Thread) ++threads;
    if (threads > blocks) {
      thread_loops(blocks, threads, tiles);
    } else {
      serial_loops(blocks, tiles);
    }
    return std::vector<ValueId>{};
  });
  return {builder_.finish(), order_, id_};
}

/// Threads are numbered in one dimension too, the last axis fastest, so that neighbours touch neighbouring elements.
void Lowering::thread_loops(std::size_t begin, std::size_t end, Tiles tiles) {
  std::vector<std::int64_t> trips;
  std::int64_t count = 1;
  for (std::size_t k = begin; k < end; ++k) {
    const Level& level = levels_[k];
    const std::int64_t nominal = level.enclosing != 0 ? level.enclosing : constant_extent(level.axis);
    trips.push_back((std::min(nominal, std::max<std::int64_t>(constant_extent(level.axis), 1)) + level.step - 1) /
                    level.step);
    count *= trips.back();
  }
  builder_.for_loop(
      "thread", builder_.index(count), Binding::Thread, {}, [&](ValueId thread, std::span<const ValueId>) {
        std::int64_t below = count;
        for (std::size_t k = begin; k < end; ++k) {
          below /= trips[k - begin];
          const ValueId number = builder_.apply(
              Opcode::Mod,
              {builder_.apply(Opcode::FloorDiv, {thread, builder_.index(below)}), builder_.index(trips[k - begin])});
          Tile& tile = tiles[levels_[k].axis];
          const ValueId offset = builder_.mul(number, levels_[k].step);
          tile.base = builder_.add(tile.base, offset);
          tile.count = builder_.apply(Opcode::Sub, {tile.count, offset});
        }
        guard_threads(begin, end, tiles);
        return std::vector<ValueId>{};
      });
}

/// Lets only those threads go on that have something to do, with the full step or the rest of the extent.
void Lowering::guard_threads(std::size_t level, std::size_t end, Tiles tiles) {
  if (level == end) return serial_loops(end, std::move(tiles));
  const Level& here = levels_[level];
  const std::int64_t step = here.step, extent = constant_extent(here.axis), rest = extent % step;
  const auto go_on = [&](std::int64_t size) {
    Tiles inner = tiles;
    inner[here.axis].size = size;
    inner[here.axis].count = builder_.index(size);
    guard_threads(level + 1, end, std::move(inner));
    return std::vector<ValueId>{};
  };
  const auto nothing = [] { return std::vector<ValueId>{}; };
  const Tile& tile = tiles[here.axis];
  const std::int64_t nominal = here.enclosing != 0 ? here.enclosing : extent;
  if (tile.size && *tile.size % step == 0 && *tile.size == nominal) {
    go_on(step);
    return;
  }
  const ValueId remaining = tile.count;
  builder_.if_else(
      builder_.apply(Opcode::Ge, {remaining, builder_.index(step)}), [&] { return go_on(step); },
      [&] {
        if (rest == 0) return nothing();
        return builder_.if_else(
            builder_.apply(Opcode::Gt, {remaining, builder_.index(0)}), [&] { return go_on(rest); }, nothing);
      });
}

void Lowering::serial_loops(std::size_t level, Tiles tiles) {
  if (level == levels_.size() || levels_[level].reduction || levels_[level].bind != Bind::Serial)
    return settle_sizes(level, std::move(tiles));
  const Level& here = levels_[level];
  const Tile tile = tiles[here.axis];
  if (runs_along(level)) return settle_sizes(level, std::move(tiles));
  if (tile.size && *tile.size <= here.step) return serial_loops(level + 1, std::move(tiles));
  if (walked_again(level) && !(tile.size && *tile.size % here.step == 0)) return outer_serial_loop(level, tiles);
  const auto run = [&](ValueId base, std::int64_t size) {
    Tiles inner = tiles;
    inner[here.axis] = {base, builder_.index(size), size};
    serial_loops(level + 1, std::move(inner));
  };
  const ValueId full = builder_.apply(Opcode::FloorDiv, {tile.count, builder_.index(here.step)});
  builder_.for_loop(graph_.axis_names[static_cast<std::size_t>(here.axis.index)], full, Binding::Serial, {},
                    [&](ValueId number, std::span<const ValueId>) {
                      run(builder_.add(tile.base, builder_.mul(number, here.step)), here.step);
                      return std::vector<ValueId>{};
                    });
  // What is left over has one size, whatever the outer tiles: their steps are multiples of this one.
  const std::int64_t rest = (tile.size ? *tile.size : constant_extent(here.axis)) % here.step;
  if (rest == 0) return;
  const ValueId base = builder_.add(tile.base, builder_.mul(full, here.step));
  const ValueId left = builder_.apply(Opcode::Mod, {tile.count, builder_.index(here.step)});
  builder_.if_else(
      builder_.apply(Opcode::Gt, {left, builder_.index(0)}),
      [&] {
        run(base, rest);
        return std::vector<ValueId>{};
      },
      [] { return std::vector<ValueId>{}; });
}

/// Whether a serial loop further in walks the tile of this one.
bool Lowering::walked_again(std::size_t level) const {
  return std::any_of(levels_.begin() + static_cast<std::ptrdiff_t>(level) + 1, levels_.end(), [&](const Level& inner) {
    return inner.axis == levels_[level].axis && inner.bind == Bind::Serial;
  });
}

/// One body for whole tiles and for the last one, whose size the loops further in find out: bodies do not multiply.
void Lowering::outer_serial_loop(std::size_t level, const Tiles& tiles) {
  const Level& here = levels_[level];
  const Tile& tile = tiles.at(here.axis);
  const ValueId step = builder_.index(here.step);
  const ValueId trips =
      builder_.apply(Opcode::FloorDiv, {builder_.add(tile.count, builder_.index(here.step - 1)), step});
  builder_.for_loop(
      graph_.axis_names[static_cast<std::size_t>(here.axis.index)], trips, Binding::Serial, {},
      [&](ValueId number, std::span<const ValueId>) {
        const ValueId offset = builder_.mul(number, here.step);
        Tiles inner = tiles;
        Tile& part = inner[here.axis];
        part.base = builder_.add(tile.base, offset);
        part.count = builder_.apply(Opcode::Min, {step, builder_.apply(Opcode::Sub, {tile.count, offset})});
        part.size = std::nullopt;
        part.full = here.step;
        serial_loops(level + 1, std::move(inner));
        return std::vector<ValueId>{};
      });
}

/// A register tile has a size that is known: a body each for whole blocks and for the last one along an axis.
void Lowering::settle_sizes(std::size_t level, Tiles tiles) {
  const auto open = std::find_if(tiles.begin(), tiles.end(), [](const auto& entry) { return !entry.second.size; });
  if (open == tiles.end()) return register_tile(level, tiles);
  const auto go_on = [&](std::int64_t size) {
    Tiles settled = tiles;
    settled[open->first].size = size;
    settle_sizes(level, std::move(settled));
    return std::vector<ValueId>{};
  };
  const Tile& tile = open->second;
  const std::int64_t rest = constant_extent(open->first) % tile.full;
  builder_.if_else(
      builder_.apply(Opcode::Eq, {tile.count, builder_.index(tile.full)}), [&] { return go_on(tile.full); },
      [&] { return go_on(rest); });
}

void Lowering::add_points(std::size_t level, const Tiles& tiles, Point point, std::vector<Point>& out) {
  while (level < levels_.size() && levels_[level].reduction) ++level;
  if (level == levels_.size()) {
    // An axis without a loop of its own has one element here.
    for (const auto& [axis, tile] : tiles) {
      if (!point.contains(axis)) point[axis] = {tile.base, {}};
    }
    out.push_back(std::move(point));
    return;
  }
  const Level& here = levels_[level];
  const Tile& tile = tiles.at(here.axis);
  CORRLOOM_CHECK(tile.size.has_value(), "the register tile has a size that is not known");
  if (here.bind == Bind::Vector) {
    CORRLOOM_CHECK(here.enclosing > 0, "a vector loop needs an enclosing step");
    const int lanes = static_cast<int>(here.enclosing);
    ValueId mask;
    if (*tile.size < lanes) {
      const ValueId lane = builder_.ramp(builder_.index(0), 1, lanes);
      mask = builder_.apply(Opcode::Lt, {lane, builder_.index(*tile.size)});
    }
    const int present = static_cast<int>(std::min<std::int64_t>(*tile.size, lanes));
    point[here.axis] = {builder_.ramp(tile.base, 1, lanes), mask, present};
    return add_points(level + 1, tiles, std::move(point), out);
  }
  CORRLOOM_CHECK(here.bind == Bind::Unroll, "only unrolled and vector loops stand in the register tile");
  for (std::int64_t at = 0; at < *tile.size; at += here.step) {
    Tiles inner = tiles;
    const std::int64_t size = std::min(here.step, *tile.size - at);
    inner[here.axis] = {builder_.add(tile.base, builder_.index(at)), builder_.index(size), size};
    add_points(level + 1, inner, point, out);
  }
}

ValueId Lowering::mask_of(const Point& point) {
  for (const auto& [axis, at] : point) {
    if (at.mask) return at.mask;
  }
  return {};
}

ValueId Lowering::evaluate(const Expr& expr, const Point& point, const std::vector<ValueId>& accumulators,
                           const std::vector<ValueId>& others, ValueId guard) {
  TileEvaluator evaluator(builder_, {[&](AxisId axis) { return point.at(axis).value; },
                                     [&](int index, bool other) {
                                       return (other ? others : accumulators)[static_cast<std::size_t>(index)];
                                     },
                                     [&](TensorId tensor) { return buffers_.at(tensor); },
                                     [&](const Expr& read, std::size_t k) { return check_of(read, k); }});
  return evaluator.evaluate(expr, guard);
}

void Lowering::register_tile(std::size_t level, const Tiles& tiles) {
  if (level < levels_.size() && runs_along(level)) return running_tile(level, tiles);
  std::vector<Point> tile_points;
  add_points(level, tiles, {}, tile_points);
  Accumulators accumulators(tile_points.size());
  if (compute_.reduction) {
    accumulators = reduce(level, tile_points, initial(tile_points));
    if (compute_.reduction->order.kind == tensor::Order::Kind::Lanes) merge_lanes(tile_points, accumulators);
  }
  store_tile(tile_points, accumulators);
}

void Lowering::store_tile(const std::vector<Point>& tile_points, const Accumulators& accumulators) {
  std::vector<Result> results;
  for (std::size_t k = 0; k < tile_points.size(); ++k) {
    const ValueId mask = mask_of(tile_points[k]);
    results.push_back({tile_points[k], evaluate(compute_.body, tile_points[k], accumulators[k], {}, mask)});
  }
  store(results);
}

/// Whether the loop is the last one over the result, in single steps over the whole axis of a running reduction, with
/// the range that ends there directly below it.
bool Lowering::runs_along(std::size_t level) const {
  const Level& here = levels_[level];
  if (!compute_.reduction || compute_.reduction->order.kind == tensor::Order::Kind::Lanes) return false;
  if (!range_checks_.empty()) return false;  // they judge a whole range, not what a place adds to it
  if (here.axis != running_ || here.bind != Bind::Serial || here.step != 1 || here.enclosing != 0) return false;
  if (level + 1 == levels_.size()) return false;
  const Level& below = levels_[level + 1];
  return below.axis == compute_.reduction->axes.front().id && below.bind == Bind::Serial && below.step == 1;
}

/// A running reduction: the accumulators go from place to place, with the number of elements that they hold.
void Lowering::running_tile(std::size_t level, const Tiles& tiles) {
  const AxisId axis = levels_[level].axis;
  std::vector<Point> tile_points;
  add_points(level + 1, tiles, {}, tile_points);
  std::vector<ValueId> start = flatten(initial(tile_points));
  start.push_back(builder_.index(0));
  builder_.for_loop(graph_.axis_names[static_cast<std::size_t>(axis.index)], tiles.at(axis).count, Binding::Serial,
                    start, [&](ValueId number, std::span<const ValueId> carried) {
                      for (Point& point : tile_points) point[axis] = {builder_.add(tiles.at(axis).base, number), {}};
                      return running_place(level, tile_points, carried);
                    });
}

/// Takes the elements that this place has beyond those before it, and stores.
std::vector<ValueId> Lowering::running_place(std::size_t level, std::vector<Point>& tile_points,
                                             std::span<const ValueId> carried) {
  const AxisId reduced = levels_[level + 1].axis;
  const ValueId held = carried.back();
  const ValueId end = extent_of(reduced, tile_points.front());
  CORRLOOM_CHECK(builder_.type(end).lanes == 1, "the range of a reduction depends on the vector axis");
  const ValueId holds = builder_.apply(Opcode::Max, {held, end});
  const auto body = [&](ValueId number, std::span<const ValueId> values) {
    for (Point& point : tile_points) point[reduced] = {builder_.add(held, number), {}};
    return flatten(reduce(level + 2, tile_points, unflatten(values)));
  };
  std::vector<ValueId> after = builder_.for_loop(graph_.axis_names[static_cast<std::size_t>(reduced.index)],
                                                 builder_.apply(Opcode::Sub, {holds, held}), Binding::Serial,
                                                 {carried.begin(), carried.end() - 1}, body);
  store_tile(tile_points, unflatten(after));
  after.push_back(holds);
  return after;
}

/// Points that differ only along the last axis of the result, where they stand one behind the other.
std::vector<std::vector<std::size_t>> Lowering::runs_of(const std::vector<Point>& points) const {
  const AxisId last = compute_.axes.empty() ? AxisId{} : compute_.axes.back().id;
  std::map<std::vector<ValueId>, std::vector<std::size_t>> runs;
  std::vector<std::vector<ValueId>> order;
  for (std::size_t k = 0; k < points.size(); ++k) {
    std::vector<ValueId> others;
    for (const tensor::Axis& axis : compute_.axes) {
      if (axis.id != last) others.push_back(points[k].at(axis.id).value);
    }
    if (!runs.contains(others)) order.push_back(others);
    runs[std::move(others)].push_back(k);
  }
  std::vector<std::vector<std::size_t>> out;
  for (const std::vector<ValueId>& others : order) out.push_back(std::move(runs[others]));
  return out;
}

/// Vectors along an axis other than the last one are stored through a transpose where the tile has enough elements
/// beside each other in the result.
void Lowering::store(const std::vector<Result>& results) {
  const tensor::Axis* vector = nullptr;
  for (const Level& level : levels_) {
    if (level.bind != Bind::Vector || level.reduction) continue;
    for (const tensor::Axis& axis : compute_.axes) vector = axis.id == level.axis ? &axis : vector;
  }
  if (vector == nullptr || vector == &compute_.axes.back()) {
    for (const Result& result : results) store_one(result);
    return;
  }
  std::vector<Point> points;
  for (const Result& result : results) points.push_back(result.point);
  for (const std::vector<std::size_t>& run : runs_of(points)) {
    if (run.size() < kTransposedRows) {
      for (std::size_t k : run) store_one(results[k]);
      continue;
    }
    const auto lanes = static_cast<std::size_t>(builder_.type(points[run.front()].at(vector->id).value).lanes);
    for (std::size_t first = 0; first < run.size(); first += lanes) {
      std::vector<const Result*> part;
      for (std::size_t k = first; k < std::min(first + lanes, run.size()); ++k) part.push_back(&results[run[k]]);
      store_transposed(part, vector->id, static_cast<int>(lanes));
    }
  }
}

void Lowering::store_one(const Result& result) {
  std::vector<ValueId> index;
  for (const tensor::Axis& axis : compute_.axes) index.push_back(result.point.at(axis.id).value);
  builder_.store(result_, std::move(index), result.value, mask_of(result.point));
}

void Lowering::store_transposed(const std::vector<const Result*>& part, AxisId vector, int lanes) {
  std::vector<ValueId> rows;
  for (const Result* result : part) rows.push_back(builder_.splat(result->value, lanes));
  rows.resize(static_cast<std::size_t>(lanes), rows.front());
  const std::vector<ValueId> columns = transpose(builder_, std::move(rows));
  const Point& first = part.front()->point;
  const loop::Ramp* ramp = builder_.as_ramp(first.at(vector).value);
  CORRLOOM_CHECK(ramp != nullptr && ramp->stride == 1, "a vector axis that is no ramp");
  const ValueId base = ramp->base;
  const AxisId last = compute_.axes.back().id;
  ValueId mask;
  if (part.size() < static_cast<std::size_t>(lanes)) {
    const ValueId count = builder_.index(static_cast<std::int64_t>(part.size()));
    mask = builder_.apply(Opcode::Lt, {builder_.ramp(builder_.index(0), 1, lanes), count});
  }
  for (int lane = 0; lane < first.at(vector).lanes; ++lane) {
    std::vector<ValueId> index;
    for (const tensor::Axis& axis : compute_.axes) {
      const ValueId value = first.at(axis.id).value;
      index.push_back(axis.id == vector ? builder_.add(base, builder_.index(lane))
                      : axis.id == last ? builder_.ramp(value, 1, lanes)
                                        : value);
    }
    builder_.store(result_, std::move(index), columns[static_cast<std::size_t>(lane)], mask);
  }
}

/// The accumulators before the first element, in as many lanes as the steps will have.
Lowering::Accumulators Lowering::initial(const std::vector<Point>& tile_points) {
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
Lowering::Accumulators Lowering::step(std::vector<Point>& tile_points, const Accumulators& accumulators) {
  Accumulators out;
  for (std::size_t k = 0; k < tile_points.size(); ++k) {
    const ValueId mask = mask_of(tile_points[k]);
    std::vector<ValueId> next;
    for (std::size_t a = 0; a < accumulators[k].size(); ++a) {
      const ValueId value =
          evaluate(compute_.reduction->accumulators[a].step, tile_points[k], accumulators[k], {}, mask);
      next.push_back(builder_.splat(value, builder_.type(accumulators[k][a]).lanes));
    }
    out.push_back(std::move(next));
  }
  return out;
}

ValueId Lowering::extent_of(AxisId axis, const Point& point) {
  for (const tensor::Axis& candidate : compute_.reduction->axes) {
    if (candidate.id == axis) return evaluate(candidate.extent, point, {}, {}, {});
  }
  CORRLOOM_CHECK(false, "not a reduction axis");
  return {};
}

/// How often the loop of a reduction axis runs: its extent, or not at all where a read of its range would leave a
/// tensor. `reached` says whether the axes around it run (a default id: they do).
ValueId Lowering::trips_of(AxisId axis, const Point& point, ValueId reached) {
  const ValueId extent = extent_of(axis, point);
  const std::vector<tensor::Axis>& axes = compute_.reduction->axes;
  ValueId inside;
  for (const tensor::RangeCheck& check : range_checks_) {
    const scalar::Read& read = *scalar::as_read(check.read);
    if (axes[check.axis].id != axis || !may_leave(read, check.dimension)) continue;
    const Expr& limit = graph_.op(read.source).extents[check.dimension];
    ValueId runs = builder_.apply(Opcode::Gt, {extent, builder_.index(0)});
    if (reached) runs = builder_.apply(Opcode::And, {reached, runs});
    const Expr subscript = tensor::checked_subscript(check, axes[check.axis].extent, limit);
    const ValueId tested = evaluate(subscript, point, {}, {}, {});
    const ValueId ok = builder_.check(site_of(read, check.dimension), tested, evaluate(limit, point, {}, {}, {}), runs);
    inside = inside ? builder_.apply(Opcode::And, {inside, ok}) : ok;
  }
  return inside ? builder_.apply(Opcode::Select, {inside, extent, builder_.index(0)}) : extent;
}

/// True unless a proof or its bounds show that the subscript stays inside.
bool Lowering::may_leave(const scalar::Read& read, std::size_t dimension) const {
  if (read.check != scalar::ReadCheck::Runtime) return false;
  const std::optional<std::int64_t> limit = scalar::as_i64(graph_.op(read.source).extents[dimension]);
  const std::optional<affine::Interval> bounds = affine::interval_of(read.index[dimension], ranges_);
  return !limit || !bounds || bounds->low < 0 || bounds->high >= *limit;
}

bool Lowering::is_checked_as_range(const Expr& read, std::size_t dimension) const {
  return std::any_of(range_checks_.begin(), range_checks_.end(), [&](const tensor::RangeCheck& check) {
    return check.read == read && check.dimension == dimension;
  });
}

int Lowering::site_of(const scalar::Read& read, std::size_t dimension) const {
  const std::string extent = tensor::extent_text(graph_, graph_.op(read.source).extents[dimension]);
  const tensor::CheckSite wanted = tensor::check_site(graph_, read, dimension, extent);
  const auto found = std::lower_bound(sites_.begin(), sites_.end(), wanted);
  CORRLOOM_CHECK(found != sites_.end() && !(wanted < *found), "a check without a site: ", wanted.read);
  return static_cast<int>(found - sites_.begin());
}

/// The check that a subscript needs by itself: none where its bounds show that it stays inside, or where the range that
/// it belongs to is checked.
std::optional<TileEvaluator::Check> Lowering::check_of(const Expr& node, std::size_t dimension) {
  const scalar::Read& read = *scalar::as_read(node);
  if (!may_leave(read, dimension) || is_checked_as_range(node, dimension)) return std::nullopt;
  return TileEvaluator::Check{site_of(read, dimension),
                              evaluate(graph_.op(read.source).extents[dimension], {}, {}, {}, {})};
}

Lowering::Accumulators Lowering::reduce(std::size_t level, std::vector<Point>& tile_points, Accumulators accumulators) {
  while (level < levels_.size() && !levels_[level].reduction) ++level;
  if (level == levels_.size()) return step(tile_points, accumulators);
  const Level& here = levels_[level];
  if (compute_.reduction->order.kind == tensor::Order::Kind::Lanes && !rows_fill_lanes())
    return reduce_lanes(0, tile_points, std::move(accumulators));
  if (here.bind == Bind::Vector)
    return reduce_lanes(compute_.reduction->axes.size() - 1, tile_points, std::move(accumulators));
  if (here.step > 1) return reduce_parts(here, tile_points, std::move(accumulators), level + 1);
  if (here.bind == Bind::Unroll) {
    const Part part = part_of(here.axis, tile_points.front());
    const std::optional<std::int64_t> trips = builder_.as_index(part.count);
    CORRLOOM_CHECK(trips.has_value(), "an unrolled reduction loop has an extent that is not known");
    for (std::int64_t at = 0; at < *trips; ++at) {
      for (Point& point : tile_points) point[here.axis] = {builder_.add(part.base, builder_.index(at)), {}};
      accumulators = reduce(level + 1, tile_points, std::move(accumulators));
    }
    return accumulators;
  }
  return reduce_loop(here, tile_points, std::move(accumulators), level + 1);
}

/// What the loops so far leave of a reduction axis.
Lowering::Part Lowering::part_of(AxisId axis, const Point& point) {
  const auto found = parts_.find(axis);
  return found != parts_.end() ? found->second : Part{builder_.index(0), trips_of(axis, point)};
}

/// Whole steps of a reduction axis, then what is left of it: the loops further in see a constant size.
Lowering::Accumulators Lowering::reduce_parts(const Level& here, std::vector<Point>& tile_points,
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
Lowering::Accumulators Lowering::reduce_loop(const Level& here, std::vector<Point>& tile_points,
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
void Lowering::merge_lanes(std::vector<Point>& points, Accumulators& accumulators) {
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
std::vector<ValueId> Lowering::merged(std::vector<std::vector<ValueId>> run, const Point& point) {
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

/// Whether lanes can follow the last axis alone: then element numbers and its indices agree modulo the lanes.
bool Lowering::rows_fill_lanes() const {
  const std::vector<tensor::Axis>& axes = compute_.reduction->axes;
  const std::optional<std::int64_t> last = scalar::as_i64(axes.back().extent);
  return axes.size() == 1 || (last && *last % compute_.reduction->order.lanes == 0);
}

/// Reduction axes `first` and after in the lanes of a vector: whole vectors of consecutive elements, then a masked one
/// for the rest.
Lowering::Accumulators Lowering::reduce_lanes(std::size_t first, std::vector<Point>& tile_points,
                                              Accumulators accumulators) {
  const std::span<const tensor::Axis> axes(compute_.reduction->axes.begin() + static_cast<std::ptrdiff_t>(first),
                                           compute_.reduction->axes.end());
  const int lanes = static_cast<int>(compute_.reduction->order.lanes);
  ValueId count = builder_.index(1);
  std::vector<ValueId> extents;
  for (const tensor::Axis& axis : axes) {
    const ValueId reached = builder_.apply(Opcode::Gt, {count, builder_.index(0)});
    extents.push_back(trips_of(axis.id, tile_points.front(), reached));
    count = builder_.apply(Opcode::Mul, {count, extents.back()});
  }
  const auto step_at = [&](ValueId number, ValueId mask, std::span<const ValueId> values) {
    // Element `number` + lane, as indices of the axes: the last one fastest.
    Point at;
    ValueId rest = builder_.ramp(number, 1, lanes);
    for (std::size_t k = axes.size(); k-- > 0;) {
      at[axes[k].id] = {k == 0 ? rest : builder_.apply(Opcode::Mod, {rest, extents[k]}), mask};
      if (k > 0) rest = builder_.apply(Opcode::FloorDiv, {rest, extents[k]});
    }
    std::vector<ValueId> flat;
    const std::size_t each = compute_.reduction->accumulators.size();
    for (std::size_t k = 0; k < tile_points.size(); ++k) {
      Point point = tile_points[k];
      for (const auto& [axis, value] : at) point[axis] = value;
      const std::vector<ValueId> before(values.begin() + static_cast<std::ptrdiff_t>(k * each),
                                        values.begin() + static_cast<std::ptrdiff_t>((k + 1) * each));
      for (std::size_t a = 0; a < each; ++a) {
        ValueId after =
            builder_.splat(evaluate(compute_.reduction->accumulators[a].step, point, before, {}, mask), lanes);
        if (mask) after = builder_.apply(Opcode::Select, {mask, after, before[a]});
        flat.push_back(after);
      }
    }
    return flat;
  };
  const ValueId full = builder_.apply(Opcode::FloorDiv, {count, builder_.index(lanes)});
  const std::string& name = graph_.axis_names[static_cast<std::size_t>(axes.back().id.index)];
  std::vector<ValueId> carried = builder_.for_loop(name, full, Binding::Serial, flatten(accumulators),
                                                   [&](ValueId number, std::span<const ValueId> values) {
                                                     return step_at(builder_.mul(number, lanes), {}, values);
                                                   });
  const ValueId rest = builder_.apply(Opcode::Mod, {count, builder_.index(lanes)});
  if (builder_.as_index(rest) != std::optional<std::int64_t>(0)) {
    const ValueId mask = builder_.apply(Opcode::Lt, {builder_.ramp(builder_.index(0), 1, lanes), rest});
    carried = step_at(builder_.mul(full, lanes), mask, carried);
  }
  return unflatten(carried);
}

std::vector<ValueId> Lowering::flatten(const Accumulators& accumulators) {
  std::vector<ValueId> flat;
  for (const auto& point : accumulators) flat.insert(flat.end(), point.begin(), point.end());
  return flat;
}

Lowering::Accumulators Lowering::unflatten(std::span<const ValueId> flat) const {
  const std::size_t each = compute_.reduction->accumulators.size();
  Accumulators out;
  for (std::size_t k = 0; k < flat.size(); k += each)
    out.emplace_back(flat.begin() + static_cast<std::ptrdiff_t>(k),
                     flat.begin() + static_cast<std::ptrdiff_t>(k + each));
  return out;
}

}  // namespace

std::vector<LoweredKernel> lower_to_loops(const tensor::Graph& graph, const schedule::Schedule& schedule,
                                          PassContext& ctx) {
  std::vector<LoweredKernel> kernels;
  const std::vector<tensor::CheckSite> sites = tensor::check_sites(graph);
  for (std::size_t k = 0; k < graph.ops.size(); ++k) {
    if (!std::holds_alternative<Compute>(graph.ops[k].kind)) continue;
    const auto stage =
        std::find_if(schedule.stages.begin(), schedule.stages.end(),
                     [&](const schedule::Stage& candidate) { return candidate.compute == graph.ops[k].name; });
    CORRLOOM_CHECK(stage != schedule.stages.end(), "no schedule for ", graph.ops[k].name);
    kernels.push_back(Lowering(graph, TensorId{static_cast<std::int32_t>(k)}, *stage, sites).run());
    ctx.count("kernels");
  }
  return kernels;
}

}  // namespace corrloom::passes
