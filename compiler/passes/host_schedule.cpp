#include "compiler/passes/host_schedule.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/passes/host_chooser.h"
#include "compiler/passes/readers.h"
#include "compiler/passes/running_reduction.h"
#include "compiler/passes/strides.h"
#include "ir/affine/affine.h"
#include "ir/affine/border.h"

namespace corrloom::passes::host {

using scalar::Expr;
using tensor::Compute;

HostChooser::HostChooser(const tensor::Graph& graph, const tensor::Op& op, const kernel::Target& target, bool may_copy,
                         const std::vector<bool>& constant, Choice* choice)
    : graph_(graph),
      op_(op),
      compute_(std::get<Compute>(op.kind)),
      target_(target),
      constant_(constant),
      may_sweep_(may_copy),
      choice_(choice) {
  running_ = running_axis(graph, compute_);
  if (may_copy) staged_ = schedule::staged_exprs(graph, op);
  if (compute_.reduction) {
    for (const tensor::Accumulator& accumulator : compute_.reduction->accumulators)
      add_accesses(accumulator.step, true);
  }
  add_accesses(compute_.body, false);
  for (const schedule::StagedExpr& staged : staged_) staged_operations_.push_back(operations_of(staged.expr));
  if (compute_.reduction) {
    for (const tensor::Accumulator& accumulator : compute_.reduction->accumulators)
      step_operations_ += operations_of(accumulator.step);
  }
  body_operations_ = operations_of(compute_.body);
  points_ = 1;
  for (const Axis& axis : compute_.axes) points_ *= static_cast<double>(extent_of(axis));
  reduction_ = static_cast<double>(reduction_size());
}

namespace {

/// Drops loops that would go around once: those in steps of what the loop around them leaves of the axis.
void drop_idle_loops(schedule::Stage& stage) {
  std::map<std::string, std::int64_t> left;
  for (std::size_t k = 0; k < stage.loops.size();) {
    const schedule::Loop& loop = stage.loops[k];
    const auto outer = left.find(loop.axis);
    if (loop.bind == schedule::Bind::Vector || outer == left.end() || outer->second != loop.step) {
      left[loop.axis] = loop.step;
      ++k;
      continue;
    }
    for (schedule::Staging& staging : stage.staging) {
      if (staging.loop >= static_cast<int>(k)) --staging.loop;
    }
    stage.loops.erase(stage.loops.begin() + static_cast<std::ptrdiff_t>(k));
  }
}

}  // namespace

schedule::Stage HostChooser::run() {
  schedule::Stage stage;
  stage.compute = op_.name;
  if (by_lanes()) {
    lanes_loops(stage);
    prefetch_along(stage);
    return stage;
  }
  if (const Axis* row = running_rows()) {
    stage.loops = running_loops(*row);
    return stage;
  }
  Tile tile = best_tile();
  if (tile.vector == nullptr) {
    stage.loops = loops_by_elements();
  } else {
    tile = in_whole_panels(std::move(tile));
    tile_loops(tile, stage);
    drop_idle_loops(stage);
    note_taken(tile);
  }
  return stage;
}

void HostChooser::note(const Tile& tile) const {
  if (choice_ == nullptr) return;
  for (Tile& kept : noted_) {
    if (kept.vector != tile.vector || kept.row != tile.row || kept.staged != tile.staged) continue;
    if (tile.cycles < kept.cycles) kept = tile;
    return;
  }
  noted_.push_back(tile);
}

void HostChooser::note_taken(const Tile& taken) const {
  if (choice_ == nullptr) return;
  std::erase_if(noted_, [&](const Tile& tile) {
    return tile.vector == taken.vector && tile.row == taken.row && tile.staged == taken.staged;
  });
  std::stable_sort(noted_.begin(), noted_.end(), [](const Tile& a, const Tile& b) { return a.cycles < b.cycles; });
  noted_.insert(noted_.begin(), taken);
  for (const Tile& tile : noted_) choice_->considered.push_back({in_words(tile), tile.cycles});
}

std::string HostChooser::in_words(const Tile& tile) const {
  std::string words = tile.rows > 1 ? std::to_string(tile.rows) + " rows along " + tile.row->name + " x " : "";
  words += std::to_string(tile.vectors) + (tile.vectors == 1 ? " vector" : " vectors") + " along " + tile.vector->name;
  if (tile.window > 1) words += ", " + std::to_string(tile.window) + " taps of the window at once";
  for (std::size_t k = 0; k < tile.staged.size(); ++k) {
    if (tile.staged[k]) words += ", " + graph_.op(staged_[k].tensor).name + " copied";
  }
  return words;
}

void HostChooser::add_accesses(const Expr& root, bool in_step) {
  std::map<const scalar::Node*, bool> guarded;
  scalar::for_each_node(root, [&](const Expr& node) {
    const auto* apply = std::get_if<scalar::Apply>(&node->kind);
    if (apply == nullptr || apply->opcode != scalar::Opcode::If) return;
    for (std::size_t k : {1u, 2u}) {
      scalar::for_each_node(apply->args[k], [&](const Expr& inner) { guarded[inner.get()] = true; });
    }
  });
  scalar::for_each_node(root, [&](const Expr& node) {
    const scalar::Read* read = scalar::as_read(node);
    if (read == nullptr) return;
    Access access;
    access.read = read;
    access.node = node.get();
    access.in_step = in_step;
    std::vector<Expr> index;
    for (const Expr& subscript : read->index) index.push_back(affine::away_from_borders(subscript));
    access.guarded = guarded.contains(node.get()) || index != read->index;
    access.element_bytes = byte_size(graph_.op(read->source).dtype);
    access.offset = affine::linear_form(linear_position(index, graph_.op(read->source).extents));
    for (const Expr& subscript : read->index) {
      uses_axis(subscript, [&](AxisId used) {
        access.axes.insert(used);
        return false;
      });
    }
    for (std::size_t k = 0; in_step && k < staged_.size(); ++k) {
      scalar::for_each_node(staged_[k].expr, [&](const Expr& inner) {
        if (inner == node) access.staged = static_cast<int>(k);
      });
    }
    accesses_.push_back(std::move(access));
  });
}

std::int64_t HostChooser::reduction_size() const {
  std::int64_t size = 1;
  if (!compute_.reduction) return size;
  for (const Axis& axis : compute_.reduction->axes) {
    const std::optional<std::int64_t> extent = scalar::as_i64(axis.extent);
    if (!extent || __builtin_mul_overflow(size, *extent, &size)) return std::int64_t{1} << 40;
  }
  return std::max<std::int64_t>(size, 1);
}

std::int64_t HostChooser::lanes() const {
  int widest = compute_.reduction ? 0 : byte_size(op_.dtype);
  if (compute_.reduction) {
    for (const tensor::Accumulator& accumulator : compute_.reduction->accumulators)
      widest = std::max(widest, byte_size(accumulator.dtype));
  }
  return std::max(1, target_.vector_bytes / std::max(widest, 4));
}

bool HostChooser::bounds_reduction(const Axis& axis) const {
  return compute_.reduction && std::any_of(compute_.reduction->axes.begin(), compute_.reduction->axes.end(),
                                           [&](const Axis& reduced) { return mentions(reduced.extent, axis.id); });
}

}  // namespace corrloom::passes::host

