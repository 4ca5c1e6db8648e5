#pragma once

#include <string>
#include <variant>
#include <vector>

#include "compiler/grad/notation.h"

namespace corrloom::grad {

/// A tensor argument or a scalar one that the derivative is taken by.
struct Variable {
  std::string name;
  std::variant<TensorId, SymbolId> id;
};

/// Why an op has no derivative.
struct Refusal {
  std::string title;
  Span span = {};  ///< of the sub-expression
};

/// The statements of an op followed by those of its derivative.
struct Derivative {
  Notation notation;
  std::vector<TensorId> cotangents;  ///< one for each float result, in their order
  std::vector<TensorId> values;      ///< the results of the op itself, where they are asked for
  std::vector<TensorId> results;     ///< one for each variable, in their order
  std::vector<Expr> required;        ///< what must hold at entry
  std::size_t forward = 0;           ///< how many of the statements are the op's own
};

/// Reverse mode on statements: every read of a float that a variable has an influence on becomes a sum over the places
/// that read the same element (`Transposer`).
///
///   Y[i] = sum(p) X[i + p] * K[p]     dX[i] = sum(p) dY[i - p] pad 0 * K[p]
///                                     dK[p] = sum(i) dY[i] * X[i + p]
///
/// Kept from the graph: names of tensors and index variables. A reduction of which only a function is used
/// (`log(sum(k) ...)`) becomes a local tensor of its own first.
///
/// With values, the op's own results come first, and the derivative is that of the first of them, a number: its
/// cotangent is 1, and the others have none.
std::variant<Derivative, Refusal> differentiate(const tensor::Graph& graph, const std::vector<Variable>& variables,
                                                bool with_values = false);

}  // namespace corrloom::grad
