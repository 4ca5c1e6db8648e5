#include "compiler/passes/regroup.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "compiler/passes/readers.h"
#include "compiler/passes/renumber.h"
#include "compiler/passes/strides.h"
#include "ir/affine/affine.h"
#include "ir/affine/order.h"
#include "ir/base/match.h"

namespace corrloom::passes {
namespace {

using scalar::Opcode;
using scalar::Read;
using tensor::Axis;
using tensor::AxisId;
using tensor::Compute;
using tensor::Expr;
using tensor::Graph;
using tensor::Op;
using tensor::Reshape;
using tensor::TensorId;
using tensor::View;

std::size_t at(TensorId id) {
  return static_cast<std::size_t>(id.index);
}

Groups singletons(std::size_t count) {
  Groups groups;
  for (std::size_t k = 0; k < count; ++k) groups.push_back({k});
  return groups;
}

Expr product_of(const std::vector<Expr>& extents) {
  Expr product = scalar::constant_i64(1);
  for (const Expr& extent : extents) product = scalar::apply(Opcode::Mul, {product, extent});
  return scalar::simplify(product);
}

std::vector<Expr> pick(const std::vector<Expr>& from, const std::vector<std::size_t>& positions) {
  std::vector<Expr> picked;
  for (std::size_t position : positions) picked.push_back(from[position]);
  return picked;
}

std::vector<Expr> grouped_extents(const std::vector<Expr>& extents, const Groups& groups) {
  std::vector<Expr> result;
  for (const auto& group : groups) result.push_back(product_of(pick(extents, group)));
  return result;
}

bool same_extents(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), scalar::same);
}

class Regrouper {
 public:
  Regrouper(const Graph& from, const Regrouping& regrouping) : from_(from), regrouping_(regrouping) {
    to_.name = from.name;
    to_.symbols = from.symbols;
    to_.conditions = from.conditions;
  }

  Graph run() {
    for (std::size_t k = 0; k < from_.ops.size(); ++k) memory_.push_back(move(k, from_.ops[k]));
    for (TensorId input : from_.inputs) to_.inputs.push_back(memory_[at(input)]);
    for (tensor::Output output : from_.outputs) {
      output.value = with_shape(memory_[at(output.value)], from_.op(output.value).extents);
      if (output.storage_of) output.storage_of = memory_[at(output.storage_of)];
      to_.outputs.push_back(std::move(output));
    }
    return with_reshapes_behind_sources(std::move(to_));
  }

 private:
  /// Adds an op in its new shape; the memory that holds its elements.
  TensorId move(std::size_t k, const Op& op) {
    Op moved = op;
    return match(
        op.kind, [&](const tensor::Input&) { return to_.add(std::move(moved)); },
        [&](const tensor::Literal&) {
          moved.extents = grouped_extents(op.extents, regrouping_.dimensions[k]);
          return to_.add(std::move(moved));
        },
        [&](const Reshape& reshape) { return memory_[at(reshape.source)]; },
        [&](const View& view) {
          moved.kind = moved_view(view);
          return to_.add(std::move(moved));
        },
        [&](const Compute& compute) {
          moved.extents = grouped_extents(op.extents, regrouping_.dimensions[k]);
          moved.kind = moved_compute(k, compute, moved.extents);
          simplify(moved);
          return to_.add(std::move(moved));
        });
  }

  /// The memory seen in a shape: itself, or its reshape.
  TensorId with_shape(TensorId memory, const std::vector<Expr>& extents) {
    if (same_extents(to_.op(memory).extents, extents)) return memory;
    for (TensorId known : reshapes_[memory]) {
      if (same_extents(to_.op(known).extents, extents)) return known;
    }
    const Op& source = to_.op(memory);
    Op reshape{source.name, source.dtype, extents, Reshape{memory}, source.span};
    const TensorId added = to_.add(std::move(reshape));
    reshapes_[memory].push_back(added);
    return added;
  }

  View moved_view(const View& view) {
    View moved = view;
    moved.source = with_shape(memory_[at(view.source)], from_.op(view.source).extents);
    std::map<AxisId, Expr> values;
    for (Axis& axis : moved.axes) {
      const AxisId id = to_.new_axis(axis.name);
      values[axis.id] = scalar::axis(id);
      axis.id = id;
      axis.origin = nullptr;
    }
    for (Expr& subscript : moved.index) subscript = moved_expr(subscript, values);
    return moved;
  }

  /// One axis for each group; `values` learns what each old axis is in terms of the new ones.
  std::vector<Axis> moved_axes(const std::vector<Axis>& axes, const Groups& groups, const std::string& name,
                               std::map<AxisId, Expr>& values) {
    std::vector<Axis> result;
    for (const Axis& axis : axes) values[axis.id] = scalar::constant_i64(0);
    for (const auto& group : groups) {
      std::vector<Expr> extents;
      for (std::size_t position : group) extents.push_back(moved_expr(axes[position].extent, values));
      Axis axis{{}, name + std::to_string(result.size()), product_of(extents)};
      axis.id = to_.new_axis(axis.name);
      const std::vector<Expr> parts = index_at(scalar::axis(axis.id), extents);
      for (std::size_t k = 0; k < group.size(); ++k)
        values[axes[group[k]].id] = group.size() == 1 ? scalar::axis(axis.id) : parts[k];
      result.push_back(std::move(axis));
    }
    return result;
  }

