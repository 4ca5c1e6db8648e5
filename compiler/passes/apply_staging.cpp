#include "compiler/passes/apply_staging.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/passes/choose_schedule.h"
#include "compiler/passes/host_schedule.h"
#include "compiler/passes/renumber.h"
#include "compiler/passes/strides.h"
#include "ir/affine/affine.h"
#include "ir/base/errors.h"
#include "ir/base/ir_names.h"
#include "ir/schedule/regions.h"
#include "ir/schedule/staging.h"

namespace corrloom::passes {
namespace {

using scalar::AxisId;
using scalar::Expr;
using scalar::Opcode;
using schedule::Copy;
using schedule::Staging;
using tensor::TensorId;
using DimKind = Staging::Dim::Kind;

Expr number(std::int64_t value) {
  return scalar::constant_i64(value);
}
Expr sum(const Expr& a, std::int64_t b) {
  return b == 0 ? a : scalar::apply(Opcode::Add, {a, number(b)});
}
Expr product(const Expr& a, std::int64_t b) {
  return b == 1 ? a : scalar::apply(Opcode::Mul, {a, number(b)});
}

/// Makes the copy of one staging.
class CopyBuilder {
 public:
  CopyBuilder(tensor::Graph& graph, TensorId reader, const schedule::Stage& stage, const Staging& staging, Copy copy)
      : graph_(graph), reader_(reader), stage_(stage), staging_(staging), copy_(std::move(copy)) {}

  /// Appends the copy to the graph, lets the reader read it, and gives its number.
  TensorId run(const std::string& name) {
    group_dims();
    tensor::Op op;
    op.name = name;
    op.dtype = copy_.staged.expr->dtype;
    tensor::Compute compute;
    for (std::size_t k = 0; k < groups_.size(); ++k) {
      const std::string axis_name = "d" + std::to_string(k);
      compute.axes.push_back({graph_.new_axis(axis_name), axis_name, number(groups_[k].extent)});
      op.extents.push_back(number(groups_[k].extent));
    }
    compute.body = element(compute.axes);
    op.kind = std::move(compute);
    const TensorId copied = graph_.add(std::move(op));
    replace_reads(copied);
    return copied;
  }

 private:
  /// A dimension of the copy: one entry of the layout, or several that walk memory together.
  struct Group {
    std::vector<std::size_t> dims;
    std::int64_t extent = 1;
  };

  const schedule::Part& part(std::size_t dim) const {
    return copy_.staged.parts[static_cast<std::size_t>(copy_.parts[dim])];
  }
  std::int64_t extent(std::size_t dim) const { return schedule::extent_in(copy_, staging_, dim); }

  /// The dimension of the tensor that the layout's entry walks from end to end in a plain read, or -1.
  int walked_dimension(std::size_t dim) const {
    const scalar::Read* read = scalar::as_read(copy_.staged.expr);
    if (read == nullptr || staging_.layout[dim].kind != DimKind::Whole || part(dim).low != 0) return -1;
    const auto uses = std::count_if(copy_.staged.uses.begin(), copy_.staged.uses.end(),
                                    [&](const auto& use) { return use.second.part == copy_.parts[dim]; });
    int found = uses == 1 ? -1 : -2;
    for (std::size_t k = 0; found >= -1 && k < read->index.size(); ++k) {
      const auto use = copy_.staged.uses.find(read->index[k].get());
      if (use == copy_.staged.uses.end() || use->second.part != copy_.parts[dim]) continue;
      if (found >= 0 || use->second.factor != 1 || use->second.constant != 0) return -1;
      if (scalar::as_i64(graph_.op(read->source).extents[k]) != std::optional(part(dim).count())) return -1;
      found = static_cast<int>(k);
    }
    return std::max(found, -1);
  }

  /// Whether the dimension is needed from end to end where the copy is made: no loop around it walks its axes.
  bool is_whole(std::size_t dim) const {
    const auto& terms = part(dim).terms;
    return std::all_of(terms.begin(), terms.end(), [&](const affine::LinearForm::Term& term) {
      const auto* axis = std::get_if<scalar::AxisRef>(&term.expr->kind);
      for (int k = 0; axis != nullptr && k <= staging_.loop; ++k) {
        if (stage_.loops[static_cast<std::size_t>(k)].axis ==
            graph_.axis_names[static_cast<std::size_t>(axis->axis.index)])
          return false;
      }
      return axis != nullptr;
    });
  }

  void group_dims() {
    for (std::size_t dim = 0; dim < staging_.layout.size(); ++dim) {
      const int before = dim > 0 ? walked_dimension(dim - 1) : -1, here = walked_dimension(dim);
      if (before < 0 || here != before + 1 || !is_whole(dim)) groups_.emplace_back();
      groups_.back().dims.push_back(dim);
      groups_.back().extent *= extent(dim);
    }
  }

