#pragma once

#include <cstddef>

#include "ir/scalar/expr.h"

namespace corrloom::scalar {

/// The dtype that an operand must have beside a last one of dtype `last`. That is `last` itself but for the condition
/// of a choice, a bool, and the words of a dot product of floats, i32.
DType operand_dtype(Opcode opcode, std::size_t operand, DType last);
/// Whether the last operand, and with it those of the same dtype, may have that one: what `takes` says of the opcode,
/// and f32 for dot products.
bool takes_last(Opcode opcode, DType last);

}  // namespace corrloom::scalar
