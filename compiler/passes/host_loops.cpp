#include <algorithm>
#include <bit>
#include <optional>
#include <set>
#include <vector>

#include "compiler/passes/host_chooser.h"
#include "compiler/passes/host_stores.h"

namespace corrloom::passes::host {

using schedule::Bind;
using schedule::Loop;
using schedule::Stage;
using tensor::TensorId;

namespace {

/// Elements of the vector axis in a piece that one block works through: a few pages, so that blocks are worth a task
/// each.
constexpr std::int64_t kPieceElements = 16384;
/// Elements that a block of short rows should have at least.
constexpr std::int64_t kBlockElements = 4096;

/// Results across: rows in a block, elements of the vector axis in one, lines of a row of an operand that are read
/// together, and as many where rows share a set of the cache.
constexpr std::int64_t kAcrossRows = 512, kAcrossElements = 4096, kAcrossLines = 4, kCollidingLines = 2;
/// Bytes of a line of the caches; rows a multiple of so many bytes apart share a set of the first-level one.
constexpr std::int64_t kLineBytes = 64, kSetBytes = 4096;

/// How far ahead sums along memory ask for it.
constexpr std::int64_t kAheadBytes = 8192;
/// Running reductions along memory: rows that go on side by side, and that do where they share sets of the cache;
/// operations of a step from which on vectors pay that gather their elements.
constexpr std::int64_t kRunningRows = 8, kCollidingRows = 4;
constexpr double kMostRunningStep = 4;

/// Rows of a block, at most so many: as many as leave none over, unless those are few.
std::int64_t rows_together(std::int64_t extent, std::int64_t most) {
  most = std::clamp<std::int64_t>(most, 1, extent);
  std::int64_t rows = most;
  while (extent % rows != 0) --rows;
  return 2 * rows > most ? rows : static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(most)));
}

}  // namespace

std::vector<Loop> HostChooser::loops_by_elements() const {
  std::vector<Loop> loops = element_blocks(reduction_size());
  add_reduction(loops, 1, 0);
  return loops;
}

std::vector<Loop> HostChooser::element_blocks(std::int64_t operations) const {
  std::vector<Loop> loops, serial;
  for (auto axis = compute_.axes.rbegin(); axis != compute_.axes.rend(); ++axis) {
    if (is_not_shared(*axis)) continue;
    const std::int64_t wanted =
        std::max<std::int64_t>(1, target_.at_scale(kBlockOperations) / std::max<std::int64_t>(operations, 1));
    const std::int64_t piece = std::min(std::max<std::int64_t>(extent_of(*axis), 1), wanted);
    loops.insert(loops.begin(), {axis->name, piece, Bind::Block});
    if (piece > 1) serial.insert(serial.begin(), {axis->name, 1, Bind::Serial});
    if (__builtin_mul_overflow(operations, piece, &operations)) operations = target_.at_scale(kBlockOperations);
  }
  loops.insert(loops.end(), serial.begin(), serial.end());
  return loops;
}

void HostChooser::prefetch_along(Stage& stage) const {
  if (compute_.reduction->axes.size() != 1 || points_ > 1) return;  // rows side by side are runs enough
  const Axis& along = compute_.reduction->axes.front();
  std::set<TensorId> asked;
  for (const Access& access : accesses_) {
    const bool from_memory = bytes_of(access) > static_cast<double>(target_.l3_bytes);
    if (access.in_step && !access.guarded && access.stride(along.id) == 1 && from_memory &&
        asked.insert(access.read->source).second)
      stage.prefetches.push_back(
          {graph_.op(access.read->source).name, along.name, target_.at_scale(kAheadBytes) / access.element_bytes});
  }
}

const Axis* HostChooser::running_rows() const {
  if (!running_ || compute_.axes.back().id != running_ || step_operations_ > kMostRunningStep) return nullptr;
  const Axis* row = nullptr;
  for (const Axis& axis : compute_.axes) {
    if (axis.id != running_ && extent_of(axis) > 1 && !bounds_reduction(axis)) row = &axis;
  }
  return row;
}

