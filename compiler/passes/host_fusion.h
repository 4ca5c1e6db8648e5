#pragma once

#include <vector>

#include "compiler/passes/choice.h"
#include "ir/kernel/target.h"
#include "ir/schedule/schedule.h"
#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// Places computes at the block loops of the compute that reads them, where what a block needs of them is small, little
/// is computed twice, and what they read in turn stays in the caches: pipelines of stencils, the passes of a softmax,
/// the scores of a tile of attention rows. Blocks grow along an axis where that keeps neighbours from computing the
/// same.
///
/// What is `constant`, by op, stays outside (none, when it is empty): it is computed before the calls.
///
/// Requires: a schedule of `host_stage`s. The result passes `schedule::check`. Why a compute stays outside is noted in
/// `choices`, if there are any.
schedule::Schedule place_producers(const tensor::Graph& graph, schedule::Schedule schedule,
                                   const kernel::Target& target, const std::vector<bool>& constant = {},
                                   Choices* choices = nullptr);

}  // namespace corrloom::passes
