#pragma once

#include <vector>

#include "compiler/grad/notation.h"
#include "compiler/grad/polynomial.h"

namespace corrloom::grad {

/// What is known of integers: ranges of variables, dimensions that are not negative.
struct Facts {
  const Notation& notation;
  std::vector<Loop> ranges;
  std::vector<Polynomial> nonnegative;
  std::vector<Expr> nonzero;
  std::vector<Expr> divisible;  ///< `a % b` that are known to be 0

  /// True when the expression cannot be negative where all variables are in their ranges.
  bool is_nonnegative(const Polynomial& value) const { return is_nonnegative(value, 0); }
  bool is_nonnegative(const Expr& atom) const { return is_atom_nonnegative(atom, 0); }
  bool is_nonzero(const Polynomial& value) const;
  /// True when the value can be 0 only where one of these extents is: then there is nothing to compute.
  bool is_zero_only_with(const Polynomial& value, const std::vector<Polynomial>& extents) const;

 private:
  bool is_nonnegative(const Polynomial& value, int depth) const;
  bool is_atom_nonnegative(const Expr& atom, int depth) const;
  const Loop* range_of(const Expr& atom) const;
};

}  // namespace corrloom::grad
