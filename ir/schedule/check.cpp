#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "ir/schedule/regions.h"
#include "ir/schedule/schedule.h"
#include "ir/schedule/staging.h"

namespace corrloom::schedule {
namespace {

using tensor::Compute;

/// What all buffers that a kernel makes for itself may take: they live on the stacks of a pool's threads.
constexpr std::int64_t kMaxInsideBytes = 480 << 10;
/// Beside them, what lanes that take turns may leave of the tile of a compute.
constexpr std::int64_t kMaxTurnBytes = 32 << 10;
/// More loops than any compute has use for.
constexpr std::size_t kMaxLoops = 256;

/// Checks the stage of one compute.
class StageCheck {
 public:
  StageCheck(const Stage& stage, const tensor::Graph& graph, const tensor::Op& op, Diagnostics& diagnostics)
      : stage_(stage), graph_(graph), op_(op), compute_(std::get<Compute>(op.kind)), diagnostics_(diagnostics) {}

  void run() {
    if (stage_.placement.kind == Placement::Kind::Inline)
      report("is placed inside its readers: the passes before schedules have done that where they can");
    if (stage_.streaming && stage_.placement.kind != Placement::Kind::Root)
      report("lets a result go past the caches that its consumer reads right away");
    if (stage_.loops.size() > kMaxLoops)
      return report("has " + std::to_string(stage_.loops.size()) + " loops, at most " + std::to_string(kMaxLoops) +
                    " are possible");
    if (!axes_are_known()) return;
    for (const Staging& staging : stage_.staging) check_staging(staging);
    for (const Prefetch& prefetch : stage_.prefetches) check_prefetch(prefetch);
    check_steps();
    check_order();
    check_reduction();
    check_vector();
    check_tile();
  }

 private:
  void report(const std::string& what) {
    diagnostics_.report(Code::E0501, {}, "the schedule of %" + stage_.compute + " " + what);
  }

  const tensor::Axis* output_axis(const std::string& name) const { return find(compute_.axes, name); }
  const tensor::Axis* reduction_axis(const std::string& name) const {
    return compute_.reduction ? find(compute_.reduction->axes, name) : nullptr;
  }
  static const tensor::Axis* find(const std::vector<tensor::Axis>& axes, const std::string& name) {
    const auto found =
        std::find_if(axes.begin(), axes.end(), [&](const tensor::Axis& axis) { return axis.name == name; });
    return found == axes.end() ? nullptr : &*found;
  }

  void check_staging(const Staging& staging) {
    const std::string what = "stages %" + staging.tensor;
    if (staging.shared || staging.stages != 1 || staging.pitch != 0)
      return report(what + " in shared memory, in flight or with a pitch: copies are plain ones");
    for (const Staging::Dim& dim : staging.layout) {
      if (dim.kind != Staging::Dim::Kind::Whole && dim.block < 1)
        return report(what + " in blocks of " + std::to_string(dim.block) + ", wanted at least 1");
    }
    std::string why;
    const std::optional<Copy> copy = copy_of(graph_, op_, staging, copied_, why);
    if (!copy) return report(what + ", which " + why);
    copied_.push_back(copy->staged.expr);
  }

  void check_prefetch(const Prefetch& prefetch) {
    bool is_read = prefetch.tensor == stage_.compute;
    tensor::for_each_expr(op_, [&](const scalar::Expr& expr) {
      scalar::for_each_node(expr, [&](const scalar::Expr& node) {
        const scalar::Read* read = scalar::as_read(node);
        is_read |= read != nullptr && graph_.op(read->source).name == prefetch.tensor;
      });
    });
    const std::string what = "prefetches %" + prefetch.tensor;
    if (!is_read) report(what + ", which it neither reads nor makes");
    const bool is_operand = prefetch.tensor != stage_.compute;
    if (output_axis(prefetch.axis) == nullptr && !(is_operand && reduction_axis(prefetch.axis) != nullptr))
      report(what + " along " + prefetch.axis + ", which is no axis of " + (is_operand ? "its own" : "its result"));
    if (prefetch.distance < 1 || prefetch.distance > std::int64_t{1} << 40)
      report(what + " at a distance of " + std::to_string(prefetch.distance));
  }

