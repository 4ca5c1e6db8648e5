#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
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
/// Elements of a reduction in a piece at most, and a multiple that pieces are.
constexpr std::int64_t kLongestPiece = 2048, kPieceMultiple = 64;
/// Blocks that there should be where each packs a panel of its own, the part of the second-level cache that it may
/// take, and how often that cache the whole operand fills: a smaller one is packed at once in less time.
constexpr std::int64_t kLeastPackedBlocks = 8;
constexpr double kMostOfPanel = 0.4, kLeastOperand = 3;
/// Panels in place: rows of the result that meet a piece of a panel, elements of the reduction in a piece, and blocks
/// that there should be.
constexpr std::int64_t kLeastSweptRows = 60, kMostSweptRows = 200, kSweptPiece = 512, kSweptBlocks = 4;
/// Rows whose elements lie so far apart along the reduction that they share few sets of the caches: elements of it in a
/// piece, which stay there until the next tile, and rows that meet a piece of a panel.
constexpr std::int64_t kPagedPiece = 256, kPagedRows = 192;
/// Pieces of panels of sums over several axes: bytes of the sums that a block keeps, panels in it, and the part of the
/// second-level cache that a piece of a panel takes.
constexpr std::int64_t kCutSums = 128 << 10, kMostCutPanels = 8;
/// Places of the result that each element of a panel is used for, where it passes once: at most so many, panels in a
/// block, and vectors of one where the sum is over several axes.
constexpr double kFewPlaces = 16;
constexpr std::int64_t kPassingPanels = 2, kPassingVectors = 2;
/// Sums of a tile that keep the processor busy.
constexpr std::int64_t kLeastSums = 12;
constexpr double kPieceOfPanel = 0.16;
/// Ways of the second-level cache.
constexpr std::int64_t kNearWays = 16;
/// Bytes in a cycle that panels may bring from behind the second-level cache, as they lie, while others are multiplied.
constexpr double kStreamedBytesPerCycle = 2;
/// Rows that a panel in place may have, each on a page of its own. Many rows a multiple of so many bytes apart share
/// few sets of the first-level cache.
constexpr std::int64_t kRowsInPlace = 256, kSetBytes = 1024;

/// The largest multiple of `step` from half of `most` on that divides the extent; `most` where there is none.
std::int64_t divisor_near(std::int64_t extent, std::int64_t step, std::int64_t most) {
  for (std::int64_t size = most; 2 * size >= most && size > 0; size -= step) {
    if (extent % size == 0) return size;
  }
  return most;
}

}  // namespace

bool HostChooser::has_panel(const Tile& tile) const {
  return std::any_of(accesses_.begin(), accesses_.end(), [&](const Access& access) {
    return access.in_step && access.depends_on(tile.vector->id) && !access.depends_on(tile.row->id);
  });
}

bool HostChooser::sweeps_panels(const Tile& tile) const {
  if (!may_sweep_ || running_ || tile.row == nullptr || tile.window > 1) return false;
  const std::int64_t rows = extent_of(*tile.row);
  if (rows < target_.at_scale(kLeastSweptRows) || rows > kMostSweptRows || compute_.reduction->axes.size() != 1)
    return false;
  if (scalar::as_i64(compute_.reduction->axes.front().extent).value_or(0) <= target_.at_scale(kSweptPiece))
    return false;
  if (std::find(tile.staged.begin(), tile.staged.end(), true) != tile.staged.end()) return false;
  // A panel that stays near as it is gains nothing, unless it would be packed.
  const double panel = reduction_ * static_cast<double>(tile.vectors * target_.vector_bytes);
  if (panel <= static_cast<double>(target_.l2_bytes) / 4 && rows < target_.at_scale(kWorthPacking) * tile.rows)
    return false;
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
  const std::int64_t rows = tile.rows * ceil_div(tiles, ceil_div(target_.at_scale(kSweptBlocks),
                                                                 std::min(blocks, target_.at_scale(kSweptBlocks))));
  loops.push_back({tile.vector->name, width, Bind::Block});
  loops.push_back({tile.row->name, rows, Bind::Block});
  loops.push_back({compute_.reduction->axes.front().name, target_.at_scale(kSweptPiece), Bind::Serial});
  loops.push_back({tile.row->name, tile.rows, Bind::Serial});
}

