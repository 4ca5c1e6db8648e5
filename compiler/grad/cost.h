#pragma once

#include "ir/scalar/expr.h"

namespace corrloom::grad {

/// What a function such as `exp` counts, in additions.
inline constexpr int kFunctionFlops = 20;

/// About how many additions an expression costs. Index arithmetic and reads are free.
int flops_of(const scalar::Expr& expr);

}  // namespace corrloom::grad
