#include <algorithm>

#include "compiler/passes/lower_compute.h"
#include "compiler/passes/readers.h"

namespace corrloom::passes {

using loop::ValueId;
using scalar::AxisId;
using scalar::Expr;
using scalar::Opcode;
using schedule::Bind;

namespace {

/// Most groups of conditions on which bodies split, most places of an axis with a body of their own, and most bodies:
/// compiling one can take milliseconds.
constexpr std::size_t kMostSplits = 2, kMostBorders = 2, kMostBodies = 3;
/// Masks cost instructions, and registers of which there are few: more than one for a condition, or fewer operations
/// for each, are worth having a body without.
constexpr std::size_t kOperationsPerMask = 8;
/// A condition may take two masks where that spares more bodies than these.
constexpr std::size_t kMasksPerGuard = 2, kFewBodies = 2;
}  // namespace

/// More bodies where that spares many masks: one for tiles in which conditions hold everywhere, others for those at a
/// border. Conditions on different axes split one after the other, or, where that would give too many bodies, all
/// together: a single body for all borders then finds out what holds.
void ComputeLowering::split_guards(std::size_t level, const Tiles& tiles) {
  std::map<std::vector<AxisId>, Holdings> open;
  const Known before = assumed_;
  for (const Guard& guard : guards_) {
    const std::optional<ValueId> holds = holds_in(guard, tiles);
    if (!holds) continue;
    if (const scalar::Value* known = builder_.as_constant(*holds); known != nullptr && known->as_bool()) {
      assumed_[guard.condition.get()] = true;
      continue;
    }
    std::vector<AxisId> axes;
    for (const affine::LinearForm::Term& term : guard.form.terms) {
      const AxisId axis = axis_of(term.expr);
      if (tiles.contains(axis)) axes.push_back(axis);
    }
    open[std::move(axes)].push_back({&guard, *holds});
  }
  std::vector<Holdings> groups;
  for (auto& [axes, group] : open) groups.push_back(std::move(group));
  if (groups.empty() || needs_known_places()) {
    // One body for each place.
  } else if (masks_are_cheap(level, tiles, groups)) {
    groups.clear();
  } else if (bodies_of(groups, tiles) > kMostBodies) {
    Holdings all;
    for (const Holdings& group : groups) all.insert(all.end(), group.begin(), group.end());
    groups = {std::move(all)};
  }
  split_group(level, tiles, groups, 0);
  assumed_ = before;
}

/// Whether vectors are put together from others where it is known what holds: elements that lie apart, or that a choice
/// takes from one place or another.
bool ComputeLowering::needs_known_places() const {
  AxisId vector;
  for (const Level& level : levels_) {
    if (level.bind == Bind::Vector) vector = level.axis;
  }
  const auto lies_apart = [&](const scalar::Read& read) {
    if (read.index.empty() || !vector) return false;
    const std::optional<affine::LinearForm> form = affine::linear_form(read.index.back());
    if (!form || !form->is_affine()) return true;
    const std::int64_t stride = form->coefficient_of(vector);
    return stride != 0 && stride != 1;
  };
  bool found = false;
  tensor::for_each_expr(op_, [&](const Expr& root) {
    scalar::for_each_node(root, [&](const Expr& node) {
      if (const scalar::Read* read = scalar::as_read(node)) found = found || lies_apart(*read);
      const scalar::Apply* choice = scalar::as_apply(node, Opcode::If);
      if (choice == nullptr) return;
      found = found || std::none_of(choice->args.begin() + 1, choice->args.end(), [](const Expr& arm) {
                return std::holds_alternative<scalar::Constant>(arm->kind);
              });
    });
  });
  return found;
}

/// Whether one body that finds out where conditions hold has little to find out: the conditions that the places of the
/// tile leave open are few beside its operations.
bool ComputeLowering::masks_are_cheap(std::size_t level, const Tiles& tiles,
                                      const std::vector<Holdings>& groups) const {
  std::int64_t operations = 1;
  for (const Level& inner : levels_) {
    if (inner.reduction && inner.bind == Bind::Unroll) operations *= reduction_extent(inner.axis).value_or(1);
  }
  if (level < levels_.size() && runs_along(level)) return false;
  const std::vector<Point> points = points_of(level, tiles);
  std::set<std::pair<const Guard*, std::int64_t>> open;
  for (const Holdings& group : groups) {
    for (const Holding& holding : group) {
      for (const Point& point : points) {
        if (!add_open_forms(*holding.guard, point, open)) return false;
      }
    }
  }
  std::set<const Guard*> guards;
  for (const auto& [guard, least] : open) guards.insert(guard);
  const std::size_t most = bodies_of(groups, tiles) > kFewBodies ? kMasksPerGuard : 1;
  return open.size() <= most * guards.size() &&
         open.size() * kOperationsPerMask <= static_cast<std::size_t>(operations) * points.size();
}

/// Adds the guard with the least value of its form for each element of the reduction at which it is not decided. False
/// when that is another one each time in a loop.
bool ComputeLowering::add_open_forms(const Guard& guard, const Point& point,
                                     std::set<std::pair<const Guard*, std::int64_t>>& open) const {
  std::vector<affine::Interval> forms = {{guard.form.constant, guard.form.constant}};
  for (const affine::LinearForm::Term& term : guard.form.terms) {
    const AxisId axis = axis_of(term.expr);
    std::vector<affine::Interval> ranges;
    if (const auto at = point.find(axis); at != point.end()) {
      ranges = {at->second.range};
    } else {
      const bool unrolled = std::any_of(levels_.begin(), levels_.end(), [&](const Level& inner) {
        return inner.axis == axis && inner.bind == Bind::Unroll && inner.step == 1;
      });
      const std::optional<std::int64_t> extent = reduction_extent(axis);
      if (!unrolled || !extent) return false;
      for (std::int64_t tap = 0; tap < *extent; ++tap) ranges.push_back({tap, tap});
    }
    std::vector<affine::Interval> next;
    for (const affine::Interval& form : forms) {
      for (const affine::Interval& range : ranges)
        next.push_back(
            result_range(Opcode::Add, form, result_range(Opcode::Mul, range, {term.coefficient, term.coefficient})));
    }
    forms = std::move(next);
  }
  for (const affine::Interval& form : forms) {
    if (form == kAnything) return false;
    if (!decided(Opcode::Ge, form, {0, 0})) open.emplace(&guard, form.low);
  }
  return true;
}

/// The axis of the tile on which all conditions of a group depend, if it is one.
std::optional<AxisId> ComputeLowering::moving_axis(const Holdings& group, const Tiles& tiles) {
  std::set<AxisId> moving;
  for (const Holding& holding : group) {
    for (const affine::LinearForm::Term& term : holding.guard->form.terms) {
      if (tiles.contains(axis_of(term.expr))) moving.insert(axis_of(term.expr));
    }
  }
  return moving.size() == 1 ? std::optional(*moving.begin()) : std::nullopt;
}

/// How many bodies the groups give that split one after the other.
std::size_t ComputeLowering::bodies_of(const std::vector<Holdings>& groups, const Tiles& tiles) const {
  std::size_t bodies = 1;
  for (std::size_t k = 0; k < std::min(groups.size(), kMostSplits); ++k) {
    const std::optional<AxisId> axis = moving_axis(groups[k], tiles);
    const std::optional<Borders> found = axis ? borders(groups[k], *axis, tiles.at(*axis)) : std::nullopt;
    const auto all = found ? static_cast<std::size_t>(found->tiles) : 2;
    bodies *= found ? std::min(found->positions.size() + 1, all) : all;
  }
  return bodies;
}

void ComputeLowering::split_group(std::size_t level, const Tiles& tiles, const std::vector<Holdings>& groups,
                                  std::size_t next) {
  if (next == groups.size() || next == kMostSplits || is_long_kernel()) return register_tile(level, tiles);
  const Holdings& group = groups[next];
  if (const std::optional<AxisId> axis = moving_axis(group, tiles)) {
    if (std::optional<Borders> found = borders(group, *axis, tiles.at(*axis)))
      return split_borders(level, tiles, groups, next, *std::move(found));
  }
  ValueId all = builder_.constant(scalar::Value::boolean(true));
  for (const Holding& holding : group) all = builder_.apply(Opcode::And, {all, holding.holds});
  const auto go_on = [&](std::optional<bool> inside) {
    return [&, inside] {
      const Known before = assumed_;
      for (const Holding& holding : group) {
        if (inside) assumed_[holding.guard->condition.get()] = *inside;
      }
      split_group(level, tiles, groups, next + 1);
      assumed_ = before;
      return std::vector<ValueId>{};
    };
  };
  // One condition that chooses between operands fails everywhere in most other tiles.
  const bool chooses = group.size() == 1 && !compute_.reduction;
  const auto otherwise = [&] {
    builder_.if_else(fails_in(*group.front().guard, tiles), go_on(false), go_on(std::nullopt));
    return std::vector<ValueId>{};
  };
  builder_.if_else(all, go_on(true), chooses ? FunctionBuilder::Branch(otherwise) : go_on(std::nullopt));
}

/// Nothing when it is not known where tiles begin, or when there are too many at borders.
std::optional<ComputeLowering::Borders> ComputeLowering::borders(const Holdings& group, AxisId axis,
                                                                 const Tile& tile) const {
  if (!from_zero_.contains(axis)) return std::nullopt;
  std::int64_t step = 0;
  for (const Level& level : levels_) {
    if (level.axis == axis && (level.bind == Bind::Block || level.bind == Bind::Serial)) step = level.step;
  }
  const std::optional<std::int64_t> extent = known_extent(axis);
  const std::int64_t size = *tile.size;
  if (!extent || step == 0 || size < 1 || size > step) return std::nullopt;
  // Smaller tiles than a step stand at the end.
  const std::int64_t first = size < step ? *extent - size : 0;
  Borders found{axis, {}, (*extent - first) / step + (size < step ? 1 : 0)};
  const auto holds = [&](std::int64_t number) {
    return std::all_of(group.begin(), group.end(), [&](const Holding& holding) {
      const std::optional<std::int64_t> least = least_at(*holding.guard, axis, first + number * step, size);
      return least && *least >= 0;
    });
  };
  // Each condition grows or shrinks along the axis, so it fails from one of the ends on.
  std::int64_t low = 0, high = found.tiles;
  while (low < high && !holds(low)) {
    if (found.positions.size() == kMostBorders) return std::nullopt;
    found.positions.push_back(first + low++ * step);
  }
  while (low < high && !holds(high - 1)) {
    if (found.positions.size() == kMostBorders) return std::nullopt;
    found.positions.push_back(first + --high * step);
  }
  return found;
}

/// A body with known bounds for each of those positions, and one for all other tiles, in which the conditions hold.
void ComputeLowering::split_borders(std::size_t level, const Tiles& tiles, const std::vector<Holdings>& groups,
                                    std::size_t next, Borders borders) {
  if (borders.tiles == 0) return;
  if (borders.positions.empty()) {
    const Known before = assumed_;
    for (const Holding& holding : groups[next]) assumed_[holding.guard->condition.get()] = true;
    split_group(level, tiles, groups, next + 1);
    assumed_ = before;
    return;
  }
  const ValueId position = builder_.index(borders.positions.front());
  const auto at_border = [&] {
    Tiles known = tiles;
    known[borders.axis].base = position;
    in_part(1.0 / static_cast<double>(borders.tiles), [&] { split_group(level, known, groups, next + 1); });
    return std::vector<ValueId>{};
  };
  if (borders.tiles == 1) {
    at_border();
    return;
  }
  const auto elsewhere = [&] {
    Borders others = borders;
    others.positions.erase(others.positions.begin());
    --others.tiles;
    split_borders(level, tiles, groups, next, std::move(others));
    return std::vector<ValueId>{};
  };
  builder_.if_else(builder_.apply(Opcode::Eq, {tiles.at(borders.axis).base, position}), at_border, elsewhere);
}

/// The least value of the guard's form in a tile that begins at `base` along the axis, the only one that moves it.
std::optional<std::int64_t> ComputeLowering::least_at(const Guard& guard, AxisId axis, std::int64_t base,
                                                      std::int64_t size) const {
  std::int64_t least = guard.form.constant;
  for (const affine::LinearForm::Term& term : guard.form.terms) {
    const bool moves = axis_of(term.expr) == axis;
    const std::optional<std::int64_t> extent = moves ? size : reduction_extent(axis_of(term.expr));
    if (!extent || *extent < 1) return std::nullopt;
    const std::int64_t first = moves ? base : 0;
    std::int64_t part = 0;
    if (__builtin_mul_overflow(term.coefficient, term.coefficient > 0 ? first : first + *extent - 1, &part) ||
        __builtin_add_overflow(least, part, &least))
      return std::nullopt;
  }
  return least;
}

/// The least value of the guard's form at the points of the tile and for the elements of the reduction, or the
/// greatest. Nothing when that is not known at the tile.
std::optional<ValueId> ComputeLowering::bound_in(const Guard& guard, const Tiles& tiles, bool least) {
  ValueId bound = builder_.index(guard.form.constant);
  for (const affine::LinearForm::Term& term : guard.form.terms) {
    const AxisId axis = axis_of(term.expr);
    ValueId first = builder_.index(0);
    std::int64_t size = 0;
    if (const auto tile = tiles.find(axis); tile != tiles.end()) {
      first = tile->second.base;
      size = *tile->second.size;
    } else {
      const std::optional<std::int64_t> extent = reduction_extent(axis);
      if (!extent) return std::nullopt;
      size = *extent;
    }
    if (size < 1) return std::nullopt;
    const bool at_first = (term.coefficient > 0) == least;
    const ValueId at = at_first ? first : builder_.add(first, builder_.index(size - 1));
    bound = builder_.add(bound, builder_.mul(at, term.coefficient));
  }
  return bound;
}

/// Whether the guard holds at every point of the tile and for every element of the reduction.
std::optional<ValueId> ComputeLowering::holds_in(const Guard& guard, const Tiles& tiles) {
  const std::optional<ValueId> least = bound_in(guard, tiles, /*least=*/true);
  return least ? std::optional(builder_.apply(Opcode::Ge, {*least, builder_.index(0)})) : std::nullopt;
}

/// Whether it holds at none, where it does not hold at all of them.
ValueId ComputeLowering::fails_in(const Guard& guard, const Tiles& tiles) {
  const std::optional<ValueId> greatest = bound_in(guard, tiles, /*least=*/false);
  const bool is_one = greatest == bound_in(guard, tiles, /*least=*/true);
  if (!greatest || is_one) return builder_.constant(scalar::Value::boolean(is_one));
  return builder_.apply(Opcode::Lt, {*greatest, builder_.index(0)});
}

/// What a condition is that is assumed for the tile, or decided by where the point's elements can lie.
std::optional<bool> ComputeLowering::truth_of(const Expr& condition, const Point& point) const {
  if (const auto known = assumed_.find(condition.get()); known != assumed_.end()) return known->second;
  const auto guard = std::find_if(guards_.begin(), guards_.end(),
                                  [&](const Guard& candidate) { return candidate.condition == condition; });
  if (guard == guards_.end()) return std::nullopt;
  affine::Interval form = {guard->form.constant, guard->form.constant};
  for (const affine::LinearForm::Term& term : guard->form.terms) {
    const auto at = point.find(axis_of(term.expr));
    if (at == point.end()) return std::nullopt;
    affine::Interval range = at->second.range;
    if (const std::optional<std::int64_t> known = builder_.as_index(at->second.value)) range = {*known, *known};
    form = result_range(Opcode::Add, form, result_range(Opcode::Mul, range, {term.coefficient, term.coefficient}));
    if (form == kAnything) return std::nullopt;
  }
  return decided(Opcode::Ge, form, {0, 0});
}

}  // namespace corrloom::passes
