#include <algorithm>

#include "compiler/passes/lower_compute.h"
#include "ir/schedule/regions.h"

namespace corrloom::passes {

using loop::Binding;
using loop::ValueId;
using scalar::AxisId;
using scalar::Opcode;
using schedule::Bind;

/// The lanes of vectors that a loop along the last axis makes, where they go past the caches but begin at any element
/// of a line, because rows do; 0 where vectors need no care.
int ComputeLowering::unaligned_lanes(std::size_t level, const Tiles& tiles) const {
  if (!stage_.streaming || compute_.reduction || walked_again(level)) return 0;
  const AxisId axis = levels_[level].axis;
  if (axis != compute_.axes.back().id || levels_.back().axis != axis || levels_.back().bind != Bind::Vector) return 0;
  const std::int64_t lanes = levels_.back().enclosing;
  const bool alone = std::all_of(tiles.begin(), tiles.end(), [&](const auto& tile) {
    return tile.first == axis || (tile.second.size && *tile.second.size == 1);
  });
  const bool known = std::all_of(compute_.axes.begin(), compute_.axes.end(),
                                 [](const tensor::Axis& other) { return scalar::as_i64(other.extent).has_value(); });
  if (!alone || !known) return 0;
  const std::int64_t extent = *scalar::as_i64(compute_.axes.back().extent);
  if (extent % lanes == 0 || extent < 4 * levels_[level].step) return 0;
  if (!schedule::computed_at(graph_, kernel_.schedule, stage_, static_cast<int>(level)).empty()) return 0;
  return static_cast<int>(lanes);
}

/// Whole steps from the first element on that begins a vector of memory; then one body for what lies before and behind.
void ComputeLowering::aligned_pieces(std::size_t level, const Tiles& tiles, int lanes) {
  const Level& here = levels_[level];
  const Tile tile = tiles.at(here.axis);
  const bool began_at_steps = from_zero_.erase(here.axis) > 0;
  const std::string& name = graph_.axis_names[static_cast<std::size_t>(here.axis.index)];
  const auto sub = [&](ValueId a, ValueId b) { return builder_.apply(Opcode::Sub, {a, b}); };
  ValueId offset = builder_.index(0);
  for (const tensor::Axis& axis : compute_.axes) {
    offset = builder_.mul(offset, *scalar::as_i64(axis.extent));
    offset = builder_.add(offset, tiles.at(axis.id).base);
  }
  const ValueId to_next = builder_.apply(Opcode::Mod, {sub(builder_.index(0), offset), builder_.index(lanes)});
  const ValueId before = builder_.apply(Opcode::Min, {to_next, tile.count});
  const auto run = [&](ValueId base, ValueId count, std::int64_t size) {
    Tiles inner = tiles;
    Tile part{builder_.add(tile.base, base), count, size};
    part.is_masked = builder_.as_index(count) != std::optional(size);
    inner[here.axis] = part;
    serial_loops(level + 1, std::move(inner));
  };
  const ValueId full = builder_.apply(Opcode::FloorDiv, {sub(tile.count, before), builder_.index(here.step)});
  builder_.for_loop(name, full, Binding::Serial, {}, [&](ValueId number, std::span<const ValueId>) {
    run(builder_.add(before, builder_.mul(number, here.step)), builder_.index(here.step), here.step);
    return std::vector<ValueId>{};
  });
  const ValueId behind = builder_.add(before, builder_.mul(full, here.step));
  const ValueId left = builder_.add(sub(tile.count, behind), builder_.index(2 * lanes - 1));
  const ValueId ends = builder_.apply(Opcode::FloorDiv, {left, builder_.index(lanes)});
  builder_.for_loop(name, ends, Binding::Serial, {}, [&](ValueId number, std::span<const ValueId>) {
    const ValueId is_first = builder_.apply(Opcode::Eq, {number, builder_.index(0)});
    const ValueId at = builder_.add(behind, builder_.mul(sub(number, builder_.index(1)), lanes));
    const ValueId rest = builder_.apply(Opcode::Min, {sub(tile.count, at), builder_.index(lanes)});
    run(builder_.apply(Opcode::Select, {is_first, builder_.index(0), at}),
        builder_.apply(Opcode::Select, {is_first, before, rest}), lanes);
    return std::vector<ValueId>{};
  });
  if (began_at_steps) from_zero_.insert(here.axis);
}

}  // namespace corrloom::passes
