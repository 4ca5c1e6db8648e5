#pragma once

#include <limits>
#include <optional>

#include "ir/affine/affine.h"
#include "ir/scalar/expr.h"

/// What index arithmetic of Loop IR can be: bounds of i64 values while a function is built.
namespace corrloom::passes {

/// Of a value of which nothing is known.
inline constexpr affine::Interval kAnything = {std::numeric_limits<std::int64_t>::min(),
                                               std::numeric_limits<std::int64_t>::max()};

/// Bounds of the result of an operation on two i64 values; `kAnything` where it may wrap.
affine::Interval result_range(scalar::Opcode opcode, affine::Interval a, affine::Interval b);

/// What a comparison of such values is, where their bounds decide it.
std::optional<bool> decided(scalar::Opcode opcode, affine::Interval a, affine::Interval b);

/// Whether arithmetic on the value stays clear of the ends of i64.
bool is_far_from_wrapping(affine::Interval range);

}  // namespace corrloom::passes
