#include <algorithm>
#include <bit>
#include <optional>
#include <vector>

#include "compiler/passes/host_chooser.h"

namespace corrloom::passes::host {

using schedule::Bind;
using schedule::Loop;

namespace {

/// The part of the first-level cache that the columns of a tile may take, tiles of rows that must meet them there, rows
/// of a block, and bytes of the sums that it keeps.
constexpr double kMostOfColumns = 0.7;
constexpr std::int64_t kLeastCutRows = 4, kMostCutRows = 129, kMostSumBytes = 464 << 10;
/// Rows and vectors of tiles of which lanes take turns, how many lanes run together so that sums fill registers and no
/// more lies in memory than need be, and what their work costs.
struct TurnShape {
  std::int64_t rows, vectors, together;
  double cost;
};
constexpr TurnShape kTurnShapes[] = {{4, 3, 2, 1.0}, {3, 2, 4, 1.0}, {6, 2, 2, 1.06}};
/// Registers that such tiles need.
constexpr int kTurnRegisters = 32;
/// A row of the last, smaller tile costs so much more.
constexpr double kRestRows = 1.5;
/// Elements of a panel must be used that often before turns pay for the copy.
constexpr std::int64_t kWorthTurns = 128;
/// Rows and columns of a tile with vectors along the reduction.
constexpr std::int64_t kLanesRows = 3, kLanesTile = 8;
/// Turns over panels that stay in the second-level cache: rows and vectors of a tile, the part of that cache that a
/// panel may take, rows and columns from which on it pays to copy both operands, or only the rows, and rows of a block.
constexpr std::int64_t kFarTurnRows = 8, kFarTurnVectors = 3, kWorthFarTurns = 512, kWorthConstantTurns = 96,
                       kFarTurnBlock = 256;
constexpr double kMostOfPanel = 0.6;
/// Few rows that all columns meet as they come from afar: so many, rows of a tile at most, sums of a tile, and tiles
/// beside each other in a block.
constexpr std::int64_t kLeastFewRows = 4, kMostFewRows = 16, kMostTileRows = 8, kFewRowsSums = 24, kFewRowsTiles = 32;
/// Columns of a block, and blocks that there should be.
constexpr std::int64_t kLanesColumns = 64, kLanesBlocks = 16;

}  // namespace

const Axis* HostChooser::lanes_column() const {
  const Axis* column = nullptr;
  for (const Axis& axis : compute_.axes) {
    if (extent_of(axis) > 1 && !bounds_reduction(axis)) column = &axis;
  }
  return column;
}

const Axis* HostChooser::lanes_row(const Axis& column) const {
  const Axis* row = nullptr;
  if (compute_.reduction->accumulators.size() > 1) return row;
  for (const Axis& axis : compute_.axes) {
    if (&axis == &column || extent_of(axis) <= 1 || bounds_reduction(axis)) continue;
    const bool reuses = std::any_of(accesses_.begin(), accesses_.end(), [&](const Access& access) {
      return access.in_step && access.depends_on(column.id) && !access.depends_on(axis.id);
    });
    if (reuses && (row == nullptr || extent_of(axis) > extent_of(*row))) row = &axis;
  }
  return row;
}

std::int64_t HostChooser::whole_extent(const Axis& axis) const {
  for (const tensor::Op& op : graph_.ops) {
    const auto* compute = std::get_if<tensor::Compute>(&op.kind);
    if (compute == nullptr) continue;
    for (const Axis& whole : compute->axes) {
      if (whole.id == axis.id) return extent_of(whole);
    }
  }
  return extent_of(axis);
}

std::optional<std::size_t> HostChooser::turn_panel(const Axis& column, const Axis& row) const {
  std::optional<std::size_t> panel;
  for (const Access& access : accesses_) {
    if (!access.in_step || !access.depends_on(column.id)) continue;
    if (panel || access.staged < 0 || access.guarded || access.depends_on(row.id)) return std::nullopt;
    panel = static_cast<std::size_t>(access.staged);
  }
  if (!panel) return std::nullopt;
  const schedule::Part* part = part_of(staged_[*panel], column.id);
  const bool alone = part != nullptr && part->terms.size() == 1 && part->terms.front().coefficient == 1;
  return alone && (is_constant(*panel) || whole_extent(row) >= target_.at_scale(kWorthTurns)) ? panel : std::nullopt;
}

std::optional<HostChooser::TurnTile> HostChooser::turn_tile(const Axis& column, const Axis& row,
                                                            std::int64_t elements) const {
  std::optional<TurnTile> best;
  for (const TurnShape& shape : kTurnShapes) {
    const std::int64_t width = shape.vectors * lanes(), rest = extent_of(row) % shape.rows;
    if (elements * width * 4 > target_.l1_bytes / 2) continue;
    const double rows = static_cast<double>(extent_of(row) - rest) + kRestRows * static_cast<double>(rest);
    const TurnTile tile{shape.rows, shape.vectors, compute_.reduction->order.lanes / shape.together,
                        shape.cost * rows * static_cast<double>(ceil_div(extent_of(column), width) * width)};
    if (!best || tile.cost < best->cost) best = tile;
  }
  return best;
}

std::optional<schedule::Stage> HostChooser::lanes_in_turn() const {
  if (!by_lanes() || target_.vector_registers < kTurnRegisters || compute_.reduction->axes.size() != 1 ||
      compute_.reduction->accumulators.size() != 1)
    return std::nullopt;
  const Axis& reduced = compute_.reduction->axes.front();
  const std::int64_t elements = scalar::as_i64(reduced.extent).value_or(0), of_order = compute_.reduction->order.lanes;
  const Axis* column = lanes_column();
  const Axis* row = column == nullptr ? nullptr : lanes_row(*column);
  if (row == nullptr || column != &compute_.axes.back() || elements < 1 || elements % of_order != 0 ||
      extent_of(*column) < lanes() || lanes() != of_order)
    return std::nullopt;
  // Elsewhere it is not known that the vectors of a part begin where those of the panels do.
  if (extent_of(*column) != whole_extent(*column)) return std::nullopt;
  const std::optional<std::size_t> panel_number = turn_panel(*column, *row);
  const std::optional<TurnTile> turn = turn_tile(*column, *row, elements);
  if (!panel_number || !turn) return std::nullopt;

  schedule::Stage stage;
  stage.compute = op_.name;
  const Tile tile{column, row, turn->rows, turn->vectors, 0, {}, 0};
  const std::int64_t width = turn->vectors * lanes();
  for (const Axis& axis : compute_.axes) {
    if (&axis != column && &axis != row && extent_of(axis) > 1) stage.loops.push_back({axis.name, 1, Bind::Block});
  }
  const std::int64_t wanted =
      std::max<std::int64_t>(1, 8 * target_.at_scale(kBlockOperations) / (elements * width * turn->rows));
  const std::int64_t rows = turn->rows * std::min(wanted, ceil_div(extent_of(*row), turn->rows));
  stage.loops.push_back({column->name, width, Bind::Block});
  stage.loops.push_back({row->name, rows, Bind::Block});
  if (rows != turn->rows) stage.loops.push_back({row->name, turn->rows, Bind::Serial});
  if (turn->apart < of_order) stage.loops.push_back({reduced.name, turn->apart, Bind::Unroll});
  if (turn->apart > 1) stage.loops.push_back({reduced.name, 1, Bind::Serial});
  add_tile(tile, lanes(), stage.loops);
  stage.staging.push_back(panel(*panel_number, tile, width));
  return stage;
}

std::optional<schedule::Stage> HostChooser::far_turns() const {
  if (!may_sweep_ || running_ || target_.vector_registers < kTurnRegisters || compute_.reduction->axes.size() != 1 ||
      compute_.reduction->accumulators.size() != 1)
    return std::nullopt;
  const Axis& reduced = compute_.reduction->axes.front();
  const std::int64_t elements = scalar::as_i64(reduced.extent).value_or(0), of_order = compute_.reduction->order.lanes,
                     width = kFarTurnVectors * lanes();
  const Axis* column = lanes_column();
  const Axis* row = column == nullptr ? nullptr : lanes_row(*column);
  if (row == nullptr || column != &compute_.axes.back() || elements % of_order != 0 || lanes() != of_order ||
      lanes_piece(kLanesTile, row, kLanesRows) == 0)
    return std::nullopt;
  const std::optional<std::size_t> panel_number = turn_panel(*column, *row);
  if (!panel_number ||
      static_cast<double>(elements * width * sum_bytes()) > kMostOfPanel * static_cast<double>(target_.l2_bytes))
    return std::nullopt;
  const bool is_ready = is_constant(*panel_number);
  if (extent_of(*column) < kWorthFarTurns || extent_of(*row) < (is_ready ? kWorthConstantTurns : kWorthFarTurns))
    return std::nullopt;
  schedule::Stage stage;
  stage.compute = op_.name;
  stage.staging.push_back(lane_by_lane(*panel_number, *column, width));
  for (const Access& access : accesses_) {
    if (!access.in_step || access.depends_on(column->id)) continue;
    if (!access.depends_on(row->id) || access.staged < 0 || access.guarded || stage.staging.size() > 1)
      return std::nullopt;
    stage.staging.push_back(lane_by_lane(static_cast<std::size_t>(access.staged), *row, kFarTurnRows));
  }
  if (std::any_of(stage.staging.begin(), stage.staging.end(), [](const auto& copy) { return copy.layout.empty(); }))
    return std::nullopt;
  for (const Axis& axis : compute_.axes) {
    if (&axis != column && &axis != row && !is_not_shared(axis)) stage.loops.push_back({axis.name, 1, Bind::Block});
  }
  stage.loops.push_back({column->name, width, Bind::Block});
  stage.loops.push_back({row->name, kFarTurnBlock, Bind::Block});
  stage.loops.push_back({row->name, kFarTurnRows, Bind::Serial});
  stage.loops.push_back({reduced.name, 1, Bind::Serial});
  add_tile({column, row, kFarTurnRows, kFarTurnVectors, 0, {}, 0}, lanes(), stage.loops);
  return stage;
}

schedule::Staging HostChooser::lane_by_lane(std::size_t number, const Axis& axis, std::int64_t together) const {
  using Kind = schedule::Staging::Dim::Kind;
  const schedule::StagedExpr& staged = staged_[number];
  const schedule::Part *of_axis = part_of(staged, axis.id),
                       *of_steps = part_of(staged, compute_.reduction->axes.front().id);
  schedule::Staging copy;
  copy.tensor = graph_.op(staged.tensor).name;
  const auto alone = [](const schedule::Part* part) { return part != nullptr && part->terms.size() == 1; };
  if (!alone(of_axis) || !alone(of_steps)) return copy;
  for (const schedule::Part& part : staged.parts) {
    if (&part != of_axis && &part != of_steps) copy.layout.push_back({to_text(part, graph_)});
  }
  const std::string along_axis = to_text(*of_axis, graph_), along_steps = to_text(*of_steps, graph_);
  const std::int64_t of_order = compute_.reduction->order.lanes;
  const bool in_vectors = together > lanes();
  copy.layout.push_back({along_axis, Kind::Outer, together});
  if (!in_vectors) copy.layout.push_back({along_axis, Kind::Inner, together});
  copy.layout.push_back({along_steps, Kind::Inner, of_order});
  copy.layout.push_back({along_steps, Kind::Outer, of_order});
  if (in_vectors) copy.layout.push_back({along_axis, Kind::Inner, together});
  return copy;
}

std::int64_t HostChooser::rows_of_tile(const Axis& row) {
  return ceil_div(extent_of(row), ceil_div(extent_of(row), kMostTileRows));
}

bool HostChooser::has_few_rows(const Axis& column, const Axis& row) const {
  if (!may_sweep_ || running_ || target_.vector_registers < kTurnRegisters || compute_.reduction->axes.size() != 1 ||
      compute_.reduction->accumulators.size() != 1 || extent_of(row) < kLeastFewRows || extent_of(row) > kMostFewRows)
    return false;
  if (extent_of(column) <= kFewRowsSums / rows_of_tile(row)) return false;  // a tile has them all
  return std::any_of(accesses_.begin(), accesses_.end(), [&](const Access& access) {
    return access.in_step && access.depends_on(column.id) && !access.depends_on(row.id) &&
           bytes_of(access) > static_cast<double>(target_.l2_bytes);
  });
}

void HostChooser::few_rows_loops(const Axis& column, const Axis& row, schedule::Stage& stage) const {
  const Axis& reduced = compute_.reduction->axes.front();
  const std::int64_t all = extent_of(row), rows = rows_of_tile(row), columns = kFewRowsSums / rows,
                     of_order = compute_.reduction->order.lanes, whole = scalar::as_i64(reduced.extent).value_or(0);
  for (const Axis& axis : compute_.axes) {
    if (&axis != &column && &axis != &row && !is_not_shared(axis)) stage.loops.push_back({axis.name, 1, Bind::Block});
  }
  stage.loops.push_back(
      {column.name, columns * std::min(kFewRowsTiles, ceil_div(extent_of(column), columns)), Bind::Block});
  // The rows stay in the first-level cache.
  const std::int64_t fitting =
      std::max<std::int64_t>(target_.l1_bytes / 2 / sum_bytes() / all / of_order, 1) * of_order;
  if (whole > fitting) {
    stage.loops.push_back({reduced.name, fitting, Bind::Serial});
    add_rows_side_by_side(row, rows, stage);
  }
  stage.loops.push_back({column.name, columns, Bind::Serial});
  if (all > rows) stage.loops.push_back({row.name, rows, Bind::Serial});
  stage.loops.push_back({reduced.name, 1, Bind::Vector});
  if (rows > 1) stage.loops.push_back({row.name, 1, Bind::Unroll});
  if (columns > 1) stage.loops.push_back({column.name, 1, Bind::Unroll});
  for (const Access& access : accesses_) {
    if (access.in_step && access.depends_on(column.id) && bytes_of(access) > static_cast<double>(target_.l3_bytes) / 2)
      stage.prefetches = {{graph_.op(access.read->source).name, column.name, columns}};
  }
}

void HostChooser::add_rows_side_by_side(const Axis& row, std::int64_t rows, schedule::Stage& stage) const {
  using Kind = schedule::Staging::Dim::Kind;
  const Axis& reduced = compute_.reduction->axes.front();
  const std::int64_t of_order = compute_.reduction->order.lanes;
  for (const Access& access : accesses_) {
    if (!access.in_step || !access.depends_on(row.id) || access.staged < 0 || access.guarded) continue;
    const schedule::StagedExpr& staged = staged_[static_cast<std::size_t>(access.staged)];
    const schedule::Part *of_rows = part_of(staged, row.id), *of_steps = part_of(staged, reduced.id);
    const auto alone = [](const schedule::Part* part) { return part != nullptr && part->terms.size() == 1; };
    if (!alone(of_rows) || !alone(of_steps)) continue;
    schedule::Staging copy;
    copy.tensor = graph_.op(staged.tensor).name;
    for (const schedule::Part& part : staged.parts) {
      if (&part != of_rows && &part != of_steps) copy.layout.push_back({to_text(part, graph_)});
    }
    const std::string along_rows = to_text(*of_rows, graph_), along_steps = to_text(*of_steps, graph_);
    copy.layout.push_back({along_rows, Kind::Outer, rows});
    copy.layout.push_back({along_steps, Kind::Outer, of_order});
    copy.layout.push_back({along_rows, Kind::Inner, rows});
    copy.layout.push_back({along_steps, Kind::Inner, of_order});
    stage.staging.push_back(std::move(copy));
    return;
  }
}

void HostChooser::lanes_loops(schedule::Stage& stage) const {
  if (std::optional<schedule::Stage> turns = lanes_in_turn()) {
    stage = *std::move(turns);
    return;
  }
  if (std::optional<schedule::Stage> turns = far_turns()) {
    stage = *std::move(turns);
    return;
  }
  const Axis* column = lanes_column();
  const Axis* row = column == nullptr ? nullptr : lanes_row(*column);
  if (column == nullptr) {
    stage.loops = element_blocks(reduction_size());
    add_reduction(stage.loops, 1, 0);
    return;
  }
  if (row != nullptr && has_few_rows(*column, *row)) return few_rows_loops(*column, *row, stage);
  const bool wide = target_.vector_registers >= 32;
  const auto each = static_cast<std::int64_t>(compute_.reduction->accumulators.size());
  std::int64_t most = row == nullptr ? 4 : wide ? kLanesTile : 4;
  // Of short rows most is to merge the lanes, which as many rows as there are lanes do together.
  if (row == nullptr && reduction_ <= static_cast<double>(2 * compute_.reduction->order.lanes))
    most = compute_.reduction->order.lanes;
  // Several accumulators are compared before they are chosen: each step waits longer for the one before.
  if (each > 1) most = std::max<std::int64_t>(1, target_.vector_registers / 2 / each);
  const auto columns =
      static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(std::min(most, extent_of(*column)))));
  const std::int64_t rows =
      row == nullptr || each > 1 ? 1 : std::min<std::int64_t>(wide ? kLanesRows : 2, extent_of(*row));
  if (const std::int64_t piece = lanes_piece(columns, row, rows); piece > 0) {
    cut_lanes_blocks(*column, columns, *row, rows, piece, stage.loops);
  } else {
    lanes_blocks(*column, columns, row, rows, stage.loops);
  }
  add_reduction(stage.loops, 1, 0);
  // Columns outside: the few loads of the rows stay in registers beside the sums.
  if (columns > 1) stage.loops.push_back({column->name, 1, Bind::Unroll});
  if (rows > 1) stage.loops.push_back({row->name, 1, Bind::Unroll});
}

