#pragma once

#include "compiler/passes/pass.h"
#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// Places a result that takes over the storage of an input behind everything that reads the input: all other results
/// see what the input was.
///
///   %M2 = compute [i: 4] { yield neg(%M[i]) }           (returned as `M2 = %M2 in %M`)
///   %Y = compute [i: 4] { yield add(%M[i], %X[i]) }
/// becomes
///   %Y = compute [i: 4] { yield add(%M[i], %X[i]) }
///   %M2 = compute [i: 4] { yield neg(%M[i]) }
///
/// Where one of those readers needs the result itself, the result keeps memory of its own, and a copy at the end takes
/// over the storage.
/// Requires: nothing after it folds one compute into another, and the computes run in the order of the graph.
/// Preserves: the value of every output, and the order of what is not moved.
tensor::Graph delay_overwrites(tensor::Graph graph, PassContext& ctx);

}  // namespace corrloom::passes
