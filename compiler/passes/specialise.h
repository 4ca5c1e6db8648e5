#pragma once

#include "compiler/passes/pass.h"
#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// Puts the values of `ctx.bindings` in place of symbols, everywhere, and simplifies what became constant.
///
///   graph @corr(%X: f32[H], %K: f32[P]) -> (%Y) symbols [H, P] {             with H = 8, P = 3
///     require ge(H, P) "the window is larger than X"
///     %Y: f32[add(sub(H, P), 1:i64)] = ...
/// becomes
///   graph @corr(%X: f32[8], %K: f32[3]) -> (%Y) {
///     %Y: f32[6] = ...
///
/// Reports E0250 for each condition that does not hold, with the values of the names in it, and E0251 for an extent
/// that is negative or overflows and for a tensor of 2^63 bytes or more. Conditions that hold are dropped; those that
/// still depend on symbols stay, and so do symbols that are not bound. Preserves: the value of every output, bit for
/// bit, for symbols of those values.
tensor::Graph specialise(tensor::Graph graph, PassContext& ctx);

}  // namespace corrloom::passes
