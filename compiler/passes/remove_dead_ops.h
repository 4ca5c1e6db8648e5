#pragma once

#include "compiler/passes/pass.h"
#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// Drops ops that no output needs. Inputs stay: they are the signature.
///
///   %a: f32[4] = compute ...
///   %b: f32[4] = compute ...   (only %b is returned)
/// becomes
///   %b: f32[4] = compute ...
///
/// Preserves: the value of every output, and the order and names of what is left.
tensor::Graph remove_dead_ops(tensor::Graph graph, PassContext& ctx);

}  // namespace corrloom::passes
