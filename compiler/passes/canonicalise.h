#pragma once

#include "compiler/passes/pass.h"
#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// Brings graphs that compute the same in the same way to one form.
///
///   %Y: f32[2, 3, 5] = compute [o: 2, i: 3, j: 5] reduce [c: 4, p: 1, q: 1] ascending {
///     acc %sum: f32 = 0.0:f32 step fma(%X[c, add(i, p), add(j, q)], %K[o, c, p, q], %sum) ... }
/// becomes
///   %X.1: f32[4, 15] = reshape %X
///   %K.1: f32[2, 4] = reshape %K
///   %Y: f32[2, 15] = compute [i0: 2, i1: 15] reduce [k0: 4] ascending {
///     acc %sum: f32 = 0.0:f32 step fma(%X.1[k0, i1], %K.1[i0, k0], %sum) ... }
///   %Y.1: f32[2, 3, 5] = reshape %Y
///
/// - dimensions and axes of extent 1 are dropped;
/// - neighbouring axes that walk neighbouring dimensions in row-major order in every access become one, with those
///   dimensions; axes of a reduction only in the order that they have, so the order of its elements stays;
/// - index arithmetic is in linear form, factors of products are in one order, axes are named by their position.
///
/// Requires: `compose_views` has run (views that are left keep their shape), `set_orders` has run, and every read is
/// inside its tensor, padded or checked at run time.
/// Canonical graphs stay as they are. Preserves: the value of every output, bit for bit (any NaN is as good as
/// another).
tensor::Graph canonicalise(tensor::Graph graph, PassContext& ctx);

}  // namespace corrloom::passes
