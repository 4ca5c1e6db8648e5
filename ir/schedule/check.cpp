#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "ir/schedule/schedule.h"

namespace corrloom::schedule {
namespace {

using tensor::Compute;

/// Checks the stage of one compute.
class StageCheck {
 public:
  StageCheck(const Stage& stage, const Compute& compute, Diagnostics& diagnostics)
      : stage_(stage), compute_(compute), diagnostics_(diagnostics) {}

  void run() {
    if (stage_.placement.kind != Placement::Kind::Root)
      report("is not placed at the root: a compute of the final graph is a kernel of its own");
    if (!stage_.staging.empty())
      report("stages " + stage_.staging.front().tensor + ": the lowering makes no copies of operands");
    if (!axes_are_known()) return;
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

  /// Blocks, threads, serial loops, reduction loops, register tile.
  void check_order() {
    int stage = 0;
    for (const Loop& loop : stage_.loops) {
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
          rank = reduction ? 3 : 2;
          break;
        case Bind::Unroll:
        case Bind::Vector:
          rank = reduction ? 3 : 4;
          break;
      }
      if (reduction && rank < 3) report("binds the reduction axis " + loop.axis + " to blocks or threads");
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
  }

  /// Cuts need an extent that is known, serial outer loops, and single steps at the end.
  void check_cuts() {
    const bool lanes = compute_.reduction->order.kind == tensor::Order::Kind::Lanes;
    for (const Loop& loop : stage_.loops) {
      const tensor::Axis* axis = reduction_axis(loop.axis);
      if (axis == nullptr || loop.step == 1) continue;
      if (lanes) report("cuts the reduction axis " + loop.axis + ", whose order is by lanes");
      if (loop.bind != Bind::Serial)
        report("unrolls the reduction axis " + loop.axis + " in steps, wanted a plain loop");
      if (!scalar::as_i64(axis->extent)) report("cuts the reduction axis " + loop.axis + ", whose extent is not known");
    }
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
        if (reduction != lanes)
          report(lanes ? "has vectors along " + loop.axis + ", wanted the last reduction axis, whose order is by lanes"
                       : "has vectors along the reduction axis " + loop.axis + ", whose order is not by lanes");
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
  const Compute& compute_;
  Diagnostics& diagnostics_;
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
    StageCheck(stage, std::get<Compute>(op->kind), diagnostics).run();
  }
  for (const tensor::Op& op : graph.ops) {
    if (std::holds_alternative<Compute>(op.kind) && !scheduled.contains(op.name)) {
      diagnostics.report(Code::E0501, {}, "the schedule has no loops for %" + op.name);
    }
  }
  return diagnostics.entries().size() == before;
}

}  // namespace corrloom::schedule
