#include "compiler/passes/evaluate_tile.h"

#include "ir/base/errors.h"
#include "ir/base/match.h"

namespace corrloom::passes {

using loop::ValueId;
using scalar::Expr;
using scalar::Opcode;

namespace {

bool is_lazy(Opcode opcode) {
  return opcode == Opcode::If || opcode == Opcode::LazyAnd || opcode == Opcode::LazyOr;
}

}  // namespace

ValueId TileEvaluator::both(ValueId guard, ValueId condition) {
  return guard ? builder_.apply(Opcode::And, {guard, condition}) : condition;
}

ValueId TileEvaluator::except(ValueId guard, ValueId condition) {
  return both(guard, builder_.apply(Opcode::Not, {condition}));
}

ValueId TileEvaluator::evaluate(const Expr& expr, ValueId present) {
  begin(expr, present);
  while (step()) {
  }
  return result();
}

void TileEvaluator::begin(const Expr& expr, ValueId present) {
  root_ = expr;
  present_ = present;
  done_.clear();
  stack_ = {{expr, {}}};
}

// A stack of its own instead of recursion: expanded expressions are deep.
bool TileEvaluator::step() {
  while (!stack_.empty()) {
    const Wanted wanted = stack_.back();
    if (is_done(wanted)) {
      stack_.pop_back();
    } else if (const std::optional<Wanted> missing = next_missing(wanted)) {
      stack_.push_back(*missing);
    } else {
      done_.emplace(std::make_pair(wanted.first.get(), wanted.second), combine(wanted));
      stack_.pop_back();
      return true;
    }
  }
  return false;
}

/// The first operand that must be evaluated before `wanted` can be.
std::optional<TileEvaluator::Wanted> TileEvaluator::next_missing(const Wanted& wanted) {
  const auto& [expr, guard] = wanted;
  if (truth(expr)) return std::nullopt;
  if (const auto* apply = std::get_if<scalar::Apply>(&expr->kind); apply != nullptr && is_lazy(apply->opcode)) {
    return next_missing_lazy(*apply, guard);
  }
  for (const Expr& child : scalar::children(expr)) {
    if (!is_done({child, guard})) return Wanted{child, guard};
  }
  return std::nullopt;
}

std::optional<TileEvaluator::Wanted> TileEvaluator::next_missing_lazy(const scalar::Apply& apply, ValueId guard) {
  if (!is_done({apply.args[0], guard})) return Wanted{apply.args[0], guard};
  const ValueId condition = value(apply.args[0], guard);
  const scalar::Value* known = builder_.as_constant(condition);
  const auto missing = [&](const Expr& expr, ValueId under) {
    return is_done({expr, under}) ? std::nullopt : std::optional(Wanted{expr, under});
  };
  if (apply.opcode == Opcode::LazyAnd) return missing(apply.args[1], both(guard, condition));
  if (apply.opcode == Opcode::LazyOr) return missing(apply.args[1], except(guard, condition));
  if (known != nullptr) return missing(apply.args[known->as_bool() ? 1 : 2], guard);
  if (auto then = missing(apply.args[1], both(guard, condition))) return then;
  return missing(apply.args[2], except(guard, condition));
}

ValueId TileEvaluator::combine(const Wanted& wanted) {
  const auto& [expr, guard] = wanted;
  const ValueId under = guard;
  if (const std::optional<bool> known = truth(expr)) return builder_.constant(scalar::Value::boolean(*known));
  return match(
      expr->kind, [&](const scalar::Constant& c) { return builder_.constant(c.value); },
      [&](const scalar::AxisRef& ref) { return leaves_.axis(ref.axis); },
      [&](const scalar::SymbolRef& ref) { return builder_.symbol(ref.symbol, wanted.first->dtype); },
      [&](const scalar::AccRef& ref) { return leaves_.accumulator(ref.index, ref.other); },
      [&](const scalar::Read&) { return combine_read(wanted.first, under); },
      [&](const scalar::Apply& apply) { return combine_apply(apply, wanted.first->dtype, under); });
}

ValueId TileEvaluator::present_lanes(ValueId index, ValueId guard) {
  if (!present_ || builder_.type(index).lanes == 1) return guard;
  return guard ? both(present_, guard) : present_;
}

ValueId TileEvaluator::combine_read(const Expr& expr, ValueId guard) {
  const scalar::Read& read = *scalar::as_read(expr);
  CORRLOOM_CHECK(read.pad == scalar::PadMode::None, "padding was not lowered");
  const std::vector<ValueId>* origin = leaves_.origin(read.source);
  std::vector<ValueId> index;
  ValueId mask = guard;
  for (std::size_t k = 0; k < read.index.size(); ++k) {
    const ValueId subscript = value(read.index[k], guard);
    mask = present_lanes(subscript, mask);
    const std::optional<Check> check = leaves_.check(expr, k);
    // Every subscript is tested where the read is wanted, whatever the others are.
    if (check)
      mask = both(mask, builder_.check(check->site, subscript, check->extent, present_lanes(subscript, guard)));
    index.push_back(origin == nullptr ? subscript : builder_.apply(Opcode::Sub, {subscript, (*origin)[k]}));
  }
  return builder_.load(leaves_.buffer(read.source), std::move(index), mask);
}

ValueId TileEvaluator::combine_apply(const scalar::Apply& apply, DType dtype, ValueId guard) {
  if (is_lazy(apply.opcode)) {
    const ValueId condition = value(apply.args[0], guard);
    if (apply.opcode == Opcode::LazyAnd) {
      return builder_.apply(Opcode::And, {condition, value(apply.args[1], both(guard, condition))});
    }
    if (apply.opcode == Opcode::LazyOr) {
      return builder_.apply(Opcode::Or, {condition, value(apply.args[1], except(guard, condition))});
    }
    if (const scalar::Value* known = builder_.as_constant(condition))
      return value(apply.args[known->as_bool() ? 1 : 2], guard);
    const ValueId then = value(apply.args[1], both(guard, condition));
    const ValueId otherwise = value(apply.args[2], except(guard, condition));
    // What is read under a condition is 0 where it does not hold.
    const scalar::Value* zero = builder_.as_constant(otherwise);
    if (scalar::as_read(apply.args[1]) != nullptr && zero != nullptr && zero->bits == 0) return then;
    return builder_.apply(Opcode::Select, {condition, then, otherwise});
  }
  std::vector<ValueId> args;
  for (const Expr& arg : apply.args) args.push_back(value(arg, guard));
  return builder_.apply(apply.opcode, std::move(args), dtype);
}

}  // namespace corrloom::passes
