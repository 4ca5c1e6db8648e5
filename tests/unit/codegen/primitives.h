#pragma once

#include <vector>

#include "tests/unit/codegen/kernels.h"

namespace corrloom::testing {

/// One primitive on one choice of dtypes and lanes.
struct Primitive {
  scalar::Opcode opcode;
  std::vector<DType> operands;
  DType result;
  int lanes;
};

/// Every primitive that `scalar::expand` may leave, on every dtype, in those lanes; those of one opcode stand together.
std::vector<std::vector<Primitive>> lowerable_primitives(const std::vector<int>& lanes);

/// For each operand its values, so that every combination of edge values occurs (of three operands, of some of them).
/// Their number is a multiple of 16.
std::vector<std::vector<scalar::Value>> edge_combinations(const Primitive& primitive);

}  // namespace corrloom::testing
