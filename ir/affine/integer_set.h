#pragma once

#include <optional>

#include "ir/affine/affine.h"
#include "ir/affine/intervals.h"

/// Inside of ir/affine: questions to isl.
namespace corrloom::affine {

/// What exact reasoning found out about "index stays in [0, extent) on the domain".
struct SetAnswer {
  Verdict verdict;
  /// True when Outside may owe to a part of the domain or the index that the sets do not express.
  bool approximate = false;
};

/// Asks isl. What is not quasi-affine becomes an unknown within its bounds, which only makes the set of points larger.
/// `plain` has the domain's ranges, `assumed` its conditions as well. Unknown when the quota of operations ran out.
SetAnswer ask_isl(const Expr& index, std::int64_t extent, const Domain& domain, Intervals& plain, Intervals& assumed);

/// Bounds of `index` over the domain by isl: exact where everything is quasi-affine, wider otherwise; nothing when the
/// quota ran out or the domain is unbounded.
std::optional<Interval> ask_isl_for_bounds(const Expr& index, const Domain& domain, Intervals& plain,
                                           Intervals& assumed);

}  // namespace corrloom::affine
