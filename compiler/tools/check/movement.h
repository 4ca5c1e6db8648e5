#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/tensor/graph.h"

namespace corrloom::tools {

/// A dimension of a value walks over a dimension of an input: element i uses the input at step * i + low to
/// step * i + high there, nowhere else, and is otherwise computed alike for every i from `first` to `last`. So it moves
/// by t when the input moves by step * t.
struct Movement {
  std::size_t dimension = 0;  ///< of the value
  std::int64_t step = 1;
  std::int64_t low = 0, high = 0;
  std::int64_t first = 0, last = 0;
};

/// How the outputs of a graph without symbols move with dimension `dimension` of an input; nothing for an output that
/// does not, or does not use the input.
std::vector<std::optional<Movement>> movements_with(const tensor::Graph& graph, tensor::TensorId input,
                                                    std::size_t dimension);

/// Whether a dimension of a graph with symbols splits: it is only ever walked by one index, which is used for nothing
/// else.
bool is_free_dimension(const tensor::Graph& graph, tensor::SymbolId dimension);

/// The dimension of a value whose extent is that symbol, if there is one.
std::optional<std::size_t> dimension_of(const tensor::Op& op, tensor::SymbolId symbol);

}  // namespace corrloom::tools
