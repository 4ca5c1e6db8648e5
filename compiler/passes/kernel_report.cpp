#include "compiler/passes/kernel_report.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "compiler/passes/operations.h"
#include "compiler/passes/readers.h"
#include "ir/affine/affine.h"
#include "ir/base/errors.h"
#include "ir/schedule/regions.h"

namespace corrloom::passes {
namespace {

using schedule::Bind;
using schedule::Loop;
using schedule::Region;
using schedule::Regions;
using schedule::Stage;
using tensor::Axis;
using tensor::Compute;
using tensor::TensorId;

/// What one iteration of a loop touches of a tensor.
struct Footprint {
  double bytes = 0;
  std::set<scalar::AxisId> moved_by;  ///< axes of the compute that decide where it lies
};
using Footprints = std::map<TensorId, Footprint>;

std::int64_t extent_of(const Axis& axis) {
  return scalar::as_i64(axis.extent).value_or(1);
}

class Reporter {
 public:
  Reporter(const tensor::Graph& graph, const schedule::Schedule& schedule, const LoweredKernel& kernel,
           const kernel::Target& target)
      : graph_(graph),
        schedule_(schedule),
        kernel_(kernel),
        target_(target),
        op_(graph.op(kernel.compute)),
        compute_(std::get<Compute>(op_.kind)) {
    const auto found = std::find_if(schedule.stages.begin(), schedule.stages.end(),
                                    [&](const Stage& stage) { return stage.compute == op_.name; });
    CORRLOOM_CHECK(found != schedule.stages.end(), "kernel ", op_.name, " has no stage");
    stage_ = &*found;
  }

  KernelReport run(const Choices& choices) {
    report_.compute = op_.name;
    for (TensorId id : kernel_.inside) report_.inside.push_back(graph_.op(id).name);
    report_.tile = tile_text();
    report_.lane_use = lane_use();
    report_.element_bytes = byte_size(op_.dtype);
    if (compute_.reduction) {
      for (const tensor::Accumulator& accumulator : compute_.reduction->accumulators)
        report_.element_bytes = std::max(report_.element_bytes, byte_size(accumulator.dtype));
    }
    add_operands(choices);
    Operations operations = operations_of(op_);
    for (TensorId id : kernel_.inside) operations.add(1, operations_of(graph_.op(id)));
    report_.divisions = operations.divisions;
    report_.roots = operations.roots;
    for (const Choice& choice : choices) {
      const bool here = std::find(report_.inside.begin(), report_.inside.end(), choice.compute) != report_.inside.end();
      if (here || choice.compute == op_.name) report_.choices.push_back(choice);
    }
    return std::move(report_);
  }

 private:
  int loop_count() const { return static_cast<int>(stage_->loops.size()); }
  const Loop& loop(int k) const { return stage_->loops[static_cast<std::size_t>(k)]; }

  const Axis* axis_named(const std::string& name) const {
    for (const Axis& axis : compute_.axes) {
      if (axis.name == name) return &axis;
    }
    if (!compute_.reduction) return nullptr;
    for (const Axis& axis : compute_.reduction->axes) {
      if (axis.name == name) return &axis;
    }
    return nullptr;
  }

  /// Elements of its axis that the loop walks over.
  std::int64_t walked(int k) const {
    const Axis* axis = axis_named(loop(k).axis);
    std::int64_t elements = axis == nullptr ? 1 : extent_of(*axis);
    for (int outer = 0; outer < k; ++outer) {
      if (loop(outer).axis == loop(k).axis) elements = std::min(elements, loop(outer).step);
    }
    return elements;
  }
  double trips(int k) const {
    return static_cast<double>(std::max<std::int64_t>(1, (walked(k) + loop(k).step - 1) / loop(k).step));
  }

  // ---- registers