std::vector<Loop> HostChooser::running_loops(const Axis& row) const {
  const bool collides = std::any_of(accesses_.begin(), accesses_.end(), [&](const Access& access) {
    return access.stride(row.id) != 0 &&
           access.stride(row.id) * access.element_bytes % target_.at_scale(kSetBytes) == 0;
  });
  const std::int64_t rows = std::min(extent_of(row), collides ? kCollidingRows : kRunningRows);
  const std::int64_t worth =
      target_.at_scale(kBlockOperations) / std::max<std::int64_t>(1, rows * extent_of(compute_.axes.back()));
  const std::int64_t piece = rows * std::clamp<std::int64_t>(worth, 1, ceil_div(extent_of(row), rows));
  std::vector<Loop> loops;
  for (const Axis& axis : compute_.axes) {
    if (!is_not_shared(axis)) loops.push_back({axis.name, &axis == &row ? piece : 1, Bind::Block});
  }
  if (piece != rows) loops.push_back({row.name, rows, Bind::Serial});
  add_reduction(loops, rows, 0);
  loops.push_back({row.name, 1, Bind::Unroll});
  return loops;
}

void HostChooser::add_reduction(std::vector<Loop>& loops, std::int64_t points, std::int64_t window) const {
  if (!compute_.reduction) return;
  for (const Axis& axis : compute_.axes) {
    if (axis.id == running_ && extent_of(axis) != 1) loops.push_back({axis.name, 1, Bind::Serial});
  }
  const std::vector<Axis>& axes = compute_.reduction->axes;
  // From the last axis outwards, as many as unrolling can take.
  std::vector<bool> unrolled(axes.size(), false);
  std::int64_t copies = points;
  for (std::size_t k = axes.size(); k-- > 0 && !by_lanes();) {
    const std::optional<std::int64_t> extent = scalar::as_i64(axes[k].extent);
    if (!extent || __builtin_mul_overflow(copies, *extent, &copies) ||
        copies > (window > 1 ? kMaxUnrolledWindow : kMaxUnrolled))
      break;
    unrolled[k] = true;
  }
  // Part of a nest is unrolled only for the loads that its taps share.
  const bool all = !unrolled.empty() && unrolled.front();
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const bool last = k + 1 == axes.size();
    if (last && by_lanes()) {
      loops.push_back({axes[k].name, 1, Bind::Vector});
    } else if (last && window > 1) {
      if (*scalar::as_i64(axes[k].extent) > window) loops.push_back({axes[k].name, window, Bind::Serial});
      loops.push_back({axes[k].name, 1, Bind::Unroll});
    } else {
      loops.push_back({axes[k].name, 1, all ? Bind::Unroll : Bind::Serial});
    }
  }
}

void HostChooser::tile_loops(const Tile& tile, schedule::Stage& stage) const {
  const host::Reads reads{graph_, compute_, accesses_, target_, lanes()};
  if (may_sweep_ && !running_ && host::sweeps(reads, tile)) return host::sweep_loops(reads, tile, stage);
  const std::int64_t width = lanes() * tile.vectors;
  for (std::size_t k = 0; k < staged_.size(); ++k) {
    if (tile.staged[k]) stage.staging.push_back(panel(k, tile, width));
  }
  std::vector<Loop>& loops = stage.loops;
  const bool is_across = tile.row == &compute_.axes.back() && tile.rows > 1 && !interleaves(tile);
  if (!compute_.reduction && is_across && host::streams(graph_, op_, target_, tile.vector)) {
    across_loops(tile, width, stage);
  } else if (!compute_.reduction) {
    streaming_loops(tile, width, loops);
    host::prefetch_across(reads, tile, 2 * width, stage);
  } else if (tile.row != nullptr && !has_panel(tile)) {
    window_loops(tile, width, loops);
  } else {
    panel_loops(tile, width, loops, stage);
  }
  if (compute_.reduction) copy_windows(tile, stage);
  if (compute_.reduction && !panel_cut(tile)) copy_in_blocks(tile, stage);
  if (compute_.reduction) prefetch_results(tile, stage);
  add_reduction(loops, tile.rows * tile.vectors, tile.window);
  host::add_tile(tile, lanes(), loops);
}

