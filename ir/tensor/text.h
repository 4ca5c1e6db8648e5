#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/tensor/graph.h"

namespace corrloom::tensor {

/// A graph as text, total (broken graphs print too) and stable: print(parse(print(x))) == print(x). Names are made
/// unique on printing only.
///
///   graph @corr2d(%X: f32[H, W], %K: f32[P, Q]) -> (%Y) symbols [H, W, P, Q] {
///     require ge(H, P) "the result has a negative extent"
///     %Y: f32[4, 4] = compute [i: 4, j: 4] reduce [p: 2, q: 2] ascending {
///       acc %s: f32 = 0.0:f32 step fma(%X[add(i, p), add(j, q)], %K[p, q], %s) merge add(%s, %s.other)
///       yield %s
///     }
///   }
///
///     graph     = "graph" @NAME "(" [input {"," input}] ")" "->" "(" [output {"," output}] ")"
///                 ["symbols" "[" symbol {"," symbol} "]"] "{" {condition} {op} "}"
///     input     = ["param"] %NAME ":" type                     type   = DTYPE "[" [expr {"," expr}] "]"
///     output    = [NAME "="] %NAME ["in" %INPUT]               symbol = NAME [":" DTYPE]       (no dtype: a dimension)
///     condition = "require" expr STRING ["showing" STRING "=" expr {"," STRING "=" expr}]
///     op        = %NAME ":" type "=" (literal | view | reshape | compute)
///     literal   = "literal" "[" [VALUE {"," VALUE}] "]"        view = "view" axes %NAME "[" [expr {"," expr}] "]"
///     reshape   = "reshape" %NAME                              axes = "[" [axis {"," axis}] "]"
///     axis      = NAME ":" extent ["from" origin]
///     compute   = "compute" axes ["with" ["strict" | "any"] ["fast"]] ["reduce" axes order] "{" {acc} "yield" expr "}"
///     order     = ("ascending" | "lanes" "(" COUNT ")" | "any") ["parts" "(" COUNT ")"]
///     acc       = "acc" %NAME ":" DTYPE "=" init "step" step "merge" merge
///
/// Expressions are those of `scalar::to_text`; an i64 literal may stand without its dtype. In a merge `%s.other` is the
/// right-hand side.
std::string print(const Graph& graph);

/// Reads exactly what `print` writes, plus `//` comments. Reports E04xx and returns nothing on an error.
std::optional<Graph> parse(const SourceRef& text, Diagnostics& diagnostics);

/// Every graph of a text file (several `graph` items).
std::optional<std::vector<Graph>> parse_all(const SourceRef& text, Diagnostics& diagnostics);

}  // namespace corrloom::tensor