  std::string tile_text() const {
    std::map<std::string, std::int64_t> copies;
    std::vector<std::string> order;
    std::string vector_axis;
    std::int64_t lanes = 1;
    for (int k = 0; k < loop_count(); ++k) {
      const bool reduced = is_reduced(loop(k).axis);
      if (loop(k).bind == Bind::Vector) {
        vector_axis = loop(k).axis;
        lanes = reduced ? compute_.reduction->order.lanes : walked(k);
      } else if (loop(k).bind == Bind::Unroll && !reduced) {
        if (!copies.contains(loop(k).axis)) order.push_back(loop(k).axis);
        copies.try_emplace(loop(k).axis, 1).first->second *= static_cast<std::int64_t>(trips(k));
      }
    }
    std::string text;
    for (const std::string& axis : order) {
      if (axis != vector_axis) text += std::to_string(copies[axis]) + " of " + axis + " x ";
    }
    if (vector_axis.empty()) return text.empty() ? "one element at a time" : text.substr(0, text.size() - 3);
    const std::int64_t vectors = copies.contains(vector_axis) ? copies[vector_axis] : 1;
    return text + std::to_string(vectors) + (vectors == 1 ? " vector of " : " vectors of ") + std::to_string(lanes) +
           " along " + vector_axis;
  }

  bool is_reduced(const std::string& name) const {
    return compute_.reduction && std::any_of(compute_.reduction->axes.begin(), compute_.reduction->axes.end(),
                                             [&](const Axis& axis) { return axis.name == name; });
  }

  /// Of vectors on the host, of threads on a GPU: elements of what the tiles of the axis cover.
  double lane_use() const {
    double use = 1;
    const bool host = target_.kind == kernel::TargetKind::Host;
    for (int k = 0; k < loop_count(); ++k) {
      const Axis* axis = axis_named(loop(k).axis);
      if (axis == nullptr || loop(k).bind != (host ? Bind::Vector : Bind::Block)) continue;
      const bool by_lanes = is_reduced(axis->name);
      const std::int64_t width = !host ? loop(k).step : by_lanes ? compute_.reduction->order.lanes : walked(k);
      const std::int64_t extent = extent_of(*axis), wide = (extent + width - 1) / width * width;
      if (wide > 0) use *= static_cast<double>(extent) / static_cast<double>(wide);
    }
    return use;
  }

  // ---- memory

  double bytes_of(TensorId id) const {
    double bytes = byte_size(graph_.op(id).dtype);
    for (const scalar::Expr& extent : graph_.op(id).extents)
      bytes *= static_cast<double>(scalar::as_i64(extent).value_or(1));
    return bytes;
  }

  /// What the body of each loop touches; element 0 is outside of all loops. Empty when that is not known.
  std::vector<Footprints> footprints() const {
    std::vector<Footprints> out;
    for (int k = -1; k < loop_count(); ++k) {
      std::string why;
      const std::optional<Regions> regions = schedule::regions_at(graph_, schedule_, *stage_, k, why);
      if (!regions) return {};
      Footprints here;
      for (const auto& [id, region] : *regions) {
        Footprint& print = here[storage_root(graph_, id)];
        double bytes = byte_size(graph_.op(id).dtype);
        for (const Region& along : region) {
          bytes *= static_cast<double>(along.size);
          for (const auto& [axis, factor] : along.factors) print.moved_by.insert(axis);
        }
        print.bytes = std::max(print.bytes, bytes);
      }
      refine(k, here);
      here[kernel_.compute] = result_footprint(k);
      out.push_back(std::move(here));
    }
    return out;
  }

  /// Elements of an axis inside that loop.
  std::int64_t tile_size(const Axis& axis, int k) const {
    std::int64_t size = extent_of(axis);
    for (int outer = 0; outer <= k; ++outer) {
      if (loop(outer).axis == axis.name) size = std::min(size, loop(outer).step);
    }
    return size;
  }

  /// Subscripts of packed copies are quotients and remainders, which regions take for whole axes. Tiles begin at
  /// multiples of their size, so that these, too, have a size.
  void refine(int k, Footprints& here) const {
    tensor::for_each_expr(op_, [&](const scalar::Expr& root) {
      scalar::for_each_node(root, [&](const scalar::Expr& node) {
        const scalar::Read* read = scalar::as_read(node);
        if (read == nullptr || std::none_of(read->index.begin(), read->index.end(), is_quotient)) return;
        Footprint print{static_cast<double>(byte_size(graph_.op(read->source).dtype)), {}};
        for (std::size_t dim = 0; dim < read->index.size(); ++dim)
          extend(print, read->index[dim], scalar::as_i64(graph_.op(read->source).extents[dim]).value_or(1), k);
        here[storage_root(graph_, read->source)] = std::move(print);
      });
    });
  }

