#include "compiler/passes/set_orders.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "compiler/passes/dot_products.h"
#include "compiler/passes/readers.h"
#include "compiler/passes/running_reduction.h"
#include "compiler/passes/size_proofs.h"
#include "compiler/passes/view_places.h"
#include "compiler/passes/walked_rows.h"
#include "ir/affine/affine.h"
#include "ir/tensor/sequence.h"

namespace corrloom::passes {
namespace {

using scalar::Read;
using tensor::Axis;
using tensor::AxisId;
using tensor::Compute;
using tensor::Expr;
using tensor::Numerics;
using tensor::Order;
using tensor::Reduction;

/// Elements of a part of a reduction to one value, and to a row of values, on the host and on a GPU: enough that a part
/// costs nothing beside its elements, few enough that parts keep all processors busy. Lanes of the former for each lane
/// that rows have: nothing else is under way beside them.
constexpr std::int64_t kPart = 16384, kRowsPart = 4096, kGpuPart = 1024, kMoreLanes = 4;

bool holds(const std::vector<Axis>& axes, AxisId id) {
  return std::any_of(axes.begin(), axes.end(), [&](const Axis& axis) { return axis.id == id; });
}

/// The reads of all steps.
std::vector<const Read*> reads_of(const Reduction& reduction) {
  std::vector<const Read*> reads;
  for (const tensor::Accumulator& accumulator : reduction.accumulators) {
    scalar::for_each_node(accumulator.step, [&](const Expr& node) {
      if (const Read* read = scalar::as_read(node)) reads.push_back(read);
    });
  }
  return reads;
}

/// True when a subscript of the read is a sum of the axis and an axis of the result.
bool is_window_in(const Read& read, AxisId axis, const std::vector<Axis>& result_axes) {
  return std::any_of(read.index.begin(), read.index.end(), [&](const Expr& subscript) {
    return uses_axis(subscript, [&](AxisId used) { return used == axis; }) &&
           uses_axis(subscript, [&](AxisId used) { return holds(result_axes, used); });
  });
}

/// True when the last subscript of the read is a sum of the axis and an axis of the result.
bool is_innermost_window_in(const Read& read, AxisId axis, const std::vector<Axis>& result_axes) {
  if (read.index.empty()) return false;
  Read last = read;
  last.index = {read.index.back()};
  return is_window_in(last, axis, result_axes);
}

/// True when a step of the axis is a step of one element in memory.
bool runs_along_memory(const Read& read, AxisId axis) {
  const auto uses = [&](const Expr& subscript) {
    return uses_axis(subscript, [&](AxisId used) { return used == axis; });
  };
  if (read.index.empty() || std::any_of(read.index.begin(), read.index.end() - 1, uses)) return false;
  const std::optional<affine::LinearForm> form = affine::linear_form(read.index.back());
  if (!form || form->coefficient_of(axis) != 1) return false;
  return std::none_of(form->terms.begin(), form->terms.end(),
                      [&](const affine::LinearForm::Term& term) { return !axis_of(term.expr) && uses(term.expr); });
}

/// True when the range of some axis depends on another axis of the reduction: then elements have no number by division.
bool ranges_depend(const Reduction& reduction) {
  const auto is_reduced = [&](AxisId used) { return holds(reduction.axes, used); };
  return std::any_of(reduction.axes.begin(), reduction.axes.end(), [&](const Axis& axis) {
    return uses_axis(axis.extent, is_reduced) || (axis.origin && uses_axis(axis.origin, is_reduced));
  });
}

/// The axes with windows moved to one end, the order kept otherwise. Inside, windows along memory stand before those
/// across it: neighbouring rows of a result then share what they read. Ranges that depend on each other stay as they
/// are.
std::vector<Axis> with_windows_moved(const Compute& compute, bool inside) {
  const Reduction& reduction = *compute.reduction;
  std::vector<Axis> axes = reduction.axes;
  if (ranges_depend(reduction)) return axes;
  const std::vector<const Read*> reads = reads_of(reduction);
  std::stable_partition(axes.begin(), axes.end(), [&](const Axis& axis) {
    const bool window = std::any_of(reads.begin(), reads.end(),
                                    [&](const Read* read) { return is_window_in(*read, axis.id, compute.axes); });
    return window != inside;
  });
  if (!inside) return axes;
  const auto is_window = [&](const Axis& axis, auto&& test) {
    return std::any_of(reads.begin(), reads.end(),
                       [&](const Read* read) { return test(*read, axis.id, compute.axes); });
  };
  const auto windows =
      std::find_if(axes.begin(), axes.end(), [&](const Axis& axis) { return is_window(axis, is_window_in); });
  std::stable_partition(windows, axes.end(), [&](const Axis& axis) { return is_window(axis, is_innermost_window_in); });
  return axes;
}

/// True when the axis stands in the last subscript of the read beside an axis of the result that moves it by less than
/// `lanes` elements: such windows overlap and are short, whatever their extent.
bool is_short_window(const Read& read, AxisId axis, const std::vector<Axis>& result_axes, std::int64_t lanes) {
  if (!is_innermost_window_in(read, axis, result_axes)) return false;
  const std::optional<affine::LinearForm> form = affine::linear_form(read.index.back());
  return form && std::any_of(result_axes.begin(), result_axes.end(), [&](const Axis& moved) {
           const std::int64_t step = form->coefficient_of(moved.id);
           return step != 0 && step > -lanes && step < lanes;
         });
}

/// True when the reduction is contiguous and its result is not: then lanes fill vectors, and nothing else does.
bool fills_lanes(const Compute& compute, const std::vector<Axis>& reduced, std::int64_t lanes) {
  const std::vector<const Read*> reads = reads_of(*compute.reduction);
  const auto is_reduced = [&](const Read* read) {
    return std::any_of(read->index.begin(), read->index.end(), [&](const Expr& subscript) {
      return uses_axis(subscript, [&](AxisId used) { return holds(reduced, used); });
    });
  };
  const bool contiguous = std::any_of(reads.begin(), reads.end(),
                                      [&](const Read* read) { return runs_along_memory(*read, reduced.back().id); });
  const bool short_windows = std::any_of(reads.begin(), reads.end(), [&](const Read* read) {
    return is_short_window(*read, reduced.back().id, compute.axes, lanes);
  });
  return contiguous && !short_windows && std::none_of(reads.begin(), reads.end(), [&](const Read* read) {
           return is_reduced(read) && std::any_of(compute.axes.begin(), compute.axes.end(),
                                                  [&](const Axis& axis) { return runs_along_memory(*read, axis.id); });
         });
}

/// Views that get memory of their own, because a result shows them.
std::set<tensor::TensorId> shown_views(const tensor::Graph& graph) {
  std::set<tensor::TensorId> views;
  for (const tensor::Output& output : graph.outputs) {
    const tensor::TensorId root = storage_root(graph, output.value);
    if (is_view(graph.op(root))) views.insert(root);
  }
  return views;
}

/// The compute with reads that show how memory is walked: through views, and simplified as far as holds for all
/// extents.
Compute as_walked(const tensor::Graph& graph, const tensor::Op& op, const std::set<tensor::TensorId>& shown) {
  tensor::Op walked = op;
  const affine::SizeProof proof = size_proof_of(graph, op);
  const affine::Ranges ranges = ranges_of(op);
  const auto simplified = [&](const Expr& index) {
    return affine::simplify_index(proof.simplify(scalar::simplify(index)), ranges);
  };
  tensor::rewrite_exprs(walked, [&](const Expr& expr) {
    return scalar::rewrite(expr, [&](const Expr& node) -> Expr {
      const Read* read = scalar::as_read(node);
      if (read == nullptr) return nullptr;
      Place place{read->source, read->index};
      while (is_virtual(graph, place.source) && !shown.contains(storage_root(graph, place.source)))
        place = shown_by(graph, place);
      Read seen = *read;
      seen.source = place.source;
      seen.index.clear();
      for (const Expr& index : place.index) seen.index.push_back(simplified(index));
      return scalar::read(std::move(seen), node->dtype);
    });
  });
  return std::get<Compute>(std::move(walked.kind));
}

/// The expression with reads as they walk away from borders: a remainder by the extent is padding by the other end,
/// written out.
Expr without_wraps(const tensor::Graph& graph, const Expr& expr) {
  return scalar::rewrite(expr, [&](const Expr& node) -> Expr {
    const Read* read = scalar::as_read(node);
    if (read == nullptr) return nullptr;
    Read seen = *read;
    bool any = false;
    for (std::size_t k = 0; k < seen.index.size(); ++k) {
      const scalar::Apply* mod = scalar::as_apply(seen.index[k], scalar::Opcode::Mod);
      if (mod == nullptr || !scalar::same(mod->args[1], graph.op(seen.source).extents[k])) continue;
      seen.index[k] = mod->args[0];
      any = true;
    }
    return any ? scalar::read(std::move(seen), node->dtype) : nullptr;
  });
}

Compute without_wraps(const tensor::Graph& graph, Compute compute) {
  for (tensor::Accumulator& accumulator : compute.reduction->accumulators)
    accumulator.step = without_wraps(graph, accumulator.step);
  return compute;
}

/// True when the axis has a range that depends on sizes alone, and stands alone in one subscript of each read that it
/// moves: then neighbours along it pair up in both factors.
bool pairs_up(const Axis& last, const std::vector<const Read*>& reads) {
  bool plain = !last.origin || scalar::is_constant_i64(last.origin, 0);
  scalar::for_each_node(last.extent,
                        [&](const Expr& node) { plain &= scalar::as_read(node) == nullptr && !axis_of(node); });
  for (const Read* read : reads) {
    int places = 0;
    for (const Expr& subscript : read->index) {
      if (!uses_axis(subscript, [&](AxisId used) { return used == last.id; })) continue;
      plain &= axis_of(subscript) == last.id;
      ++places;
    }
    plain &= places <= 1 && read->pad == scalar::PadMode::None;
  }
  return plain;
}

/// The factors of a sum of products of bf16, which the machine's dot products may make where it has them.
struct Halves {
  Expr x, y, sum;
};

std::optional<Halves> halves_of(const Reduction& reduction, const Reduction& walked, const kernel::Target& target) {
  if (!has_pair_dots(target) || reduction.accumulators.size() != 1 || reduction.axes.empty()) return std::nullopt;
  const tensor::Accumulator& sum = reduction.accumulators[0];
  const scalar::Apply* fma = scalar::as_apply(sum.step, scalar::Opcode::Fma);
  if (sum.dtype != DType::F32 || fma == nullptr || !std::holds_alternative<scalar::AccRef>(fma->args[2]->kind))
    return std::nullopt;
  const auto widened = [](const Expr& factor) -> Expr {
    const scalar::Apply* cast = scalar::as_apply(factor, scalar::Opcode::Cast);
    return cast != nullptr && cast->args[0]->dtype == DType::BF16 ? cast->args[0] : nullptr;
  };
  const Expr x = widened(fma->args[0]), y = widened(fma->args[1]);
  if (x == nullptr || y == nullptr || !pairs_up(reduction.axes.back(), reads_of(walked))) return std::nullopt;
  return Halves{x, y, fma->args[2]};
}

/// One product a step: where the order leaves it to them, `pack_dots` joins neighbours.
void use_pair_dots(Reduction& reduction, const Reduction& walked, const kernel::Target& target) {
  if (const std::optional<Halves> halves = halves_of(reduction, walked, target))
    reduction.accumulators[0].step =
        scalar::apply(scalar::Opcode::Dot, {word_of_first(halves->x), word_of_second(halves->y), halves->sum});
}

/// Lanes take neighbours together, as words that lie in memory as they are; the last element of an odd number comes
/// after them.
void use_pair_dots_in_lanes(Compute& compute, const Reduction& walked, const kernel::Target& target) {
  Reduction& reduction = *compute.reduction;
  const std::optional<Halves> halves = halves_of(reduction, walked, target);
  Axis& axis = reduction.axes.back();
  const std::vector<const Read*> reads = reads_of(walked);
  const auto along = [&](const Read* read) { return runs_along_memory(*read, axis.id); };
  if (!halves || reduction.axes.size() != 1 || !std::all_of(reads.begin(), reads.end(), along)) return;
  const auto at = [&](const Expr& expr, const Expr& place) {
    return scalar::substitute_axes(expr, [&](AxisId id) { return id == axis.id ? place : nullptr; });
  };
  const Expr two = scalar::constant_i64(2), one = scalar::constant_i64(1);
  const Expr lower = scalar::apply(scalar::Opcode::Mul, {scalar::axis(axis.id), two});
  const Expr upper = scalar::apply(scalar::Opcode::Add, {lower, one});
  const auto word = [&](const Expr& factor) { return word_of_pair(at(factor, lower), at(factor, upper)); };
  Expr& step = reduction.accumulators[0].step;
  const Expr last = at(step, scalar::apply(scalar::Opcode::Sub, {axis.extent, one}));
  const Expr is_odd = scalar::apply(scalar::Opcode::Eq, {scalar::apply(scalar::Opcode::Mod, {axis.extent, two}), one});
  compute.body = scalar::rewrite(compute.body, [&](const Expr& node) -> Expr {
    if (!std::holds_alternative<scalar::AccRef>(node->kind)) return nullptr;
    return scalar::apply(scalar::Opcode::If, {is_odd, last, node});
  });
  step = scalar::apply(scalar::Opcode::Dot, {word(halves->x), word(halves->y), halves->sum});
  axis.extent = scalar::apply(scalar::Opcode::FloorDiv, {axis.extent, two});
}

/// True when the axis moves a window backwards (`x[i - p]`), and none forwards.
bool walks_backwards(AxisId axis, const Compute& walked) {
  bool backwards = false, forwards = false;
  for (const Read* read : reads_of(*walked.reduction)) {
    for (const Expr& subscript : read->index) {
      const std::optional<affine::LinearForm> form = affine::linear_form(subscript);
      if (!form) continue;
      for (const Axis& moved : walked.axes) {
        const std::int64_t along = form->coefficient_of(moved.id), step = form->coefficient_of(axis);
        backwards |= along * step < 0;
        forwards |= along * step > 0;
      }
    }
  }
  return backwards && !forwards;
}

/// Counts axes along which windows walk backwards from their other end, where the order of a sum is left to us: what
/// knows windows then finds them. True when there is one.
bool turn_windows(Compute& compute, const Compute& walked) {
  Reduction& reduction = *compute.reduction;
  if (compute.numerics.order == Numerics::OrderMode::Strict || tensor::is_in_sequence(reduction) ||
      ranges_depend(reduction) || reduction.accumulators.size() != 1 ||
      scalar::as_apply(reduction.accumulators[0].merge, scalar::Opcode::Add) == nullptr)
    return false;
  bool turned = false;
  for (const Axis& axis : reduction.axes) {
    if (axis.origin || !walks_backwards(axis.id, walked)) continue;
    const Expr last = scalar::apply(scalar::Opcode::Sub, {axis.extent, scalar::constant_i64(1)});
    const Expr place = scalar::apply(scalar::Opcode::Sub, {last, scalar::axis(axis.id)});
    Expr& step = reduction.accumulators[0].step;
    step = scalar::substitute_axes(step, [&](AxisId id) { return id == axis.id ? place : nullptr; });
    turned = true;
  }
  return turned;
}

/// True when the range depends on sizes alone.
bool is_of_sizes(const Axis& axis) {
  bool plain = true;
  scalar::for_each_node(axis.extent,
                        [&](const Expr& node) { plain &= scalar::as_read(node) == nullptr && !axis_of(node); });
  return plain;
}

/// True when the axes are used in reads alone, and those that use them walk whole rows of dimensions with them.
bool walks_rows(const tensor::Graph& graph, const Reduction& reduction) {
  bool rows = true;
  const auto is_reduced = [&](AxisId used) { return holds(reduction.axes, used); };
  const Expr others = scalar::rewrite(reduction.accumulators.front().step, [&](const Expr& node) -> Expr {
    const Read* read = scalar::as_read(node);
    if (read == nullptr || !uses_axis(node, is_reduced)) return nullptr;
    rows &= walked_rows(graph, *read, reduction.axes).has_value();
    return scalar::constant(scalar::Value{node->dtype, 0});
  });
  return rows && !uses_axis(others, is_reduced);
}

/// True when each element is used for one element of the result, beside which its neighbours in memory are used.
bool passes_by_rows(const Compute& walked) {
  bool along = false;
  for (const Read* read : reads_of(*walked.reduction)) {
    const auto uses = [&](const Axis& axis) {
      return std::any_of(read->index.begin(), read->index.end(), [&](const Expr& subscript) {
        return uses_axis(subscript, [&](AxisId used) { return used == axis.id; });
      });
    };
    const std::vector<Axis>& reduced = walked.reduction->axes;
    if (std::none_of(reduced.begin(), reduced.end(), uses)) continue;
    if (!std::all_of(reduced.begin(), reduced.end(), uses) ||
        !std::all_of(walked.axes.begin(), walked.axes.end(), uses) ||
        std::any_of(reduced.begin(), reduced.end(),
                    [&](const Axis& axis) { return is_window_in(*read, axis.id, walked.axes); }))
      return false;
    along |= runs_along_memory(*read, walked.axes.back().id);
  }
  return along;
}

/// Elements of a part where few results are made of many elements, which then are reduced in parts side by side; else
/// 0.
std::int64_t part_of(const tensor::Graph& graph, const Compute& walked, const kernel::Target& target) {
  const Reduction& reduction = *walked.reduction;
  const bool whole = walked.axes.empty();
  if (reduction.accumulators.size() != 1 || reduction.axes.empty() || tensor::is_in_sequence(reduction) ||
      !std::all_of(reduction.axes.begin(), reduction.axes.end(), is_of_sizes))
    return 0;
  if (reduction.axes.size() > 1 && !walks_rows(graph, reduction)) return 0;
  if (!whole && !passes_by_rows(walked)) return 0;
  if (target.kind != kernel::TargetKind::Host) return kGpuPart;
  return whole ? kPart : kRowsPart;
}

/// Reductions to one value whose order decides bits have lanes for several vectors; others have several of their own.
std::int64_t lanes_of(const Compute& compute, const kernel::Target& target) {
  if (!compute.axes.empty() || tensor::is_order_free(*compute.reduction)) return target.reduction_lanes;
  const int bytes = std::max(byte_size(compute.reduction->accumulators.front().dtype), 4);
  return target.reduction_lanes * kMoreLanes * 4 / bytes;
}

void set_order(const tensor::Graph& graph, Compute& compute, const Compute& walked, const kernel::Target& target) {
  Reduction& reduction = *compute.reduction;
  if (tensor::is_in_sequence(reduction)) return;
  const bool order_is_free = tensor::is_order_free(reduction) || compute.numerics.order == Numerics::OrderMode::Any;
  if (running_axis(graph, walked)) {
    // One pass for all places beats vectors that begin anew at each.
    reduction.order = {order_is_free ? Order::Kind::Any : Order::Kind::Ascending};
    if (order_is_free) compute.numerics.order = Numerics::OrderMode::Any;
    return;
  }
  const bool by_lanes = target.reduction_lanes > 1 && !reduction.axes.empty() && !ranges_depend(reduction);
  const Order lanes{Order::Kind::Lanes, lanes_of(compute, target)};
  if (order_is_free) {
    // Any order gives the bits that the op asks for: the one that fills vectors is as good as another.
    reduction.order = by_lanes && fills_lanes(walked, reduction.axes, lanes.lanes) ? lanes : Order{Order::Kind::Any};
    if (reduction.order.kind == Order::Kind::Any && target.kind == kernel::TargetKind::Host)
      reduction.axes = with_windows_moved(walked, true);
    reduction.order.part = part_of(graph, walked, target);
    // Later passes rewrite the operations, which then no longer show that they are exact.
    compute.numerics.order = Numerics::OrderMode::Any;
    return;
  }
  reduction.order = {Order::Kind::Ascending};
  if (compute.numerics.order == Numerics::OrderMode::Strict || reduction.axes.empty()) return;
  reduction.axes = with_windows_moved(walked, target.kind == kernel::TargetKind::Host);
  if (by_lanes && fills_lanes(walked, reduction.axes, lanes.lanes)) reduction.order = lanes;
  reduction.order.part = part_of(graph, walked, target);
}

}  // namespace

tensor::Graph set_orders(tensor::Graph graph, PassContext& ctx) {
  const std::set<tensor::TensorId> shown = shown_views(graph);
  for (tensor::Op& op : graph.ops) {
    auto* compute = std::get_if<Compute>(&op.kind);
    if (compute == nullptr || !compute->reduction) continue;
    Compute walked = as_walked(graph, op, shown);
    if (turn_windows(*compute, without_wraps(graph, walked))) walked = as_walked(graph, op, shown);
    set_order(graph, *compute, without_wraps(graph, walked), ctx.target);
    const bool by_lanes = compute->reduction->order.kind == Order::Kind::Lanes;
    if (compute->numerics.order == Numerics::OrderMode::Strict) continue;
    if (by_lanes) {
      use_pair_dots_in_lanes(*compute, *walked.reduction, ctx.target);
    } else if (compute->reduction->order.part == 0) {
      use_pair_dots(*compute->reduction, *walked.reduction, ctx.target);
    }
  }
  return graph;
}

}  // namespace corrloom::passes
