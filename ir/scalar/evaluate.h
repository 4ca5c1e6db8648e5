#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "ir/scalar/expr.h"

namespace corrloom::scalar {

/// What one operation means, by the language's rules of numbers (wrap, floor division, saturation, NaN, -0, ties).
/// `result` is the node's dtype. f16 and bf16 operands are computed in f32 and rounded once; functions are evaluated
/// through their expansions. This is the definition that interpreters and constant folding use. A NaN that an operation
/// makes is the quiet NaN of its dtype.
Value evaluate(Opcode opcode, std::span<const Value> operands, DType result);

/// What the leaves of an expression stand for.
struct Environment {
  std::function<Value(AxisId)> axis;
  std::function<Value(SymbolId)> symbol;
  std::function<Value(int index, bool other)> accumulator;
  /// The element a read gives, given the read and its evaluated subscripts; applies padding and checks. The pad value
  /// is left to it, so that it is evaluated (by `evaluate` in the same environment) only where it is needed.
  std::function<Value(const Read&, std::span<const std::int64_t> index)> read;
};

/// An expression prepared for being evaluated many times: functions expanded, nodes in order. Evaluating needs no
/// recursion and, once warm, no allocation. The reads that reach an Environment may be copies of the expression's own.
/// Holds scratch space: one thread at a time.
class Evaluator {
 public:
  explicit Evaluator(const Expr& expr);

  /// The value in that environment. `if`, `land` and `lor` evaluate only what they need; each shared node is evaluated
  /// at most once a call.
  Value operator()(const Environment& environment);

 private:
  struct Step {
    const Node* node;
    std::uint32_t first_operand;  ///< in `operands_`
    std::uint32_t operand_count;
  };

  Value compute(const Step& step, const Environment& environment);
  Value run_in_order(const Environment& environment);
  Value run_on_demand(const Environment& environment);
  std::optional<std::uint32_t> next_needed(const Step& step) const;
  bool is_ready(std::uint32_t slot) const { return computed_in_[slot] == call_; }

  Expr expr_;                ///< keeps the nodes alive
  std::vector<Step> steps_;  ///< operands before users, the root last
  std::vector<std::uint32_t> operands_;
  bool is_lazy_ = false;  ///< some step may leave an operand alone
  std::uint64_t call_ = 0;
  std::vector<std::uint64_t> computed_in_;  ///< the call that computed each slot last
  std::vector<Value> values_;
  std::vector<Value> arguments_;
  std::vector<std::int64_t> subscripts_;
  std::vector<std::uint32_t> pending_;
};

/// The value of an expression, once: `Evaluator(expr)(environment)`.
Value evaluate(const Expr& expr, const Environment& environment);

}  // namespace corrloom::scalar
