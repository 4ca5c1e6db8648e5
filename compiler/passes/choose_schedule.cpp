#include "compiler/passes/choose_schedule.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <vector>

#include "compiler/passes/readers.h"
#include "compiler/passes/running_reduction.h"
#include "compiler/passes/strides.h"
#include "ir/affine/affine.h"
#include "ir/base/errors.h"

namespace corrloom::passes {
namespace {

using scalar::AxisId;
using scalar::Expr;
using schedule::Bind;
using schedule::Loop;
using tensor::Axis;
using tensor::Compute;

/// Elements of the vector axis in a piece that one block works through: a few pages, so that blocks are worth a task
/// each.
constexpr std::int64_t kPieceElements = 16384;
/// Operations that one block should have at least, so that handing it out costs little.
constexpr std::int64_t kBlockOperations = 1 << 15;
/// Most vectors in a row of the register tile: with 64-byte vectors, 256 contiguous bytes.
constexpr std::int64_t kMaxVectors = 4;
/// Most rows of the register tile: their broadcast operand is read in place, where rows a multiple of 4 KiB apart share
/// the ways (8) of one set of the L1 cache.
constexpr std::int64_t kMaxRows = 6;
/// Most copies of the body that unrolling a reduction may make.
constexpr std::int64_t kMaxUnrolled = 72;
/// Elements that a GPU thread computes at most, and threads of a block.
constexpr std::int64_t kThreadRows = 8;
constexpr std::int64_t kThreads = 256;

std::int64_t extent_of(const Axis& axis) {
  const std::optional<std::int64_t> extent = scalar::as_i64(axis.extent);
  CORRLOOM_CHECK(extent.has_value(), "axis ", axis.name, " has an extent that is not known");
  return *extent;
}

/// One read of a compute: its element offset as a linear form.
struct Access {
  const scalar::Read* read;
  std::optional<affine::LinearForm> offset;
  bool depends_on(AxisId axis) const;
};

bool mentions(const Expr& expr, AxisId axis) {
  return uses_axis(expr, [&](AxisId used) { return used == axis; });
}

bool Access::depends_on(AxisId axis) const {
  return std::any_of(read->index.begin(), read->index.end(),
                     [&](const Expr& subscript) { return mentions(subscript, axis); });
}

std::vector<Access> accesses_of(const tensor::Graph& graph, const tensor::Op& op) {
  std::vector<Access> out;
  tensor::for_each_expr(op, [&](const Expr& expr) {
    scalar::for_each_node(expr, [&](const Expr& node) {
      if (const scalar::Read* read = scalar::as_read(node))
        out.push_back({read, affine::linear_form(linear_position(read->index, graph.op(read->source).extents))});
    });
  });
  return out;
}

/// Chooses the loops of one compute.
class Chooser {
 public:
  Chooser(const tensor::Graph& graph, const tensor::Op& op, const kernel::Target& target)
      : op_(op),
        compute_(std::get<Compute>(op.kind)),
        target_(target),
        accesses_(accesses_of(graph, op)),
        running_(running_axis(graph, compute_)) {}

  schedule::Stage run() {
    schedule::Stage stage;
    stage.compute = op_.name;
    stage.loops = target_.kind == kernel::TargetKind::Host ? host() : gpu();
    return stage;
  }

 private:
  bool by_lanes() const { return compute_.reduction && compute_.reduction->order.kind == tensor::Order::Kind::Lanes; }

  std::int64_t reduction_size() const {
    std::int64_t size = 1;
    if (!compute_.reduction) return size;
    for (const Axis& axis : compute_.reduction->axes) {
      const std::optional<std::int64_t> extent = scalar::as_i64(axis.extent);
      if (!extent || __builtin_mul_overflow(size, *extent, &size)) return std::int64_t{1} << 40;
    }
    return size;
  }

  /// Lanes of a vector of the widest dtype that the compute works in.
  std::int64_t lanes() const {
    int widest = byte_size(op_.dtype);
    if (compute_.reduction) {
      for (const tensor::Accumulator& accumulator : compute_.reduction->accumulators)
        widest = std::max(widest, byte_size(accumulator.dtype));
    }
    return std::max(1, target_.vector_bytes / std::max(widest, 4));
  }

