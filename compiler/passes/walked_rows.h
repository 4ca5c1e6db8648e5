#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// The dimension with which the axes begin when they are neighbouring subscripts of the read, in their order, each
/// along its whole dimension, and move nothing else of it: they then walk it as one axis of all their elements would.
std::optional<std::size_t> walked_rows(const tensor::Graph& graph, const scalar::Read& read,
                                       const std::vector<tensor::Axis>& axes);

}  // namespace corrloom::passes
