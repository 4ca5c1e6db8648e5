#pragma once

#include <optional>
#include <vector>

#include "ir/scalar/expr.h"

namespace corrloom::grad {

using scalar::Expr;

/// What each operand of an operation receives when its value, `value`, is changed by `seed`: seed times the partial
/// derivative. An entry is null where the operand has no influence that a derivative sees (`floor`, a condition).
/// Nothing when the operation has no rule.
///
/// Conventions: of equal operands the first is the `min` and the `max`; `abs` and `sign` have derivative 0 at 0, steps
/// (`floor`, `round`, casts to integers) everywhere.
std::optional<std::vector<Expr>> operand_seeds(const Expr& value, const Expr& seed);

}  // namespace corrloom::grad
