#pragma once

#include "compiler/frontend/lowering.h"

namespace corrloom::frontend {

/// The greatest (or least) value of an expression over all values of its axes, as an expression over symbols; null when
/// it does not rise or fall in each of them, or uses a read. It is the value at one corner, so it is met exactly unless
/// one of the axes has no values. Nothing in it is folded.
Expr extreme_of(const Context& context, const Expr& expr, bool greatest);

/// As `extreme_of`, but it may lie beyond the values that are met: each operand has its own extreme.
Expr bound_of(const Context& context, const Expr& expr, bool upper);

}  // namespace corrloom::frontend
