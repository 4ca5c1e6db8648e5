#pragma once

#include "ir/tensor/graph.h"

namespace corrloom::tensor {

/// Whether the accumulators of a reduction tell where it stands, as those of a reduction inside another one that runs
/// in the same loops: then it has no partial results, and only the ascending order. Such an accumulator keeps the later
/// part when it is merged.
bool is_in_sequence(const Reduction& reduction);

}  // namespace corrloom::tensor
