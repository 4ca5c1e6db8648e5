#include "compiler/passes/canonicalise.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/passes/readers.h"
#include "compiler/passes/regroup.h"
#include "compiler/passes/remove_dead_ops.h"
#include "ir/affine/affine.h"
#include "ir/affine/order.h"

namespace corrloom::passes {
namespace {

using scalar::Apply;
using scalar::Opcode;
using scalar::PadMode;
using scalar::Read;
using tensor::Axis;
using tensor::AxisId;
using tensor::Compute;
using tensor::Expr;
using tensor::Graph;
using tensor::Op;
using tensor::TensorId;

std::size_t at(TensorId id) {
  return static_cast<std::size_t>(id.index);
}

/// True when the read looks at each subscript by itself: it pads, or checks at run time.
bool judges_subscripts(const Read& read) {
  return read.pad != PadMode::None || read.check == scalar::ReadCheck::Runtime;
}

void for_each_read(const Op& op, const std::function<void(const Read&)>& visit) {
  for_each_use(op, [&](TensorId, const Read* read) {
    if (read != nullptr) visit(*read);
  });
}

/// How many dimensions of a read keep their places, because an error may name one of them by its place: up to the last
/// one that the read may leave.
std::size_t places_to_keep(const Graph& graph, const Read& read, const affine::Ranges& ranges) {
  if (read.check != scalar::ReadCheck::Runtime) return 0;
  std::size_t count = read.index.size();
  const auto stays_inside = [&](std::size_t k) {
    const std::optional<std::int64_t> extent = scalar::as_i64(graph.op(read.source).extents[k]);
    const std::optional<affine::Interval> bounds = affine::interval_of(read.index[k], ranges);
    return extent && bounds && bounds->low >= 0 && bounds->high < *extent;
  };
  while (count > 0 && stays_inside(count - 1)) --count;
  return count;
}

// Dimensions and axes of extent 1.

/// For each op the dimensions that stay: a dimension of extent 1 stays where a read may leave it.
std::vector<std::vector<bool>> kept_dimensions(const Graph& graph) {
  std::vector<std::vector<bool>> kept;
  for (const Op& op : graph.ops) {
    std::vector<bool> stays;
    for (const Expr& extent : op.extents)
      stays.push_back(!scalar::is_constant_i64(extent, 1) || std::holds_alternative<tensor::View>(op.kind));
    kept.push_back(std::move(stays));
  }
  for (const Op& op : graph.ops) {
    const affine::Ranges ranges = ranges_of(op);
    for_each_read(op, [&](const Read& read) {
      if (!judges_subscripts(read)) return;
      const std::size_t places = places_to_keep(graph, read, ranges);
      for (std::size_t k = 0; k < places; ++k) kept[at(read.source)][k] = true;
      for (std::size_t k = 0; k < read.index.size(); ++k) {
        if (affine::interval_of(read.index[k], ranges) != affine::Interval{0, 0}) kept[at(read.source)][k] = true;
      }
    });
  }
  return kept;
}

/// The axes of a reduction that stay. Lanes combine partial results, so one axis at least is left to them.
Groups kept_reduction_axes(const tensor::Reduction& reduction) {
  Groups groups;
  for (std::size_t k = 0; k < reduction.axes.size(); ++k) {
    const bool last_of_lanes =
        reduction.order.kind == tensor::Order::Kind::Lanes && k + 1 == reduction.axes.size() && groups.empty();
    if (!scalar::is_constant_i64(reduction.axes[k].extent, 1) || last_of_lanes) groups.push_back({k});
  }
  return groups;
}

Graph drop_unit_axes(const Graph& graph) {
  Regrouping regrouping = identity_of(graph);
  const std::vector<std::vector<bool>> kept = kept_dimensions(graph);
  for (std::size_t op = 0; op < graph.ops.size(); ++op) {
    Groups& groups = regrouping.dimensions[op];
    groups.clear();
    for (std::size_t k = 0; k < kept[op].size(); ++k) {
      if (kept[op][k]) groups.push_back({k});
    }
    const auto* compute = std::get_if<Compute>(&graph.ops[op].kind);
    if (compute != nullptr && compute->reduction) regrouping.reduced[op] = kept_reduction_axes(*compute->reduction);
  }
  return regroup(graph, regrouping);
}

// Axes and dimensions that walk memory together.

/// For each pair of neighbours (k, k + 1) whether they may become one.
using Joins = std::vector<bool>;

/// Finds the neighbours that can be joined: starts from all and gives up those that some access separates, until none
/// is given up. Dimension pairs of a compute are pairs of its axes.
class Joiner {
 public:
  explicit Joiner(const Graph& graph) : graph_(graph) {
    const std::vector<bool> has_shape = shapes_that_matter(graph);
    for (std::size_t k = 0; k < graph.ops.size(); ++k) {
      const Op& op = graph.ops[k];
      dimensions_.push_back(has_shape[k] ? joinable(op.extents)
                                         : Joins(op.extents.empty() ? 0 : op.extents.size() - 1, false));
      const auto* compute = std::get_if<Compute>(&op.kind);
      std::vector<Expr> extents;
      if (compute != nullptr && compute->reduction) {
        for (const Axis& axis : compute->reduction->axes) extents.push_back(axis.extent);
      }
      reduced_.push_back(joinable(extents));
    }
  }

