#include "compiler/passes/materialise_outputs.h"

#include <set>
#include <utility>

#include "compiler/passes/add_copy.h"
#include "compiler/passes/readers.h"

namespace corrloom::passes {
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
