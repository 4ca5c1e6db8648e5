#include <algorithm>
#include <string>
#include <vector>

#include "compiler/passes/host_chooser.h"

namespace corrloom::passes::host {

using scalar::Expr;
using schedule::Bind;
using schedule::Loop;
using schedule::Staging;

namespace {

/// Columns of a result that are worked on together when operands leave the last-level cache.
constexpr std::int64_t kFarColumns = 1024;
/// Panels in place: rows of the result that meet a piece of a panel, elements of the reduction in a piece, and blocks
/// that there should be.
constexpr std::int64_t kLeastSweptRows = 60, kMostSweptRows = 200, kSweptPiece = 512, kSweptBlocks = 4;
/// Bytes in a cycle that panels may bring from behind the second-level cache, as they lie, while others are multiplied.
constexpr double kStreamedBytesPerCycle = 2;
/// Rows that a panel in place may have, each on a page of its own. Many rows a multiple of so many bytes apart share
/// few sets of the first-level cache.
constexpr std::int64_t kRowsInPlace = 256, kSetBytes = 1024;

}  // namespace

bool HostChooser::has_panel(const Tile& tile) const {
  return std::any_of(accesses_.begin(), accesses_.end(), [&](const Access& access) {
    return access.in_step && access.depends_on(tile.vector->id) && !access.depends_on(tile.row->id);
  });
}

bool HostChooser::sweeps_panels(const Tile& tile) const {
  if (!may_sweep_ || running_ || tile.row == nullptr || tile.window > 1) return false;
  const std::int64_t rows = extent_of(*tile.row);
  if (rows < kLeastSweptRows || rows > kMostSweptRows || compute_.reduction->axes.size() != 1) return false;
  if (scalar::as_i64(compute_.reduction->axes.front().extent).value_or(0) <= kSweptPiece) return false;
  if (std::find(tile.staged.begin(), tile.staged.end(), true) != tile.staged.end()) return false;
  // A panel that stays near as it is gains nothing, unless it would be packed.
  const double panel = reduction_ * static_cast<double>(tile.vectors * target_.vector_bytes);
  if (panel <= static_cast<double>(target_.l2_bytes) / 4 && rows < kWorthPacking * tile.rows) return false;
  return std::all_of(accesses_.begin(), accesses_.end(), [&](const Access& access) {
    if (!access.in_step || !access.depends_on(tile.vector->id)) return true;
    const bool is_packed = access.staged >= 0 && is_constant(static_cast<std::size_t>(access.staged));
    return !is_packed && !access.guarded && access.stride(tile.vector->id) == 1 && !access.depends_on(tile.row->id) &&
           bytes_of(access) > static_cast<double>(target_.l2_bytes) / 2;
  });
}

void HostChooser::swept_panel_loops(const Tile& tile, std::int64_t width, std::vector<Loop>& loops) const {
  std::int64_t blocks = ceil_div(extent_of(*tile.vector), width);
  for (const Axis& axis : compute_.axes) {
    if (&axis == tile.vector || &axis == tile.row || is_not_shared(axis)) continue;
    loops.push_back({axis.name, 1, Bind::Block});
    blocks *= extent_of(axis);
  }
  const std::int64_t tiles = ceil_div(extent_of(*tile.row), tile.rows);
  const std::int64_t rows = tile.rows * ceil_div(tiles, ceil_div(kSweptBlocks, std::min(blocks, kSweptBlocks)));
  loops.push_back({tile.vector->name, width, Bind::Block});
  loops.push_back({tile.row->name, rows, Bind::Block});
  loops.push_back({compute_.reduction->axes.front().name, kSweptPiece, Bind::Serial});
  loops.push_back({tile.row->name, tile.rows, Bind::Serial});
}

double HostChooser::bytes_of(const Access& access) const {
  double bytes = access.element_bytes;
  for (const Expr& extent : graph_.op(access.read->source).extents)
    bytes *= static_cast<double>(scalar::as_i64(extent).value_or(1 << 20));
  return bytes;
}

void HostChooser::panel_loops(const Tile& tile, std::int64_t width, std::vector<Loop>& loops,
                              schedule::Stage& stage) const {
  if (sweeps_panels(tile)) return swept_panel_loops(tile, width, loops);
  const double row_operations = reduction_ * static_cast<double>(tile.rows * width);
  const auto worth = [&](double operations) {
    return static_cast<std::int64_t>(std::max(1.0, static_cast<double>(kBlockOperations) / std::max(operations, 1.0)));
  };
  std::int64_t columns = width, rows = tile.rows;
  if (tile.row != nullptr) {
    const double row_bytes = reduction_ * 4;
    if (static_cast<double>(extent_of(*tile.row)) * row_bytes > static_cast<double>(target_.l3_bytes) / 4 &&
        extent_of(*tile.vector) > kFarColumns && extent_of(*tile.row) > 8 * tile.rows) {
      columns = ceil_div(kFarColumns, width) * width;
      const double fitting = static_cast<double>(target_.l3_bytes) / 16 / row_bytes / static_cast<double>(tile.rows);
      rows = tile.rows * std::max<std::int64_t>(4, static_cast<std::int64_t>(fitting));
    } else {
      rows = tile.rows * std::min(worth(row_operations), ceil_div(extent_of(*tile.row), tile.rows));
    }
  } else {
    columns = width * std::min(worth(row_operations), ceil_div(extent_of(*tile.vector), width));
  }
  add_panel_operand(tile, width, stage);
  std::vector<Loop> inner_blocks;
  for (const Axis& axis : compute_.axes) {
    if (&axis == tile.vector || &axis == tile.row || is_not_shared(axis)) continue;
    const bool outside = is_batch(axis, *tile.vector) || keeps_rows_near(axis, tile);
    (outside ? loops : inner_blocks).push_back({axis.name, 1, Bind::Block});
  }
  const Loop panels{tile.vector->name, columns, Bind::Block};
  if (!panels_stay_near(tile)) loops.push_back(panels);
  loops.insert(loops.end(), inner_blocks.begin(), inner_blocks.end());
  if (panels_stay_near(tile)) loops.push_back(panels);
  if (tile.row != nullptr) loops.push_back({tile.row->name, rows, Bind::Block});
  if (columns != width) loops.push_back({tile.vector->name, width, Bind::Serial});
  if (rows != tile.rows) loops.push_back({tile.row->name, tile.rows, Bind::Serial});
}

bool HostChooser::panels_stay_near(const Tile& tile) const {
  double bytes = 0;
  for (const Access& access : accesses_) {
    if (access.in_step && access.depends_on(tile.vector->id)) bytes += bytes_of(access);
  }
  return bytes <= static_cast<double>(target_.l2_bytes) / 4;
}

bool HostChooser::keeps_rows_near(const Axis& axis, const Tile& tile) const {
  const auto known = [](const Expr& extent) {
    return static_cast<double>(std::max<std::int64_t>(scalar::as_i64(extent).value_or(1 << 20), 1));
  };
  double piece = 0, panels = 0;
  for (const Access& access : accesses_) {
    if (!access.in_step) continue;
    const std::vector<Expr>& extents = graph_.op(access.read->source).extents;
    double bytes = static_cast<double>(access.element_bytes);
    bool is_picked = false;  // the axis chooses a part that no other place of it reads
    for (std::size_t k = 0; k < extents.size(); ++k) {
      const Expr& subscript = access.read->index[k];
      const bool picks = std::holds_alternative<scalar::AxisRef>(subscript->kind) && mentions(subscript, axis.id);
      is_picked |= picks;
      if (!picks) bytes *= known(extents[k]);
    }
    if (access.depends_on(tile.vector->id)) {
      panels += bytes;
    } else if (access.depends_on(axis.id)) {
      if (!is_picked) return false;
      piece += bytes;
    }
  }
  const double cycles = points_ / static_cast<double>(extent_of(axis)) * reduction_ / static_cast<double>(lanes());
  return piece > 0 && piece <= static_cast<double>(target_.l2_bytes) / 2 &&
         panels <= static_cast<double>(target_.l3_bytes) / 2 && panels <= kStreamedBytesPerCycle * cycles;
}

bool HostChooser::is_batch(const Axis& axis, const Axis& vector) const {
  return std::all_of(accesses_.begin(), accesses_.end(), [&](const Access& access) {
    return !access.in_step || !access.depends_on(vector.id) || access.depends_on(axis.id);
  });
}

void HostChooser::add_panel_operand(const Tile& tile, std::int64_t width, schedule::Stage& stage) const {
  const bool reused = tile.row != nullptr && extent_of(*tile.row) >= kWorthPacking * tile.rows;
  for (const Access& access : accesses_) {
    if (access.staged < 0 || tile.staged[static_cast<std::size_t>(access.staged)] || access.guarded) continue;
    const auto number = static_cast<std::size_t>(access.staged);
    if (!reused && !is_constant(number)) continue;
    const schedule::Part* part = part_of(staged_[number], tile.vector->id);
    const bool alone = part != nullptr && part->terms.size() == 1;
    const bool large =
        elements_of(number) * static_cast<double>(access.element_bytes) > static_cast<double>(target_.l2_bytes) / 2;
    if (!is_constant(number) && stays_in_place(access)) continue;
    const bool moved = tile.row != nullptr && access.depends_on(tile.row->id);
    if (alone && large && !moved && extent_of(*tile.vector) > width)
      stage.staging.push_back(panel(number, tile, width));
  }
}

bool HostChooser::stays_in_place(const Access& access) const {
  const Axis* last = last_reduction();
  const std::int64_t bytes = last == nullptr ? 0 : access.stride(last->id) * access.element_bytes;
  return reduction_ <= kRowsInPlace &&
         (bytes % kSetBytes != 0 || rows_without_way(static_cast<std::int64_t>(reduction_), bytes, 0) == 0);
}

Staging HostChooser::panel(std::size_t number, const Tile& tile, std::int64_t width) const {
  using Kind = Staging::Dim::Kind;
  const schedule::StagedExpr& staged = staged_[number];
  Staging out;
  out.tensor = graph_.op(staged.tensor).name;
  const schedule::Part* vector = part_of(staged, tile.vector->id);
  const bool in_panels = vector != nullptr && vector->terms.size() == 1;
  const std::string along = vector == nullptr ? "" : to_text(*vector, graph_);
  if (in_panels) out.layout.push_back({along, Kind::Outer, width});
  for (const schedule::Part& part : staged.parts) {
    if (&part != vector) out.layout.push_back({to_text(part, graph_)});
  }
  if (in_panels) {
    out.layout.push_back({along, Kind::Inner, width});
  } else if (vector != nullptr) {
    out.layout.push_back({along});
  }
  return out;
}

}  // namespace corrloom::passes::host
