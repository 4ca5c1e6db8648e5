#include "compiler/passes/cut_reductions.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/passes/readers.h"
#include "compiler/passes/renumber.h"
#include "compiler/passes/walked_rows.h"
#include "ir/base/ir_names.h"

namespace corrloom::passes {
namespace {

using scalar::Opcode;
using scalar::Read;
using tensor::Accumulator;
using tensor::Axis;
using tensor::AxisId;
using tensor::Compute;
using tensor::Expr;
using tensor::Graph;
using tensor::Op;
using tensor::Reduction;
using tensor::TensorId;

Expr times(const Expr& a, const Expr& b) {
  if (scalar::is_constant_i64(a, 1)) return b;
  if (scalar::is_constant_i64(b, 1)) return a;
  return scalar::simplify(scalar::apply(Opcode::Mul, {a, b}));
}

/// The product of the extents from `first` up to `end`.
Expr product(const std::vector<Axis>& axes, std::size_t first, std::size_t end) {
  Expr all = scalar::constant_i64(1);
  for (std::size_t k = first; k < end; ++k) all = times(all, axes[k].extent);
  return all;
}

/// What changes nothing when a part is merged with it: the start of the reduction, but for sums of floats the zero that
/// keeps the sign of another zero.
Expr neutral(const Accumulator& accumulator) {
  const bool sum = scalar::as_apply(accumulator.merge, Opcode::Add) != nullptr && is_float(accumulator.dtype);
  return sum ? scalar::constant(scalar::Value::floating(accumulator.dtype, -0.0)) : accumulator.init;
}

/// Cuts one reduction.
class Cutter {
 public:
  Cutter(Graph& graph, IrNames& names, std::size_t op) : graph_(graph), names_(names), op_(op) {}

  /// The ops that come before the one that merges: those of parts, and reshapes that they read.
  std::vector<std::size_t> run() {
    part_ = compute().reduction->order.part;
    if (compute().reduction->axes.size() > 1) join_axes();
    const Expr all = compute().reduction->axes.front().extent;
    const auto constant = [](std::int64_t value) { return scalar::constant_i64(value); };
    const Expr whole =
        scalar::apply(Opcode::FloorDiv, {scalar::apply(Opcode::Add, {all, constant(part_ - 1)}), constant(part_)});
    count_ = scalar::simplify(scalar::apply(Opcode::Max, {whole, constant(1)}));
    const TensorId parts = add_parts(all);
    merge_parts(parts);
    return std::move(added_);
  }

 private:
  Op& op() { return graph_.ops[op_]; }
  Compute& compute() { return std::get<Compute>(op().kind); }

  TensorId add(Op op) {
    const TensorId id = graph_.add(std::move(op));
    added_.push_back(static_cast<std::size_t>(id.index));
    return id;
  }

  /// One axis for all of the reduction.
  void join_axes() {
    const std::vector<Axis> axes = compute().reduction->axes;
    const AxisId id = graph_.new_axis(axes.back().name);
    const Expr at = scalar::axis(id);
    Accumulator& accumulator = compute().reduction->accumulators.front();
    Expr step = scalar::rewrite(accumulator.step, [&](const Expr& node) -> Expr {
      const Read* read = scalar::as_read(node);
      const std::optional<std::size_t> first = read == nullptr ? std::nullopt : walked_rows(graph_, *read, axes);
      return first ? scalar::read(flat(*read, *first, axes, at), node->dtype) : nullptr;
    });
    step = scalar::substitute_axes(step, [&](AxisId used) -> Expr {
      for (std::size_t k = 0; k < axes.size(); ++k) {
        if (axes[k].id != used) continue;
        const Expr row = scalar::apply(Opcode::FloorDiv, {at, product(axes, k + 1, axes.size())});
        return scalar::apply(Opcode::Mod, {row, axes[k].extent});
      }
      return nullptr;
    });
    compute().reduction->accumulators.front().step = step;
    compute().reduction->axes = {{id, axes.back().name, product(axes, 0, axes.size())}};
  }

  /// The read of a reshape in which the dimensions from `first` on that the axes walk are one.
  Read flat(const Read& read, std::size_t first, const std::vector<Axis>& axes, const Expr& at) {
    const auto source = read.source;
    auto [found, is_new] = reshapes_.try_emplace({source, first});
    const auto joined = [&](const std::vector<Expr>& list, const Expr& one) {
      std::vector<Expr> out(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(first));
      out.push_back(one);
      out.insert(out.end(), list.begin() + static_cast<std::ptrdiff_t>(first + axes.size()), list.end());
      return out;
    };
    if (is_new) {
      const Op& shown = graph_.op(source);
      found->second = add({names_.make_unique(shown.name + ".flat"), shown.dtype,
                           joined(shown.extents, product(axes, 0, axes.size())), tensor::Reshape{source}, shown.span});
    }
    Read out = read;
    out.source = found->second;
    out.index = joined(read.index, at);
    return out;
  }

