#include "compiler/passes/size_proofs.h"

#include <algorithm>
#include <set>
#include <utility>

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

tensor::Expr with_simple_subscripts(const tensor::Expr& expr, const affine::SizeProof& proof) {
  return scalar::rewrite(expr, [&](const tensor::Expr& node) -> tensor::Expr {
    const scalar::Read* read = scalar::as_read(node);
    if (read == nullptr) return nullptr;
    scalar::Read simple = *read;
    for (tensor::Expr& index : simple.index) index = scalar::simplify(proof.simplify(scalar::simplify(index)));
    return simple.index == read->index ? nullptr : scalar::read(std::move(simple), node->dtype);
  });
}

bool has_dimensions(const tensor::Graph& graph) {
  return std::any_of(graph.symbols.begin(), graph.symbols.end(),
                     [](const tensor::Symbol& symbol) { return symbol.kind == tensor::Symbol::Kind::Dimension; });
}

}  // namespace corrloom::passes