namespace corrloom::passes {
namespace {

/// The op with the extents of a region of it.
tensor::Op part_of(const tensor::Graph& graph, tensor::TensorId id, const std::vector<schedule::Region>& region) {
  tensor::Op part = graph.op(id);
  auto& axes = std::get<tensor::Compute>(part.kind).axes;
  for (std::size_t k = 0; k < axes.size(); ++k) axes[k].extent = scalar::constant_i64(region[k].size);
  return part;
}

/// The same loops inside another compute: blocks become loops.
std::vector<schedule::Loop> as_inner(std::vector<schedule::Loop> loops, const tensor::Op& part) {
  for (schedule::Loop& loop : loops) {
    if (loop.bind == schedule::Bind::Block) loop.bind = schedule::Bind::Serial;
  }
  // An axis of one element here may have more in the whole.
  for (const tensor::Axis& axis : std::get<tensor::Compute>(part.kind).axes) {
    const bool walked =
        std::any_of(loops.begin(), loops.end(), [&](const schedule::Loop& loop) { return loop.axis == axis.name; });
    if (!walked) loops.insert(loops.begin(), {axis.name, 1, schedule::Bind::Serial});
  }
  return loops;
}

}  // namespace

schedule::Stage host_stage(const tensor::Graph& graph, const tensor::Op& op, const kernel::Target& target,
                           bool may_copy, const std::vector<bool>& constant, Choice* choice) {
  return host::HostChooser(graph, op, target, may_copy, constant, choice).run();
}

std::vector<schedule::Loop> inner_loops(const tensor::Graph& graph, tensor::TensorId id,
                                        const std::vector<schedule::Region>& region, const kernel::Target& target) {
  const tensor::Op part = part_of(graph, id, region);
  return as_inner(host_stage(graph, part, target, /*may_copy=*/false).loops, part);
}

std::optional<schedule::Stage> turns_inside(const tensor::Graph& graph, tensor::TensorId id,
                                            const std::vector<schedule::Region>& region, const kernel::Target& target) {
  const tensor::Op part = part_of(graph, id, region);
  std::optional<schedule::Stage> stage =
      host::HostChooser(graph, part, target, /*may_copy=*/true, {}, nullptr).lanes_in_turn();
  if (stage) stage->loops = as_inner(std::move(stage->loops), part);
  return stage;
}

}  // namespace corrloom::passes