  static bool is_quotient(const scalar::Expr& subscript) {
    const auto* apply = std::get_if<scalar::Apply>(&subscript->kind);
    return apply != nullptr && (apply->opcode == scalar::Opcode::FloorDiv || apply->opcode == scalar::Opcode::Mod) &&
           scalar::as_i64(apply->args[1]).value_or(0) > 0;
  }

  /// Adds one subscript, over an axis of `extent`, to what the body of loop `k` touches.
  void extend(Footprint& print, const scalar::Expr& subscript, std::int64_t extent, int k) const {
    const bool quotient = is_quotient(subscript);
    const auto* apply = std::get_if<scalar::Apply>(&subscript->kind);
    const std::optional<affine::LinearForm> form = affine::linear_form(quotient ? apply->args[0] : subscript);
    const bool affine = form && form->is_affine();
    std::int64_t size = affine ? 1 : extent;
    std::set<scalar::AxisId> axes;
    for (const Axis& axis : bound_axes(op_)) {
      const std::int64_t step = affine ? form->coefficient_of(axis.id) : 0;
      if (step == 0) continue;
      size += std::abs(step) * (tile_size(axis, k) - 1);
      axes.insert(axis.id);
    }
    if (quotient) {
      const std::int64_t divisor = *scalar::as_i64(apply->args[1]);
      size = apply->opcode == scalar::Opcode::Mod ? std::min(size, divisor) : (size + divisor - 1) / divisor;
    }
    if (size < extent) print.moved_by.insert(axes.begin(), axes.end());
    print.bytes *= static_cast<double>(std::min(size, extent));
  }

  Footprint result_footprint(int k) const {
    Footprint print{static_cast<double>(byte_size(op_.dtype)), {}};
    for (const Axis& axis : compute_.axes) {
      print.bytes *= static_cast<double>(tile_size(axis, k));
      print.moved_by.insert(axis.id);
    }
    return print;
  }

  /// Bytes of a tensor that come from behind a level which holds what the body of loop `held` touches: iterations of a
  /// loop that does not move the tensor find it again until one has moved it.
  double beyond(const std::vector<Footprints>& prints, TensorId id, int held) const {
    const auto bytes_at = [&](int k) {
      const auto found = prints[static_cast<std::size_t>(k + 1)].find(id);
      return found == prints[static_cast<std::size_t>(k + 1)].end() ? 0 : found->second.bytes;
    };
    double bytes = bytes_at(held);
    bool moved = false;
    for (int k = held; k >= 0; --k) {
      const Footprints& here = prints[static_cast<std::size_t>(k + 1)];
      const auto found = here.find(id);
      const Axis* axis = axis_named(loop(k).axis);
      const bool moves = found != here.end() && axis != nullptr && found->second.moved_by.contains(axis->id);
      if (moved) {
        bytes *= trips(k);
      } else if (moves) {
        bytes = bytes_at(k - 1);
        moved = true;
      } else if (found == here.end()) {
        bytes = bytes_at(k - 1);
      }
    }
    return bytes;
  }

  /// The outermost loop whose body fits a level; the innermost one if none does.
  int held_by(const std::vector<Footprints>& prints, std::int64_t level_bytes) const {
    for (int k = -1; k < loop_count(); ++k) {
      double bytes = 0;
      for (const auto& [id, print] : prints[static_cast<std::size_t>(k + 1)]) bytes += print.bytes;
      if (bytes <= static_cast<double>(level_bytes)) return k;
    }
    return loop_count() - 1;
  }