void HostChooser::across_loops(const Tile& tile, std::int64_t width, Stage& stage) const {
  const bool collides = std::any_of(accesses_.begin(), accesses_.end(), [&](const Access& access) {
    const std::int64_t bytes = access.stride(tile.row->id) * access.element_bytes;
    return access.stride(tile.vector->id) == 1 && bytes != 0 && bytes % target_.at_scale(kSetBytes) == 0;
  });
  const std::int64_t lines = collides ? kCollidingLines : kAcrossLines;
  const std::int64_t together = std::max(width, lines * kLineBytes / byte_size(op_.dtype) / width * width);
  std::vector<Loop>& loops = stage.loops;
  const std::int64_t rows = std::max(tile.rows, target_.at_scale(kAcrossRows) / tile.rows * tile.rows);
  const std::int64_t piece = std::max(together, target_.at_scale(kAcrossElements) / together * together);
  for (const Axis& axis : compute_.axes) {
    if (&axis == tile.vector || extent_of(axis) == 1) continue;
    loops.push_back({axis.name, &axis == tile.row ? rows : 1, Bind::Block});
  }
  loops.push_back({tile.vector->name, piece, Bind::Block});
  if (piece != together) loops.push_back({tile.vector->name, together, Bind::Serial});
  if (rows != tile.rows) loops.push_back({tile.row->name, tile.rows, Bind::Serial});
  if (together != width) loops.push_back({tile.vector->name, width, Bind::Serial});
  host::prefetch_across({graph_, compute_, accesses_, target_, lanes()}, tile, together, stage);
}

void HostChooser::streaming_loops(const Tile& tile, std::int64_t width, std::vector<Loop>& loops) const {
  const std::int64_t piece = std::max(width, target_.at_scale(kPieceElements) / tile.rows / width * width);
  const bool across = tile.row != nullptr && tile.vector != &compute_.axes.back() && tile.rows > 1;
  const Axis* next = nullptr;
  for (const Axis& axis : compute_.axes) {
    if (&axis != tile.vector && extent_of(axis) > 1) next = &axis;
  }
  const std::int64_t short_rows = target_.at_scale(kBlockElements) / std::max<std::int64_t>(extent_of(*tile.vector), 1);
  const std::int64_t together =
      tile.row != nullptr || next == nullptr ? 1 : rows_together(extent_of(*next), short_rows);
  for (const Axis& axis : compute_.axes) {
    if (&axis == tile.vector || extent_of(axis) == 1) continue;
    const std::int64_t rows = &axis == next ? together : 1;
    loops.push_back({axis.name, &axis != tile.row ? rows : across ? tile.rows * 4 : tile.rows, Bind::Block});
  }
  loops.push_back({tile.vector->name, piece, Bind::Block});
  if (together > 1) loops.push_back({next->name, 1, Bind::Serial});
  if (piece != width) loops.push_back({tile.vector->name, width, Bind::Serial});
  if (across) loops.push_back({tile.row->name, tile.rows, Bind::Serial});
}

void HostChooser::window_loops(const Tile& tile, std::int64_t width, std::vector<Loop>& loops) const {
  std::vector<Loop> serial;
  double operations = reduction_;
  const auto add = [&](const Axis& axis, std::int64_t step, double wanted) {
    const std::int64_t steps = ceil_div(extent_of(axis), step);
    const std::int64_t piece = step * static_cast<std::int64_t>(std::clamp(wanted, 1.0, static_cast<double>(steps)));
    loops.insert(loops.begin(), {axis.name, piece, Bind::Block});
    if (piece != step) serial.insert(serial.begin(), {axis.name, step, Bind::Serial});
    operations *= static_cast<double>(std::min(piece, extent_of(axis)));
  };
  const auto worth = [&](std::int64_t step) {
    return static_cast<double>(target_.at_scale(kBlockOperations)) / operations / static_cast<double>(step);
  };
  add(*tile.vector, width, static_cast<double>(target_.at_scale(kPieceElements) / width));
  add(*tile.row, tile.rows, worth(tile.rows));
  for (auto axis = compute_.axes.rbegin(); axis != compute_.axes.rend(); ++axis) {
    if (&*axis != tile.vector && &*axis != tile.row && !is_not_shared(*axis)) add(*axis, 1, worth(1));
  }
  loops.insert(loops.end(), serial.begin(), serial.end());
}

}  // namespace corrloom::passes::host
