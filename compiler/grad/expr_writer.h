#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/grad/notation.h"

namespace corrloom::grad {

/// How tightly the outermost operator of a text binds, in the order of the grammar. `Open` extends to the right as far
/// as it can.
enum class Binding { Open, Or, And, Comparison, BitOr, BitXor, BitAnd, Shift, Sum, Term, Unary, Operand };

struct Written {
  std::string text;
  Binding binding = Binding::Operand;
  bool ends_open = false;  ///< ends with a reduction, whose product would take in what follows
};

/// Writes expressions as one would in a `.loom` file, with no more parentheses than are needed.
class ExprWriter {
 public:
  struct Names {
    std::function<std::string(AxisId)> axis;
    std::function<std::string(SymbolId)> symbol;
    std::function<std::string(TensorId)> tensor;
    std::function<std::string(int)> reduction;  ///< the text of reduction k
    std::function<std::string()> new_name;      ///< for a value that is used several times
    std::function<std::string(DType)> dtype;
    std::function<bool(const Expr&)> has_dtype;  ///< false for what takes the dtype of its context, as literals do
  };
  explicit ExprWriter(Names names) : names_(std::move(names)) {}

  /// The whole value of a statement, a branch or a body: costly sub-expressions that occur several times get a name,
  /// `let t = exp(x) in t * t`.
  Written write_value(const Expr& expr);
  /// The body of a reduction: a product of operands.
  std::string write_body(const Expr& expr);
  /// The end of a range: sums and what binds tighter.
  std::string write_bound(const Expr& expr);

 private:
  Written write(const Expr& expr);
  std::string within(const Expr& expr, Binding loosest);
  Written write_apply(const scalar::Apply& apply, const Expr& expr);
  Written write_infix(const scalar::Apply& apply, const char* op, Binding binding);
  Written write_constant(const scalar::Value& value);
  Written write_read(const scalar::Read& read);
  Written write_call(const std::string& name, const std::vector<Expr>& args);

  Names names_;
  std::vector<std::pair<Expr, std::string>> shared_;  ///< sub-expressions that have a name here
};

}  // namespace corrloom::grad