  /// How well vectors along an axis fit memory: contiguous or uniform accesses are good, anything else is a gather.
  double vector_cost(const Axis& axis, bool innermost) const {
    const std::int64_t extent = extent_of(axis), width = lanes();
    const double waste = static_cast<double>((extent + width - 1) / width * width) / static_cast<double>(extent);
    double cost = innermost ? 0.0 : 4.0;  // the store
    for (const Access& access : accesses_) {
      const bool uniform = !access.depends_on(axis.id);
      const bool contiguous =
          access.offset && access.offset->is_affine() && access.offset->coefficient_of(axis.id) == 1;
      cost += uniform || contiguous ? 1.0 : 4.0;
    }
    return cost * waste;
  }

  /// True for an axis that needs no block, thread or vector: of one element, or walked by a running reduction.
  bool is_not_shared(const Axis& axis) const { return extent_of(axis) == 1 || axis.id == running_; }

  /// True when the range of some reduction axis depends on the output axis: its lanes would run for different times.
  bool bounds_reduction(const Axis& axis) const {
    return compute_.reduction && std::any_of(compute_.reduction->axes.begin(), compute_.reduction->axes.end(),
                                             [&](const Axis& reduced) { return mentions(reduced.extent, axis.id); });
  }

  const Axis* vector_axis() const {
    const Axis* best = nullptr;
    double best_cost = 0;
    for (const Axis& axis : compute_.axes) {
      if (extent_of(axis) <= 1 || bounds_reduction(axis)) continue;
      const double cost = vector_cost(axis, &axis == &compute_.axes.back());
      if (best == nullptr || cost <= best_cost) {
        best = &axis;
        best_cost = cost;
      }
    }
    return best;
  }

  /// The output axis along which some operand that depends on `other` is the same, so that a tile reuses its loads.
  const Axis* row_axis(const Axis& other) const {
    const Axis* best = nullptr;
    for (const Axis& axis : compute_.axes) {
      if (&axis == &other || extent_of(axis) <= 1 || bounds_reduction(axis)) continue;
      const bool reuses = std::any_of(accesses_.begin(), accesses_.end(), [&](const Access& access) {
        return access.depends_on(other.id) && !access.depends_on(axis.id);
      });
      if (reuses && (best == nullptr || extent_of(axis) > extent_of(*best))) best = &axis;
    }
    return best;
  }

  /// The largest count of rows that leaves least over.
  static std::int64_t rows_for(std::int64_t extent, std::int64_t most) {
    std::int64_t best = 1;
    double best_waste = 1e30;
    for (std::int64_t rows = std::min(extent, most); rows >= 1; --rows) {
      const double waste = static_cast<double>((extent + rows - 1) / rows * rows) / static_cast<double>(extent) +
                           0.1 / static_cast<double>(rows);
      if (waste < best_waste) {
        best_waste = waste;
        best = rows;
      }
    }
    return best;
  }

  void add_reduction(std::vector<Loop>& loops, std::int64_t points) const {
    if (!compute_.reduction) return;
    for (const Axis& axis : compute_.axes) {
      if (axis.id == running_ && extent_of(axis) != 1) loops.push_back({axis.name, 1, Bind::Serial});
    }
    const std::vector<Axis>& axes = compute_.reduction->axes;
    const bool constant =
        std::all_of(axes.begin(), axes.end(), [](const Axis& axis) { return scalar::as_i64(axis.extent).has_value(); });
    const bool unroll = constant && reduction_size() * points <= kMaxUnrolled;
    for (std::size_t k = 0; k < axes.size(); ++k) {
      const bool vector = by_lanes() && k + 1 == axes.size();
      loops.push_back({axes[k].name, 1, vector ? Bind::Vector : unroll ? Bind::Unroll : Bind::Serial});
    }
  }

  std::vector<Loop> host() const;
  std::vector<Loop> host_by_elements() const;
  std::vector<Loop> gpu() const;

