#pragma once

#include "compiler/passes/pass.h"
#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// Makes an op of its own of the long body of a reduction by lanes.
///
///   %Y: f32[4, 8] = compute [i: 4, j: 8] reduce [k: 32] lanes(16) { acc %sum ... yield (a long expression of %sum) }
/// becomes
///   %Y.sum: f32[4, 8] = compute [i: 4, j: 8] reduce [k: 32] lanes(16) { acc %sum ... yield %sum }
///   %Y: f32[4, 8] = compute [i: 4, j: 8] { yield (a long expression of %Y.sum[i, j]) }
///
/// A tile of a reduction whose vectors run along the reduction has few columns of the result: the body would be worked
/// out in vectors that are not full. Acts on the host, when extents are known, elements of the steps are used for
/// several results, and the body is long.
/// Requires: functions are expanded.
/// Preserves: the value of every output, bit for bit.
tensor::Graph split_epilogue(tensor::Graph graph, PassContext& ctx);

}  // namespace corrloom::passes
