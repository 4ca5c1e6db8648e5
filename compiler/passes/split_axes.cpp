#include "compiler/passes/split_axes.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/passes/readers.h"
#include "compiler/passes/renumber.h"
#include "ir/affine/affine.h"

namespace corrloom::passes {
namespace {

using scalar::Opcode;
using tensor::Axis;
using tensor::AxisId;
using tensor::Compute;
using tensor::Expr;
using tensor::Graph;
using tensor::Op;
using tensor::TensorId;

/// Longest inner axis of which quotients or remainders may be left: its elements are taken one by one.
constexpr std::int64_t kLongestUneven = 4;

/// An axis as `outer * length + inner`.
struct Split {
  AxisId axis;
  std::int64_t length = 1;
};

/// The ids that the two axes of the next split have in a graph.
struct Parts {
  AxisId outer, inner;
};
Parts next_axes(const Graph& graph) {
  const auto count = static_cast<std::int32_t>(graph.axis_names.size());
  return {AxisId{count}, AxisId{count + 1}};
}

/// A quotient or remainder by a constant, which some subscript or value of an op uses.
struct Division {
  Expr dividend;
  std::int64_t divisor;
};

std::vector<Division> divisions_of(const Op& op) {
  std::vector<Division> found;
  tensor::for_each_expr(op, [&](const Expr& root) {
    scalar::for_each_node(root, [&](const Expr& node) {
      const auto* apply = std::get_if<scalar::Apply>(&node->kind);
      if (apply == nullptr || node->dtype != DType::I64) return;
      if (apply->opcode != Opcode::FloorDiv && apply->opcode != Opcode::Mod) return;
      const std::optional<std::int64_t> divisor = scalar::as_i64(apply->args[1]);
      if (divisor && *divisor > 1) found.push_back({apply->args[0], *divisor});
    });
  });
  return found;
}

/// The axes that the op binds whose extents are constants, with those.
std::map<AxisId, std::int64_t> constant_axes(const Op& op) {
  std::map<AxisId, std::int64_t> extents;
  for (const Axis& axis : bound_axes(op)) {
    if (const std::optional<std::int64_t> extent = scalar::as_i64(axis.extent)) extents[axis.id] = *extent;
  }
  return extents;
}

/// True when the range of another axis depends on the axis.
bool bounds_others(const Op& op, AxisId id) {
  const std::vector<Axis> axes = bound_axes(op);
  return std::any_of(axes.begin(), axes.end(), [&](const Axis& other) {
    return uses_axis(other.extent, [&](AxisId axis) { return axis == id; });
  });
}

/// The splits that make an axis even in one of the divisions: steps of the outer axis are multiples of the divisor.
std::vector<Split> candidates(const Op& op) {
  std::vector<Split> found;
  const std::vector<Division> divisions = divisions_of(op);
  if (divisions.empty()) return found;
  const std::map<AxisId, std::int64_t> extents = constant_axes(op);
  for (const Division& division : divisions) {
    const std::optional<affine::LinearForm> form = affine::linear_form(division.dividend);
    if (!form) continue;
    for (const affine::LinearForm::Term& term : form->terms) {
      const auto axis = extents.find(axis_of(term.expr));
      if (axis == extents.end() || term.coefficient == INT64_MIN) continue;
      const std::int64_t length = division.divisor / std::gcd(term.coefficient, division.divisor);
      const bool divides = length > 1 && length < axis->second && axis->second % length == 0;
      if (divides && !bounds_others(op, axis->first)) found.push_back({axis->first, length});
    }
  }
  return found;
}

/// How much the divisions of an op stand in the way: for each of them, how many values it takes its axes through.
double weight_of(const Op& op) {
  const std::map<AxisId, std::int64_t> extents = constant_axes(op);
  constexpr double kUnknownExtent = 1 << 20;
  double weight = 0;
  for (const Division& division : divisions_of(op)) {
    double values = 1;
    std::vector<AxisId> seen;
    scalar::for_each_node(division.dividend, [&](const Expr& node) {
      const AxisId axis = axis_of(node);
      if (!axis || std::find(seen.begin(), seen.end(), axis) != seen.end()) return;
      seen.push_back(axis);
      const auto extent = extents.find(axis);
      values *= extent == extents.end() ? kUnknownExtent : static_cast<double>(extent->second);
    });
    weight += values;
  }
  return weight;
}

/// Where the axis of a split went: to no division, to divisions of the short inner axis alone, or to others.
enum class Left { Nothing, InnerAlone, Others };
Left left_of(const Op& op, const Parts& parts) {
  Left left = Left::Nothing;
  for (const Division& division : divisions_of(op)) {
    const auto is_part = [&](AxisId axis) { return axis == parts.outer || axis == parts.inner; };
    if (!uses_axis(division.dividend, is_part)) continue;
    if (uses_axis(division.dividend, [&](AxisId axis) { return axis != parts.inner; })) return Left::Others;
    left = Left::InnerAlone;
  }
  return left;
}

bool is_too_deep(const Op& op) {
  bool result = false;
  tensor::for_each_expr(op, [&](const Expr& expr) { result = result || expr->depth > scalar::kMaxDepth; });
  return result;
}

/// The place of an axis in a list, or its length.
std::size_t place_of(const std::vector<Axis>& axes, AxisId id) {
  return static_cast<std::size_t>(
      std::find_if(axes.begin(), axes.end(), [&](const Axis& axis) { return axis.id == id; }) - axes.begin());
}

/// The op with that axis in two.
Op split_op(Op op, const Split& split, const Parts& parts) {
  auto& compute = std::get<Compute>(op.kind);
  std::size_t place = place_of(compute.axes, split.axis);
  const bool is_result = place < compute.axes.size();
  std::vector<Axis>& axes = is_result ? compute.axes : compute.reduction->axes;
  if (!is_result) place = place_of(axes, split.axis);
  const auto at = static_cast<std::ptrdiff_t>(place);
  const Expr outer = scalar::constant_i64(*scalar::as_i64(axes[place].extent) / split.length),
             inner = scalar::constant_i64(split.length);
  axes[place] = Axis{parts.outer, axes[place].name, outer};
  axes.insert(axes.begin() + at + 1, Axis{parts.inner, axes[place].name, inner});
  if (is_result) {
    op.extents[place] = outer;
    op.extents.insert(op.extents.begin() + at + 1, inner);
  }
  const Expr whole = scalar::apply(
      Opcode::Add, {scalar::apply(Opcode::Mul, {scalar::axis(parts.outer), inner}), scalar::axis(parts.inner)});
  const affine::Ranges ranges = ranges_of(op);
  tensor::rewrite_exprs(op, [&](const Expr& expr) {
    const Expr moved =
        scalar::substitute_axes(expr, [&](AxisId axis) -> Expr { return axis == split.axis ? whole : nullptr; });
    return moved == expr ? expr : affine::simplify_index(moved, ranges);
  });
  return op;
}

/// The split that helps most, already made; nothing where none helps.
std::optional<Op> best_split(const Graph& graph, const Op& op) {
  const Parts parts = next_axes(graph);
  std::optional<Op> best;
  double least = weight_of(op);
  for (const Split& split : candidates(op)) {
    Op trial = split_op(op, split, parts);
    const Left left = left_of(trial, parts);
    if (left == Left::Others || (left == Left::InnerAlone && split.length > kLongestUneven)) continue;
    if (is_too_deep(trial)) continue;
    const double weight = weight_of(trial);
    if (weight >= least) continue;
    least = weight;
    best = std::move(trial);
  }
  return best;
}

/// Splits the axes of op `k` as long as that helps; true when its shape is another one.
bool split_axes_of(Graph& graph, std::size_t k, PassContext& ctx) {
  const std::size_t rank = graph.ops[k].extents.size();
  const auto* compute = std::get_if<Compute>(&graph.ops[k].kind);
  if (compute == nullptr || !compute->reduction) return false;
  while (std::optional<Op> split = best_split(graph, graph.ops[k])) {
    const std::vector<Axis> axes = bound_axes(*split);
    const std::string name = axes[place_of(axes, next_axes(graph).outer)].name;
    graph.new_axis(name);
    graph.new_axis(name);
    graph.ops[k] = std::move(*split);
    ctx.count("axes split");
  }
  return graph.ops[k].extents.size() != rank;
}

/// Lets every use of the ops after them be one of those reshapes, which keep the shapes that the ops had.
Graph with_reshapes(Graph graph, const std::map<TensorId, TensorId>& reshapes) {
  const auto now = [&](TensorId id) {
    const auto found = reshapes.find(id);
    return found == reshapes.end() ? id : found->second;
  };
  for (Op& op : graph.ops) {
    if (auto* view = std::get_if<tensor::View>(&op.kind)) view->source = now(view->source);
    tensor::rewrite_exprs(op, [&](const Expr& expr) {
      return scalar::rewrite(expr, [&](const Expr& node) -> Expr {
        const scalar::Read* read = scalar::as_read(node);
        if (read == nullptr || now(read->source) == read->source) return nullptr;
        scalar::Read moved = *read;
        moved.source = now(read->source);
        return scalar::read(std::move(moved), node->dtype);
      });
    });
  }
  for (tensor::Output& output : graph.outputs) output.value = now(output.value);
  std::vector<std::size_t> order;
  for (std::size_t k = 0; k < graph.ops.size() - reshapes.size(); ++k) {
    order.push_back(k);
    const auto behind = reshapes.find(TensorId{static_cast<std::int32_t>(k)});
    if (behind != reshapes.end()) order.push_back(static_cast<std::size_t>(behind->second.index));
  }
  return reorder_ops(std::move(graph), order);
}

}  // namespace

Graph split_axes(Graph graph, PassContext& ctx) {
  std::map<TensorId, TensorId> reshapes;
  const std::size_t count = graph.ops.size();
  for (std::size_t k = 0; k < count; ++k) {
    const std::vector<Expr> extents = graph.ops[k].extents;
    if (!split_axes_of(graph, k, ctx)) continue;
    const Op& op = graph.ops[k];
    const TensorId source{static_cast<std::int32_t>(k)};
    reshapes[source] = graph.add(Op{op.name, op.dtype, extents, tensor::Reshape{source}, op.span});
  }
  return reshapes.empty() ? graph : with_reshapes(std::move(graph), reshapes);
}

}  // namespace corrloom::passes
