#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/frontend/frontend.h"
#include "ir/tensor/graph.h"
#include "ir/tensor/interpret.h"

namespace corrloom::tools {

/// An op on tensors, one array an input in the graph's order; scalars stay as they are. Extents may differ from call to
/// call. Throws InputError when the op refuses the arrays.
using RunOp = std::function<std::vector<tensor::Array>(const std::vector<tensor::Array>&)>;

/// An op under test: as users call it, and in strict order.
struct Subject {
  RunOp as_called;
  RunOp strict;
};

/// Which laws were tried and hold, one line each, and what is wrong with the first that does not; empty: nothing.
struct LawReport {
  std::vector<std::string> held;
  std::string broken;
};

/// Derives laws from a definition and tries them on those inputs and values of the graph's symbols:
///
/// - a result that is linear in an input (up to a constant) keeps sums, and is the sum of its impulse responses:
///   exactly where arithmetic on small whole numbers is exact, else within all roundings of the definition;
/// - a result whose index walks over an input moves when the input moves, bit for bit;
/// - a dimension that is only ever walked by one index splits: the op on the parts gives the parts, bit for bit.
LawReport check_laws(const tensor::Graph& graph, const frontend::SymbolValues& values,
                     const std::vector<tensor::Array>& inputs, const Subject& subject);

}  // namespace corrloom::tools