  /// The element of the copy at its axes.
  Expr element(const std::vector<tensor::Axis>& axes) {
    std::map<int, Expr> values;  // of the parts
    std::map<int, std::int64_t> padded;
    for (std::size_t k = 0; k < groups_.size(); ++k) {
      if (groups_[k].dims.size() > 1) continue;
      const std::size_t dim = groups_[k].dims[0];
      const Expr axis = scalar::axis(axes[k].id);
      const Expr scaled =
          staging_.layout[dim].kind == DimKind::Outer ? product(axis, staging_.layout[dim].block) : axis;
      Expr& value = values[copy_.parts[dim]];
      value = value ? scalar::apply(Opcode::Add, {value, scaled}) : scaled;
      if (staging_.layout[dim].kind != DimKind::Whole && part(dim).count() % staging_.layout[dim].block != 0)
        padded[copy_.parts[dim]] = part(dim).count();
    }
    Expr condition;
    for (const auto& [number_of_part, count] : padded) {
      const Expr inside = scalar::apply(Opcode::Lt, {values[number_of_part], number(count)});
      condition = condition ? scalar::apply(Opcode::LazyAnd, {condition, inside}) : inside;
    }
    const Expr value = has_joined_dims() ? joined_read(axes, values) : moved(copy_.staged.expr, values);
    if (!condition) return value;
    return scalar::apply(Opcode::If, {condition, value, scalar::constant(scalar::Value{value->dtype, 0})});
  }

  /// A sub-expression of the copied expression at the copy's axes.
  Expr moved(const Expr& expr, const std::map<int, Expr>& values) const {
    std::vector<Expr> of_parts(copy_.staged.parts.size());
    for (const auto& [part_number, value] : values) {
      const auto position = static_cast<std::size_t>(part_number);
      of_parts[position] = sum(value, copy_.staged.parts[position].low);
    }
    return in_parts(copy_.staged, expr, of_parts);
  }

  bool has_joined_dims() const {
    return std::any_of(groups_.begin(), groups_.end(), [](const Group& group) { return group.dims.size() > 1; });
  }

  /// A read through a reshape in which the joined dimensions are one.
  Expr joined_read(const std::vector<tensor::Axis>& axes, const std::map<int, Expr>& values) {
    const scalar::Read& read = *scalar::as_read(copy_.staged.expr);
    const tensor::Op source = graph_.op(read.source);
    std::vector<std::size_t> joined_into(read.index.size(), groups_.size());
    for (std::size_t k = 0; k < groups_.size(); ++k) {
      if (groups_[k].dims.size() < 2) continue;
      for (std::size_t dim : groups_[k].dims) joined_into[static_cast<std::size_t>(walked_dimension(dim))] = k;
    }
    tensor::Op flat{source.name + ".flat", source.dtype, {}, tensor::Reshape{read.source}};
    scalar::Read changed = read;
    changed.index.clear();
    for (std::size_t k = 0; k < read.index.size(); ++k) {
      const std::size_t group = joined_into[k];
      if (group < groups_.size()) {
        if (k > 0 && joined_into[k - 1] == group) continue;
        flat.extents.push_back(number(groups_[group].extent));
        changed.index.push_back(scalar::axis(axes[group].id));
      } else {
        flat.extents.push_back(source.extents[k]);
        changed.index.push_back(moved(read.index[k], values));
      }
    }
    changed.source = graph_.add(std::move(flat));
    reshape_ = changed.source;
    return scalar::read(std::move(changed), copy_.staged.expr->dtype);
  }

  void replace_reads(TensorId copied) {
    scalar::Read read;
    read.source = copied;
    read.check = scalar::ReadCheck::Proven;
    for (const Group& group : groups_) {
      Expr index = schedule::index_in(copy_, staging_, group.dims[0]);
      for (std::size_t k = 1; k < group.dims.size(); ++k) {
        index = scalar::apply(
            Opcode::Add, {product(index, extent(group.dims[k])), schedule::index_in(copy_, staging_, group.dims[k])});
      }
      read.index.push_back(std::move(index));
    }
    const Expr replacement = scalar::read(std::move(read), copy_.staged.expr->dtype);
    auto& compute = std::get<tensor::Compute>(graph_.op(reader_).kind);
    for (tensor::Accumulator& accumulator : compute.reduction->accumulators) {
      accumulator.step = scalar::rewrite(accumulator.step, [&](const Expr& node) -> Expr {
        return node == copy_.staged.expr || scalar::same(node, copy_.staged.expr) ? replacement : nullptr;
      });
    }
  }

 public:
  TensorId reshape() const { return reshape_; }