  /// The innermost loop that is a loop in the code.
  int innermost_loop() const {
    int innermost = -1;
    for (int k = 0; k < loop_count(); ++k) {
      const bool by_lanes = loop(k).bind == Bind::Vector && is_reduced(loop(k).axis);
      if ((loop(k).bind != Bind::Unroll && loop(k).bind != Bind::Vector) || by_lanes) innermost = k;
    }
    return innermost;
  }

  void add_operands(const Choices& choices) {
    const bool host = target_.kind == kernel::TargetKind::Host;
    const std::vector<Footprints> prints = host ? footprints() : std::vector<Footprints>();
    std::set<TensorId> seen;
    for (TensorId id : kernel_.buffers) {
      const TensorId root = storage_root(graph_, id);
      if (!seen.insert(root).second) continue;
      OperandReport operand;
      operand.tensor = graph_.op(id).name;
      if (root != id) operand.view_of = graph_.op(root).name;
      operand.dtype = graph_.op(id).dtype;
      operand.use =
          root == storage_root(graph_, kernel_.compute) ? OperandReport::Use::Written : OperandReport::Use::Read;
      operand.bytes = operand.touched = bytes_of(id);
      if (operand.use == OperandReport::Use::Read) {
        operand.touched = std::min(operand.bytes, read_bytes(root));
        operand.why_outside = why_outside(root, choices);
      }
      report_.least_bytes += operand.touched;
      if (!prints.empty()) add_traffic(prints, root, operand);
      report_.operands.push_back(std::move(operand));
    }
    for (TensorId id : kernel_.inside) {
      OperandReport operand{.tensor = graph_.op(id).name,
                            .dtype = graph_.op(id).dtype,
                            .use = OperandReport::Use::Inside,
                            .bytes = tile_bytes(id)};
      if (!prints.empty()) add_tile_traffic(prints, id, operand);
      report_.operands.push_back(std::move(operand));
    }
  }

  /// The most bytes of a tensor that the kernel can read without reading any of them again.
  double read_bytes(TensorId root) const {
    for (TensorId id : kernel_.inside) {
      bool reads = false;
      for_each_use(graph_.op(id), [&](TensorId source, auto) { reads |= storage_root(graph_, source) == root; });
      if (reads) return std::numeric_limits<double>::infinity();
    }
    double points = byte_size(graph_.op(root).dtype);
    for (const Axis& axis : bound_axes(op_)) points *= static_cast<double>(extent_of(axis));
    double bytes = 0;
    for_each_use(op_, [&](TensorId source, auto) { bytes += storage_root(graph_, source) == root ? points : 0; });
    return bytes;
  }

  /// Of the tile of a compute inside that the kernel keeps at a time; of all of it where that is not known.
  double tile_bytes(TensorId id) const {
    for (const Stage& stage : schedule_.stages) {
      if (stage.compute != graph_.op(id).name) continue;
      std::string why;
      const auto regions = schedule::regions_at(graph_, schedule_, *stage_, stage.placement.loop, why);
      if (!regions || !regions->contains(id)) break;
      double bytes = byte_size(graph_.op(id).dtype);
      for (const Region& region : regions->at(id)) bytes *= static_cast<double>(region.size);
      return bytes;
    }
    return bytes_of(id);
  }

  /// Whether only what comes before or after the reduction reads a tensor.
  bool is_outside_reduction(TensorId root) const {
    if (!compute_.reduction) return false;
    for (const tensor::Accumulator& accumulator : compute_.reduction->accumulators) {
      bool reads = false;
      scalar::for_each_node(accumulator.step, [&](const scalar::Expr& node) {
        const scalar::Read* read = scalar::as_read(node);
        reads |= read != nullptr && storage_root(graph_, read->source) == root;
      });
      if (reads) return false;
    }
    return true;
  }

  /// Bytes that the innermost loop loads, or nothing where it does not read the tensor.
  std::optional<double> loaded(const std::vector<Footprints>& prints, TensorId root) const {
    const int innermost = innermost_loop();
    const Footprints& body = prints[static_cast<std::size_t>(innermost + 1)];
    const auto found = body.find(root);
    if (found == body.end()) return std::nullopt;
    const bool outside = is_outside_reduction(root);
    double bytes = found->second.bytes;
    for (int k = 0; k <= innermost; ++k) bytes *= outside && is_reduced(loop(k).axis) ? 1 : trips(k);
    // Regions of subscripts that are not affine are whole axes; no point of the domain reads more than its elements.
    return std::min(bytes, read_bytes(root));
  }