  bool axes_are_known() {
    for (const Loop& loop : stage_.loops) {
      if (output_axis(loop.axis) == nullptr && reduction_axis(loop.axis) == nullptr) {
        report("has a loop over " + loop.axis + ", which is none of its axes");
        return false;
      }
    }
    return true;
  }

  void check_steps() {
    std::map<std::string, std::int64_t> steps;
    for (const Loop& loop : stage_.loops) {
      if (loop.step < 1)
        report("has a loop over " + loop.axis + " with step " + std::to_string(loop.step) + ", wanted at least 1");
      const auto outer = steps.find(loop.axis);
      if (loop.step >= 1 && outer != steps.end() &&
          (outer->second % loop.step != 0 || (outer->second == loop.step && loop.bind != Bind::Vector))) {
        report("walks " + loop.axis + " by " + std::to_string(loop.step) + " inside steps of " +
               std::to_string(outer->second) + ": not a smaller divisor");
      }
      steps[loop.axis] = loop.step;
    }
    const auto walked = [&](const tensor::Axis& axis) {
      const auto last = steps.find(axis.name);
      const bool unit = scalar::is_constant_i64(axis.extent, 1);
      if (last == steps.end() ? !unit : last->second != 1)
        report("does not walk " + axis.name + " down to single elements");
    };
    for (const tensor::Axis& axis : compute_.axes) walked(axis);
    if (!compute_.reduction) return;
    for (const tensor::Axis& axis : compute_.reduction->axes) {
      if (!steps.contains(axis.name)) {
        report("does not walk the reduction axis " + axis.name);
      } else {
        walked(axis);
      }
    }
  }

  /// Blocks, threads, serial loops, reduction loops, register tile. Steps of the first reduction axis may stand among
  /// the serial loops.
  void check_order() {
    int stage = 0, sweeps = 0;
    std::set<std::pair<std::string, Bind>> shared;
    for (std::size_t k = 0; k < stage_.loops.size(); ++k) {
      const Loop& loop = stage_.loops[k];
      // Blocks are counted by axis: there is no telling how many the last part of one has.
      if ((loop.bind == Bind::Block || loop.bind == Bind::Thread) && !shared.insert({loop.axis, loop.bind}).second)
        report("hands out " + loop.axis + " to " + (loop.bind == Bind::Block ? "blocks" : "threads") + " twice");
      const bool reduction = reduction_axis(loop.axis) != nullptr;
      int rank = 0;
      switch (loop.bind) {
        case Bind::Block:
          rank = 0;
          break;
        case Bind::Thread:
          rank = 1;
          break;
        case Bind::Serial:
          rank = reduction && !is_sweep(stage_, compute_, k) ? 3 : 2;
          if (reduction && rank == 2 && ++sweeps > 1) report("sweeps over its results more than once");
          break;
        case Bind::Unroll:
        case Bind::Vector:
          rank = reduction ? 3 : 4;
          break;
      }
      if (reduction && rank < 2) report("binds the reduction axis " + loop.axis + " to blocks or threads");
      if (rank < stage)
        report("has its loops out of order at " + loop.axis +
               ": wanted blocks, threads, serial loops, the reduction, the register tile");
      stage = std::max(stage, rank);
    }
  }

  /// A reduction axis may be cut, loop directly in loop: that keeps its elements in order.
  void check_reduction() {
    std::vector<std::string> walked, wanted;
    for (const Loop& loop : stage_.loops) {
      if (reduction_axis(loop.axis) == nullptr) continue;
      if (walked.empty() || walked.back() != loop.axis) walked.push_back(loop.axis);
    }
    if (!compute_.reduction) return;
    for (const tensor::Axis& axis : compute_.reduction->axes) wanted.push_back(axis.name);
    if (walked != wanted)
      report("walks the reduction axes in another order than the graph states, which would change bits");
    check_cuts();
    for (std::size_t k = 0; k < stage_.loops.size(); ++k) {
      if (is_sweep(stage_, compute_, k)) check_sweep(k);
    }
  }

