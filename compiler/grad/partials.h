#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ir/scalar/expr.h"

namespace corrloom::grad {

using scalar::Expr;

/// What one leaf of an expression receives.
struct Partial {
  Expr leaf;   ///< a Read, a SymbolRef or an AccRef
  Expr value;  ///< seed times the derivative; under a condition where the leaf is
};

/// Asks about what an expression reads.
struct PartialsQuery {
  std::function<bool(const Expr& leaf)> is_wanted;
  std::function<const std::vector<Expr>&(scalar::TensorId)> extents;
};

/// The reverse of an expression: what each of its leaves receives when its value receives `seed`. Only wanted leaves
/// are looked for. A leaf that occurs several times has one entry. When a sub-expression has no rule, it is put into
/// `failed` and nothing is given.
std::optional<std::vector<Partial>> partials_of(const Expr& expr, const Expr& seed, const PartialsQuery& query,
                                                Expr& failed);

}  // namespace corrloom::grad
