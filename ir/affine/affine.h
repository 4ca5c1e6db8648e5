#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/scalar/expr.h"

/// Exact reasoning about integer index expressions: intervals, linear forms, integer sets (isl, which no header names).
namespace corrloom::affine {

using scalar::AxisId;
using scalar::Expr;

/// A closed interval of 64-bit integers; empty when low > high.
struct Interval {
  std::int64_t low;
  std::int64_t high;
  bool empty() const { return low > high; }
  bool contains(std::int64_t value) const { return low <= value && value <= high; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// The range of each axis in scope: [0, extent) as an interval.
using Ranges = std::function<std::optional<Interval>(AxisId)>;

/// Bounds of an integer expression over those ranges by interval arithmetic; nothing when it may overflow 64 bits or
/// nothing is known of it. A read or symbol of a narrow dtype has the bounds of that dtype, and a modulo those of its
/// divisor, whatever the operand.
std::optional<Interval> interval_of(const Expr& expr, const Ranges& ranges);

/// True when some integer operation inside `expr` may leave its dtype over those ranges.
bool may_wrap(const Expr& expr, const Ranges& ranges);

/// constant + sum of coefficient * term, where a term is an axis or an expression that is not linear (a floor division,
/// a modulo, a read).
struct LinearForm {
  std::int64_t constant = 0;
  struct Term {
    Expr expr;  ///< an AxisRef, or an opaque integer expression
    std::int64_t coefficient;
  };
  std::vector<Term> terms;  ///< no two structurally equal, no zero coefficient

  std::int64_t coefficient_of(AxisId axis) const;
  bool is_affine() const;  ///< every term is an axis
};

/// The linear form of an i64 expression; nothing on overflow.
std::optional<LinearForm> linear_form(const Expr& expr);
/// The expression of a form: axes first, in the order of their ids, constants last.
Expr to_expr(const LinearForm& form);

/// Simplifies index arithmetic with knowledge of the ranges: (d*x + r) // d and % d with 0 <= r < d, x // d * d + x % d
/// = x, x % d with 0 <= x < d, bounds that decide a comparison, min and max. Equal values for every point of the
/// ranges; the result is in linear form inside out.
Expr simplify_index(const Expr& expr, const Ranges& ranges);

/// One axis of a domain and its extent (constant).
struct DomainAxis {
  AxisId axis;
  std::string name;
  std::int64_t extent;
};

/// A set of integer points: the box of the axes, cut by conditions (bool expressions over the axes; those that are not
/// (quasi-)affine are left out, which only makes the set larger).
struct Domain {
  std::vector<DomainAxis> axes;
  std::vector<Expr> conditions;
};

/// Whether an expression keeps inside [0, extent) on every point of a domain.
struct Verdict {
  enum class Kind { Inside, Outside, Unknown };
  Kind kind;
  /// For Outside: a point of the domain (one value an axis, in order; the lexicographically smallest where that is
  /// cheap) and the subscript's value there.
  std::vector<std::int64_t> point;
  std::int64_t value = 0;
  /// True for Outside when every point of the (non-empty) domain is outside.
  bool always = false;
};

/// Intervals first, then isl on the exact domain; Unknown when the expression is not quasi-affine, or isl's quota of
/// operations ran out, and intervals do not prove it. Never aborts.
Verdict stays_inside(const Expr& index, std::int64_t extent, const Domain& domain);

/// The box that the values of `index` cover over a domain (per subscript), as intervals; nothing when unknown. Used for
/// footprints.
std::optional<Interval> footprint(const Expr& index, const Domain& domain);

}  // namespace corrloom::affine
