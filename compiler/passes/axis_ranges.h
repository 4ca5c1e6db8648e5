#pragma once

#include <map>

#include "ir/affine/affine.h"
#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// The range of every axis of a graph whose extent is constant and not 0, for `affine::simplify_index`. The map must
/// outlive the result.
using AxisRanges = std::map<scalar::AxisId, affine::Interval>;
AxisRanges axis_ranges(const tensor::Graph& graph);
affine::Ranges lookup(const AxisRanges& ranges);

}  // namespace corrloom::passes
