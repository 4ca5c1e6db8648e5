#include "compiler/passes/split_epilogue.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/passes/readers.h"
#include "compiler/passes/renumber.h"
#include "ir/base/ir_names.h"

namespace corrloom::passes {
namespace {

using scalar::Read;
using tensor::Axis;
using tensor::AxisId;
using tensor::Compute;
using tensor::Expr;
using tensor::Graph;
using tensor::Op;
using tensor::TensorId;

/// Operations of a body that is worth full vectors.
constexpr int kLongBody = 16;

int operations_of(const Expr& body) {
  int operations = 0;
  scalar::for_each_node(body, [&](const Expr& node) {
    operations += std::holds_alternative<scalar::Apply>(node->kind) && node->dtype != DType::I64 ? 1 : 0;
  });
  return operations;
}

bool is_known(const std::vector<Axis>& axes) {
  return std::all_of(axes.begin(), axes.end(),
                     [](const Axis& axis) { return scalar::as_i64(axis.extent).has_value(); });
}

/// Whether a read of the steps is the same for several elements of the result.
bool shares_elements(const Compute& compute) {
  bool found = false;
  scalar::for_each_node(compute.reduction->accumulators.front().step, [&](const Expr& node) {
    const Read* read = scalar::as_read(node);
    if (read == nullptr) return;
    for (const Axis& axis : compute.axes) {
      const bool moves = std::any_of(read->index.begin(), read->index.end(), [&](const Expr& subscript) {
        return uses_axis(subscript, [&](AxisId used) { return used == axis.id; });
      });
      found |= !moves && scalar::as_i64(axis.extent).value_or(1) > 1;
    }
  });
  return found;
}

bool is_worth_splitting(const Op& op) {
  const auto* compute = std::get_if<Compute>(&op.kind);
  return compute != nullptr && compute->reduction && compute->reduction->order.kind == tensor::Order::Kind::Lanes &&
         compute->reduction->accumulators.size() == 1 && is_known(compute->axes) &&
         is_known(compute->reduction->axes) && operations_of(compute->body) > kLongBody && shares_elements(*compute);
}

/// The reduction alone, on axes of its own.
Op sum_of(const Op& op, Graph& graph) {
  Op sum = op;
  auto& compute = std::get<Compute>(sum.kind);
  const tensor::Accumulator& accumulator = compute.reduction->accumulators.front();
  sum.dtype = accumulator.dtype;
  std::map<AxisId, AxisId> names;
  for (Axis& axis : compute.axes) {
    const AxisId before = axis.id;
    axis.id = names[before] = graph.new_axis(axis.name);
  }
  compute.body = scalar::accumulator(0, accumulator.dtype);
  tensor::rewrite_exprs(sum, [&](const Expr& expr) {
    return scalar::substitute_axes(expr, [&](AxisId axis) -> Expr {
      const auto found = names.find(axis);
      return found == names.end() ? nullptr : scalar::axis(found->second);
    });
  });
  return sum;
}

/// The body as an op that reads the reduction.
void read_sum(Op& op, TensorId sum, DType dtype) {
  auto& compute = std::get<Compute>(op.kind);
  Read read;
  read.source = sum;
  read.check = scalar::ReadCheck::Proven;
  for (const Axis& axis : compute.axes) read.index.push_back(scalar::axis(axis.id));
  const Expr value = scalar::read(std::move(read), dtype);
  compute.body = scalar::rewrite(compute.body, [&](const Expr& node) -> Expr {
    return std::holds_alternative<scalar::AccRef>(node->kind) ? value : nullptr;
  });
  compute.reduction.reset();
}

}  // namespace

Graph split_epilogue(Graph graph, PassContext& ctx) {
  if (ctx.target.kind != kernel::TargetKind::Host) return graph;
  const std::size_t count = graph.ops.size();
  std::vector<std::size_t> order;
  IrNames names = IrNames::with_reserved_words();
  for (const Op& op : graph.ops) names.make_unique(op.name);
  for (std::size_t k = 0; k < count; ++k) {
    if (is_worth_splitting(graph.ops[k])) {
      Op sum = sum_of(graph.ops[k], graph);
      sum.name = names.make_unique(graph.ops[k].name + ".sum");
      const DType dtype = sum.dtype;
      const TensorId id = graph.add(std::move(sum));
      read_sum(graph.ops[k], id, dtype);
      order.push_back(static_cast<std::size_t>(id.index));
      ctx.count("bodies split off");
    }
    order.push_back(k);
  }
  return order.size() == count ? graph : reorder_ops(std::move(graph), order);
}

}  // namespace corrloom::passes
