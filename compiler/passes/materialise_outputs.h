#pragma once

#include "compiler/passes/pass.h"
#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// Gives every result a compute of its own to be written by: a result that is an argument, a constant, or the same
/// value as another result is copied.
///
///   graph @same(%x: f32[4]) -> (%y = %x, %z = %x)
/// becomes
///   %y: f32[4] = compute [i: 4] { yield %x[i] }   %z: f32[4] = compute [i: 4] { yield %x[i] }
///
/// Preserves: every bit. A result that is a reshape of a compute stays one: the kernel writes the same elements in the
/// same order.
tensor::Graph materialise_outputs(tensor::Graph graph, PassContext& ctx);

}  // namespace corrloom::passes
