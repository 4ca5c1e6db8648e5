#pragma once

#include "compiler/passes/pass.h"
#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// Turns a product that a sum or difference of floats takes into one fused multiply-add, then drops fences.
///
///   add(mul(a, b), c)   becomes  fma(a, b, c)        add(c, mul(a, b))  becomes  fma(a, b, c)
///   sub(mul(a, b), c)   becomes  fma(a, b, neg(c))   sub(c, mul(a, b))  becomes  fma(neg(a), b, c)
///
/// Of two products the left one is taken. A product used elsewhere too is contracted all the same. Nothing is
/// contracted across a fence, a cast or a negation, nor in an op `with order = strict`. Integers are left alone.
/// Defines bits: it is the only pass that contracts, and every fma that the language promises comes from here.
/// Leaves behind: no fence.
tensor::Graph contract_fma(tensor::Graph graph, PassContext& ctx);

}  // namespace corrloom::passes
