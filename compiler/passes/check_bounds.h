#pragma once

#include "compiler/passes/pass.h"
#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// Establishes that every read without padding stays inside its tensor: by proof, or by a check at run time.
///
///   %Y: f32[2] = compute [i: 2] reduce [p: 3] ascending { ... %X[add(i, p)] ... }      with %X: f32[4]
/// becomes
///   %Y: f32[2] = compute [i: 2] reduce [p: 3] ascending { ... %X[add(i, p)] check proven ... }
///
/// A read is judged on all values of the axes around it, under the conditions of the `if`, `land` and `lor` branches in
/// which it stands. A subscript or range that is made of tensor elements leaves the check to run time. Where dimensions
/// are still symbols, all else counts as proven, and the entry of a call has this pass judge the graph with their
/// values. Reports E0252 at a read that leaves its tensor, with the index values of the first time it does; E0253 where
/// exact reasoning gives up; E0254 for argmax and argmin over an empty range. Requires: `specialise` has run.
/// Preserves: the value of every output.
tensor::Graph check_bounds(tensor::Graph graph, PassContext& ctx);

}  // namespace corrloom::passes
