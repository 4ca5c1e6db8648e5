#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "compiler/passes/host_chooser.h"
#include "ir/schedule/regions.h"

namespace corrloom::passes::host {

using schedule::Bind;
using schedule::Loop;
using schedule::Staging;

namespace {

/// Bytes that a block's part of a copy may have, and which part of the second-level cache: less than a stack.
constexpr double kMostInBlock = 448 << 10, kMostOfCache = 0.45;
/// How many times the elements of the whole copy all blocks together may copy, and how many blocks there should be.
constexpr double kMostCopied = 1.3;
constexpr std::int64_t kLeastBlocks = 16;
/// Elements of the vector axis in the part of a window, and tiles that it is high.
constexpr std::int64_t kWindowColumns = 512, kWindowTiles = 4;
/// Tiles ahead whose places in the result are asked for, and which part of the last-level cache results take that come
/// from memory.
constexpr std::int64_t kResultsAhead = 2, kResultsFar = 3;

}  // namespace

void HostChooser::copy_in_blocks(const Tile& tile, schedule::Stage& stage) const {
  for (Staging& staging : stage.staging) {
    std::string why;
    const std::optional<schedule::Copy> copy = schedule::copy_of(graph_, op_, staging, {}, why);
    const auto number = std::find_if(staged_.begin(), staged_.end(), [&](const schedule::StagedExpr& staged) {
      return copy && scalar::same(staged.expr, copy->staged.expr);
    });
    if (number == staged_.end() || is_constant(static_cast<std::size_t>(number - staged_.begin()))) continue;
    const double bytes =
        elements_of(static_cast<std::size_t>(number - staged_.begin())) * byte_size(graph_.op(number->tensor).dtype);
    const schedule::Part* lanes_of = part_of(*number, tile.vector->id);
    const bool in_phases = lanes_of != nullptr && phases_of(*lanes_of, tile.vector->id) > 1;
    if (bytes <= static_cast<double>(target_.l2_bytes) / 2 || (lanes_of != nullptr && !in_phases)) continue;
    const std::optional<BlockCut> cut = cut_for(tile, stage, staging, *copy, bytes);
    if (!cut) continue;
    staging.loop = cut->last_block;
    stage.loops = cut->loops;
    return;
  }
}

std::optional<HostChooser::BlockCut> HostChooser::cut_for(const Tile& tile, const schedule::Stage& stage,
                                                          const Staging& staging, const schedule::Copy& copy,
                                                          double whole) const {
  std::vector<const Axis*> batch;
  const Axis* window = nullptr;
  for (const Axis& axis : compute_.axes) {
    const bool stays = &axis == tile.row || &axis == tile.vector || extent_of(axis) == 1;
    const schedule::Part* part = stays ? nullptr : part_of(copy.staged, axis.id);
    if (part != nullptr && part->terms.size() == 1) batch.push_back(&axis);
    if (part != nullptr && part->terms.size() > 1 && window == nullptr) window = &axis;
  }
  const std::int64_t extent = window == nullptr ? 1 : extent_of(*window);
  for (std::int64_t pieces = 1; pieces <= extent; ++pieces) {
    const std::int64_t piece = ceil_div(extent, pieces);
    if (ceil_div(extent, piece) != pieces) continue;
    BlockCut cut = with_blocks(stage, batch, window, piece);
    if (cut.last_block < 0) continue;
    schedule::Stage trial;
    trial.compute = stage.compute;
    trial.loops = cut.loops;
    Staging moved = staging;
    moved.loop = cut.last_block;
    const std::optional<std::int64_t> bytes = schedule::copied_bytes(graph_, op_, trial, moved, copy);
    std::int64_t blocks = pieces;
    for (const Axis* axis : batch) blocks *= extent_of(*axis);
    if (!bytes || static_cast<double>(*bytes) * static_cast<double>(blocks) > kMostCopied * whole) return std::nullopt;
    const double most = std::min(kMostInBlock, kMostOfCache * static_cast<double>(target_.l2_bytes));
    if (static_cast<double>(*bytes) <= most && blocks >= target_.at_scale(kLeastBlocks)) return cut;
  }
  return std::nullopt;
}

HostChooser::BlockCut HostChooser::with_blocks(const schedule::Stage& stage, const std::vector<const Axis*>& batch,
                                               const Axis* window, std::int64_t piece) const {
  BlockCut cut;
  for (const Axis* axis : batch) cut.loops.push_back({axis->name, 1, Bind::Block});
  if (window != nullptr && piece < extent_of(*window)) cut.loops.push_back({window->name, piece, Bind::Block});
  cut.last_block = static_cast<int>(cut.loops.size()) - 1;
  for (Loop loop : stage.loops) {
    const bool is_block = loop.bind == Bind::Block;
    const bool is_walked = std::any_of(cut.loops.begin(), cut.loops.end(), [&](const Loop& outer) {
      return is_block && outer.axis == loop.axis && outer.step <= loop.step;
    });
    if (is_walked) continue;
    if (is_block) loop.bind = Bind::Serial;
    cut.loops.push_back(std::move(loop));
  }
  return cut;
}

void HostChooser::copy_windows(const Tile& tile, schedule::Stage& stage) const {
  if (tile.window < 2) return;
  const std::int64_t width = lanes() * tile.vectors, columns = extent_of(*tile.vector), rows = extent_of(*tile.row);
  const std::int64_t piece =
      ceil_div(ceil_div(columns, ceil_div(columns, target_.at_scale(kWindowColumns))), width) * width;
  std::vector<Loop> loops;
  for (const Axis& axis : compute_.axes) {
    if (&axis != tile.row && &axis != tile.vector && !is_not_shared(axis)) loops.push_back({axis.name, 1, Bind::Block});
  }
  const std::int64_t band = std::min(kWindowTiles * tile.rows, ceil_div(rows, tile.rows) * tile.rows);
  loops.push_back({tile.row->name, band, Bind::Block});
  loops.push_back({tile.vector->name, piece, Bind::Block});
  const int place = static_cast<int>(loops.size()) - 1;
  if (band > tile.rows) loops.push_back({tile.row->name, tile.rows, Bind::Serial});
  if (piece > width) loops.push_back({tile.vector->name, width, Bind::Serial});
  schedule::Stage trial;
  trial.compute = stage.compute;
  trial.loops = loops;
  for (Staging& staging : stage.staging) {
    std::string why;
    const std::optional<schedule::Copy> copy = schedule::copy_of(graph_, op_, staging, {}, why);
    const schedule::Part* moved = copy ? part_of(copy->staged, tile.vector->id) : nullptr;
    if (moved == nullptr || moved->terms.size() < 2 || part_of(copy->staged, tile.row->id) == nullptr) continue;
    // Blocks along an axis that the copy does not depend on would each make the same one.
    const bool again = std::any_of(compute_.axes.begin(), compute_.axes.end(), [&](const Axis& axis) {
      return !is_not_shared(axis) && part_of(copy->staged, axis.id) == nullptr;
    });
    if (again) continue;
    Staging inside = staging;
    inside.loop = place;
    const std::optional<std::int64_t> bytes = schedule::copied_bytes(graph_, op_, trial, inside, *copy);
    if (!bytes || static_cast<double>(*bytes) > kMostOfCache * static_cast<double>(target_.l2_bytes)) continue;
    staging.loop = place;
    stage.loops = loops;
    return;
  }
}

void HostChooser::prefetch_results(const Tile& tile, schedule::Stage& stage) const {
  if (tile.row == nullptr || tile.vector == &compute_.axes.back() || tile.row != &compute_.axes.back()) return;
  const double bytes = points_ * byte_size(op_.dtype);
  if (bytes * kResultsFar >= static_cast<double>(target_.l3_bytes))
    stage.prefetches.push_back({op_.name, tile.row->name, kResultsAhead * tile.rows});
}

}  // namespace corrloom::passes::host
