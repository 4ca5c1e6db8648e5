#pragma once

#include <vector>

#include "ir/scalar/expr.h"

namespace corrloom::passes {

/// The row-major position of an element: `index` over `extents`.
scalar::Expr linear_position(const std::vector<scalar::Expr>& index, const std::vector<scalar::Expr>& extents);

/// The subscripts of the element at a row-major position, by floor division and modulo.
std::vector<scalar::Expr> index_at(const scalar::Expr& position, const std::vector<scalar::Expr>& extents);

}  // namespace corrloom::passes
