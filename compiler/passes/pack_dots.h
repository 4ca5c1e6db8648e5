#pragma once

#include "compiler/passes/pass.h"
#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// Lets sums of products of bytes use the machine's instruction for four of them at a time, where it has one and
/// operands are read often enough that packing them pays:
///
///   %y[i, j] = ... reduce [k: 10] ... step add(%s, mul(cast.i32(%a[i, k]), cast.i32(%b[k, j])))
/// becomes
///   %a.bytes[i, k] = or of the bytes of %a[i, 4 * k + t], t = 0 .. 3, shifted (i32; 0 behind the end)
///   %b.bytes[k, j] likewise
///   %y[i, j] = ... reduce [k: 3] ... step dot(%b.bytes[k, j], %a.bytes[i, k], %s)
///
/// The instruction multiplies unsigned by signed bytes. Of two signed ones the first is raised by 128 (its sign bit
/// flipped), and 128 times the sum of the other, a compute of its own, is taken off in the body; of two unsigned ones
/// the second is lowered likewise. An operand that has the axis in a window, `x[i + k]`, is packed where it is read.
///
/// Sums of products of bf16 that `set_orders` gave to the instruction, one product a step, get two: neighbours along
/// the last axis share a word, the first of them in its upper half, which the instruction adds first. Elements that are
/// used rarely are joined where they are read.
///
/// Requires: set_orders, and extents that are known; others stay as they are. Preserves: every bit (the sums wrap, so
/// their order is free). Leaves behind: graphs without such products where the target has the instruction.
tensor::Graph pack_dots(tensor::Graph graph, PassContext& ctx);

}  // namespace corrloom::passes
