#pragma once

#include <set>
#include <string>
#include <vector>

#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// By op of the graph: whether its value follows from literals and from those inputs alone, whatever the symbols are,
/// without checks that can fail. Such a value is computed once and serves as long as the inputs stay what they are.
std::vector<bool> constant_values(const tensor::Graph& graph, const std::set<std::string>& inputs);

}  // namespace corrloom::passes
