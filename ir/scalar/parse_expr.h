#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "ir/base/ir_lexer.h"
#include "ir/scalar/expr.h"

namespace corrloom::scalar {

/// What the names in an expression's text stand for. Each function gives null (or nothing) for a name that it does not
/// know; one that is not set knows none.
struct ParseScope {
  std::function<Expr(const std::string& name)> word;   ///< a bare name: an axis or a symbol
  std::function<Expr(const std::string& name)> value;  ///< `%name` without subscripts: an accumulator
  /// `%name[...]`: what is read, and its dtype.
  std::function<std::optional<std::pair<TensorId, DType>>(const std::string& name)> tensor;
  int max_depth = kMaxDepth;  ///< a deeper expression is an error, so that recursion over what was parsed is safe
};

/// Reads one expression as `to_text` writes it; a Number without a dtype is an i64. Null after an error, which is
/// reported (E0401 to E0406). Spans of reads point into the text. Recursion-free, so nesting cannot exhaust the stack.
Expr parse_expr(IrCursor& cursor, const ParseScope& scope);

}  // namespace corrloom::scalar
