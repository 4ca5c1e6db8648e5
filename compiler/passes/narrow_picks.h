#pragma once

#include "compiler/passes/pass.h"
#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// Makes the places that argmax and argmin carry along as short as the elements allow, and compares no places in a
/// step.
///
///   acc %at: i64 = highest step select(better or as good and earlier, k, %at) ... yield %at
/// becomes
///   acc %at: i32 = highest step select(better, cast.i32(k), %at) ...
///   yield select(eq(%at, highest), 0, cast.i64(%at))
///
/// Elements of a partial result come in ascending order, so that a later one as good as the one that is kept never
/// replaces it. Where no element is better than the initial value, all of them are equal: the first is it.
/// Acts where the range is a constant that is not empty and every index fits i32.
/// Requires: sizes are constants; ranges have been checked. Preserves: the value of every output.
tensor::Graph narrow_picks(tensor::Graph graph, PassContext& ctx);

}  // namespace corrloom::passes