  void add_traffic(const std::vector<Footprints>& prints, TensorId root, OperandReport& operand) const {
    if (operand.use == OperandReport::Use::Written) {
      // Results stay in registers until they are whole.
      operand.loads = 0;
      operand.beyond_l1 = operand.beyond_l2 = operand.beyond_l3 = operand.bytes;
      return;
    }
    // What is skipped between elements is not fetched either, where it is more than a line.
    const std::optional<double> loads = loaded(prints, root);
    const double most = loads.value_or(std::numeric_limits<double>::infinity());
    operand.beyond_l1 = std::min(most, beyond(prints, root, held_by(prints, target_.l1_bytes)));
    operand.beyond_l2 = std::min(most, beyond(prints, root, held_by(prints, target_.l2_bytes)));
    operand.beyond_l3 = std::min(most, beyond(prints, root, held_by(prints, target_.l3_bytes)));
    if (!loads) return;  // only computes inside read it, in loops of their own
    operand.loads = *loads;
    const double once = std::max(operand.beyond_l3, 1.0) * 1.25;
    operand.reread_from = std::max(operand.loads, operand.beyond_l1) <= once ? "nothing"
                          : operand.beyond_l1 <= once                        ? "L1"
                          : operand.beyond_l2 <= once                        ? "L2"
                          : operand.beyond_l3 <= operand.bytes * 1.25        ? "L3"
                                                                             : "memory";
  }

  /// Of a tile that is computed inside: it lies in the smallest level that holds it.
  void add_tile_traffic(const std::vector<Footprints>& prints, TensorId id, OperandReport& operand) const {
    operand.loads = loaded(prints, id).value_or(0);
    const auto behind = [&](std::int64_t level_bytes) {
      if (operand.bytes <= static_cast<double>(level_bytes)) return 0.0;
      return std::min(operand.loads, beyond(prints, id, held_by(prints, level_bytes)));
    };
    operand.beyond_l1 = behind(target_.l1_bytes);
    operand.beyond_l2 = behind(target_.l2_bytes);
    operand.beyond_l3 = behind(target_.l3_bytes);
  }

  /// Why a value that another kernel computes is not computed here.
  std::string why_outside(TensorId id, const Choices& choices) const {
    if (!std::holds_alternative<Compute>(graph_.op(id).kind)) return "";
    for (const tensor::Output& output : graph_.outputs) {
      if (storage_root(graph_, output.value) == id) return "it is a result of the op";
    }
    for (const Choice& choice : choices) {
      if (choice.compute == graph_.op(id).name && !choice.not_inside.empty()) return choice.not_inside;
    }
    if (target_.kind != kernel::TargetKind::Host) return "kernels of a GPU compute one value each";
    int readers = 0;
    for (const tensor::Op& op : graph_.ops) {
      bool reads = false;
      for_each_use(op, [&](TensorId source, const scalar::Read*) { reads |= storage_root(graph_, source) == id; });
      readers += reads && std::holds_alternative<Compute>(op.kind) ? 1 : 0;
    }
    return readers > 1 ? "several kernels read it" : "a copy that the schedule asks for, made before the loops begin";
  }

  const tensor::Graph& graph_;
  const schedule::Schedule& schedule_;
  const LoweredKernel& kernel_;
  const kernel::Target& target_;
  const tensor::Op& op_;
  const Compute& compute_;
  const Stage* stage_ = nullptr;
  KernelReport report_;
};

}  // namespace

KernelReport report_kernel(const tensor::Graph& graph, const schedule::Schedule& schedule, const LoweredKernel& kernel,
                           const kernel::Target& target, const Choices& choices) {
  return Reporter(graph, schedule, kernel, target).run(choices);
}

}  // namespace corrloom::passes
