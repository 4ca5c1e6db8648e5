#pragma once

#include <vector>

#include "compiler/passes/pass.h"
#include "ir/loop/function.h"
#include "ir/schedule/schedule.h"
#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// One kernel: its loops, and which value of the graph each of its global buffers is (the result is the last one).
struct LoweredKernel {
  loop::Function function;
  std::vector<tensor::TensorId> buffers;
  tensor::TensorId compute;
  scalar::Expr blocks;                   ///< the extent of its loop over blocks, over symbols
  std::vector<tensor::TensorId> inside;  ///< computes that happen in its loops, in buffers of its own
};

/// Turns each compute into loops as its schedule says: the bridge from Tensor IR to Loop IR.
///
///   %y: f32[8] = compute [i: 8] reduce [k: 100] ascending { acc %s ... }
/// with the schedule
///   %y root { i by 8 block  k by 1  i by 4 unroll  i by 1 vector }
/// becomes
///   for %b in 0..1 block { %r = for %k in 0..100 carry (%s0: f32x4, %s1: f32x4) { ... }  store ... }
///
/// Requires: a verified graph in which views are composed, functions are expanded and reads are in bounds; a schedule
/// that `schedule::check` accepts, its copies made (`apply_staging`). Computes stand in launch order. Preserves: every
/// bit; a read that is checked at run time gives 0 where it fails, after a report to the error slot under the number of
/// its site in `tensor::check_sites(graph)`. A tile that an extent does not fill becomes a second, smaller body; a
/// vector that it does not fill is masked. Where an extent is not known, what is left of it is walked in single
/// elements or vectors, the last one masked. Leaves behind: functions of stage Mapped, one for each compute at the
/// root, in order.
std::vector<LoweredKernel> lower_to_loops(const tensor::Graph& graph, const schedule::Schedule& schedule,
                                          PassContext& ctx);

}  // namespace corrloom::passes
