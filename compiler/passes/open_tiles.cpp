#include "compiler/passes/lower_compute.h"

/// Tiles along axes whose extents are not known: what is left of an extent has no size of its own, so it is walked in
/// smaller pieces that have one.
namespace corrloom::passes {

using loop::Binding;
using loop::ValueId;
using scalar::AxisId;
using scalar::Opcode;
using schedule::Bind;

/// A loop over the elements of a tile, which may have none.
void ComputeLowering::single_elements(const Tile& tile, AxisId axis, const std::function<void(const Tile&)>& run) {
  const ValueId count = builder_.apply(Opcode::Max, {tile.count, builder_.index(0)});
  builder_.for_loop(graph_.axis_names[static_cast<std::size_t>(axis.index)], count, Binding::Serial, {},
                    [&](ValueId number, std::span<const ValueId>) {
                      run({builder_.add(tile.base, number), builder_.index(1), 1});
                      return std::vector<ValueId>{};
                    });
}

/// What whole steps leave over of an axis whose extent is not known: a tile that is not full.
void ComputeLowering::rest_of_open_axis(std::size_t level, const Tiles& tiles, ValueId full) {
  const Level& here = levels_[level];
  if (here.step == 1) return;
  const Tile& tile = tiles.at(here.axis);
  const ValueId left = builder_.apply(Opcode::Mod, {tile.count, builder_.index(here.step)});
  builder_.if_else(
      builder_.apply(Opcode::Gt, {left, builder_.index(0)}),
      [&] {
        Tiles inner = tiles;
        inner[here.axis] = {builder_.add(tile.base, builder_.mul(full, here.step)), left, std::nullopt, here.step,
                            /*is_rest=*/true};
        serial_loops(level + 1, std::move(inner));
        return std::vector<ValueId>{};
      },
      [] { return std::vector<ValueId>{}; });
}

/// A tile along an axis whose extent is not known: the body for a whole one, and smaller ones for the rest.
void ComputeLowering::settle_open_size(std::size_t level, const Tiles& tiles, AxisId axis) {
  const Tile& tile = tiles.at(axis);
  if (tile.is_rest) return settle_rest(level, tiles, axis);
  builder_.if_else(
      builder_.apply(Opcode::Eq, {tile.count, builder_.index(tile.full)}),
      [&] {
        Tiles settled = tiles;
        settled[axis].size = tile.full;
        settle_sizes(level, std::move(settled));
        return std::vector<ValueId>{};
      },
      [&] {
        settle_rest(level, tiles, axis);
        return std::vector<ValueId>{};
      });
}

/// Less than a tile: single elements, or along the vector axis whole vectors and then one of which not all lanes exist.
void ComputeLowering::settle_rest(std::size_t level, const Tiles& tiles, AxisId axis) {
  const Tile tile = tiles.at(axis);
  const auto go_on = [&](const Tile& part) {
    Tiles settled = tiles;
    settled[axis] = part;
    settle_sizes(level, std::move(settled));
  };
  const std::int64_t lanes = vector_lanes(axis);
  if (lanes == 1) return single_elements(tile, axis, go_on);
  const ValueId whole = builder_.apply(Opcode::FloorDiv, {tile.count, builder_.index(lanes)});
  const auto one_vector = [&](ValueId number, std::span<const ValueId>) {
    go_on({builder_.add(tile.base, builder_.mul(number, lanes)), builder_.index(lanes), lanes});
    return std::vector<ValueId>{};
  };
  if (lanes < tile.full) {
    const std::string& name = graph_.axis_names[static_cast<std::size_t>(axis.index)];
    builder_.for_loop(name, whole, Binding::Serial, {}, one_vector);
  }
  const ValueId left = builder_.apply(Opcode::Mod, {tile.count, builder_.index(lanes)});
  builder_.if_else(
      builder_.apply(Opcode::Gt, {left, builder_.index(0)}),
      [&] {
        Tile last{builder_.add(tile.base, builder_.mul(whole, lanes)), left, lanes};
        last.is_masked = true;
        go_on(last);
        return std::vector<ValueId>{};
      },
      [] { return std::vector<ValueId>{}; });
}

/// Lanes of the vectors along an axis of the result; 1 when they do not run along it.
std::int64_t ComputeLowering::vector_lanes(AxisId axis) const {
  for (const Level& level : levels_) {
    if (level.axis == axis && !level.reduction && level.bind == Bind::Vector) return level.enclosing;
  }
  return 1;
}

}  // namespace corrloom::passes
