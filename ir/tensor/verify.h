#pragma once

#include <string>
#include <vector>

#include "ir/tensor/graph.h"

namespace corrloom::tensor {

/// A broken rule: its number (`T7`), the op it was found in, and what was found against what was wanted.
struct Violation {
  std::string rule;
  std::string op;
  std::string message;
};

/// All broken rules of a graph. The rules are numbered and listed in ir/README.md.
std::vector<Violation> verify(const Graph& graph);

}  // namespace corrloom::tensor
