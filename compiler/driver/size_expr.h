#pragma once

#include <optional>

#include "ir/kernel/kernel.h"
#include "ir/scalar/expr.h"

namespace corrloom::driver {

/// A size as the small program that the runtime evaluates; nothing for an expression that is not integer arithmetic
/// over symbols. Symbol k becomes symbol k.
std::optional<kernel::SizeExpr> to_size(const scalar::Expr& expr);

}  // namespace corrloom::driver
