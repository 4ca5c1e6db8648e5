#pragma once

#include <optional>
#include <vector>

#include "compiler/passes/choice.h"
#include "ir/kernel/target.h"
#include "ir/schedule/regions.h"
#include "ir/schedule/schedule.h"
#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// The loops and copies of one compute on the host, from its index maps, its extents and the machine: the few register
/// tiles that make sense are scored by a model of the processor, and the cheapest is taken.
///
///   - the vector axis is an output axis; operands that do not lie along it are copied into panels that do, when their
///     reuse pays for it, and a result that does not is stored through transposes
///   - rows of the tile run along an output axis that an operand of the vector axis does not depend on, or along one
///     that a reduction axis moves (a window), so that loads are shared
///   - padding is copied in where its elements are reused often
///   - panels of the vector axis outside, rows inside; rows are cut where their operand leaves the caches
///   - each block packs the panel that it works on, where all rows meet it there; else all are packed before
///   - the reduction is cut where a panel of all of it does not stay near, with the sums in memory between pieces
///   - an operand that comes from memory for one use is walked as it lies, with the sums kept in a cache
///   - a reduction by lanes has a tile of rows and columns of the result, each with vectors along the reduction
///
/// `op` is an op of the graph, perhaps with smaller axes. Copies of values that are `constant`, by op, are made before
/// the calls and cost nothing; none are when it is empty. What was weighed is noted in `choice`, if there is one.
schedule::Stage host_stage(const tensor::Graph& graph, const tensor::Op& op, const kernel::Target& target,
                           bool may_copy = true, const std::vector<bool>& constant = {}, Choice* choice = nullptr);

/// The loops of a compute for a region of it inside another one's, chosen as if that were all; blocks become loops.
std::vector<schedule::Loop> inner_loops(const tensor::Graph& graph, tensor::TensorId id,
                                        const std::vector<schedule::Region>& region, const kernel::Target& target);

/// The same, and copies, for a reduction by lanes whose lanes had better take turns; copies are of whole operands, and
/// made before. Nothing for others.
std::optional<schedule::Stage> turns_inside(const tensor::Graph& graph, tensor::TensorId id,
                                            const std::vector<schedule::Region>& region, const kernel::Target& target);

}  // namespace corrloom::passes
