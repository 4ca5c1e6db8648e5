#include "compiler/tools/check/strict.h"

namespace corrloom::tools {
namespace {

tensor::Graph in_strict_order(tensor::Graph graph) {
  for (tensor::Op& op : graph.ops) {
    if (auto* compute = std::get_if<tensor::Compute>(&op.kind))
      compute->numerics = {tensor::Numerics::OrderMode::Strict, false};
  }
  return graph;
}

}  // namespace

driver::Compiled compile_strictly(const tensor::Graph& graph, const frontend::SymbolValues& values,
                                  const kernel::Target& target) {
  driver::CompileOptions options;
  options.target = target;
  options.bindings = values;
  Diagnostics diagnostics;
  std::optional<driver::Compiled> compiled = driver::compile(in_strict_order(graph), options, diagnostics);
  if (!compiled) throw CompileError(diagnostics.render());
  return *std::move(compiled);
}

}  // namespace corrloom::tools
