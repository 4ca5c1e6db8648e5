#pragma once

#include "ir/schedule/schedule.h"
#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// The graph with an ordinary size in place of each dimension that is not known, for the makers of schedules: ops and
/// axes keep their names. A size that is taken off another one (the P of H - P + 1) is that of a window.
tensor::Graph with_typical_sizes(tensor::Graph graph);

/// A stage that was made for typical sizes, as one for `op` as it is: reductions over axes of unknown extent are loops
/// in single steps, and every other such axis is cut by a block or serial loop before anything unrolls it.
schedule::Stage for_open_sizes(schedule::Stage stage, const tensor::Op& op);

}  // namespace corrloom::passes
