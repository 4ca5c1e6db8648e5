#pragma once

#include <vector>

#include "ir/tensor/graph.h"
#include "ir/tensor/interpret.h"

namespace corrloom::tools {

/// How a value depends on one input, and how far computing it may go off.
struct Dependence {
  enum class Kind { Constant, Linear, Affine, Other };
  Kind kind = Kind::Constant;
  double magnitude = 0;  ///< no element is larger
  double least = 0;      ///< no element is closer to 0
  int grid = 0;          ///< every element is a multiple of 2^grid
  double error = 0;      ///< bound of the distance from the value without rounding; a constant has none

  bool is_zero() const { return kind == Kind::Constant && magnitude == 0; }
};

/// How each output of a graph without symbols depends on one of its inputs, whose elements are whole and not larger
/// than `magnitude`. `values` are the elements of every op of the graph for other elements of that input.
std::vector<Dependence> dependences_on(const tensor::Graph& graph, tensor::TensorId input, double magnitude,
                                       const std::vector<tensor::Array>& values);

}  // namespace corrloom::tools
