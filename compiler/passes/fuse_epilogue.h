#pragma once

#include "compiler/passes/pass.h"
#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// Makes an elementwise op that follows a reduction the body of that reduction.
///
///   %s: f32[4] = compute [i: 4] reduce [k: 9] ascending { acc %sum ... yield %sum }
///   %y: f32[4] = compute [i: 4] { yield max(add(%s[i], %b[i]), 0.0:f32) }
/// becomes
///   %y: f32[4] = compute [i: 4] reduce [k: 9] ascending { acc %sum ... yield max(add(%sum, %b[i]), 0.0:f32) }
///
/// Acts when the op reads the reduction at its own element only and is its only reader, but not when the reduction is
/// made once before the calls and the op is not.
/// Requires: `contract_fma` has run (a fence between the two is gone).
/// Preserves: the value of every output, bit for bit.
/// Leaves behind: the reduction, unread; `remove_dead_ops` drops it.
tensor::Graph fuse_epilogue(tensor::Graph graph, PassContext& ctx);

}  // namespace corrloom::passes
