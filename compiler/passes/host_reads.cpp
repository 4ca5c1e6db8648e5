#include "compiler/passes/host_reads.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "compiler/passes/readers.h"
#include "ir/base/errors.h"

namespace corrloom::passes::host {
namespace {

using scalar::Expr;
using schedule::Bind;
using schedule::Loop;

/// Most elements by which a step of an axis moves a window that rows of a tile share.
constexpr std::int64_t kMostWindowStep = 4;
/// Sweeps over results: columns of a piece at least, pieces that there should be, vectors of a tile without rows, and
/// elements of the reduction that a sweep adds with and without rows.
constexpr std::int64_t kSweptColumns = 1024, kSweptPieces = 4, kSweptVectors = 4, kSweepOfRow = 4, kSweepOfRows = 16;
/// Of sweeps whose tiles do not have all rows: rows of the result at most, vectors of a tile, and elements of the
/// reduction; the columns that a piece of the operand meets stay in the second-level cache. They pay where the operand
/// takes more than this part of the third-level cache.
constexpr std::int64_t kMostSweptRows = 96, kVectorsOfTiles = 3, kSweepOfTiles = 64;
constexpr double kPartOfFar = 0.4;
/// Tiles ahead of a sweep with rows that are brought nearer.
constexpr std::int64_t kSweepAhead = 4;

/// Rows of an operand that many bytes apart are on pages of their own.
constexpr std::int64_t kPageBytes = 4096;

double bytes_of(const tensor::Graph& graph, tensor::TensorId id) {
  double bytes = byte_size(graph.op(id).dtype);
  for (const Expr& extent : graph.op(id).extents) bytes *= static_cast<double>(scalar::as_i64(extent).value_or(1));
  return bytes;
}

/// Whether the result has more rows than one tile.
bool has_several(const Tile& tile) {
  return tile.row != nullptr && extent_of(*tile.row) > tile.rows;
}

}  // namespace

std::int64_t extent_of(const Axis& axis) {
  const std::optional<std::int64_t> extent = scalar::as_i64(axis.extent);
  CORRLOOM_CHECK(extent.has_value(), "axis ", axis.name, " has an extent that is not known");
  return *extent;
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

bool mentions(const Expr& expr, AxisId axis) {
  return uses_axis(expr, [&](AxisId used) { return used == axis; });
}

std::int64_t Access::window(AxisId row, std::int64_t rows, AxisId tap, std::int64_t taps) const {
  const std::int64_t a = stride(row), b = stride(tap), common = std::gcd(a, b);
  if (a <= 0 || b <= 0 || a / common > kMostWindowStep || b / common > kMostWindowStep) return 0;
  std::set<std::int64_t> reached;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t t = 0; t < taps; ++t) reached.insert(r * (a / common) + t * (b / common));
  }
  return static_cast<std::int64_t>(reached.size());
}

bool sweeps(const Reads& reads, const Tile& tile) {
  if (!reads.compute.reduction || reads.compute.reduction->axes.size() != 1 || tile.window > 1) return false;
  const bool in_tiles = has_several(tile);
  if (in_tiles && (tile.rows == 1 || extent_of(*tile.row) > kMostSweptRows)) return false;
  if (std::find(tile.staged.begin(), tile.staged.end(), true) != tile.staged.end()) return false;
  const Axis& reduced = reads.compute.reduction->axes.front();
  if (scalar::as_i64(reduced.extent).value_or(0) < reads.target.at_scale(4 * kSweepOfRows)) return false;
  const auto near = static_cast<double>(reads.target.l2_bytes);
  const double least = in_tiles ? std::max(near, kPartOfFar * static_cast<double>(reads.target.l3_bytes)) : near;
  return std::any_of(reads.accesses.begin(), reads.accesses.end(), [&](const Access& access) {
    const auto used_once = [&](const Axis& axis) {
      return extent_of(axis) == 1 || &axis == tile.row || access.depends_on(axis.id);
    };
    return access.in_step && access.stride(tile.vector->id) == 1 && !access.guarded &&
           std::all_of(reads.compute.axes.begin(), reads.compute.axes.end(), used_once) &&
           access.stride(reduced.id) * access.element_bytes >= reads.target.at_scale(kPageBytes) &&
           bytes_of(reads.graph, access.read->source) > least;
  });
}

void sweep_loops(const Reads& reads, Tile tile, schedule::Stage& stage) {
  const std::int64_t extent = extent_of(*tile.vector);
  const bool in_tiles = has_several(tile);
  if (in_tiles) {
    const std::int64_t rows = extent_of(*tile.row);
    tile.rows = ceil_div(rows, ceil_div(rows, reads.target.vector_registers / (kVectorsOfTiles + 1)));
    tile.vectors = kVectorsOfTiles;
  }
  if (tile.rows == 1) tile.vectors = std::min(kSweptVectors, ceil_div(extent, reads.lanes));
  const std::int64_t width = reads.lanes * tile.vectors;
  const std::int64_t columns =
      ceil_div(std::max(reads.target.at_scale(kSweptColumns), ceil_div(extent, kSweptPieces)), width) * width;
  const std::string& reduced = reads.compute.reduction->axes.front().name;
  std::vector<Loop>& loops = stage.loops;
  for (const Axis& axis : reads.compute.axes) {
    if (&axis != tile.vector && &axis != tile.row && extent_of(axis) > 1) loops.push_back({axis.name, 1, Bind::Block});
  }
  loops.push_back({tile.vector->name, columns, Bind::Block});
  loops.push_back({reduced, tile.rows == 1 ? kSweepOfRow : in_tiles ? kSweepOfTiles : kSweepOfRows, Bind::Serial});
  loops.push_back({tile.vector->name, width, Bind::Serial});
  if (in_tiles) loops.push_back({tile.row->name, tile.rows, Bind::Serial});
  loops.push_back({reduced, 1, tile.rows == 1 ? Bind::Unroll : Bind::Serial});
  add_tile(tile, reads.lanes, loops);
  if (tile.rows == 1) return;
  // Rows keep the processor busy: it looks less far ahead by itself.
  for (const Access& access : reads.accesses) {
    if (access.in_step && access.stride(tile.vector->id) == 1 && !access.depends_on(tile.row->id))
      stage.prefetches.push_back({reads.graph.op(access.read->source).name, tile.vector->name, kSweepAhead * width});
  }
}

void add_tile(const Tile& tile, std::int64_t lanes, std::vector<Loop>& loops) {
  if (tile.rows > 1) loops.push_back({tile.row->name, 1, Bind::Unroll});
  if (tile.vectors > 1) loops.push_back({tile.vector->name, lanes, Bind::Unroll});
  loops.push_back({tile.vector->name, 1, Bind::Vector});
}

void prefetch_across(const Reads& reads, const Tile& tile, std::int64_t distance, schedule::Stage& stage) {
  if (tile.vector == &reads.compute.axes.back() || tile.rows == 1) return;
  std::set<std::string> tensors;
  for (const Access& access : reads.accesses) {
    const std::string& name = reads.graph.op(access.read->source).name;
    if (access.stride(tile.vector->id) == 1 && access.depends_on(tile.row->id) && tensors.insert(name).second &&
        bytes_of(reads.graph, access.read->source) > static_cast<double>(reads.target.l2_bytes))
      stage.prefetches.push_back({name, tile.vector->name, distance});
  }
}

}  // namespace corrloom::passes::host
