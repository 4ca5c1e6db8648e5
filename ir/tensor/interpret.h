#pragma once

#include <vector>

#include "ir/tensor/graph.h"

namespace corrloom::tensor {

/// A dense tensor of the interpreter: row-major values.
struct Array {
  DType dtype = DType::F32;
  std::vector<std::int64_t> extents;
  std::vector<std::uint64_t> bits;  ///< of scalar::Value, one an element

  std::int64_t count() const;
  scalar::Value at(std::int64_t linear) const { return {dtype, bits[static_cast<std::size_t>(linear)]}; }
};

/// What a graph means: evaluates each op in the declared dtypes and the stated orders; ops that no output needs are
/// left out. `symbols` gives a value for each symbol of the graph, in its order (dimensions must agree with the
/// inputs). Throws InputError when a condition does not hold (these come first), inputs have other shapes or dtypes, a
/// size overflows or is above 2^30 elements, or a read leaves its tensor: then it gives 0 and the run goes on, so that
/// the error at the end names the first site of `check_sites` and the lowest subscript there, as kernels do, and the
/// index values besides. Throws InternalError for a graph that `verify` refuses, and when a read that was proven to
/// stay inside does not.
std::vector<Array> interpret(const Graph& graph, const std::vector<Array>& inputs,
                             const std::vector<scalar::Value>& symbols);

}  // namespace corrloom::tensor
