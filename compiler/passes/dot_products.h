#pragma once

#include "ir/kernel/target.h"
#include "ir/scalar/expr.h"

namespace corrloom::passes {

/// Whether the target adds four products of bytes in one instruction (Opcode::Dot).
bool has_byte_dots(const kernel::Target& target);
/// Whether the target adds two products of bf16 in one instruction (Opcode::Dot).
bool has_pair_dots(const kernel::Target& target);

/// The words of a dot product for one product of floats alone: `x`, of bf16, over a -0 and `y` over a +0, whose product
/// changes no sum.
scalar::Expr word_of_first(const scalar::Expr& x);
scalar::Expr word_of_second(const scalar::Expr& y);
/// The word of two neighbours in memory, `lower` before `upper`, both of bf16.
scalar::Expr word_of_pair(const scalar::Expr& lower, const scalar::Expr& upper);
/// What stands in a word of one product, or null.
scalar::Expr first_in_word(const scalar::Expr& word);
scalar::Expr second_in_word(const scalar::Expr& word);

}  // namespace corrloom::passes
