#include "compiler/passes/remove_dead_ops.h"

#include <utility>
#include <vector>

#include "compiler/passes/readers.h"
#include "compiler/passes/renumber.h"

namespace corrloom::passes {

tensor::Graph remove_dead_ops(tensor::Graph graph, PassContext& ctx) {
  std::vector<bool> live(graph.ops.size(), false);
  for (const tensor::Output& output : graph.outputs) live[static_cast<std::size_t>(output.value.index)] = true;
  for (tensor::TensorId input : graph.inputs) live[static_cast<std::size_t>(input.index)] = true;
  // Producers stand before readers, so one sweep from the end reaches everything.
  for (std::size_t k = graph.ops.size(); k-- > 0;) {
    if (!live[k]) continue;
    for_each_use(graph.ops[k], [&](tensor::TensorId source, const scalar::Read*) {
      live[static_cast<std::size_t>(source.index)] = true;
    });
  }
  std::vector<std::size_t> kept;
  for (std::size_t k = 0; k < live.size(); ++k) {
    if (live[k]) kept.push_back(k);
  }
  ctx.count("ops removed", static_cast<std::int64_t>(live.size() - kept.size()));
  return reorder_ops(std::move(graph), kept);
}

}  // namespace corrloom::passes
