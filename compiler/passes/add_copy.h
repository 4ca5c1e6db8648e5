#pragma once

#include <string>

#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// Adds a compute at the end of the graph that copies `source`, and gives it.
tensor::TensorId add_copy(tensor::Graph& graph, tensor::TensorId source, const std::string& name);

}  // namespace corrloom::passes