  /// The sums of the tile of results at that loop lie in memory.
  void check_sweep(std::size_t loop) {
    const std::string& axis = stage_.loops[loop].axis;
    if (axis != compute_.reduction->axes.front().name)
      report("sweeps over its results for parts of " + axis + ", which is not the first reduction axis");
    if (!scalar::as_i64(compute_.reduction->axes.front().extent))
      report("sweeps over its results for parts of " + axis + ", whose extent is not known");
    if (stage_.placement.kind != Placement::Kind::Root)
      report("sweeps over its results for parts of " + axis + " inside another compute");
    if (sums_are_results(graph_, op_)) return;
    std::int64_t bytes = 0;
    for (const tensor::Accumulator& accumulator : compute_.reduction->accumulators)
      bytes += byte_size(accumulator.dtype);
    if (by_lanes()) bytes *= compute_.reduction->order.lanes;
    for (const std::optional<std::int64_t>& size : swept_sizes(stage_, compute_, loop)) {
      if (!size || __builtin_mul_overflow(bytes, *size, &bytes)) bytes = kMaxInsideBytes + 1;
    }
    if (bytes > kMaxInsideBytes)
      report("keeps " + std::to_string(bytes) + " bytes of sums between sweeps, at most " +
             std::to_string(kMaxInsideBytes) + " are possible");
  }

  /// Cuts and unrolled loops need an extent that is known; cuts have serial outer loops, and single steps at the end.
  void check_cuts() {
    if (by_lanes() && lanes_take_turns()) return check_turns();
    for (std::size_t k = 0; k < stage_.loops.size(); ++k) {
      const Loop& loop = stage_.loops[k];
      const tensor::Axis* axis = reduction_axis(loop.axis);
      if (axis == nullptr) continue;
      if (loop.bind == Bind::Unroll && loop.step == 1 && !scalar::as_i64(axis->extent))
        report("unrolls the reduction axis " + loop.axis + ", whose extent is not known");
      if (loop.step == 1 && !(by_lanes() && is_sweep(stage_, compute_, k))) continue;
      if (by_lanes() && !keeps_lanes(k)) report("cuts the reduction axis " + loop.axis + ", whose order is by lanes");
      if (loop.bind != Bind::Serial)
        report("unrolls the reduction axis " + loop.axis + " in steps, wanted a plain loop");
      if (!scalar::as_i64(axis->extent)) report("cuts the reduction axis " + loop.axis + ", whose extent is not known");
    }
  }

  bool by_lanes() const { return compute_.reduction->order.kind == tensor::Order::Kind::Lanes; }
  /// Sweeps in steps of whole vectors leave each element in its lane.
  bool keeps_lanes(std::size_t loop) const {
    return is_sweep(stage_, compute_, loop) && compute_.reduction->axes.size() == 1 &&
           stage_.loops[loop].step % compute_.reduction->order.lanes == 0;
  }

  /// With the vectors along the result, the loops of the reduction walk the lanes of its order.
  bool lanes_take_turns() const {
    return std::any_of(stage_.loops.begin(), stage_.loops.end(), [&](const Loop& loop) {
      return loop.bind == Bind::Vector && reduction_axis(loop.axis) == nullptr;
    });
  }

  /// Lanes so far apart may run together in an unrolled loop. There is one axis, in whole vectors of lanes.
  void check_turns() {
    const std::int64_t lanes = compute_.reduction->order.lanes;
    const std::vector<tensor::Axis>& axes = compute_.reduction->axes;
    const std::optional<std::int64_t> extent = scalar::as_i64(axes.front().extent);
    if (axes.size() != 1 || !extent || *extent % lanes != 0)
      return report("lets lanes take turns in a reduction that has not one axis of a multiple of " +
                    std::to_string(lanes) + " elements");
    for (const Loop& loop : stage_.loops) {
      if (reduction_axis(loop.axis) == nullptr || loop.step == 1) continue;
      if (loop.bind != Bind::Unroll || loop.step < 1 || lanes % loop.step != 0 || loop.step == lanes)
        report("walks the lanes of " + loop.axis + " by " + std::to_string(loop.step) +
               ": lanes so far apart that run together are unrolled, by a divisor of " + std::to_string(lanes));
    }
    check_turn_memory(lanes);
  }

