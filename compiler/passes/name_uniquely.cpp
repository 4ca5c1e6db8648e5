#include "compiler/passes/name_uniquely.h"

#include <vector>

#include "compiler/passes/readers.h"
#include "ir/base/ir_names.h"

namespace corrloom::passes {
namespace {

void name_axes(std::vector<tensor::Axis>& axes, IrNames& names, tensor::Graph& graph) {
  for (tensor::Axis& axis : axes) {
    axis.name = names.make_unique(axis.name);
    graph.axis_names[static_cast<std::size_t>(axis.id.index)] = axis.name;
  }
}

}  // namespace

tensor::Graph name_uniquely(tensor::Graph graph, PassContext&) {
  IrNames names;
  std::vector<bool> named(graph.ops.size(), false);
  const auto name = [&](tensor::TensorId id) {
    if (named[static_cast<std::size_t>(id.index)]) return;
    named[static_cast<std::size_t>(id.index)] = true;
    graph.op(id).name = names.make_unique(graph.op(id).name);
  };
  for (const tensor::TensorId input : graph.inputs) name(input);
  for (const tensor::Output& output : graph.outputs) {
    // The compute that writes a result has its name, whatever statement it came from.
    const tensor::TensorId root = storage_root(graph, output.value);
    graph.op(root).name = graph.op(output.value).name = output.name;
    name(root);
    name(output.value);
  }
  for (std::size_t k = 0; k < graph.ops.size(); ++k) name({static_cast<std::int32_t>(k)});
  for (std::size_t k = 0; k < graph.ops.size(); ++k) {
    IrNames axis_names = IrNames::with_reserved_words();
    if (auto* compute = std::get_if<tensor::Compute>(&graph.ops[k].kind)) {
      name_axes(compute->axes, axis_names, graph);
      if (compute->reduction) name_axes(compute->reduction->axes, axis_names, graph);
    } else if (auto* view = std::get_if<tensor::View>(&graph.ops[k].kind)) {
      name_axes(view->axes, axis_names, graph);
    }
  }
  return graph;
}

}  // namespace corrloom::passes
