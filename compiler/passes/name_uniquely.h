#pragma once

#include "compiler/passes/pass.h"
#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// Gives every op of the graph, and every axis of one compute, a name of its own, so that schedules can name them.
///
///   %t = ...   %t = compute [i, j] reduce [i] ...
/// becomes
///   %t = ...   %t.1 = compute [i, j] reduce [i.1] ...
///
/// Preserves: everything but names. Names that are unique already stay; results keep the name they have in the
/// signature.
tensor::Graph name_uniquely(tensor::Graph graph, PassContext& ctx);

}  // namespace corrloom::passes