  /// The regrouping that joins as much as possible, or nothing when there is nothing to join.
  std::optional<Regrouping> run() {
    do {
      changed_ = false;
      for (std::size_t op = 0; op < graph_.ops.size(); ++op) visit(op);
    } while (changed_);
    const auto joins_some = [](const Joins& joins) {
      return std::find(joins.begin(), joins.end(), true) != joins.end();
    };
    if (std::none_of(dimensions_.begin(), dimensions_.end(), joins_some) &&
        std::none_of(reduced_.begin(), reduced_.end(), joins_some))
      return std::nullopt;
    Regrouping regrouping;
    for (std::size_t op = 0; op < graph_.ops.size(); ++op) {
      regrouping.dimensions.push_back(runs(dimensions_[op], graph_.ops[op].extents.size()));
      regrouping.reduced.push_back(runs(reduced_[op], reduction_rank(op)));
    }
    return regrouping;
  }

 private:
  /// An axis in scope: the flags of its list, and its place there.
  struct Place {
    Joins* joins;
    const std::vector<Axis>* axes;
    std::size_t position;
  };

  /// Which values have a shape that joining changes: all computes and literals, and what else is read. Views keep
  /// theirs.
  static std::vector<bool> shapes_that_matter(const Graph& graph) {
    std::vector<bool> matters;
    for (const Op& op : graph.ops)
      matters.push_back(std::holds_alternative<Compute>(op.kind) || std::holds_alternative<tensor::Literal>(op.kind));
    for (const Op& op : graph.ops) {
      for_each_read(op, [&](const Read& read) {
        if (!std::holds_alternative<tensor::View>(graph.op(read.source).kind)) matters[at(read.source)] = true;
      });
    }
    return matters;
  }

  static Joins joinable(const std::vector<Expr>& extents) {
    Joins joins;
    for (std::size_t k = 0; k + 1 < extents.size(); ++k)
      joins.push_back(scalar::as_i64(extents[k]) && scalar::as_i64(extents[k + 1]));
    // Extents of a reduction need not fit a tensor: their product must be an extent all the same.
    std::int64_t all = 1;
    for (const Expr& extent : extents) {
      const std::int64_t value = scalar::as_i64(extent).value_or(1);
      if (__builtin_mul_overflow(all, std::max<std::int64_t>(value, 1), &all)) return Joins(joins.size(), false);
    }
    return joins;
  }

  static Groups runs(const Joins& joins, std::size_t rank) {
    Groups groups;
    for (std::size_t k = 0; k < rank; ++k) {
      if (k > 0 && joins[k - 1]) {
        groups.back().push_back(k);
      } else {
        groups.push_back({k});
      }
    }
    return groups;
  }

  std::size_t reduction_rank(std::size_t op) const {
    const auto* compute = std::get_if<Compute>(&graph_.ops[op].kind);
    return compute != nullptr && compute->reduction ? compute->reduction->axes.size() : 0;
  }

  void visit(std::size_t op) {
    const auto* compute = std::get_if<Compute>(&graph_.ops[op].kind);
    if (compute == nullptr) return;
    places_.clear();
    ranges_ = ranges_of(graph_.ops[op]);
    for (std::size_t k = 0; k < compute->axes.size(); ++k)
      places_[compute->axes[k].id] = {&dimensions_[op], &compute->axes, k};
    for (std::size_t k = 0; k < reduction_rank(op); ++k)
      places_[compute->reduction->axes[k].id] = {&reduced_[op], &compute->reduction->axes, k};
    tensor::for_each_expr(graph_.ops[op], [&](const Expr& root) {
      separate_axis(root);
      scalar::for_each_node(root, [&](const Expr& node) { visit_node(node); });
    });
  }

  void visit_node(const Expr& node) {
    if (const auto* apply = std::get_if<Apply>(&node->kind)) {
      for (const Expr& arg : apply->args) separate_axis(arg);
    } else if (const Read* read = scalar::as_read(node)) {
      if (read->pad_value) separate_axis(read->pad_value);
      separate_dimensions(*read);
      for (std::size_t k = 0; k < read->index.size(); ++k) separate_subscript(*read, k);
    }
  }