 private:
  tensor::Graph& graph_;
  TensorId reader_;
  const schedule::Stage& stage_;  ///< of the reader
  const Staging& staging_;
  Copy copy_;
  std::vector<Group> groups_;
  TensorId reshape_;
};

/// What a copy reads with steps that the processor does not see coming is brought near: rows of a page and more apart
/// that come from memory, or, where parts are copied across, the next lines of each row.
void add_prefetch(const tensor::Graph& graph, TensorId copied, schedule::Stage& stage, const PassContext& ctx) {
  constexpr std::int64_t kPageBytes = 4096, kRowsAhead = 32, kElementsAhead = 64;
  const tensor::Op& op = graph.op(copied);
  const auto& axes = std::get<tensor::Compute>(op.kind).axes;
  if (ctx.target.kind != kernel::TargetKind::Host || axes.size() < 2) return;
  scalar::for_each_node(std::get<tensor::Compute>(op.kind).body, [&](const Expr& node) {
    const scalar::Read* read = scalar::as_read(node);
    if (read == nullptr) return;
    const tensor::Op& source = graph.op(read->source);
    std::int64_t bytes = byte_size(source.dtype);
    for (const Expr& extent : source.extents) bytes *= scalar::as_i64(extent).value_or(1);
    const std::optional<affine::LinearForm> place = affine::linear_form(linear_position(read->index, source.extents));
    if (!place || bytes <= ctx.target.l2_bytes) return;
    const tensor::Axis& row = axes[axes.size() - 2];
    const std::int64_t along = place->coefficient_of(axes.back().id), next = place->coefficient_of(row.id);
    if (along == 1 && std::abs(next) * byte_size(source.dtype) >= ctx.target.at_scale(kPageBytes))
      stage.prefetches = {{source.name, row.name, kRowsAhead}};
    if (along > 1 && next == 1 && stage.placement.kind == schedule::Placement::Kind::At)
      stage.prefetches = {{source.name, row.name, kElementsAhead}};
  });
}

/// The stage of a copy that is made at that loop of its reader.
schedule::Stage stage_inside(const tensor::Graph& graph, TensorId copied, const schedule::Stage& reader, int loop,
                             const kernel::Target& target) {
  std::string why;
  const auto regions = schedule::regions_at(graph, {graph.name, target.name, {reader}}, reader, loop, why);
  CORRLOOM_CHECK(regions && regions->contains(copied), "a copy of parts that are not known: ", why);
  schedule::Stage stage{graph.op(copied).name, {schedule::Placement::Kind::At, reader.compute, loop}};
  stage.loops = inner_loops(graph, copied, regions->at(copied), target);
  return stage;
}

}  // namespace

Scheduled apply_staging(tensor::Graph graph, schedule::Schedule schedule, PassContext& ctx) {
  const std::size_t computes = graph.ops.size();
  std::vector<std::vector<std::size_t>> before(computes);
  std::vector<schedule::Stage> stages;
  IrNames names;
  for (const tensor::Op& op : graph.ops) names.make_unique(op.name);
  for (schedule::Stage& stage : schedule.stages) {
    const std::vector<Staging> stagings = std::exchange(stage.staging, {});
    const auto op = std::find_if(graph.ops.begin(), graph.ops.end(),
                                 [&](const tensor::Op& candidate) { return candidate.name == stage.compute; });
    const TensorId reader{static_cast<std::int32_t>(op - graph.ops.begin())};
    for (const Staging& staging : stagings) {
      std::string why;
      std::optional<Copy> copy = copy_of(graph, graph.op(reader), staging, {}, why);
      CORRLOOM_CHECK(copy.has_value(), "a staging of ", staging.tensor, " that ", why);
      CopyBuilder builder(graph, reader, stage, staging, *std::move(copy));
      const TensorId copied = builder.run(names.make_unique(staging.tensor + ".packed"));
      if (builder.reshape()) {
        tensor::Op& reshape = graph.op(builder.reshape());
        reshape.name = names.make_unique(reshape.name);
        before[static_cast<std::size_t>(reader.index)].push_back(static_cast<std::size_t>(builder.reshape().index));
      }
      before[static_cast<std::size_t>(reader.index)].push_back(static_cast<std::size_t>(copied.index));
      stages.push_back(staging.loop < 0 ? choose_stage(graph, graph.op(copied), ctx)
                                        : stage_inside(graph, copied, stage, staging.loop, ctx.target));
      add_prefetch(graph, copied, stages.back(), ctx);
      ctx.count("copies");
    }
    stages.push_back(std::move(stage));
  }
  schedule.stages = std::move(stages);
  if (graph.ops.size() == computes) return {std::move(graph), std::move(schedule)};
  std::vector<std::size_t> order;
  for (std::size_t k = 0; k < computes; ++k) {
    order.insert(order.end(), before[k].begin(), before[k].end());
    order.push_back(k);
  }
  return {reorder_ops(std::move(graph), order), std::move(schedule)};
}

}  // namespace corrloom::passes
