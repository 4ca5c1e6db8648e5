#include "compiler/passes/choose_schedule.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <vector>

#include "compiler/passes/constant_values.h"
#include "compiler/passes/host_fusion.h"
#include "compiler/passes/host_schedule.h"
#include "compiler/passes/host_stores.h"
#include "compiler/passes/readers.h"
#include "compiler/passes/running_reduction.h"
#include "compiler/passes/size_proofs.h"
#include "compiler/passes/strides.h"
#include "compiler/passes/typical_sizes.h"
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

/// Chooses the loops of one compute on a GPU.
class Chooser {
 public:
  Chooser(const tensor::Graph& graph, const tensor::Op& op)
      : op_(op),
        compute_(std::get<Compute>(op.kind)),
        accesses_(accesses_of(graph, op)),
        running_(running_axis(graph, compute_)) {}

  schedule::Stage run() {
    schedule::Stage stage;
    stage.compute = op_.name;
    stage.loops = gpu();
    return stage;
  }

 private:
  std::int64_t reduction_size() const {
    std::int64_t size = 1;
    if (!compute_.reduction) return size;
    for (const Axis& axis : compute_.reduction->axes) {
      const std::optional<std::int64_t> extent = scalar::as_i64(axis.extent);
      if (!extent || __builtin_mul_overflow(size, *extent, &size)) return std::int64_t{1} << 40;
    }
    return size;
  }

  /// True for an axis that needs no block or thread: of one element, or walked by a running reduction.
  bool is_not_shared(const Axis& axis) const { return extent_of(axis) == 1 || axis.id == running_; }

  /// True when the range of some reduction axis depends on the output axis: its lanes would run for different times.
  bool bounds_reduction(const Axis& axis) const {
    return compute_.reduction && std::any_of(compute_.reduction->axes.begin(), compute_.reduction->axes.end(),
                                             [&](const Axis& reduced) { return mentions(reduced.extent, axis.id); });
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
      loops.push_back({axes[k].name, 1, unroll ? Bind::Unroll : Bind::Serial});
    }
  }

  std::vector<Loop> gpu() const;

  const tensor::Op& op_;
  const Compute& compute_;
  std::vector<Access> accesses_;
  AxisId running_;  ///< that of a running reduction, or none
};

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

schedule::Stage choose_stage(const tensor::Graph& graph, const tensor::Op& op, const PassContext& ctx,
                             const std::vector<bool>& constant, bool may_copy) {
  if (ctx.target.kind != kernel::TargetKind::Host) return Chooser(graph, op).run();
  if (ctx.choices == nullptr) return host_stage(graph, op, ctx.target, may_copy, constant);
  ctx.choices->push_back({op.name, {}, {}});
  return host_stage(graph, op, ctx.target, may_copy, constant, &ctx.choices->back());
}

namespace {

/// Large results go past the caches.
void stream_large_results(const tensor::Graph& graph, schedule::Schedule& schedule, const kernel::Target& target) {
  for (schedule::Stage& stage : schedule.stages) {
    if (stage.placement.kind != schedule::Placement::Kind::Root) continue;
    for (const tensor::Op& op : graph.ops) {
      const auto* compute = std::get_if<Compute>(&op.kind);
      if (op.name == stage.compute && compute != nullptr)
        stage.streaming = host::streams(graph, op, target, host::axis_across(*compute, stage));
    }
  }
}

}  // namespace

schedule::Schedule choose_schedule(const tensor::Graph& graph, PassContext& ctx) {
  schedule::Schedule out;
  out.graph = graph.name;
  out.target = ctx.target.name;
  std::vector<bool> constant;
  if (!ctx.constants.empty()) constant = constant_values(graph, ctx.constants);
  // Copies have sizes of their own, so there are none where a size is not known.
  const bool is_open = has_dimensions(graph);
  const tensor::Graph sized = is_open ? with_typical_sizes(graph) : tensor::Graph();
  for (std::size_t k = 0; k < graph.ops.size(); ++k) {
    const tensor::Op& op = graph.ops[k];
    if (!std::holds_alternative<Compute>(op.kind)) continue;
    out.stages.push_back(is_open
                             ? for_open_sizes(choose_stage(sized, sized.ops[k], ctx, constant, /*may_copy=*/false), op)
                             : choose_stage(graph, op, ctx, constant));
  }
  if (ctx.target.kind != kernel::TargetKind::Host) return out;
  out = place_producers(graph, std::move(out), ctx.target, constant, ctx.choices);
  stream_large_results(graph, out, ctx.target);
  return out;
}

}  // namespace corrloom::passes
