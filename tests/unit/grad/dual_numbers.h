#pragma once

#include <vector>

#include "ir/tensor/graph.h"
#include "ir/tensor/interpret.h"

namespace corrloom::testing {

/// An array of numbers with their rates of change.
struct DualArray {
  tensor::Array value;
  std::vector<double> rate;  ///< one an element; 0 for integers and bools
};

/// Evaluates a graph on numbers that carry their rate of change (dual numbers): forward-mode differentiation, which
/// shares nothing with the derivatives of the compiler. Of equal operands of `min` and `max` the first one counts.
std::vector<DualArray> interpret_dual(const tensor::Graph& graph, const std::vector<DualArray>& inputs,
                                      const std::vector<scalar::Value>& symbols);

}  // namespace corrloom::testing
