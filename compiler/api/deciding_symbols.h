#pragma once

#include <set>
#include <string>

#include "ir/tensor/graph.h"

namespace corrloom::api {

/// Names of the symbols that stand where a value decides what is read or how much is computed: in extents, ranges,
/// subscripts, entry conditions and, if they are integers, conditions around reads. An op is compiled anew for other
/// values of these; all other scalars are plain arguments of the code.
std::set<std::string> deciding_symbols(const tensor::Graph& graph);

}  // namespace corrloom::api