  /// The reduction of each part, on axes of its own.
  TensorId add_parts(const Expr& all) {
    Op parts = op();
    auto& reduced = std::get<Compute>(parts.kind);
    Accumulator& accumulator = reduced.reduction->accumulators.front();
    std::map<AxisId, AxisId> names;
    for (std::vector<Axis>* axes : {&reduced.axes, &reduced.reduction->axes}) {
      for (Axis& axis : *axes) {
        const AxisId before = axis.id;
        axis.id = names[before] = graph_.new_axis(axis.name);
      }
    }
    const Axis part{graph_.new_axis("part"), "part", count_};
    const Expr first = scalar::apply(Opcode::Mul, {scalar::axis(part.id), scalar::constant_i64(part_)});
    Axis& along = reduced.reduction->axes.front();
    along.origin = nullptr;
    reduced.body = scalar::accumulator(0, accumulator.dtype);
    tensor::rewrite_exprs(parts, [&](const Expr& expr) {
      return scalar::substitute_axes(expr, [&](AxisId axis) -> Expr {
        const auto found = names.find(axis);
        if (found == names.end()) return nullptr;
        const Expr renamed = scalar::axis(found->second);
        return found->second == along.id ? scalar::apply(Opcode::Add, {first, renamed}) : renamed;
      });
    });
    const std::optional<std::int64_t> size = scalar::as_i64(all);
    along.extent = scalar::constant_i64(part_);
    if (!size || *size % part_ != 0)
      along.extent = scalar::apply(Opcode::Min, {along.extent, scalar::apply(Opcode::Sub, {all, first})});
    parts.name = names_.make_unique(parts.name + ".parts");
    parts.dtype = accumulator.dtype;
    parts.extents.insert(parts.extents.begin(), count_);
    reduced.axes.insert(reduced.axes.begin(), part);
    reduced.reduction->order.part = 0;
    return add(std::move(parts));
  }

  void merge_parts(TensorId parts) {
    Reduction& reduction = *compute().reduction;
    Accumulator& accumulator = reduction.accumulators.front();
    const Axis part{graph_.new_axis("part"), "part", count_};
    Read read;
    read.source = parts;
    read.check = scalar::ReadCheck::Proven;
    read.index.push_back(scalar::axis(part.id));
    for (const Axis& axis : compute().axes) read.index.push_back(scalar::axis(axis.id));
    const Expr value = scalar::read(std::move(read), accumulator.dtype);
    accumulator.init = neutral(accumulator);
    accumulator.step = scalar::rewrite(accumulator.merge, [&](const Expr& node) -> Expr {
      const auto* of = std::get_if<scalar::AccRef>(&node->kind);
      return of != nullptr && of->other ? value : nullptr;
    });
    reduction.axes = {part};
    const bool free = reduction.order.kind == tensor::Order::Kind::Any;
    reduction.order = {free ? tensor::Order::Kind::Any : tensor::Order::Kind::Ascending};
  }

  Graph& graph_;
  IrNames& names_;
  std::size_t op_;
  std::int64_t part_ = 0;
  Expr count_;
  std::map<std::pair<TensorId, std::size_t>, TensorId> reshapes_;
  std::vector<std::size_t> added_;
};

/// Whether all elements are known to be one part.
bool is_one_part(const Reduction& reduction) {
  const std::optional<std::int64_t> size = scalar::as_i64(product(reduction.axes, 0, reduction.axes.size()));
  return size && *size <= reduction.order.part;
}

}  // namespace

Graph cut_reductions(Graph graph, PassContext& ctx) {
  const std::size_t count = graph.ops.size();
  std::vector<std::size_t> order;
  IrNames names = IrNames::with_reserved_words();
  for (const Op& op : graph.ops) names.make_unique(op.name);
  for (std::size_t k = 0; k < count; ++k) {
    auto* compute = std::get_if<Compute>(&graph.ops[k].kind);
    if (compute != nullptr && compute->reduction && compute->reduction->order.part > 0) {
      if (is_one_part(*compute->reduction)) {
        compute->reduction->order.part = 0;
      } else {
        const std::vector<std::size_t> added = Cutter(graph, names, k).run();
        order.insert(order.end(), added.begin(), added.end());
        ctx.count("reductions cut");
      }
    }
    order.push_back(k);
  }
  return order.size() == count ? graph : reorder_ops(std::move(graph), order);
}

}  // namespace corrloom::passes
