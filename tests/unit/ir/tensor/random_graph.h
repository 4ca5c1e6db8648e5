#pragma once

#include <cstdint>
#include <vector>

#include "ir/tensor/graph.h"
#include "ir/tensor/interpret.h"

namespace corrloom::testing {

/// What random graphs may hold; the sizes keep one interpretation below a millisecond or so.
struct RandomGraphOptions {
  int ops = 6;  ///< computes, views, reshapes and literals, besides the inputs
  int max_rank = 3;
  std::int64_t max_extent = 5;  ///< extents are 1 to this, now and then 0
  bool symbolic = false;        ///< extents of inputs are symbols, whose values are those of `RandomCase::symbols`
  bool pads = true;
  bool lanes = true;
  bool parts = false;  ///< reductions in parts
  /// Subscripts and ranges made of elements, some of which leave their tensors: those reads are `check runtime`, and
  /// running the graph may be an InputError.
  bool gathers = false;
};

/// A graph with inputs and symbol values that it runs with.
struct RandomCase {
  tensor::Graph graph;
  std::vector<tensor::Array> inputs;
  std::vector<scalar::Value> symbols;
};

/// A verified graph drawn from the seed, the same on every machine: computes with affine, floor-divided, modulo, padded
/// and conditional reads that stay inside, reductions of every kind and order (triangular ones too), views, reshapes,
/// literals and casts between dtypes; gathers and ranges made of data if wanted. Several
/// outputs.
RandomCase random_case(std::uint64_t seed, const RandomGraphOptions& options = {});

/// An array of values that exercise a dtype: small integers and fractions mostly, now and then a special value (NaN,
/// infinity, -0, the lowest).
tensor::Array random_array(std::uint64_t seed, DType dtype, std::vector<std::int64_t> extents);

}  // namespace corrloom::testing
