#pragma once

#include "compiler/passes/pass.h"
#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// Folds an op without a reduction into its readers, so that no buffer is needed for it.
///
///   %e: f32[8, 4] = compute [i: 8, j: 4] { yield abs(%x[i, j]) }
///   %y: f32[8] = compute [i: 8] reduce [j: 4] ascending { ... mul(%e[i, j], %a[i, j]) ... }
/// becomes
///   %y: f32[8] = compute [i: 8] reduce [j: 4] ascending { ... mul(abs(%x[i, j]), %a[i, j]) ... }
///
/// Acts where no work is repeated: the op has one reader, which reads each of its elements at most once (equal reads
/// are one), or all that it does is to pass on an element (a copy, a padding). A short body of which a stencil reads a
/// few rows, one above the other, is folded, too: a tile of rows evaluates each of them once. A single operation is
/// evaluated for a few neighbours along a line as well. A read that pads with a
/// value becomes an `if`. Requires: `contract_fma` has run (folding joins expressions that were not written as one).
/// Preserves: the value of every output, bit for bit.
/// Leaves behind: the folded op, unread; `remove_dead_ops` drops it.
tensor::Graph inline_elementwise(tensor::Graph graph, PassContext& ctx);

}  // namespace corrloom::passes
