#pragma once

#include <string>

#include "ir/scalar/expr.h"
#include "ir/tensor/graph.h"

namespace corrloom::tools {

/// An expression over symbols and axes as one would write it in a program: `H - P + 1`. Cut off with `...` where it
/// gets long.
std::string in_source_form(const scalar::Expr& expr, const tensor::Graph& graph);

/// What a graph computes, for a reader: each value that the op's own text defines, with the ranges of its indices and
/// its dtype; then what must hold at entry, once each, without what holds for all sizes.
///
///   Y[i: H - P + 1, j: W - Q + 1]: f32 over p: P, q: Q
///   needs H - P + 1 >= 0
std::string describe(const tensor::Graph& graph);

}  // namespace corrloom::tools
