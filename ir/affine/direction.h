#pragma once

#include <functional>

#include "ir/scalar/expr.h"

namespace corrloom::affine {

/// Tells of a symbol whether its value is never negative.
using NeverNegative = std::function<bool(scalar::SymbolId)>;

/// True when an i64 expression cannot be negative, as axes are not (overflow aside).
bool is_nonnegative(const scalar::Expr& expr, const NeverNegative& symbols);

/// How an i64 expression changes when one axis grows.
enum class Direction { Constant, Rises, Falls, Unknown };
Direction direction_of(const scalar::Expr& expr, scalar::AxisId axis, const NeverNegative& symbols);

}  // namespace corrloom::affine
