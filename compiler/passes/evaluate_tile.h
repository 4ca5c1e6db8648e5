#pragma once

#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/passes/function_builder.h"
#include "ir/scalar/expr.h"

namespace corrloom::passes {

/// Writes scalar expressions as instructions at one point of a register tile.
///
/// An axis stands for a scalar or a ramp (the vector axis), so a value is a vector exactly when it depends on the
/// vector axis. `if`, `land` and `lor` evaluate both sides, with the reads of each side masked by the condition under
/// which it is wanted: nothing outside a buffer is touched. A subscript that needs a check masks its read by it.
class TileEvaluator {
 public:
  /// What a subscript is tested against, and the number of the message.
  struct Check {
    int site;
    loop::ValueId extent;
  };
  struct Leaves {
    std::function<loop::ValueId(scalar::AxisId)> axis;
    std::function<loop::ValueId(int index, bool other)> accumulator;
    std::function<loop::BufferId(scalar::TensorId)> buffer;
    /// The element with which a value's buffer begins, or null: with the first.
    std::function<const std::vector<loop::ValueId>*(scalar::TensorId)> origin;
    /// The check that a dimension of a read needs, if any. The expression is the read.
    std::function<std::optional<Check>(const scalar::Expr&, std::size_t dimension)> check;
    /// What a condition is at the point, where that is known.
    std::function<std::optional<bool>(const scalar::Expr&)> truth;
  };
  TileEvaluator(FunctionBuilder& builder, Leaves leaves) : builder_(builder), leaves_(std::move(leaves)) {}

  /// The value of `expr`. Vector reads touch only the lanes of `present` (a default id: all), of which there is one at
  /// least, so that a read that is the same in all lanes always happens.
  loop::ValueId evaluate(const scalar::Expr& expr, loop::ValueId present = {});

  /// The same in steps, so that evaluators can take turns: `begin`, `step` until it is false, `result`.
  void begin(const scalar::Expr& expr, loop::ValueId present);
  /// Writes the next node; false when all are written.
  bool step();
  loop::ValueId result() const { return value(root_, {}); }

 private:
  /// A node and the condition under which it is wanted.
  using Wanted = std::pair<scalar::Expr, loop::ValueId>;

  std::optional<Wanted> next_missing(const Wanted& wanted);
  std::optional<Wanted> next_missing_lazy(const scalar::Apply& apply, loop::ValueId guard);
  std::optional<bool> truth(const scalar::Expr& expr) const {
    return expr->dtype == DType::Bool ? leaves_.truth(expr) : std::nullopt;
  }
  bool is_done(const Wanted& wanted) const { return done_.contains({wanted.first.get(), wanted.second}); }
  loop::ValueId value(const scalar::Expr& expr, loop::ValueId guard) const { return done_.at({expr.get(), guard}); }
  loop::ValueId combine(const Wanted& wanted);
  loop::ValueId combine_read(const scalar::Expr& expr, loop::ValueId guard);
  /// The lanes in which something with that index happens: those of `guard` that exist.
  loop::ValueId present_lanes(loop::ValueId index, loop::ValueId guard);
  loop::ValueId combine_apply(const scalar::Apply& apply, DType dtype, loop::ValueId guard);
  loop::ValueId both(loop::ValueId guard, loop::ValueId condition);
  loop::ValueId except(loop::ValueId guard, loop::ValueId condition);

  FunctionBuilder& builder_;
  Leaves leaves_;
  scalar::Expr root_;
  loop::ValueId present_;
  std::vector<Wanted> stack_;
  std::map<std::pair<const scalar::Node*, loop::ValueId>, loop::ValueId> done_;
};

}  // namespace corrloom::passes