std::int64_t HostChooser::lanes_piece(std::int64_t columns, const Axis* row, std::int64_t rows) const {
  if (!may_sweep_ || running_ || row == nullptr || compute_.reduction->axes.size() != 1 ||
      compute_.reduction->accumulators.size() != 1)
    return 0;
  if (extent_of(*row) < kLeastCutRows * rows) return 0;
  const std::int64_t whole = scalar::as_i64(compute_.reduction->axes.front().extent).value_or(0);
  const std::int64_t fitting = static_cast<std::int64_t>(kMostOfColumns * target_.l1_bytes) / sum_bytes() / columns;
  const std::int64_t pieces = ceil_div(whole, std::max<std::int64_t>(fitting, 1)),
                     lanes = compute_.reduction->order.lanes;
  return pieces < 2 ? 0 : ceil_div(ceil_div(whole, pieces), lanes) * lanes;
}

void HostChooser::cut_lanes_blocks(const Axis& column, std::int64_t columns, const Axis& row, std::int64_t rows,
                                   std::int64_t piece, std::vector<Loop>& loops) const {
  for (const Axis& axis : compute_.axes) {
    if (&axis != &column && &axis != &row && !is_not_shared(axis)) loops.push_back({axis.name, 1, Bind::Block});
  }
  const std::int64_t all_rows = ceil_div(extent_of(row), rows), blocks = ceil_div(all_rows, kMostCutRows / rows);
  const std::int64_t row_piece = rows * ceil_div(all_rows, blocks);
  const std::int64_t row_bytes = sum_bytes() * compute_.reduction->order.lanes * row_piece;
  const std::int64_t column_piece =
      columns * std::clamp<std::int64_t>(target_.at_scale(kMostSumBytes) / row_bytes / columns, 1,
                                         ceil_div(extent_of(column), columns));
  loops.push_back({row.name, row_piece, Bind::Block});
  loops.push_back({column.name, column_piece, Bind::Block});
  loops.push_back({compute_.reduction->axes.front().name, piece, Bind::Serial});
  if (column_piece != columns) loops.push_back({column.name, columns, Bind::Serial});
  if (row_piece != rows) loops.push_back({row.name, rows, Bind::Serial});
}

