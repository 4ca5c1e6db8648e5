#pragma once

#include <cstdint>
#include <vector>

#include "compiler/passes/function_builder.h"

namespace corrloom::passes {

/// Lane k of vector v becomes lane v of vector k: as many vectors as each has lanes (a power of two), all of one type.
std::vector<loop::ValueId> transpose(FunctionBuilder& builder, std::vector<loop::ValueId> vectors);

/// Lane 0 of all vectors, then lane 1 of all, and so on: as many vectors again.
std::vector<loop::ValueId> interleave(FunctionBuilder& builder, const std::vector<loop::ValueId>& vectors);

/// The lanes of one vector, then those of the other.
loop::ValueId side_by_side(FunctionBuilder& builder, loop::ValueId a, loop::ValueId b);

/// The two halves of several vectors that each hold partial results in `segments` runs of lanes: one vector of the
/// first halves of all runs, one of the second halves. With two vectors, `a`'s runs stand before `b`'s; with one (`b`
/// names nothing) the results have half the lanes.
struct Halves {
  loop::ValueId first, second;
};
Halves split_runs(FunctionBuilder& builder, loop::ValueId a, loop::ValueId b, int segments);

/// Elements of a buffer (stage flat) that lie near each other at known distances, but not one behind the other, as
/// whole vectors and shuffles of them: neighbours that want the elements between share the vectors. An invalid id where
/// the elements do not lie so, or the lanes of the mask are not known.
loop::ValueId load_near(FunctionBuilder& builder, loop::BufferId buffer, loop::ValueId offset, loop::ValueId mask);

}  // namespace corrloom::passes
