#pragma once

#include <cstddef>
#include <vector>

#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// Which dimensions or axes become one, in order. A dimension that is in no group has extent 1 and is dropped.
using Groups = std::vector<std::vector<std::size_t>>;

/// New shapes for the values of a graph. `dimensions` has an entry for each op; those of a compute are its axes, too.
/// `reduced` has one for each op, empty where there is no reduction. Views keep their shape.
struct Regrouping {
  std::vector<Groups> dimensions;
  std::vector<Groups> reduced;
};

/// The regrouping that changes nothing.
Regrouping identity_of(const tensor::Graph& graph);

/// The graph with those shapes: computes and literals change theirs, reads of inputs and reshapes go through reshapes
/// of the memory behind them, and results get their declared shape back by a reshape. Axes have new ids; their names
/// tell the position (`i0`, `i1`; `k0` in a reduction). Reshapes stand behind their source and no two are alike. A
/// reduction that loses all its axes becomes one step from the initial values.
tensor::Graph regroup(const tensor::Graph& graph, const Regrouping& regrouping);

}  // namespace corrloom::passes
