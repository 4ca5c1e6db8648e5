#pragma once

#include <cstdint>
#include <optional>

#include "ir/affine/affine.h"

/// Subscripts that padding moves into a tensor, as choices: `if i < n then (if i >= 0 then i else -i) else 2*(n-1) -
/// i`.
namespace corrloom::affine {

/// The affine form that is not negative exactly where the comparison of integers holds: `i + 1` for `i // 2 > -1`.
/// Nothing where there is none: sums of axes and at most one quotient by a constant are compared.
std::optional<LinearForm> not_negative_where(const scalar::Apply& comparison);

/// The subscript as it is away from borders: of each choice on a comparison of affine combinations of axes, what is
/// taken where that holds.
Expr away_from_borders(const Expr& subscript);

/// Whether such a subscript, where it would leave [0, extent), is that of the element at the border, or of the one as
/// far inside as it would be outside.
bool folds_at_borders(const Expr& subscript, std::int64_t extent);

}  // namespace corrloom::affine