void HostChooser::lanes_blocks(const Axis& column, std::int64_t columns, const Axis* row, std::int64_t rows,
                               std::vector<Loop>& loops) const {
  std::int64_t blocks = 1;
  for (const Axis& axis : compute_.axes) {
    if (&axis == &column || &axis == row || is_not_shared(axis)) continue;
    loops.push_back({axis.name, 1, Bind::Block});
    blocks *= extent_of(axis);
  }
  const double tile_operations = reduction_ * static_cast<double>(rows * columns);
  const std::int64_t column_tiles = ceil_div(extent_of(column), columns);
  if (row == nullptr) {
    const auto tiles = static_cast<std::int64_t>(
        std::max(1.0, 4 * static_cast<double>(target_.at_scale(kBlockOperations)) / tile_operations));
    const std::int64_t column_piece = columns * std::min(tiles, column_tiles);
    loops.push_back({column.name, column_piece, Bind::Block});
    if (column_piece != columns) loops.push_back({column.name, columns, Bind::Serial});
    return;
  }
  // Rows that pass by stay in the second-level cache for the next columns.
  const double fitting = static_cast<double>(target_.l2_bytes) / 2 / (reduction_ * 4);
  const std::int64_t row_tiles = ceil_div(extent_of(*row), rows);
  const std::int64_t pieces = ceil_div(row_tiles, std::max<std::int64_t>(1, static_cast<std::int64_t>(fitting) / rows));
  const std::int64_t row_piece = rows * ceil_div(row_tiles, pieces);
  std::int64_t column_piece = columns * std::min(ceil_div(target_.at_scale(kLanesColumns), columns), column_tiles);
  while (column_piece % 2 == 0 && column_piece / 2 % columns == 0 &&
         blocks * pieces * ceil_div(extent_of(column), column_piece) < target_.at_scale(kLanesBlocks))
    column_piece /= 2;
  loops.push_back({row->name, row_piece, Bind::Block});
  loops.push_back({column.name, column_piece, Bind::Block});
  if (column_piece != columns) loops.push_back({column.name, columns, Bind::Serial});
  if (row_piece != rows) loops.push_back({row->name, rows, Bind::Serial});
}

}  // namespace corrloom::passes::host
