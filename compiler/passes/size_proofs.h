#pragma once

#include "ir/affine/size_proof.h"
#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// What holds on the domain of an op, whatever its dimensions are.
affine::SizeProof size_proof_of(const tensor::Graph& graph, const tensor::Op& op);

/// The expression with the subscripts of its reads simplified as far as holds for all sizes: X[o // O * C + c] is X[c]
/// where o stays below O.
tensor::Expr with_simple_subscripts(const tensor::Expr& expr, const affine::SizeProof& proof);

/// True when some dimension of the graph is not known.
bool has_dimensions(const tensor::Graph& graph);

}  // namespace corrloom::passes
