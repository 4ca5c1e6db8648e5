#pragma once

#include "compiler/passes/pass.h"
#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// Writes padding as conditions and index arithmetic.
///
///   %x[sub(i, 1)] pad 0.0          (%x: f32[8])
/// becomes
///   if(land(ge(sub(i, 1), 0), lt(sub(i, 1), 8)), %x[sub(i, 1)], 0.0)
///
/// `edge` clamps the subscript, `wrap` takes it modulo the extent, `reflect` folds it with period 2 * (extent - 1).
/// Tests that the ranges of the axes decide are left out.
///
/// Requires: reads without padding are in bounds. Preserves: every bit. Leaves behind: no read with padding; its reads
/// are in bounds by construction.
tensor::Graph lower_padding(tensor::Graph graph, PassContext& ctx);

}  // namespace corrloom::passes
