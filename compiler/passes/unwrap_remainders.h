#pragma once

#include "compiler/passes/pass.h"
#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// Writes remainders by a constant in subscripts, of affine expressions that cross a multiple of it or two,
/// as a choice.
///
///   %X[mod(add(i, 993), 1000)]  with i below 1000
/// becomes
///   %X[if(ge(add(i, 993), 1000), sub(add(i, 993), 1000), add(i, 993))]
///
/// First comes what holds for more places: tiles away from the border then read as if there were no remainder.
/// Requires: `split_axes` has run, which does better where it can. Preserves: the value of every output, bit for bit.
tensor::Graph unwrap_remainders(tensor::Graph graph, PassContext& ctx);

}  // namespace corrloom::passes
