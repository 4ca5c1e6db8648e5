#pragma once

#include <random>

#include "ir/scalar/evaluate.h"
#include "ir/scalar/expr.h"

namespace corrloom::scalar::testing {

using Random = std::mt19937_64;

/// A value of that dtype: half of the time one that sits on an edge (0, extremes, infinities, NaN, denormals), else
/// random bits or a small number.
Value random_value(Random& random, DType dtype);

/// A DAG of about `operations` operations over symbols of every dtype; operands are drawn from what was made before, so
/// much is shared. `result` is its dtype. Symbol number i has dtype `kAllDTypes[i]`. `integers_only` keeps to integers
/// and bools.
Expr random_expr(Random& random, int operations, DType result, bool integers_only = false);

/// One random value for each symbol of `random_expr`.
Environment random_environment(Random& random);

/// Equal bits, or both NaN of one float dtype.
bool agree(const Value& a, const Value& b);

}  // namespace corrloom::scalar::testing
