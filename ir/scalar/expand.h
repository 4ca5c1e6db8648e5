#pragma once

#include <cstdint>
#include <vector>

#include "ir/scalar/expr.h"

namespace corrloom::scalar {

/// One function applied to operands, in terms of primitives: the one source for the interpreter, the host and PTX, so
/// that all give the same bits. f16 and bf16 go through f32. The error bound of each function stands in
/// docs/functions.md.
Expr expand_function(Opcode function, const std::vector<Expr>& args);

/// How functions are to be computed.
enum class Functions : std::uint8_t {
  Accurate,
  /// By the approximate instructions of a GPU where it has them: see `is_approximable`.
  Approximate,
};

/// True for what a GPU has an approximate instruction for: exp2, log2, sin, cos, rsqrt and tanh of f32. Such a node may
/// stay in an expression that is lowered for PTX; what it means is the accurate function.
bool is_approximable(const Expr& node);
bool is_approximable(Opcode opcode, DType dtype);

/// The whole expression in the terms that every back end lowers directly: functions expanded; f16 and bf16 arithmetic
/// done in f32 and rounded to its own dtype after each operation; casts to bf16 and from f64 to f16 written as bit
/// operations. Bits are those of `evaluate`. Sharing is kept and integer arithmetic stays as it is. Contraction to fma
/// must have been decided: the result may hold products and sums that are not to be contracted. With
/// `Functions::Approximate` also approximable functions stay, and exp, log, tan and sigmoid of f32 (and so of f16 and
/// bf16) are written by means of them: bits are those of `evaluate` no longer.
Expr expand(const Expr& expr, Functions functions = Functions::Accurate);

/// True for each node that `expand` may leave:
///   - leaves and reads of every dtype; `if`, `select`, `fence` and `bitcast` of every dtype; `land`, `lor`;
///   - every other primitive except `cast`, with operands that are neither f16 nor bf16;
///   - casts bool -> integer; integer -> integer; integer <-> f32 or f64 (to integers: saturating, NaN gives 0); f32
///   <-> f64; f16 <-> f32; bf16 -> f32;
///     never between equal dtypes, never to bool.
/// Looks at the node alone, not at its operands' operands.
bool is_lowerable(const Expr& node);

}  // namespace corrloom::scalar
