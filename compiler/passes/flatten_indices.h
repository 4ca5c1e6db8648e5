#pragma once

#include "compiler/passes/pass.h"
#include "ir/loop/function.h"

namespace corrloom::passes {

/// Turns the indices of every access into one element offset, row-major.
///
///   %v = load %X[%i, %j]          of %X: f32[4, 16]
/// becomes
///   %t = mul %i, 16   %o = add %t, %j   %v = load %X[%o]
///
/// Requires: stage Mapped. Preserves: every value. Leaves behind: stage Flat; offsets that are linear in the lanes are
/// ramps, constants stand last in a sum, where addresses can take them as displacements, and what does not change in a
/// loop stands before it.
loop::Function flatten_indices(loop::Function function, PassContext& ctx);

}  // namespace corrloom::passes