  /// What the turns leave of the tile lies in memory.
  void check_turn_memory(std::int64_t turns) {
    std::size_t first = 0;
    while (first < stage_.loops.size() && reduction_axis(stage_.loops[first].axis) == nullptr) ++first;
    if (first == stage_.loops.size()) return;
    if (stage_.loops[first].bind == Bind::Unroll) turns = stage_.loops[first].step;
    std::int64_t bytes = 0;
    for (const tensor::Accumulator& accumulator : compute_.reduction->accumulators)
      bytes += turns * byte_size(accumulator.dtype);
    for (const std::optional<std::int64_t>& size : swept_sizes(stage_, compute_, first)) {
      if (!size || __builtin_mul_overflow(bytes, *size, &bytes)) bytes = kMaxTurnBytes + 1;
    }
    if (bytes > kMaxTurnBytes)
      report("keeps " + std::to_string(bytes) + " bytes of what lanes leave of a tile, at most " +
             std::to_string(kMaxTurnBytes) + " are possible");
  }

  /// The points of a register tile run through the reduction together.
  void check_tile() {
    if (!compute_.reduction) return;
    for (const Loop& loop : stage_.loops) {
      const tensor::Axis* axis = output_axis(loop.axis);
      if (axis == nullptr || (loop.bind != Bind::Unroll && loop.bind != Bind::Vector)) continue;
      for (const tensor::Axis& reduced : compute_.reduction->axes) {
        bool depends = false;
        scalar::for_each_node(reduced.extent, [&](const scalar::Expr& node) {
          const auto* ref = std::get_if<scalar::AxisRef>(&node->kind);
          depends |= ref != nullptr && ref->axis == axis->id;
        });
        if (depends)
          report("has " + loop.axis + " in its register tile, and the range of " + reduced.name + " depends on it");
      }
    }
  }

  void check_vector() {
    const bool lanes = compute_.reduction && compute_.reduction->order.kind == tensor::Order::Kind::Lanes;
    int vectors = 0;
    std::map<std::string, std::int64_t> enclosing;
    for (std::size_t k = 0; k < stage_.loops.size(); ++k) {
      const Loop& loop = stage_.loops[k];
      if (loop.bind == Bind::Vector) {
        ++vectors;
        const bool reduction = reduction_axis(loop.axis) != nullptr;
        if (reduction && !lanes)
          report("has vectors along the reduction axis " + loop.axis + ", whose order is not by lanes");
        if (!reduction && (k + 1 != stage_.loops.size() || !enclosing.contains(loop.axis)))
          report("wants vectors along " + loop.axis +
                 ": such a loop is the last one, inside another loop over the axis");
        if (!reduction && enclosing.contains(loop.axis) && (enclosing[loop.axis] & (enclosing[loop.axis] - 1)) != 0)
          report("has vectors of " + std::to_string(enclosing[loop.axis]) + " lanes, wanted a power of two");
      }
      enclosing[loop.axis] = loop.step;
    }
    if (lanes && vectors == 0) report("has no vector loop, but the order of the reduction is by lanes");
    if (vectors > 1) report("has more than one vector loop");
  }

  const Stage& stage_;
  const tensor::Graph& graph_;
  const tensor::Op& op_;
  const Compute& compute_;
  std::vector<scalar::Expr> copied_;  ///< what the stagings so far copy
  Diagnostics& diagnostics_;
};

/// Checks the computes that are placed at loops of others.
class PlacementCheck {
 public:
  PlacementCheck(const Schedule& schedule, const tensor::Graph& graph, Diagnostics& diagnostics)
      : schedule_(schedule), graph_(graph), diagnostics_(diagnostics) {}

  void run() {
    for (const Stage& stage : schedule_.stages) {
      if (stage.placement.kind == Placement::Kind::At) check_producer(stage);
    }
    if (!sound_) return;
    for (const Stage& stage : schedule_.stages) check_memory(stage);
  }

 private:
  void report(const Stage& stage, const std::string& what) {
    sound_ = false;
    diagnostics_.report(Code::E0501, {}, "the schedule places %" + stage.compute + " " + what);
  }

  const Stage* stage_named(const std::string& name) const {
    const auto found = std::find_if(schedule_.stages.begin(), schedule_.stages.end(),
                                    [&](const Stage& stage) { return stage.compute == name; });
    return found == schedule_.stages.end() ? nullptr : &*found;
  }