  const tensor::Op& op_;
  const Compute& compute_;
  const kernel::Target& target_;
  std::vector<Access> accesses_;
  AxisId running_;  ///< that of a running reduction, or none
};

/// One output element at a time: vectors lie along the reduction, or there is nothing to make vectors of.
std::vector<Loop> Chooser::host_by_elements() const {
  std::vector<Loop> loops;
  std::int64_t operations = reduction_size();
  std::vector<Loop> serial;
  // Inner axes stay within a block until it has enough to do.
  for (auto axis = compute_.axes.rbegin(); axis != compute_.axes.rend(); ++axis) {
    if (is_not_shared(*axis)) continue;
    const std::int64_t wanted = std::max<std::int64_t>(1, kBlockOperations / std::max<std::int64_t>(operations, 1));
    const std::int64_t piece = std::min(std::max<std::int64_t>(extent_of(*axis), 1), wanted);
    loops.insert(loops.begin(), {axis->name, piece, Bind::Block});
    if (piece > 1) serial.insert(serial.begin(), {axis->name, 1, Bind::Serial});
    if (__builtin_mul_overflow(operations, piece, &operations)) operations = kBlockOperations;
  }
  loops.insert(loops.end(), serial.begin(), serial.end());
  add_reduction(loops, 1);
  return loops;
}

std::vector<Loop> Chooser::host() const {
  const Axis* vector = by_lanes() ? nullptr : vector_axis();
  if (vector == nullptr) return host_by_elements();
  const std::int64_t width = lanes(), extent = extent_of(*vector);
  const Axis* row = row_axis(*vector);
  const std::int64_t fitting = std::max<std::int64_t>(1, std::min(kMaxVectors, (extent + width - 1) / width));
  // Powers of two only: a piece of the axis is a whole number of tiles.
  const std::int64_t vectors = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(fitting)));
  const std::int64_t most_rows = std::max<std::int64_t>(1, (target_.vector_registers - 1 - vectors) / vectors - 1);
  const std::int64_t rows = row == nullptr ? 1 : rows_for(extent_of(*row), std::min(kMaxRows, most_rows));
  const std::int64_t tile = width * vectors;

  std::vector<Loop> loops;
  const std::int64_t piece = std::max(
      tile,
      std::max<std::int64_t>(kPieceElements, kBlockOperations / std::max<std::int64_t>(1, reduction_size() * rows)) /
          tile * tile);
  for (const Axis& axis : compute_.axes) {
    if (&axis == vector || is_not_shared(axis)) continue;
    loops.push_back({axis.name, &axis == row ? rows : 1, Bind::Block});
  }
  loops.push_back({vector->name, piece, Bind::Block});
  if (piece != tile) loops.push_back({vector->name, tile, Bind::Serial});
  add_reduction(loops, rows * vectors);
  if (row != nullptr && rows > 1) loops.push_back({row->name, 1, Bind::Unroll});
  if (vectors > 1) loops.push_back({vector->name, width, Bind::Unroll});
  loops.push_back({vector->name, 1, Bind::Vector});
  return loops;
}

std::vector<Loop> Chooser::gpu() const {
  // Threads of a block from the last axis outwards, as many along each as it can use.
  struct Piece {
    const Axis* axis;
    std::int64_t block;
    std::int64_t thread;
  };
  const Axis* last = compute_.axes.empty() ? nullptr : &compute_.axes.back();
  const Axis* row = last == nullptr ? nullptr : row_axis(*last);
  std::vector<Piece> pieces;
  std::int64_t threads = 1;
  for (auto axis = compute_.axes.rbegin(); axis != compute_.axes.rend(); ++axis) {
    if (is_not_shared(*axis)) continue;
    const std::int64_t each = &*axis == row ? rows_for(extent_of(*axis), kThreadRows) : 1;
    const std::int64_t parts = std::max<std::int64_t>(1, (extent_of(*axis) + each - 1) / each);
    const std::int64_t along = std::min<std::int64_t>(
        static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::min(parts, kThreads)))),
        kThreads / threads);
    pieces.insert(pieces.begin(), {&*axis, each * along, each});
    threads *= along;
  }
  std::vector<Loop> loops, tile;
  std::int64_t points = 1;
  for (const Piece& piece : pieces) loops.push_back({piece.axis->name, piece.block, Bind::Block});
  for (const Piece& piece : pieces) {
    if (piece.block > piece.thread) loops.push_back({piece.axis->name, piece.thread, Bind::Thread});
    if (piece.thread > 1) tile.push_back({piece.axis->name, 1, Bind::Unroll});
    points *= piece.thread;
  }
  add_reduction(loops, points);
  loops.insert(loops.end(), tile.begin(), tile.end());
  return loops;
}

}  // namespace

schedule::Schedule choose_schedule(const tensor::Graph& graph, PassContext& ctx) {
  schedule::Schedule out;
  out.graph = graph.name;
  out.target = ctx.target.name;
  for (const tensor::Op& op : graph.ops) {
    if (std::holds_alternative<Compute>(op.kind)) out.stages.push_back(Chooser(graph, op, ctx.target).run());
  }
  return out;
}

}  // namespace corrloom::passes
