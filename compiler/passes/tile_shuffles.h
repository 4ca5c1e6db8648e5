#pragma once

#include <vector>

#include "compiler/passes/function_builder.h"

namespace corrloom::passes {

/// Lane k of vector v becomes lane v of vector k: as many vectors as each has lanes (a power of two), all of one type.
std::vector<loop::ValueId> transpose(FunctionBuilder& builder, std::vector<loop::ValueId> vectors);

/// The two halves of several vectors that each hold partial results in `segments` runs of lanes: one vector of the
/// first halves of all runs, one of the second halves. With two vectors, `a`'s runs stand before `b`'s; with one (`b`
/// names nothing) the results have half the lanes.
struct Halves {
  loop::ValueId first, second;
};
Halves split_runs(FunctionBuilder& builder, loop::ValueId a, loop::ValueId b, int segments);

}  // namespace corrloom::passes