  Compute moved_compute(std::size_t k, const Compute& compute, const std::vector<Expr>& extents) {
    Compute moved = compute;
    std::map<AxisId, Expr> values;
    moved.axes = moved_axes(compute.axes, regrouping_.dimensions[k], "i", values);
    for (std::size_t i = 0; i < extents.size(); ++i) moved.axes[i].extent = extents[i];
    if (compute.reduction) {
      moved.reduction->axes = moved_axes(compute.reduction->axes, regrouping_.reduced[k], "k", values);
      for (tensor::Accumulator& accumulator : moved.reduction->accumulators) {
        accumulator.init = moved_expr(accumulator.init, values);
        accumulator.step = moved_expr(accumulator.step, values);
        accumulator.merge = moved_expr(accumulator.merge, values);
      }
    }
    moved.body = moved_expr(compute.body, values);
    if (moved.reduction && moved.reduction->axes.empty()) take_one_step(moved);
    return moved;
  }

  /// A reduction of one element: the body with each accumulator replaced by its first step.
  static void take_one_step(Compute& compute) {
    const std::vector<tensor::Accumulator> accumulators = std::move(compute.reduction->accumulators);
    compute.reduction.reset();
    const auto put = [&](const Expr& expr, const std::function<Expr(std::size_t)>& value) {
      return scalar::rewrite(expr, [&](const Expr& node) -> Expr {
        const auto* reference = std::get_if<scalar::AccRef>(&node->kind);
        return reference == nullptr ? nullptr : value(static_cast<std::size_t>(reference->index));
      });
    };
    std::vector<Expr> steps;
    for (const tensor::Accumulator& accumulator : accumulators)
      steps.push_back(put(accumulator.step, [&](std::size_t k) { return accumulators[k].init; }));
    compute.body = put(compute.body, [&](std::size_t k) { return steps[k]; });
  }

  /// An expression over the new axes, its reads in the new shapes.
  Expr moved_expr(const Expr& expr, const std::map<AxisId, Expr>& values) {
    return scalar::rewrite(expr, [&](const Expr& node) -> Expr {
      if (const AxisId axis = axis_of(node)) return values.at(axis);
      const Read* read = scalar::as_read(node);
      return read == nullptr ? nullptr : moved_read(*read, node->dtype);
    });
  }

  Expr moved_read(const Read& read, DType dtype) {
    const std::vector<Expr>& extents = from_.op(read.source).extents;
    const Groups& groups = regrouping_.dimensions[at(read.source)];
    Read moved = read;
    moved.source = with_shape(memory_[at(read.source)], grouped_extents(extents, groups));
    moved.index.clear();
    for (const auto& group : groups) {
      moved.index.push_back(group.size() == 1 ? read.index[group[0]]
                                              : linear_position(pick(read.index, group), pick(extents, group)));
    }
    return scalar::read(std::move(moved), dtype);
  }

  static void simplify(Op& op) {
    const affine::Ranges ranges = ranges_of(op);
    tensor::rewrite_exprs(op, [&](const Expr& expr) { return affine::simplify_index(expr, ranges); });
  }

  /// Reshapes moved behind what they reshape, those of one source in the order of their extents.
  static Graph with_reshapes_behind_sources(Graph graph) {
    std::map<TensorId, std::vector<std::size_t>> reshapes;
    for (std::size_t k = 0; k < graph.ops.size(); ++k) {
      if (const auto* reshape = std::get_if<Reshape>(&graph.ops[k].kind)) reshapes[reshape->source].push_back(k);
    }
    const auto extents_before = [&](std::size_t a, std::size_t b) {
      const auto &left = graph.ops[a].extents, &right = graph.ops[b].extents;
      return std::lexicographical_compare(left.begin(), left.end(), right.begin(), right.end(),
                                          [](const Expr& x, const Expr& y) { return affine::compare(x, y) < 0; });
    };
    std::vector<std::size_t> order;
    for (std::size_t k = 0; k < graph.ops.size(); ++k) {
      if (std::holds_alternative<Reshape>(graph.ops[k].kind)) continue;
      order.push_back(k);
      std::vector<std::size_t>& behind = reshapes[TensorId{static_cast<std::int32_t>(k)}];
      std::sort(behind.begin(), behind.end(), extents_before);
      order.insert(order.end(), behind.begin(), behind.end());
    }
    return reorder_ops(std::move(graph), order);
  }

  const Graph& from_;
  const Regrouping& regrouping_;
  Graph to_;
  std::vector<TensorId> memory_;  ///< for each old op the new one that holds its elements
  std::map<TensorId, std::vector<TensorId>> reshapes_;
};

}  // namespace

Regrouping identity_of(const Graph& graph) {
  Regrouping regrouping;
  for (const Op& op : graph.ops) {
    regrouping.dimensions.push_back(singletons(op.extents.size()));
    const auto* compute = std::get_if<Compute>(&op.kind);
    const bool reduces = compute != nullptr && compute->reduction.has_value();
    regrouping.reduced.push_back(singletons(reduces ? compute->reduction->axes.size() : 0));
  }
  return regrouping;
}

Graph regroup(const Graph& graph, const Regrouping& regrouping) {
  return Regrouper(graph, regrouping).run();
}

}  // namespace corrloom::passes
