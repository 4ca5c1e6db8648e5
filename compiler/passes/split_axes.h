#pragma once

#include "compiler/passes/pass.h"
#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// Makes two axes of one whose quotient or remainder by a constant is used, so that subscripts become sums of axes.
///
///   %Y: f32[8, 5] = compute [o: 8, i: 5] reduce [c: 3] ascending {
///     acc %sum: f32 = 0.0:f32 step fma(%X[add(mul(floordiv(o, 4), 3), c), i], %K[o, c], %sum) ... }
/// becomes
///   %Y: f32[2, 4, 5] = compute [o: 2, o.1: 4, i: 5] reduce [c: 3] ascending {
///     acc %sum: f32 = 0.0:f32 step fma(%X[add(mul(o, 3), c), i], %K[add(mul(o, 4), o.1), c], %sum) ... }
///   %Y.1: f32[8, 5] = reshape %Y
///
/// Acts on the axes of ops with a reduction, of a constant extent that the length of the inner axis divides, where the
/// outer axis is in no quotient or remainder any more, and what is left of those is a function of a short inner axis
/// alone. The elements of a reduction keep their order.
/// Requires: views are composed; dimensions are constants where they are known.
/// Preserves: the value of every output, bit for bit. Other ops read the op, and results are it, through a reshape.
tensor::Graph split_axes(tensor::Graph graph, PassContext& ctx);

}  // namespace corrloom::passes
