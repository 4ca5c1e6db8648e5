#pragma once

#include "compiler/passes/pass.h"
#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// Makes two ops of a reduction in parts: one that reduces each part, so that parts can be shared out, and one that
/// merges what they give.
///
///   %Y: f32[] = compute [] reduce [k: 100] ascending parts(32) {
///     acc %s: f32 = 0.0:f32 step add(%s, %X[k]) merge add(%s, %s.other)
///     yield %s
///   }
/// becomes
///   %Y.parts: f32[4] = compute [part: 4] reduce [k: min(32, 100 - 32*part)] ascending {
///     acc %s: f32 = 0.0:f32 step add(%s, %X[32*part + k]) merge add(%s, %s.other)
///     yield %s
///   }
///   %Y: f32[] = compute [] reduce [part: 4] ascending {
///     acc %s: f32 = -0.0:f32 step add(%s, %Y.parts[part]) merge add(%s, %s.other)
///     yield %s
///   }
///
/// A reduction that is known to be no longer than a part stays as it is. Several axes become one, along which reads
/// that walk whole rows of dimensions see a reshape of their tensor.
/// Requires: no padding in reads of several reduction axes.
/// Preserves: the value of every output, bit for bit. Afterwards no order has parts.
tensor::Graph cut_reductions(tensor::Graph graph, PassContext& ctx);

}  // namespace corrloom::passes
