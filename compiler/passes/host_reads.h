#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <vector>

#include "ir/affine/affine.h"
#include "ir/kernel/target.h"
#include "ir/schedule/schedule.h"
#include "ir/tensor/graph.h"

/// What a schedule of the host knows of the reads of a compute and of a register tile, and what follows for operands
/// that come from memory.
namespace corrloom::passes::host {

using scalar::AxisId;
using tensor::Axis;

/// The extent, which is known.
std::int64_t extent_of(const Axis& axis);
std::int64_t ceil_div(std::int64_t a, std::int64_t b);
bool mentions(const scalar::Expr& expr, AxisId axis);

/// One read of a compute: its element offset as a linear form, and whether conditions stand around it.
struct Access {
  const scalar::Read* read = nullptr;
  const scalar::Node* node = nullptr;
  std::optional<affine::LinearForm> offset;
  bool in_step = false;
  bool guarded = false;
  std::int64_t element_bytes = 4;
  int staged = -1;  ///< number of the staged expression that holds it

  std::set<AxisId> axes = {};  ///< what its subscripts use

  bool depends_on(AxisId axis) const { return axes.contains(axis); }
  bool is_affine() const { return offset && offset->is_affine(); }
  std::int64_t stride(AxisId axis) const { return is_affine() ? offset->coefficient_of(axis) : 0; }
  /// Elements of a window that `rows` places of one axis and `taps` of the other reach together: less than their
  /// product when places share some. 0 when a step of one is not a few steps of the other.
  std::int64_t window(AxisId row, std::int64_t rows, AxisId tap, std::int64_t taps) const;
};

/// A register tile and what it costs.
struct Tile {
  const Axis* vector = nullptr;
  const Axis* row = nullptr;
  std::int64_t rows = 1, vectors = 1;
  std::int64_t window = 0;  ///< taps of the last reduction axis that are unrolled to share loads; 0: none
  std::vector<bool> staged;
  double cycles = std::numeric_limits<double>::infinity();
};

/// The reads of a compute, and what they are seen with.
struct Reads {
  const tensor::Graph& graph;
  const tensor::Compute& compute;
  const std::vector<Access>& accesses;
  const kernel::Target& target;
  std::int64_t lanes;  ///< of a vector
};

/// Whether the operand of the vector axis comes from memory and each of its elements goes into one tile only.
bool sweeps(const Reads& reads, const Tile& tile);
/// A few rows of that operand at a time, over long pieces of the vector axis: memory is read as it lies.
void sweep_loops(const Reads& reads, Tile tile, schedule::Stage& stage);
/// Vectors that lie across the result are short pieces of many rows: the processor does not see where they lead. What
/// lies so many elements further on is brought near.
void prefetch_across(const Reads& reads, const Tile& tile, std::int64_t distance, schedule::Stage& stage);
/// The loops of the register tile.
void add_tile(const Tile& tile, std::int64_t lanes, std::vector<schedule::Loop>& loops);

}  // namespace corrloom::passes::host