bool HostChooser::sweeps_pages(const Tile& tile) const {
  if (!may_sweep_ || running_ || tile.row == nullptr || tile.window > 1 || compute_.reduction->axes.size() != 1)
    return false;
  // Sums across the result would go through a transpose for each piece.
  if (tile.vector != &compute_.axes.back()) return false;
  const Axis& reduced = compute_.reduction->axes.front();
  if (scalar::as_i64(reduced.extent).value_or(0) <= 2 * kPagedPiece || extent_of(*tile.row) < 2 * tile.rows)
    return false;
  return std::any_of(accesses_.begin(), accesses_.end(), [&](const Access& access) {
    const std::int64_t bytes = std::abs(access.stride(reduced.id)) * access.element_bytes;
    const std::int64_t way = std::max<std::int64_t>(target_.l2_bytes / kNearWays, 1);
    return access.in_step && access.depends_on(tile.row->id) && !access.depends_on(tile.vector->id) &&
           bytes >= kSetBytes && *scalar::as_i64(reduced.extent) > kNearWays / 2 * (way / std::gcd(bytes, way)) &&
           (access.staged < 0 || !tile.staged[static_cast<std::size_t>(access.staged)]);
  });
}

void HostChooser::paged_panel_loops(const Tile& tile, std::int64_t width, std::vector<Loop>& loops,
                                    schedule::Stage& stage) const {
  add_panel_operand(tile, width, stage);
  for (const Axis& axis : compute_.axes) {
    if (&axis != tile.vector && &axis != tile.row && !is_not_shared(axis)) loops.push_back({axis.name, 1, Bind::Block});
  }
  const std::int64_t tiles = ceil_div(extent_of(*tile.row), tile.rows),
                     blocks = ceil_div(tiles * tile.rows, kPagedRows), rows = tile.rows * ceil_div(tiles, blocks);
  loops.push_back({tile.row->name, rows, Bind::Block});
  loops.push_back({tile.vector->name, width, Bind::Block});
  loops.push_back({compute_.reduction->axes.front().name, kPagedPiece, Bind::Serial});
  if (rows != tile.rows) loops.push_back({tile.row->name, tile.rows, Bind::Serial});
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
  if (sweeps_pages(tile)) return paged_panel_loops(tile, width, loops, stage);
  if (const std::optional<PanelCut> cut = panel_cut(tile)) return cut_panel_loops(tile, *cut, loops, stage);
  if (packs_in_blocks(tile, width)) return packed_panel_loops(tile, width, loops, stage);
  const double row_operations = reduction_ * static_cast<double>(tile.rows * width);
  const auto worth = [&](double operations) {
    return static_cast<std::int64_t>(
        std::max(1.0, static_cast<double>(target_.at_scale(kBlockOperations)) / std::max(operations, 1.0)));
  };
  std::int64_t columns = width, rows = tile.rows;
  if (tile.row != nullptr) {
    if (leaves_caches(tile)) {
      const std::int64_t piece = reduction_piece(tile);
      columns = ceil_div(piece > 0 ? 2 * target_.at_scale(kFarColumns) : target_.at_scale(kFarColumns), width) * width;
      const double fitting = static_cast<double>(target_.l3_bytes) / (piece > 0 ? 4 : 16) / (reduction_ * 4) /
                             static_cast<double>(tile.rows);
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
  if (columns != width && reduction_piece(tile) > 0)
    loops.push_back({last_reduction()->name, reduction_piece(tile), Bind::Serial});
  if (columns != width) loops.push_back({tile.vector->name, width, Bind::Serial});
  if (rows != tile.rows) loops.push_back({tile.row->name, tile.rows, Bind::Serial});
}

bool HostChooser::leaves_caches(const Tile& tile) const {
  return static_cast<double>(extent_of(*tile.row)) * reduction_ * 4 > static_cast<double>(target_.l3_bytes) / 4 &&
         extent_of(*tile.vector) > target_.at_scale(kFarColumns) && extent_of(*tile.row) > 8 * tile.rows;
}

std::int64_t HostChooser::reduction_piece(const Tile& tile) const {
  const bool may_cut = may_sweep_ && !running_ && tile.window < 2 && compute_.reduction->axes.size() == 1 &&
                       schedule::sums_are_results(graph_, op_);
  if (!may_cut || tile.row == nullptr || !has_panel(tile) || !leaves_caches(tile)) return 0;
  const std::int64_t whole = scalar::as_i64(last_reduction()->extent).value_or(0);
  const std::int64_t pieces = ceil_div(whole, target_.at_scale(kLongestPiece));
  return pieces < 2
             ? 0
             : ceil_div(ceil_div(whole, pieces), target_.at_scale(kPieceMultiple)) * target_.at_scale(kPieceMultiple);
}

std::int64_t HostChooser::piece_of(const Tile& tile) const {
  return sweeps_pages(tile) ? kPagedPiece : reduction_piece(tile);
}

bool HostChooser::packs_in_blocks(const Tile& tile, std::int64_t width) const {
  if (tile.row == nullptr || !may_sweep_ || running_ || tile.window > 1 || compute_.reduction->axes.size() != 1)
    return false;
  if (!scalar::as_i64(compute_.reduction->axes.front().extent)) return false;
  const double element = target_.vector_bytes / static_cast<double>(lanes());
  const double row_bytes = static_cast<double>(extent_of(*tile.row)) * reduction_ * element,
               panel_bytes = reduction_ * static_cast<double>(width) * element;
  std::int64_t blocks = ceil_div(extent_of(*tile.vector), width);
  for (const Axis& axis : compute_.axes) {
    if (&axis == tile.vector || &axis == tile.row || extent_of(axis) == 1) continue;
    if (!is_batch(axis, *tile.vector)) return false;
    blocks *= extent_of(axis);
  }
  return blocks >= target_.at_scale(kLeastPackedBlocks) && row_bytes <= static_cast<double>(target_.l3_bytes) / 3 &&
         panel_bytes <= kMostOfPanel * static_cast<double>(target_.l2_bytes) && panel_of_block(tile, width).has_value();
}

std::optional<Staging> HostChooser::panel_of_block(const Tile& tile, std::int64_t width) const {
  std::optional<std::size_t> only;
  const std::vector<Staging> panels = panel_operands(tile, width);
  for (std::size_t k = 0; k < staged_.size(); ++k) {
    const std::string& name = graph_.op(staged_[k].tensor).name;
    const bool is_panel =
        std::any_of(panels.begin(), panels.end(), [&](const Staging& panel) { return panel.tensor == name; });
    if (!tile.staged[k] && !is_panel) continue;
    if (only) return std::nullopt;
    only = k;
  }
  if (!only || is_constant(*only)) return std::nullopt;
  const auto along_one = [](const schedule::Part& part) {
    return part.terms.size() == 1 && part.terms[0].coefficient == 1 && part.low == 0;
  };
  const auto in_place = [&](const Access& access) {
    return access.staged != static_cast<int>(*only) ||
           (!access.guarded && access.stride(tile.vector->id) == 1 && !access.depends_on(tile.row->id) &&
            elements_of(*only) * static_cast<double>(access.element_bytes) >
                kLeastOperand * static_cast<double>(target_.l2_bytes));
  };
  if (!std::all_of(staged_[*only].parts.begin(), staged_[*only].parts.end(), along_one) ||
      !std::all_of(accesses_.begin(), accesses_.end(), in_place))
    return std::nullopt;
  return only_panel(*only, tile, width);
}

Staging HostChooser::only_panel(std::size_t number, const Tile& tile, std::int64_t width) const {
  Staging out = panel(number, tile, width);
  std::erase_if(out.layout, [](const Staging::Dim& dim) { return dim.kind == Staging::Dim::Kind::Outer; });
  out.layout.back() = {out.layout.back().index};
  return out;
}

std::optional<std::size_t> HostChooser::cut_panel_of(const Tile& tile, std::int64_t width) const {
  std::optional<std::size_t> only;
  const std::vector<Staging> panels = panel_operands(tile, width);
  for (std::size_t k = 0; k < staged_.size(); ++k) {
    const schedule::Part* along = part_of(staged_[k], tile.vector->id);
    const bool is_panel = std::any_of(panels.begin(), panels.end(), [&](const Staging& panel) {
      return panel.tensor == graph_.op(staged_[k].tensor).name;
    });
    if (along == nullptr || (!is_panel && !tile.staged[k])) continue;
    if (only || along->terms.size() != 1 || along->terms[0].coefficient != 1) return std::nullopt;
    only = k;
  }
  return only;
}

std::optional<HostChooser::PanelCut> HostChooser::panel_cut(const Tile& tile) const {
  if (!may_sweep_ || running_ || tile.window > 1 || !compute_.reduction || tile.vector == nullptr) return std::nullopt;
  const std::int64_t whole = scalar::as_i64(compute_.reduction->axes.front().extent).value_or(0);
  const std::int64_t width = lanes() * tile.vectors, extent = extent_of(*tile.vector);
  const std::optional<std::size_t> number = whole < 2 ? std::nullopt : cut_panel_of(tile, width);
  if (!number) return std::nullopt;
  double places = 1;
  for (const Axis& axis : compute_.axes) {
    if (&axis == tile.vector) continue;
    if (part_of(staged_[*number], axis.id) != nullptr && extent_of(axis) > 1) return std::nullopt;
    places *= static_cast<double>(extent_of(axis));
  }
  const bool is_ready = is_constant(*number);
  const auto near = static_cast<double>(target_.l2_bytes);
  const double panel_bytes = reduction_ * static_cast<double>(tile.vectors * target_.vector_bytes);
  const bool is_far = tile.row != nullptr && compute_.reduction->axes.size() > 1 && panel_bytes > near;
  const bool is_passing = !is_ready && places <= kFewPlaces && elements_of(*number) * 4 > near / 2;
  if (!is_far && !is_passing) return std::nullopt;
  PanelCut cut;
  cut.panel = *number;
  const double sums = static_cast<double>(target_.at_scale(kCutSums)) / places / static_cast<double>(sum_bytes());
  const std::int64_t most = is_ready ? 1 : is_passing ? kPassingPanels : kMostCutPanels;
  cut.columns = width * std::min(static_cast<std::int64_t>(sums) / width, most);
  if (cut.columns < (is_ready ? width : 2 * width) || (!is_ready && extent <= width)) return std::nullopt;
  cut.columns = divisor_near(extent, width, cut.columns);
  if (!is_ready && cut.columns == width) cut.columns = 2 * width;
  const bool in_rows = compute_.reduction->axes.size() > 1;
  const double bytes = is_passing && !(in_rows && tile.row == nullptr) ? static_cast<double>(target_.l1_bytes) / 2
                                                                       : kPieceOfPanel * near;
  const std::int64_t step = in_rows ? 2 : lanes();
  const auto most_steps = static_cast<std::int64_t>(static_cast<double>(whole) * bytes / panel_bytes) / step;
  cut.piece = divisor_near(whole, step, std::max<std::int64_t>(most_steps, 1) * step);
  return cut.piece < whole ? std::optional(cut) : std::nullopt;
}

Tile HostChooser::in_whole_panels(Tile tile) const {
  if (!panel_cut(tile)) return tile;
  Tile narrow = tile;
  if (tile.row == nullptr) {
    // Few columns have long pieces: memory is read as it lies.
    if (compute_.reduction->axes.size() > 1) narrow.vectors = std::min(tile.vectors, kPassingVectors);
    return narrow;
  }
  if (extent_of(*tile.vector) % (lanes() * tile.vectors) == 0) return tile;
  while (--narrow.vectors > 0 && narrow.rows * narrow.vectors >= kLeastSums) {
    if (extent_of(*tile.vector) % (lanes() * narrow.vectors) == 0 && panel_cut(narrow)) return narrow;
  }
  return tile;
}

void HostChooser::cut_panel_loops(const Tile& tile, const PanelCut& cut, std::vector<Loop>& loops,
                                  schedule::Stage& stage) const {
  const std::int64_t width = lanes() * tile.vectors;
  loops.push_back({tile.vector->name, cut.columns, Bind::Block});
  loops.push_back({compute_.reduction->axes.front().name, cut.piece, Bind::Serial});
  if (cut.columns != width) loops.push_back({tile.vector->name, width, Bind::Serial});
  Staging panel = is_constant(cut.panel) ? this->panel(cut.panel, tile, width) : only_panel(cut.panel, tile, width);
  if (!is_constant(cut.panel)) panel.loop = static_cast<int>(loops.size()) - 1;
  std::erase_if(stage.staging, [&](const Staging& staging) { return staging.tensor == panel.tensor; });
  stage.staging.push_back(std::move(panel));
  for (const Axis& axis : compute_.axes) {
    if (&axis != tile.vector && &axis != tile.row && extent_of(axis) > 1) loops.push_back({axis.name, 1, Bind::Serial});
  }
  if (tile.row != nullptr) loops.push_back({tile.row->name, tile.rows, Bind::Serial});
}

void HostChooser::packed_panel_loops(const Tile& tile, std::int64_t width, std::vector<Loop>& loops,
                                     schedule::Stage& stage) const {
  for (const Axis& axis : compute_.axes) {
    if (&axis != tile.vector && &axis != tile.row && !is_not_shared(axis)) loops.push_back({axis.name, 1, Bind::Block});
  }
  loops.push_back({tile.vector->name, width, Bind::Block});
  Staging panel = *panel_of_block(tile, width);
  panel.loop = static_cast<int>(loops.size()) - 1;
  stage.staging.clear();
  stage.staging.push_back(std::move(panel));
  if (extent_of(*tile.row) > tile.rows) loops.push_back({tile.row->name, tile.rows, Bind::Serial});
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
  for (Staging& panel : panel_operands(tile, width)) stage.staging.push_back(std::move(panel));
}

std::vector<Staging> HostChooser::panel_operands(const Tile& tile, std::int64_t width) const {
  std::vector<Staging> panels;
  const bool reused = tile.row != nullptr && extent_of(*tile.row) >= target_.at_scale(kWorthPacking) * tile.rows;
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
    if (alone && large && !moved && extent_of(*tile.vector) > width) panels.push_back(panel(number, tile, width));
  }
  return panels;
}

bool HostChooser::stays_in_place(const Access& access) const {
  const Axis* last = last_reduction();
  const std::int64_t bytes = last == nullptr ? 0 : access.stride(last->id) * access.element_bytes;
  return reduction_ <= kRowsInPlace && (bytes % target_.at_scale(kSetBytes) != 0 ||
                                        rows_without_way(static_cast<std::int64_t>(reduction_), bytes, 0) == 0);
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
    const std::int64_t phases = phases_of(*vector, tile.vector->id);
    if (phases > 1) out.layout.push_back({along, Kind::Inner, phases});
    out.layout.push_back(phases > 1 ? Staging::Dim{along, Kind::Outer, phases} : Staging::Dim{along});
  }
  return out;
}

}  // namespace corrloom::passes::host