  void give_up(Joins& joins, std::size_t pair) {
    if (!joins[pair]) return;
    joins[pair] = false;
    changed_ = true;
  }

  /// An axis used by itself, not as a subscript, joins no neighbour.
  void separate_axis(const Expr& expr) {
    const auto found = places_.find(axis_of(expr));
    if (found == places_.end()) return;
    const auto& [joins, axes, position] = found->second;
    if (position > 0) give_up(*joins, position - 1);
    if (position < joins->size()) give_up(*joins, position);
  }

  /// True when subscripts k and k + 1 of the read are neighbouring axes that walk both dimensions row by row.
  bool walks_rows(const Read& read, std::size_t k) const {
    const auto outer = places_.find(axis_of(read.index[k])), inner = places_.find(axis_of(read.index[k + 1]));
    if (outer == places_.end() || inner == places_.end()) return false;
    const Place &a = outer->second, &b = inner->second;
    if (a.axes != b.axes || a.position + 1 != b.position || !(*a.joins)[a.position]) return false;
    const std::vector<Expr>& extents = graph_.op(read.source).extents;
    return scalar::same((*b.axes)[b.position].extent, extents[k + 1]) &&
           (!judges_subscripts(read) || scalar::same((*a.axes)[a.position].extent, extents[k]));
  }

  void separate_dimensions(const Read& read) {
    Joins& joins = dimensions_[at(read.source)];
    const std::size_t places = places_to_keep(graph_, read, ranges_);
    for (std::size_t k = 0; k < joins.size(); ++k) {
      if (k + 1 < places) give_up(joins, k);
      const bool fixed = scalar::as_i64(read.index[k]) && scalar::as_i64(read.index[k + 1]) && !judges_subscripts(read);
      if (joins[k] && !fixed && !walks_rows(read, k)) give_up(joins, k);
    }
  }

  /// An axis that is subscript k keeps those neighbours that stand beside it there, in dimensions that are joined.
  void separate_subscript(const Read& read, std::size_t k) {
    const auto found = places_.find(axis_of(read.index[k]));
    if (found == places_.end()) return;
    const auto& [joins, axes, position] = found->second;
    const Joins& dimensions = dimensions_[at(read.source)];
    const auto stays = [&](std::size_t first) { return dimensions[first] && walks_rows(read, first); };
    if (position < joins->size() && !(k < dimensions.size() && stays(k))) give_up(*joins, position);
    if (position > 0 && !(k > 0 && stays(k - 1))) give_up(*joins, position - 1);
  }

  const Graph& graph_;
  std::vector<Joins> dimensions_;
  std::vector<Joins> reduced_;
  std::map<AxisId, Place> places_;
  affine::Ranges ranges_;  ///< of the axes in scope
  bool changed_ = false;
};

// Spelling.

/// Factors in structural order: exact, since multiplication commutes.
Expr with_ordered_factors(const Expr& expr) {
  return scalar::rewrite(expr, [](const Expr& node) -> Expr {
    const auto* apply = std::get_if<Apply>(&node->kind);
    if (apply == nullptr || !is_float(node->dtype)) return nullptr;
    if (apply->opcode != Opcode::Mul && apply->opcode != Opcode::Fma) return nullptr;
    if (affine::compare(apply->args[0], apply->args[1]) <= 0) return nullptr;
    std::vector<Expr> args = apply->args;
    std::swap(args[0], args[1]);
    return scalar::apply(apply->opcode, std::move(args));
  });
}

/// How much there is of a graph: values, dimensions, axes and operations.
std::size_t size_of(const Graph& graph) {
  std::size_t size = graph.ops.size();
  for (const Op& op : graph.ops) {
    size += op.extents.size() + bound_axes(op).size();
    tensor::for_each_expr(op, [&](const Expr& expr) { scalar::for_each_node(expr, [&](const Expr&) { ++size; }); });
  }
  return size;
}

Graph with_fewer_axes(Graph graph, PassContext& ctx) {
  graph = drop_unit_axes(graph);
  // Joined axes can cancel in an expression, and that can let others join.
  while (const std::optional<Regrouping> joined = Joiner(graph).run()) graph = regroup(graph, *joined);
  return remove_dead_ops(std::move(graph), ctx);
}

}  // namespace

Graph canonicalise(Graph graph, PassContext& ctx) {
  // What was dropped lets expressions become simpler, and that can let more be dropped, or leave a value unused.
  for (std::size_t before = size_of(graph) + 1; size_of(graph) < before;) {
    before = size_of(graph);
    graph = with_fewer_axes(std::move(graph), ctx);
  }
  for (Op& op : graph.ops) tensor::rewrite_exprs(op, with_ordered_factors);
  return graph;
}

}  // namespace corrloom::passes
