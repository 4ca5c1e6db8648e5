#pragma once

#include "compiler/grad/notation.h"

namespace corrloom::grad {

/// `value` with its reads at `axis` padded with 0, so that it is 0 where the axis is outside of 0..end; null when that
/// is not enough. It is when the axis stands alone as a subscript over just that range, and every place where it is
/// used is a factor of the value: `dY[i, j] * K[p]` becomes `dY[i, j] pad 0 * K[p]`.
Expr padded_at(const Notation& notation, const Expr& value, AxisId axis, const Expr& end);

}  // namespace corrloom::grad
