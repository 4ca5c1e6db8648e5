#include "compiler/passes/lower_compute.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "compiler/passes/evaluate_tile.h"
#include "compiler/passes/readers.h"
#include "compiler/passes/running_reduction.h"
#include "ir/base/errors.h"

namespace corrloom::passes {

using loop::Binding;
using loop::BufferId;
using loop::ValueId;
using scalar::AxisId;
using scalar::Expr;
using scalar::Opcode;
using scalar::TensorId;
using schedule::Bind;
using tensor::Compute;

namespace {

/// Points of a tile whose instructions take turns, and nodes of a body from which on they do: the processor does not
/// look as far ahead as from one long chain of operations to the next.
constexpr std::size_t kTogether = 2, kLongBody = 24;

bool reads_anything(const Expr& expr) {
  bool found = false;
  scalar::for_each_node(expr, [&](const Expr& node) { found |= scalar::as_read(node) != nullptr; });
  return found;
}

/// Bytes of a line of the caches, and of a row from which on it does not matter that a few more are added to it.
constexpr std::int64_t kLineBytes = 64, kLongRow = 1024;

/// The extents of a buffer for that many elements: where it has several long rows, they begin with a line, an odd
/// number of lines apart, so that they share no sets of the first-level cache before all of those are in use.
std::vector<Expr> spread_extents(std::vector<std::int64_t> sizes, std::int64_t element_bytes) {
  const bool has_rows =
      std::any_of(sizes.begin(), sizes.end() - (sizes.empty() ? 0 : 1), [](std::int64_t size) { return size > 1; });
  if (has_rows && sizes.back() * element_bytes >= kLongRow)
    sizes.back() = ((sizes.back() * element_bytes + kLineBytes - 1) / kLineBytes | 1) * kLineBytes / element_bytes;
  std::vector<Expr> extents;
  for (std::int64_t size : sizes) extents.push_back(scalar::constant_i64(size));
  return extents;
}

/// How many steps an extent takes.
Expr trips_expr(const Expr& extent, std::int64_t step) {
  const Expr last = scalar::apply(Opcode::Add, {extent, scalar::constant_i64(step - 1)});
  return scalar::simplify(scalar::apply(Opcode::FloorDiv, {last, scalar::constant_i64(step)}));
}

/// The product of two numbers of blocks, which are known together or not at all. Throws InternalError when it
/// overflows.
Expr product(const Expr& a, const Expr& b) {
  const std::optional<std::int64_t> x = scalar::as_i64(a), y = scalar::as_i64(b);
  std::int64_t both = 0;
  CORRLOOM_CHECK(!x || !y || !__builtin_mul_overflow(*x, *y, &both), "the number of blocks overflows");
  return scalar::simplify(scalar::apply(Opcode::Mul, {a, b}));
}

}  // namespace

ComputeLowering::ComputeLowering(KernelState& kernel, TensorId id, const schedule::Stage& stage)
    : kernel_(kernel),
      graph_(kernel.graph),
      stage_(stage),
      id_(id),
      op_(graph_.op(id)),
      compute_(std::get<Compute>(op_.kind)),
      ranges_(ranges_of(op_)),
      running_(running_axis(graph_, compute_)),
      builder_(kernel.builder) {
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
  // One body tests each read on a GPU: threads of a warp would take both sides.
  const bool has_threads = std::any_of(stage.loops.begin(), stage.loops.end(),
                                       [](const schedule::Loop& loop) { return loop.bind == Bind::Thread; });
  if (!has_threads) guards_ = guards_of(op_);
  std::map<AxisId, std::int64_t> steps;
  for (const schedule::Loop& loop : stage.loops) {
    const auto [axis, reduction] = axis_named(loop.axis);
    levels_.push_back({axis, loop.step, loop.bind, reduction, steps[axis]});
    steps[axis] = loop.step;
  }
}

std::optional<std::int64_t> ComputeLowering::known_extent(AxisId axis) const {
  return builder_.as_index(extents_.at(axis));
}

void ComputeLowering::run_inside(const std::vector<ValueId>& bases, const std::vector<std::int64_t>& sizes) {
  Tiles tiles;
  for (std::size_t k = 0; k < compute_.axes.size(); ++k) {
    const AxisId axis = compute_.axes[k].id;
    extents_[axis] = builder_.index(sizes[k]);
    tiles[axis] = {bases[k], extents_[axis], sizes[k]};
    if (builder_.as_index(bases[k]) == std::optional<std::int64_t>(0)) from_zero_.insert(axis);
  }
  serial_loops(0, std::move(tiles));
}

/// The computes that happen at this loop, in the order of the graph, each into a buffer of the kernel.
void ComputeLowering::produce(std::size_t level, const Tiles& tiles) {
  const auto here = static_cast<int>(level);
  const std::vector<TensorId> producers = schedule::computed_at(graph_, kernel_.schedule, stage_, here);
  if (producers.empty()) return;
  std::string why;
  const auto regions = schedule::regions_at(graph_, kernel_.schedule, stage_, here, why);
  CORRLOOM_CHECK(regions.has_value(), "the regions of the producers of ", op_.name, ": ", why);
  // Before and behind sweeps nobody reads what belongs to a part of the reduction.
  const auto is_known = [&](const schedule::Region& region) {
    return std::all_of(region.factors.begin(), region.factors.end(), [&](const auto& factor) {
      return tiles.contains(factor.first) || parts_.contains(factor.first);
    });
  };
  for (TensorId producer : producers) {
    const std::vector<schedule::Region>& needed = regions->at(producer);
    if (std::all_of(needed.begin(), needed.end(), is_known)) produce_one(producer, needed, tiles);
  }
}

void ComputeLowering::produce_one(TensorId producer, const std::vector<schedule::Region>& regions, const Tiles& tiles) {
  const tensor::Op& op = graph_.op(producer);
  std::vector<ValueId> bases;
  std::vector<std::int64_t> sizes;
  // Of a part of the reduction, while sums are begun or finished: nobody reads it then.
  const auto is_moved = [&](const auto& factor) {
    return tiles.contains(factor.first) || parts_.contains(factor.first);
  };
  for (const schedule::Region& region : regions) {
    if (!std::all_of(region.factors.begin(), region.factors.end(), is_moved)) return;
  }
  for (std::size_t k = 0; k < op.extents.size(); ++k) {
    ValueId moved = builder_.index(0);
    for (const auto& [axis, factor] : regions[k].factors) {
      const auto tile = tiles.find(axis);
      const ValueId first = tile != tiles.end() ? tile->second.base : parts_.at(axis).base;
      moved = builder_.add(moved, builder_.mul(first, factor));
    }
    if (regions[k].divisor != 1) moved = builder_.apply(Opcode::FloorDiv, {moved, builder_.index(regions[k].divisor)});
    ValueId base = builder_.add(moved, builder_.index(regions[k].constant));
    // At a border the region moves inside: it keeps its size, and what it must hold is there.
    const std::int64_t last = *scalar::as_i64(op.extents[k]) - regions[k].size;
    base = last == 0 ? builder_.index(0) : builder_.apply(Opcode::Max, {base, builder_.index(0)});
    bases.push_back(builder_.apply(Opcode::Min, {base, builder_.index(last)}));
    sizes.push_back(regions[k].size);
  }
  if (!kernel_.buffers.contains(producer)) {
    const std::vector<Expr> extents = spread_extents(sizes, byte_size(op.dtype));
    kernel_.buffers[producer] = builder_.add_buffer({op.name, op.dtype, extents, loop::Space::Local, true});
  }
  kernel_.origins[producer] = bases;
  const auto stage = std::find_if(kernel_.schedule.stages.begin(), kernel_.schedule.stages.end(),
                                  [&](const schedule::Stage& candidate) { return candidate.compute == op.name; });
  ComputeLowering(kernel_, producer, *stage).run_inside(bases, sizes);
  builder_.freeze(kernel_.buffers[producer]);
}

/// Where the result's element lies in its buffer.
std::vector<ValueId> ComputeLowering::result_index(std::vector<ValueId> index) {
  const auto origin = kernel_.origins.find(id_);
  for (std::size_t k = 0; origin != kernel_.origins.end() && k < index.size(); ++k)
    index[k] = builder_.apply(Opcode::Sub, {index[k], origin->second[k]});
  return index;
}

void ComputeLowering::run_kernel() {
  const bool has_threads =
      std::any_of(levels_.begin(), levels_.end(), [](const Level& level) { return level.bind == Bind::Thread; });
  Tiles tiles;
  std::map<AxisId, Expr> extents;
  for (const tensor::Axis& axis : compute_.axes) {
    if (!has_threads) from_zero_.insert(axis.id);
    extents[axis.id] = axis.extent;
    const ValueId extent = extents_[axis.id] = evaluate(axis.extent, {}, {}, {}, {});
    tiles[axis.id] = {builder_.index(0), extent, builder_.as_index(extent)};
  }
  std::size_t blocks = 0;
  while (blocks < levels_.size() && levels_[blocks].bind == Bind::Block) ++blocks;
  // The blocks of the launch are numbered in one dimension; each block finds its place along every axis.
  std::vector<Expr> trips;
  for (std::size_t k = 0; k < blocks; ++k) trips.push_back(trips_expr(extents[levels_[k].axis], levels_[k].step));
  std::vector<Expr> below(blocks + 1, scalar::constant_i64(1));
  for (std::size_t k = blocks; k-- > 0;) below[k] = product(trips[k], below[k + 1]);
  // An axis that no block walks may have no elements, too.
  const bool is_empty = std::any_of(tiles.begin(), tiles.end(), [](const auto& tile) { return tile.second.size == 0; });
  if (is_empty) below[0] = scalar::constant_i64(0);
  kernel_.blocks = below[0];
  const auto value = [&](const Expr& expr) { return evaluate(expr, {}, {}, {}, {}); };
  builder_.for_loop("block", value(below[0]), Binding::Block, {}, [&](ValueId block, std::span<const ValueId>) {
    for (std::size_t k = 0; k < blocks; ++k) {
      Tile& tile = tiles[levels_[k].axis];
      const std::int64_t step = levels_[k].step;
      const ValueId number = builder_.apply(
          Opcode::Mod, {builder_.apply(Opcode::FloorDiv, {block, value(below[k + 1])}), value(trips[k])});
      tile.base = builder_.add(tile.base, builder_.mul(number, step));
      const bool is_whole = tile.size ? *tile.size % step == 0 : step == 1;
      if (is_whole) {
        tile.size = step;
        tile.count = builder_.index(step);
      } else if (!tile.size || *tile.size > step) {
        tile.size = std::nullopt;
        tile.full = step;
        tile.count = builder_.apply(
            Opcode::Min, {builder_.index(step), builder_.apply(Opcode::Sub, {extents_[levels_[k].axis], tile.base})});
      }
    }
    std::size_t threads = blocks;
    while (threads < levels_.size() && levels_[threads].bind == Bind::Thread) ++threads;
    if (threads > blocks) {
      thread_loops(blocks, threads, tiles);
    } else {
      if (blocks > 0) produce(blocks - 1, tiles);
      serial_loops(blocks, tiles);
    }
    return std::vector<ValueId>{};
  });
}

/// Threads are numbered in one dimension too, the last axis fastest, so that neighbours touch neighbouring elements.
void ComputeLowering::thread_loops(std::size_t begin, std::size_t end, Tiles tiles) {
  std::vector<std::int64_t> trips;
  std::int64_t count = 1;
  for (std::size_t k = begin; k < end; ++k) {
    const Level& level = levels_[k];
    const std::optional<std::int64_t> extent = known_extent(level.axis);
    CORRLOOM_CHECK(extent || level.enclosing != 0, "threads walk an axis whose extent is not known, in no block");
    const std::int64_t nominal = level.enclosing != 0 ? level.enclosing : *extent;
    const std::int64_t most = extent ? std::min(nominal, std::max<std::int64_t>(*extent, 1)) : nominal;
    trips.push_back((most + level.step - 1) / level.step);
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
void ComputeLowering::guard_threads(std::size_t level, std::size_t end, Tiles tiles) {
  if (level == end) return serial_loops(end, std::move(tiles));
  const Level& here = levels_[level];
  const std::int64_t step = here.step;
  const std::optional<std::int64_t> extent = known_extent(here.axis);
  const auto go_on = [&](std::int64_t size) {
    Tiles inner = tiles;
    inner[here.axis].size = size;
    inner[here.axis].count = builder_.index(size);
    guard_threads(level + 1, end, std::move(inner));
    return std::vector<ValueId>{};
  };
  const auto nothing = [] { return std::vector<ValueId>{}; };
  const Tile& tile = tiles[here.axis];
  const std::int64_t nominal = here.enclosing != 0 ? here.enclosing : extent.value_or(0);
  if (tile.size && *tile.size % step == 0 && *tile.size == nominal) {
    go_on(step);
    return;
  }
  const ValueId remaining = tile.count;
  builder_.if_else(
      builder_.apply(Opcode::Ge, {remaining, builder_.index(step)}), [&] { return go_on(step); },
      [&] {
        if (step == 1 || (extent && *extent % step == 0)) return nothing();
        if (!extent) {
          single_elements(tile, here.axis, [&](const Tile& one) {
            Tiles inner = tiles;
            inner[here.axis] = one;
            guard_threads(level + 1, end, std::move(inner));
          });
          return nothing();
        }
        return builder_.if_else(
            builder_.apply(Opcode::Gt, {remaining, builder_.index(0)}), [&] { return go_on(*extent % step); }, nothing);
      });
}

void ComputeLowering::serial_loops(std::size_t level, Tiles tiles) {
  if (level < levels_.size() && schedule::is_sweep(stage_, compute_, level)) return sweep(level, tiles);
  if (level == levels_.size() || levels_[level].reduction || levels_[level].bind != Bind::Serial)
    return settle_sizes(level, std::move(tiles));
  const Level& here = levels_[level];
  const Tile tile = tiles[here.axis];
  if (runs_along(level)) return settle_sizes(level, std::move(tiles));
  if (tile.size && *tile.size <= here.step) {
    produce(level, tiles);
    return serial_loops(level + 1, std::move(tiles));
  }
  if (walked_again(level) && !(tile.size && *tile.size % here.step == 0)) return outer_serial_loop(level, tiles);
  if (const int lanes = unaligned_lanes(level, tiles); lanes > 0) return aligned_pieces(level, tiles, lanes);
  const auto run = [&](ValueId base, std::int64_t size) {
    Tiles inner = tiles;
    inner[here.axis] = {base, builder_.index(size), size};
    produce(level, inner);
    serial_loops(level + 1, std::move(inner));
  };
  const ValueId full = builder_.apply(Opcode::FloorDiv, {tile.count, builder_.index(here.step)});
  builder_.for_loop(graph_.axis_names[static_cast<std::size_t>(here.axis.index)], full, Binding::Serial, {},
                    [&](ValueId number, std::span<const ValueId>) {
                      run(builder_.add(tile.base, builder_.mul(number, here.step)), here.step);
                      return std::vector<ValueId>{};
                    });
  const std::optional<std::int64_t> extent = tile.size ? tile.size : known_extent(here.axis);
  if (!extent) return rest_of_open_axis(level, tiles, full);
  // What is left over has one size, whatever the outer tiles: their steps are multiples of this one.
  const std::int64_t rest = *extent % here.step;
  if (rest == 0) return;
  const ValueId base = builder_.add(tile.base, builder_.mul(full, here.step));
  const ValueId left = builder_.apply(Opcode::Mod, {tile.count, builder_.index(here.step)});
  builder_.if_else(
      builder_.apply(Opcode::Gt, {left, builder_.index(0)}),
      [&] {
        in_part(static_cast<double>(rest) / static_cast<double>(*extent), [&] { run(base, rest); });
        return std::vector<ValueId>{};
      },
      [] { return std::vector<ValueId>{}; });
}

/// Whether a serial loop further in walks the tile of this one.
bool ComputeLowering::walked_again(std::size_t level) const {
  return std::any_of(levels_.begin() + static_cast<std::ptrdiff_t>(level) + 1, levels_.end(), [&](const Level& inner) {
    return inner.axis == levels_[level].axis && inner.bind == Bind::Serial;
  });
}

/// One body for whole tiles and for the last one, whose size the loops further in find out: bodies do not multiply.
void ComputeLowering::outer_serial_loop(std::size_t level, const Tiles& tiles) {
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
        part.is_rest = false;
        produce(level, inner);
        serial_loops(level + 1, std::move(inner));
        return std::vector<ValueId>{};
      });
}

/// A register tile has a size that is known: a body each for whole blocks and for the last one along an axis.
void ComputeLowering::settle_sizes(std::size_t level, Tiles tiles) {
  const bool runs = level < levels_.size() && runs_along(level);
  const auto open = std::find_if(tiles.begin(), tiles.end(), [&](const auto& entry) {
    return !entry.second.size && !(runs && entry.first == levels_[level].axis);
  });
  if (open == tiles.end()) return split_guards(level, tiles);
  const std::optional<std::int64_t> extent = known_extent(open->first);
  if (!extent) return settle_open_size(level, tiles, open->first);
  const auto go_on = [&](std::int64_t size) {
    Tiles settled = tiles;
    settled[open->first].size = size;
    settle_sizes(level, std::move(settled));
    return std::vector<ValueId>{};
  };
  const Tile& tile = open->second;
  const std::int64_t rest = *extent % tile.full;
  builder_.if_else(
      builder_.apply(Opcode::Eq, {tile.count, builder_.index(tile.full)}), [&] { return go_on(tile.full); },
      [&] {
        in_part(static_cast<double>(rest) / static_cast<double>(*extent), [&] { go_on(rest); });
        return std::vector<ValueId>{};
      });
}

std::optional<std::int64_t> ComputeLowering::reduction_extent(AxisId axis) const {
  if (!compute_.reduction) return std::nullopt;
  for (const tensor::Axis& candidate : compute_.reduction->axes) {
    if (candidate.id == axis) return scalar::as_i64(candidate.extent);
  }
  return std::nullopt;
}

/// Where a tile of that size can begin.
affine::Interval ComputeLowering::base_range(AxisId axis, const Tile& tile) const {
  if (const std::optional<std::int64_t> base = builder_.as_index(tile.base)) return {*base, *base};
  const auto found = std::find_if(compute_.axes.begin(), compute_.axes.end(),
                                  [&](const tensor::Axis& candidate) { return candidate.id == axis; });
  const std::optional<std::int64_t> extent = scalar::as_i64(found->extent);
  if (!extent) return kAnything;
  return {0, *extent - (tile.size && !tile.is_masked ? *tile.size : 1)};
}

/// The points of a register tile.
std::vector<Point> ComputeLowering::points_of(std::size_t level, Tiles tiles) const {
  for (auto& [axis, tile] : tiles) tile.range = base_range(axis, tile);
  std::vector<Point> points;
  add_points(level, tiles, {}, points);
  return points;
}

void ComputeLowering::add_points(std::size_t level, const Tiles& tiles, Point point, std::vector<Point>& out) const {
  while (level < levels_.size() && levels_[level].reduction) ++level;
  if (level == levels_.size()) {
    // An axis without a loop of its own has one element here.
    for (const auto& [axis, tile] : tiles) {
      PointAxis& at = point[axis];
      if (at.value) continue;
      at.value = tile.base;
      at.range = tile.range;
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
    if (*tile.size < lanes || tile.is_masked) {
      const ValueId lane = builder_.ramp(builder_.index(0), 1, lanes);
      mask = builder_.apply(Opcode::Lt, {lane, tile.is_masked ? tile.count : builder_.index(*tile.size)});
    }
    const int present = static_cast<int>(std::min<std::int64_t>(*tile.size, lanes));
    const std::int64_t position = point[here.axis].position;
    affine::Interval range = tile.range;
    if (!tile.is_masked) range = result_range(Opcode::Add, range, {0, present - 1});
    point[here.axis] = {builder_.ramp(tile.base, 1, lanes), mask, present, tile.is_masked, position, range};
    return add_points(level + 1, tiles, std::move(point), out);
  }
  CORRLOOM_CHECK(here.bind == Bind::Unroll, "only unrolled and vector loops stand in the register tile");
  for (std::int64_t at = 0; at < *tile.size; at += here.step) {
    Tiles inner = tiles;
    const std::int64_t size = std::min(here.step, *tile.size - at);
    Tile& part = inner[here.axis];
    part.base = builder_.add(tile.base, builder_.index(at));
    part.range = result_range(Opcode::Add, tile.range, {at, at});
    part.size = size;
    if (!tile.is_masked) part.count = builder_.index(size);
    Point next = point;
    next[here.axis].position += at;
    add_points(level + 1, inner, std::move(next), out);
  }
}

ValueId ComputeLowering::mask_of(const Point& point) {
  for (const auto& [axis, at] : point) {
    if (at.mask) return at.mask;
  }
  return {};
}

TileEvaluator ComputeLowering::evaluator(const Point& point, const std::vector<ValueId>& accumulators,
                                         const std::vector<ValueId>& others) {
  return {builder_,
          {[&](AxisId axis) { return point.at(axis).value; },
           [&](int index, bool other) { return (other ? others : accumulators)[static_cast<std::size_t>(index)]; },
           [&](TensorId tensor) { return kernel_.buffers.at(tensor); },
           [&](TensorId tensor) -> const std::vector<ValueId>* {
             const auto origin = kernel_.origins.find(tensor);
             return origin == kernel_.origins.end() ? nullptr : &origin->second;
           },
           [&](const Expr& read, std::size_t k) { return check_of(read, k); },
           [&](const Expr& condition) { return truth_of(condition, point); }}};
}

ValueId ComputeLowering::evaluate(const Expr& expr, const Point& point, const std::vector<ValueId>& accumulators,
                                  const std::vector<ValueId>& others, ValueId guard) {
  return evaluator(point, accumulators, others).evaluate(expr, guard);
}

void ComputeLowering::register_tile(std::size_t level, const Tiles& tiles) {
  if (sweep_ != Sweep::None) return swept_tile(level, tiles);
  if (level < levels_.size() && runs_along(level)) return running_tile(level, tiles);
  if (rolls(level, tiles)) return;
  std::vector<Point> tile_points = points_of(level, tiles);
  Accumulators accumulators(tile_points.size());
  if (lanes_take_turns()) {
    accumulators = reduce_in_turn(tile_points);
  } else if (compute_.reduction) {
    accumulators = reduce(level, tile_points, initial(tile_points));
    if (compute_.reduction->order.kind == tensor::Order::Kind::Lanes) merge_lanes(tile_points, accumulators);
  }
  store_tile(tile_points, accumulators);
}

void ComputeLowering::store_tile(const std::vector<Point>& tile_points, const Accumulators& accumulators) {
  std::vector<Result> results;
  std::size_t nodes = 0;
  scalar::for_each_node(compute_.body, [&](const Expr&) { ++nodes; });
  const std::size_t together = nodes > kLongBody ? kTogether : 1;
  const std::vector<ValueId> no_others;
  for (std::size_t first = 0; first < tile_points.size(); first += together) {
    const std::size_t end = std::min(first + together, tile_points.size());
    std::vector<TileEvaluator> evaluators;
    for (std::size_t k = first; k < end; ++k) {
      evaluators.push_back(evaluator(tile_points[k], accumulators[k], no_others));
      evaluators.back().begin(compute_.body, mask_of(tile_points[k]));
    }
    for (bool any = true; any;) {
      any = false;
      for (TileEvaluator& each : evaluators) any |= each.step();
    }
    for (std::size_t k = first; k < end; ++k) results.push_back({tile_points[k], evaluators[k - first].result()});
  }
  prefetch(compute_.body, tile_points);
  prefetch_results(tile_points);
  store(results);
}

/// Asks for the lines that a tile further on will write: stores wait for them one after the other.
void ComputeLowering::prefetch_results(const std::vector<Point>& points) {
  const BufferId buffer = kernel_.buffers.at(id_);
  for (const schedule::Prefetch& wish : stage_.prefetches) {
    if (wish.tensor != op_.name) continue;
    for (const std::vector<std::size_t>& run : runs_of(points)) {
      for (const std::size_t k : {run.front(), run.back()}) {
        std::vector<std::vector<ValueId>> places(1);
        for (const tensor::Axis& axis : compute_.axes) {
          const PointAxis& at = points[k].at(axis.id);
          const std::optional<loop::Ramp> ramp = builder_.as_ramp(at.value);
          const std::vector<std::vector<ValueId>> before = std::exchange(places, {});
          const bool is_last = &axis == &compute_.axes.back();
          for (std::vector<ValueId> place : before) {
            for (int lane = 0; lane < (!ramp || is_last ? 1 : at.lanes); ++lane) {
              const ValueId first = !ramp ? at.value : builder_.add(ramp->base, builder_.index(lane));
              const std::int64_t moved = axis.name == wish.axis ? wish.distance : 0;
              places.push_back(place);
              places.back().push_back(builder_.add(first, builder_.index(moved)));
            }
          }
        }
        for (std::vector<ValueId>& place : places) builder_.prefetch(buffer, result_index(std::move(place)));
        if (run.size() == 1) break;
      }
    }
  }
}

/// Of the result or the reduction.
AxisId ComputeLowering::axis_named(const std::string& name) const {
  for (const tensor::Axis& axis : compute_.axes) {
    if (axis.name == name) return axis.id;
  }
  for (const tensor::Axis& axis : compute_.reduction ? compute_.reduction->axes : std::vector<tensor::Axis>()) {
    if (axis.name == name) return axis.id;
  }
  CORRLOOM_CHECK(false, "a prefetch along ", name, ", which is no axis");
  return {};
}

/// Asks once for each place that the reads of the expression will want further on.
void ComputeLowering::prefetch(const Expr& root, const std::vector<Point>& points) {
  std::set<std::pair<BufferId, std::vector<ValueId>>> wanted;
  for (const schedule::Prefetch& wish : stage_.prefetches) {
    const AxisId moved = axis_named(wish.axis);
    scalar::for_each_node(root, [&](const Expr& node) {
      const scalar::Read* read = scalar::as_read(node);
      if (read == nullptr || graph_.op(read->source).name != wish.tensor || kernel_.origins.contains(read->source))
        return;
      for (const Point& point : points) {
        const auto place = point.find(moved);
        if (place == point.end()) continue;  // after the reduction
        Point further = point;
        further[moved].value = builder_.add(place->second.value, builder_.index(wish.distance));
        std::optional<std::vector<ValueId>> index = prefetched(*read, further);
        const BufferId buffer = kernel_.buffers.at(read->source);
        if (index && wanted.emplace(buffer, *index).second) builder_.prefetch(buffer, *std::move(index));
      }
    });
  }
}

/// Where the read's first lane lies, when that is known without looking into memory.
std::optional<std::vector<ValueId>> ComputeLowering::prefetched(const scalar::Read& read, const Point& point) {
  std::vector<ValueId> index;
  for (const Expr& subscript : read.index) {
    if (reads_anything(subscript)) return std::nullopt;
    ValueId value = evaluate(subscript, point, {}, {}, {});
    if (const std::optional<loop::Ramp> ramp = builder_.as_ramp(value)) value = ramp->base;
    if (builder_.type(value).lanes > 1) return std::nullopt;
    index.push_back(value);
  }
  return index;
}

/// Whether the loop is the last one over the result, in single steps over the whole axis of a running reduction, with
/// the range that ends there directly below it.
bool ComputeLowering::runs_along(std::size_t level) const {
  const Level& here = levels_[level];
  if (!compute_.reduction || compute_.reduction->order.kind == tensor::Order::Kind::Lanes) return false;
  if (!range_checks_.empty()) return false;  // they judge a whole range, not what a place adds to it
  if (here.axis != running_ || here.bind != Bind::Serial || here.step != 1 || here.enclosing != 0) return false;
  if (level + 1 == levels_.size()) return false;
  if (!schedule::computed_at(graph_, kernel_.schedule, stage_, static_cast<int>(level)).empty()) return false;
  const Level& below = levels_[level + 1];
  return below.axis == compute_.reduction->axes.front().id && below.bind == Bind::Serial && below.step == 1;
}

/// A running reduction: the accumulators go from place to place, with the number of elements that they hold.
void ComputeLowering::running_tile(std::size_t level, const Tiles& tiles) {
  const AxisId axis = levels_[level].axis;
  std::vector<Point> tile_points = points_of(level + 1, tiles);
  std::vector<ValueId> start = flatten(initial(tile_points));
  start.push_back(builder_.index(0));
  builder_.for_loop(graph_.axis_names[static_cast<std::size_t>(axis.index)], tiles.at(axis).count, Binding::Serial,
                    start, [&](ValueId number, std::span<const ValueId> carried) {
                      for (Point& point : tile_points) point[axis] = {builder_.add(tiles.at(axis).base, number), {}};
                      return running_place(level, tile_points, carried);
                    });
}

/// Takes the elements that this place has beyond those before it, and stores.
std::vector<ValueId> ComputeLowering::running_place(std::size_t level, std::vector<Point>& tile_points,
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
std::vector<std::vector<std::size_t>> ComputeLowering::runs_of(const std::vector<Point>& points) const {
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

}  // namespace corrloom::passes
