#include "compiler/passes/materialise_outputs.h"

#include <set>
#include <utility>

#include "compiler/passes/readers.h"

namespace corrloom::passes {
namespace {

/// A compute that copies `source`, under a result's name.
tensor::TensorId add_copy(tensor::Graph& graph, tensor::TensorId source, const std::string& name) {
  const tensor::Op original = graph.op(source);
  tensor::Compute copy;
  scalar::Read read{source, {}};
  read.check = scalar::ReadCheck::Proven;
  for (const scalar::Expr& extent : original.extents) {
    const std::string axis_name = "i" + std::to_string(copy.axes.size());
    const scalar::AxisId axis = graph.new_axis(axis_name);
    copy.axes.push_back({axis, axis_name, extent});
    read.index.push_back(scalar::axis(axis));
  }
  copy.body = scalar::read(std::move(read), original.dtype);
  return graph.add({name, original.dtype, original.extents, std::move(copy), original.span});
}

}  // namespace

tensor::Graph materialise_outputs(tensor::Graph graph, PassContext& ctx) {
  std::set<tensor::TensorId> taken;
  for (tensor::Output& output : graph.outputs) {
    const tensor::TensorId root = storage_root(graph, output.value);
    const bool written = std::holds_alternative<tensor::Compute>(graph.op(root).kind);
    if (written && taken.insert(root).second) continue;
    output.value = add_copy(graph, output.value, output.name);
    taken.insert(output.value);
    ctx.count("results copied");
  }
  return graph;
}

}  // namespace corrloom::passes
