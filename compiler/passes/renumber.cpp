#include "compiler/passes/renumber.h"

#include <utility>

#include "ir/base/errors.h"

namespace corrloom::passes {

using tensor::Expr;
using tensor::Op;
using tensor::TensorId;

tensor::Graph reorder_ops(tensor::Graph graph, const std::vector<std::size_t>& order) {
  std::vector<TensorId> moved(graph.ops.size());
  std::vector<Op> ops;
  for (std::size_t from : order) {
    moved[from] = TensorId{static_cast<std::int32_t>(ops.size())};
    ops.push_back(std::move(graph.ops[from]));
  }
  const auto renumber = [&](TensorId& id) {
    if (!id) return;
    id = moved[static_cast<std::size_t>(id.index)];
    CORRLOOM_CHECK(id, "an op that is used was left out");
  };
  for (Op& op : ops) {
    if (auto* view = std::get_if<tensor::View>(&op.kind)) renumber(view->source);
    if (auto* reshape = std::get_if<tensor::Reshape>(&op.kind)) renumber(reshape->source);
    tensor::rewrite_exprs(op, [&](const Expr& expr) {
      return scalar::rewrite(expr, [&](const Expr& node) -> Expr {
        const scalar::Read* read = scalar::as_read(node);
        if (read == nullptr) return nullptr;
        scalar::Read changed = *read;
        renumber(changed.source);
        return changed.source == read->source ? nullptr : scalar::read(std::move(changed), node->dtype);
      });
    });
  }
  graph.ops = std::move(ops);
  for (TensorId& input : graph.inputs) renumber(input);
  for (tensor::Output& output : graph.outputs) {
    renumber(output.value);
    renumber(output.storage_of);
  }
  return graph;
}

}  // namespace corrloom::passes
