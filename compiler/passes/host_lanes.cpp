#include <algorithm>
#include <bit>
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

}  // namespace

void HostChooser::lanes_loops(schedule::Stage& stage) const {
  const Axis* column = nullptr;
  for (const Axis& axis : compute_.axes) {
    if (extent_of(axis) > 1 && !bounds_reduction(axis)) column = &axis;
  }
  const auto each = static_cast<std::int64_t>(compute_.reduction->accumulators.size());
  const Axis* row = nullptr;
  for (const Axis& axis : compute_.axes) {
    if (column == nullptr || each > 1 || &axis == column || extent_of(axis) <= 1 || bounds_reduction(axis)) continue;
    const bool reuses = std::any_of(accesses_.begin(), accesses_.end(), [&](const Access& access) {
      return access.in_step && access.depends_on(column->id) && !access.depends_on(axis.id);
    });
    if (reuses && (row == nullptr || extent_of(axis) > extent_of(*row))) row = &axis;
  }
  if (column == nullptr) {
    stage.loops = element_blocks(reduction_size());
    add_reduction(stage.loops, 1, 0);
    return;
  }
  const bool wide = target_.vector_registers >= 32;
  std::int64_t most = row == nullptr ? 4 : wide ? 8 : 4;
  // Of short rows most is to merge the lanes, which as many rows as there are lanes do together.
  if (row == nullptr && reduction_ <= static_cast<double>(2 * compute_.reduction->order.lanes))
    most = compute_.reduction->order.lanes;
  // Several accumulators are compared before they are chosen: each step waits longer for the one before.
  if (each > 1) most = std::max<std::int64_t>(1, target_.vector_registers / 2 / each);
  const auto columns =
      static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(std::min(most, extent_of(*column)))));
  const std::int64_t rows = row == nullptr || each > 1 ? 1 : std::min<std::int64_t>(wide ? 3 : 2, extent_of(*row));
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
      columns * std::clamp<std::int64_t>(kMostSumBytes / row_bytes / columns, 1, ceil_div(extent_of(column), columns));
  loops.push_back({row.name, row_piece, Bind::Block});
  loops.push_back({column.name, column_piece, Bind::Block});
  loops.push_back({compute_.reduction->axes.front().name, piece, Bind::Serial});
  if (column_piece != columns) loops.push_back({column.name, columns, Bind::Serial});
  if (row_piece != rows) loops.push_back({row.name, rows, Bind::Serial});
}

void HostChooser::lanes_blocks(const Axis& column, std::int64_t columns, const Axis* row, std::int64_t rows,
                               std::vector<Loop>& loops) const {
  for (const Axis& axis : compute_.axes) {
    if (&axis != &column && &axis != row && !is_not_shared(axis)) loops.push_back({axis.name, 1, Bind::Block});
  }
  const double tile_operations = reduction_ * static_cast<double>(rows * columns);
  const auto tiles =
      static_cast<std::int64_t>(std::max(1.0, 4 * static_cast<double>(kBlockOperations) / tile_operations));
  std::int64_t row_piece = rows, column_piece = columns;
  if (row != nullptr) {
    // Rows that pass by stay in the second-level cache for the next columns.
    const double fitting = static_cast<double>(target_.l2_bytes) / 4 / (reduction_ * 4) / static_cast<double>(rows);
    row_piece = rows * std::clamp<std::int64_t>(static_cast<std::int64_t>(fitting), 1, ceil_div(extent_of(*row), rows));
    column_piece =
        columns * std::min<std::int64_t>(ceil_div(tiles * rows, row_piece), ceil_div(extent_of(column), columns));
    loops.push_back({row->name, row_piece, Bind::Block});
  } else {
    column_piece = columns * std::min(tiles, ceil_div(extent_of(column), columns));
  }
  loops.push_back({column.name, column_piece, Bind::Block});
  if (column_piece != columns) loops.push_back({column.name, columns, Bind::Serial});
  if (row != nullptr && row_piece != rows) loops.push_back({row->name, rows, Bind::Serial});
}

}  // namespace corrloom::passes::host
