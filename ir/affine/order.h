#pragma once

#include "ir/scalar/expr.h"

namespace corrloom::affine {

/// A total order of expressions by structure, which does not depend on addresses: negative, 0 (structurally equal) or
/// positive. Leaves stand before operations; leaves and operations are ordered by their ids, constants by their bits.
int compare(const scalar::Expr& a, const scalar::Expr& b);

}  // namespace corrloom::affine
