#pragma once

#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// The axis of the result along which the reduction is a running one: each place continues where the one before it
/// stopped, because nothing but the end of the first range depends on the axis, and that end does not fall along it.
///
///   %y = compute [n: 3, t: 100] reduce [s: t + 1, k: 5] ascending { acc = add(acc, %x[n, s, k]) }      along t
///
/// So one pass gives all places, with the bits of a reduction for each. An id that names nothing when there is none.
tensor::AxisId running_axis(const tensor::Graph& graph, const tensor::Compute& compute);

}  // namespace corrloom::passes
