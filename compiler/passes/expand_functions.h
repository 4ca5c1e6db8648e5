#pragma once

#include "compiler/passes/pass.h"
#include "ir/tensor/graph.h"

namespace corrloom::passes {

/// Writes functions, arithmetic of f16 and bf16, and casts that machines do differently in terms of the primitives that
/// every back end lowers directly (`scalar::expand`).
///
///   exp(%X[i])  becomes  mul(fma(...), bitcast.f32(...))
///
/// For PTX, functions of an op `with math = fast` become those that a GPU approximates in one instruction.
///
/// Requires: `contract_fma` has run; what it leaves may hold products and sums that are not to be contracted.
/// Preserves: the value of every output, bit for bit; `with math = fast` on PTX approximately.
tensor::Graph expand_functions(tensor::Graph graph, PassContext& ctx);

}  // namespace corrloom::passes
