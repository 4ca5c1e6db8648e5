#pragma once

#include "compiler/passes/pass.h"
#include "ir/schedule/schedule.h"
#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// A schedule for each compute of the graph, from its index maps, extents and the target: never from an op's name.
///
/// Host: vectors along the output axis whose accesses are contiguous; a register tile of `rows` x `vectors` where rows
/// run along an output axis that some operand of the vector axis does not depend on, so that its loads are reused;
/// short reductions unrolled; blocks over outer axes and pieces of the vector axis, for the runtime to spread over
/// threads. PTX: threads along the last output axes, one element each, or as many as the rows that share an operand's
/// loads.
///
/// Requires: constant extents, unique names, orders set. The result passes `schedule::check`.
schedule::Schedule choose_schedule(const tensor::Graph& graph, PassContext& ctx);

}  // namespace corrloom::passes
