#pragma once

#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/affine/affine.h"

/// Inside of ir/affine: interval arithmetic that knows how integers wrap.
namespace corrloom::affine {

__extension__ typedef __int128 Int128;

/// A closed interval wide enough for sums and products of 64-bit integers of either sign; empty when low > high.
struct WideInterval {
  Int128 low;
  Int128 high;
  bool empty() const { return low > high; }
  bool is_point() const { return low == high; }
  bool inside(const WideInterval& outer) const { return outer.low <= low && high <= outer.high; }
};

/// Every value of an integer dtype or bool.
WideInterval range_of(DType dtype);
/// floor(x / y) for y other than 0.
Int128 floor_div(Int128 x, Int128 y);

/// Bounds of integer and bool expressions over given ranges and assumptions. A leaf that is not known (a read, a
/// symbol) has the range of its dtype; an operation that may wrap does too. So bounds hold for the values that the
/// language gives, not only for those of ideal integers. Subjects are kept alive by the memory of what was asked.
class Intervals {
 public:
  explicit Intervals(Ranges ranges) : ranges_(std::move(ranges)) {}

  /// Takes a condition as true: comparisons that it implies narrow the bounds of their operands.
  void assume(const Expr& condition);
  /// True when assumptions or ranges exclude each other.
  bool contradictory() const { return contradictory_; }

  /// Bounds of the value. The expression is an integer or a bool.
  WideInterval of(const Expr& expr);
  /// Bounds that the value of the root operation would have without the limits of its dtype.
  WideInterval unwrapped(const Expr& expr);
  /// True when the root operation cannot wrap.
  bool is_exact(const Expr& expr) { return unwrapped(expr).inside(range_of(expr->dtype)); }
  /// Bounds of the ideal value of a form.
  WideInterval of(const LinearForm& form);

 private:
  WideInterval of_apply(const scalar::Apply& apply, DType dtype);
  WideInterval of_comparison(const scalar::Apply& apply);
  WideInterval narrowed(const Expr& expr, WideInterval bounds) const;
  void assume_comparison(scalar::Opcode opcode, const Expr& x, const Expr& y);
  void narrow(const Expr& expr, WideInterval bounds);

  Ranges ranges_;
  std::vector<std::pair<Expr, WideInterval>> assumed_;
  std::unordered_map<const scalar::Node*, std::pair<Expr, WideInterval>> known_;
  bool contradictory_ = false;
};

}  // namespace corrloom::affine
