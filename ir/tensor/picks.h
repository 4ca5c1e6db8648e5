#pragma once

#include <optional>
#include <vector>

#include "ir/tensor/graph.h"

namespace corrloom::tensor {

/// The greatest value of a dtype: +inf for floats.
scalar::Value highest_of(DType dtype);
/// The least value of a dtype: -inf for floats.
scalar::Value lowest_of(DType dtype);

/// A reduction that looks for the place of the best element: argmax or argmin over one axis.
struct Pick {
  ReduceKind kind = ReduceKind::ArgMax;
  Expr element;
  Expr variable;  ///< the index that the element stands for
};

/// How much a step of a pick compares.
enum class PickSteps : std::uint8_t {
  AnyOrder,   ///< the places too: elements may come in any order
  Ascending,  ///< elements alone: those of a partial result come in ascending order, and the first of equal ones stays.
              ///< Where all are the initial value, the place stays the initial one.
};

/// The accumulators of a pick: the value, and its place, of the variable's dtype, which starts above every place.
std::vector<Accumulator> pick_accumulators(const Pick& pick, PickSteps steps);

/// What the accumulators pick, when they are those of a pick, of either kind: partial results may be merged in any
/// order.
std::optional<Pick> pick_of(const Reduction& reduction);

}  // namespace corrloom::tensor