  void check_producer(const Stage& stage) {
    const Stage* consumer = stage_named(stage.placement.consumer);
    if (consumer == nullptr || consumer->placement.kind != Placement::Kind::Root)
      return report(stage, "at %" + stage.placement.consumer + ", which is no compute at the root");
    if (!is_place(*consumer, stage.placement.loop))
      return report(stage, "at loop " + std::to_string(stage.placement.loop) + " of %" + consumer->compute +
                               ", wanted its last block loop or a serial loop over its results");
    for (const Loop& loop : stage.loops) {
      if (loop.bind == Bind::Block || loop.bind == Bind::Thread)
        return report(stage, "inside another compute, so its loops cannot be blocks or threads");
    }
    for (const tensor::Output& output : graph_.outputs) {
      if (output.storage_of)
        return report(stage, "inside another compute, but a result takes over the storage of an argument");
    }
    for (const Staging& staging : stage.staging) {
      const Stage* copied = stage_named(staging.tensor);
      if (copied != nullptr && copied->placement.kind == Placement::Kind::At)
        return report(stage, "inside another compute, so it cannot have a copy of all of %" + staging.tensor);
    }
    if (reads_are_checked(stage))
      return report(stage, "inside another compute, but it has reads that are checked while it runs");
    check_readers(stage, *consumer);
  }

  /// Elements that nobody needs are tested as well: all of them must be computed.
  bool reads_are_checked(const Stage& stage) const {
    bool found = false;
    for (const tensor::Op& op : graph_.ops) {
      if (op.name != stage.compute) continue;
      tensor::for_each_expr(op, [&](const scalar::Expr& root) {
        scalar::for_each_node(root, [&](const scalar::Expr& node) {
          const scalar::Read* read = scalar::as_read(node);
          found |= read != nullptr && read->check == scalar::ReadCheck::Runtime;
        });
      });
    }
    return found;
  }

  bool is_place(const Stage& consumer, int position) const {
    if (position < 0 || position >= static_cast<int>(consumer.loops.size())) return false;
    const auto place = static_cast<std::size_t>(position);
    const Loop& loop = consumer.loops[place];
    const bool last_block = loop.bind == Bind::Block &&
                            (place + 1 == consumer.loops.size() || consumer.loops[place + 1].bind != Bind::Block);
    return (last_block || (loop.bind == Bind::Serial && is_output_axis(consumer, loop.axis))) &&
           std::none_of(consumer.loops.begin(), consumer.loops.end(),
                        [](const Loop& other) { return other.bind == Bind::Thread; });
  }

  bool is_output_axis(const Stage& stage, const std::string& name) const {
    for (const tensor::Op& op : graph_.ops) {
      if (op.name != stage.compute || !std::holds_alternative<Compute>(op.kind)) continue;
      const auto& axes = std::get<Compute>(op.kind).axes;
      return std::any_of(axes.begin(), axes.end(), [&](const tensor::Axis& axis) { return axis.name == name; });
    }
    return false;
  }

  void check_readers(const Stage& stage, const Stage& consumer) {
    for (std::size_t k = 0; k < graph_.ops.size(); ++k) {
      if (graph_.ops[k].name != stage.compute || !std::holds_alternative<Compute>(graph_.ops[k].kind)) continue;
      const scalar::TensorId id{static_cast<std::int32_t>(k)};
      for (const tensor::Output& output : graph_.outputs) {
        if (output.value == id) return report(stage, "inside another compute, but it is a result");
      }
      for (const tensor::Op& reader : graph_.ops) check_reader(stage, consumer, id, reader);
    }
  }

  void check_reader(const Stage& stage, const Stage& consumer, scalar::TensorId id, const tensor::Op& reader) {
    bool reads = false;
    if (const auto* view = std::get_if<tensor::View>(&reader.kind)) reads = view->source == id;
    if (const auto* reshape = std::get_if<tensor::Reshape>(&reader.kind)) reads = reshape->source == id;
    tensor::for_each_expr(reader, [&](const scalar::Expr& root) {
      scalar::for_each_node(root, [&](const scalar::Expr& node) {
        const scalar::Read* read = scalar::as_read(node);
        reads |= read != nullptr && read->source == id;
      });
    });
    if (!reads || reader.name == consumer.compute) return;
    const Stage* other = stage_named(reader.name);
    const bool inside = std::holds_alternative<Compute>(reader.kind) && other != nullptr &&
                        other->placement.kind == Placement::Kind::At && other->placement.consumer == consumer.compute &&
                        other->placement.loop >= stage.placement.loop;
    if (!inside) report(stage, "at %" + consumer.compute + ", but %" + reader.name + " reads it, too");
  }

