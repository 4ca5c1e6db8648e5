#pragma once

#include "compiler/passes/pass.h"
#include "ir/schedule/schedule.h"
#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// A graph and the schedule of its computes.
struct Scheduled {
  tensor::Graph graph;
  schedule::Schedule schedule;
};

/// Makes the copies that a schedule stages: each becomes a compute of its own in front of its reader, with a schedule
/// that `choose_schedule` would give it, and the reader reads the copy.
///
///   %y = ... step fma(%x[c, i], %k[o, c], %s)   with   stage %k [o / 16, c, o mod 16]
/// becomes
///   %k.packed[d0, d1, d2] = if(lt(d0 * 16 + d2, O), %k[d0 * 16 + d2, d1], 0)
///   %y = ... step fma(%x[c, i], %k.packed[o // 16, c, o % 16], %s)
///
/// Requires: a schedule that `schedule::check` accepts. Preserves: every bit. Leaves behind: a schedule without
/// stagings.
Scheduled apply_staging(tensor::Graph graph, schedule::Schedule schedule, PassContext& ctx);

}  // namespace corrloom::passes
