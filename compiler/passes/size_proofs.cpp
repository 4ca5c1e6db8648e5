#include "compiler/passes/size_proofs.h"

#include <algorithm>
#include <set>

#include "compiler/passes/readers.h"

namespace corrloom::passes {

affine::SizeProof size_proof_of(const tensor::Graph& graph, const tensor::Op& op) {
  std::vector<affine::SizedAxis> axes;
  for (const tensor::Axis& axis : bound_axes(op)) axes.push_back({axis.id, axis.extent});
  std::set<scalar::SymbolId> dimensions;
  for (std::size_t k = 0; k < graph.symbols.size(); ++k) {
    if (graph.symbols[k].kind == tensor::Symbol::Kind::Dimension)
      dimensions.insert(scalar::SymbolId{static_cast<std::int32_t>(k)});
  }
  return affine::SizeProof(std::move(axes), [dimensions = std::move(dimensions)](scalar::SymbolId symbol) {
    return dimensions.contains(symbol);
  });
}

bool has_dimensions(const tensor::Graph& graph) {
  return std::any_of(graph.symbols.begin(), graph.symbols.end(),
                     [](const tensor::Symbol& symbol) { return symbol.kind == tensor::Symbol::Kind::Dimension; });
}

}  // namespace corrloom::passes