  void check_memory(const Stage& consumer) {
    std::int64_t bytes = 0;
    for (const Stage& stage : schedule_.stages) {
      if (stage.placement.kind != Placement::Kind::At || stage.placement.consumer != consumer.compute) continue;
      std::string why;
      const std::optional<Regions> regions = regions_at(graph_, schedule_, consumer, stage.placement.loop, why);
      if (!regions) return report(stage, "at %" + consumer.compute + ": " + why);
      for (const auto& [id, axes] : *regions) {
        if (graph_.op(id).name != stage.compute) continue;
        std::int64_t size = byte_size(graph_.op(id).dtype);
        for (const Region& axis : axes) {
          if (axis.size < 1 || __builtin_mul_overflow(size, axis.size, &size))
            return report(stage, "where it is empty or too large");
        }
        if (__builtin_add_overflow(bytes, size, &bytes)) bytes = kMaxInsideBytes + 1;
      }
      if (bytes > kMaxInsideBytes)
        return report(stage, "at %" + consumer.compute + ", whose tiles then need more than " +
                                 std::to_string(kMaxInsideBytes >> 10) + " KiB of their own");
    }
    for (const Staging& staging : consumer.staging) {
      if (staging.loop >= 0 && !check_copy(consumer, staging, bytes)) return;
      const Stage* copied = stage_named(staging.tensor);
      if (copied != nullptr && copied->placement.kind == Placement::Kind::At)
        return report(*copied, "inside %" + consumer.compute + ", which makes a copy of all of it");
    }
  }

  /// A copy that is made in the loops lies beside what else is kept there.
  bool check_copy(const Stage& stage, const Staging& staging, std::int64_t& bytes) {
    const auto refuse = [&](const std::string& why) {
      sound_ = false;
      diagnostics_.report(Code::E0501, {}, "the schedule of %" + stage.compute + " stages %" + staging.tensor + why);
      return false;
    };
    if (stage.placement.kind != Placement::Kind::Root || !is_place(stage, staging.loop))
      return refuse(" at loop " + std::to_string(staging.loop) +
                    ", wanted the last block loop of a compute at the root or a serial loop over its results");
    const auto op = std::find_if(graph_.ops.begin(), graph_.ops.end(),
                                 [&](const tensor::Op& candidate) { return candidate.name == stage.compute; });
    std::string why;
    const std::optional<Copy> copy = copy_of(graph_, *op, staging, {}, why);
    const std::optional<std::int64_t> more =
        copy ? copied_bytes(graph_, *op, stage, staging, *copy) : std::optional<std::int64_t>();
    if (!more || __builtin_add_overflow(bytes, *more, &bytes) || bytes > kMaxInsideBytes)
      return refuse(" at loop " + std::to_string(staging.loop) + ", whose tiles then need more than " +
                    std::to_string(kMaxInsideBytes >> 10) + " KiB of their own");
    return true;
  }

  const Schedule& schedule_;
  const tensor::Graph& graph_;
  Diagnostics& diagnostics_;
  bool sound_ = true;
};

}  // namespace

bool check(const Schedule& schedule, const tensor::Graph& graph, Diagnostics& diagnostics) {
  const std::size_t before = diagnostics.entries().size();
  std::set<std::string> scheduled;
  for (const Stage& stage : schedule.stages) {
    const auto op = std::find_if(graph.ops.begin(), graph.ops.end(),
                                 [&](const tensor::Op& candidate) { return candidate.name == stage.compute; });
    if (op == graph.ops.end() || !std::holds_alternative<Compute>(op->kind)) {
      diagnostics.report(Code::E0501, {},
                         "the schedule names %" + stage.compute + ", which is no compute of @" + graph.name);
      continue;
    }
    if (!scheduled.insert(stage.compute).second)
      diagnostics.report(Code::E0501, {}, "the schedule has %" + stage.compute + " twice");
    StageCheck(stage, graph, *op, diagnostics).run();
  }
  for (const tensor::Op& op : graph.ops) {
    if (std::holds_alternative<Compute>(op.kind) && !scheduled.contains(op.name)) {
      diagnostics.report(Code::E0501, {}, "the schedule has no loops for %" + op.name);
    }
  }
  if (diagnostics.entries().size() == before) PlacementCheck(schedule, graph, diagnostics).run();
  return diagnostics.entries().size() == before;
}

}  // namespace corrloom::schedule
