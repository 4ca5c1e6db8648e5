#pragma once

#include <cstddef>
#include <vector>

#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// The graph with only the ops at those positions, in that order, and every use renumbered. The ops left out are not
/// used by the others.
tensor::Graph reorder_ops(tensor::Graph graph, const std::vector<std::size_t>& order);

}  // namespace corrloom::passes
