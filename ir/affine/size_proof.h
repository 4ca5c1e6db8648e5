#pragma once

#include <vector>

#include "ir/affine/direction.h"
#include "ir/affine/polynomial.h"

/// Reasoning about subscripts over extents that are not known: products of dimensions, quotients of them, and axes that
/// stay below them. Integers are ideal ones: dimensions are extents of tensors, whose elements can be counted.
namespace corrloom::affine {

/// An axis and its extent, an expression over symbols and the axes before it.
struct SizedAxis {
  AxisId axis;
  Expr extent;
};

/// What holds at every point of a box of axes, whatever the symbols are. A box without points has every property.
class SizeProof {
 public:
  /// `axes` outer ones first; `symbols` tells which symbols are never negative.
  SizeProof(std::vector<SizedAxis> axes, NeverNegative symbols);

  /// True when the expression is surely 0 or more at every point; false when that is not known.
  bool is_never_negative(const Expr& expr) const;
  /// True when 0 <= index < extent surely holds at every point.
  bool stays_inside(const Expr& index, const Expr& extent) const;
  /// The expression with quotients and remainders by sizes taken out where they cancel: (i * W + j) // W = i and
  /// % W = j for an axis j of extent W.
  Expr simplify(const Expr& expr) const;

 private:
  bool holds(Polynomial polynomial) const;
  bool is_sum_of_facts(const Polynomial& polynomial, int depth, int& budget) const;
  bool is_plainly_never_negative(const Expr& factor) const;
  void add_facts_of(const Expr& factor, std::vector<Polynomial>& facts) const;
  Expr simplify_division(const scalar::Apply& apply) const;

  std::vector<SizedAxis> axes_;
  NeverNegative symbols_;
  std::vector<Polynomial> facts_;  ///< over symbols, each 0 or more where the box has points
};

}  // namespace corrloom::affine
