#pragma once

#include "compiler/passes/pass.h"
#include "ir/schedule/schedule.h"
#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// A schedule for each compute of the graph, from its index maps, extents and the target: never from an op's name.
///
/// Host: see `host_schedule.h`. PTX: threads along the last output axes, one element each, or as many as the rows that
/// share an operand's loads.
///
/// Where a dimension is not known, for a typical size of it, without copies.
///
/// Requires: unique names, orders set. The result passes `schedule::check`.
schedule::Schedule choose_schedule(const tensor::Graph& graph, PassContext& ctx);

/// The stage of one compute, whose extents are constant. `constant` says by op of the graph what `ctx.constants` lead
/// to.
schedule::Stage choose_stage(const tensor::Graph& graph, const tensor::Op& op, const PassContext& ctx,
                             const std::vector<bool>& constant = {}, bool may_copy = true);

}  // namespace corrloom::passes
