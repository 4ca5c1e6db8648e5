#pragma once

#include <vector>

#include "compiler/frontend/lowering.h"

namespace corrloom::frontend {

/// Reductions in the elements of another one that cannot become tensors of their own, since no box holds the values of
/// the other's variables: they run in its loops, inside. While its elements are lowered, placeholders stand for their
/// values.
///
///   sum(e: start[r]..start[r+1]) v[e] * (sum(d) Q[r, d] * K[col[e], d])
/// becomes one reduction over e and d, whose second accumulator begins anew where d is 0, and whose first one takes an
/// element where d is at its last value.
class NestedReductions {
 public:
  /// `axes` are those of the reduction around.
  explicit NestedReductions(std::vector<tensor::Axis> axes) : axes_(std::move(axes)) {}

  const std::vector<tensor::Axis>& axes() const { return axes_; }
  bool is_empty() const { return nested_.empty(); }
  /// The value of the reduction, whose `result` is of its accumulators, as the elements of the one around may use it.
  /// `next_placeholder` is shared by all that are open at a time.
  Expr add(tensor::Reduction reduction, const Expr& result, int& next_placeholder);
  /// The reduction around with these inside.
  tensor::Reduction put_into(Context& context, tensor::Reduction around) const;

 private:
  struct Nested {
    tensor::Reduction reduction;
    int first_placeholder;
  };

  std::vector<tensor::Axis> axes_;
  std::vector<Nested> nested_;
};

/// Whether a reduction uses the value of another one that runs in the loops around both.
bool uses_placeholders(const tensor::Reduction& reduction);

}  // namespace corrloom::frontend
