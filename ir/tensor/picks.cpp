#include "ir/tensor/picks.h"

#include <utility>

namespace corrloom::tensor {
namespace {

using scalar::Opcode;

Expr is_better(ReduceKind kind, const Expr& value, const Expr& kept) {
  return scalar::apply(kind == ReduceKind::ArgMax ? Opcode::Gt : Opcode::Lt, {value, kept});
}

Expr is_nan(const Expr& value) {
  return scalar::apply(Opcode::IsNan, {value});
}

Expr negation(const Expr& condition) {
  return scalar::apply(Opcode::Not, {condition});
}

/// Whether (value, index) replaces (kept, kept_index): it is better, or as good and earlier. A NaN is better than any
/// number. This is a total order of the pairs, so that partial results may be merged in any order.
Expr wins(ReduceKind kind, const Expr& value, const Expr& index, const Expr& kept, const Expr& kept_index) {
  using scalar::apply;
  const Expr earlier = apply(Opcode::Lt, {index, kept_index});
  const Expr tie = apply(Opcode::And, {apply(Opcode::Eq, {value, kept}), earlier});
  const Expr by_number = apply(Opcode::Or, {is_better(kind, value, kept), tie});
  if (!is_float(value->dtype)) return by_number;
  const Expr by_nan = apply(Opcode::And, {is_nan(value), apply(Opcode::Or, {negation(is_nan(kept)), earlier})});
  return apply(Opcode::Or, {by_number, by_nan});
}

/// Whether a later value replaces the one that is kept. Of floats: it is not as bad or worse, which no NaN is, and what
/// is kept is no NaN.
Expr wins_later(ReduceKind kind, const Expr& value, const Expr& kept) {
  if (!is_float(value->dtype)) return is_better(kind, value, kept);
  const Expr is_no_better = scalar::apply(kind == ReduceKind::ArgMax ? Opcode::Le : Opcode::Ge, {value, kept});
  return scalar::apply(Opcode::And, {negation(is_no_better), negation(is_nan(kept))});
}

bool uses_accumulators(const Expr& expr) {
  bool found = false;
  scalar::for_each_node(expr,
                        [&](const Expr& node) { found = found || std::holds_alternative<scalar::AccRef>(node->kind); });
  return found;
}

bool uses_axis(const Expr& expr, AxisId axis) {
  bool found = false;
  scalar::for_each_node(expr, [&](const Expr& node) {
    const auto* reference = std::get_if<scalar::AxisRef>(&node->kind);
    found = found || (reference != nullptr && reference->axis == axis);
  });
  return found;
}

/// True when `index` has another value at each element of a reduction over `axis`: the axis, or the axis plus something
/// that it does not change; perhaps as a shorter integer, which holds them all.
bool numbers_elements(const Expr& index, AxisId axis) {
  const auto is_axis = [&](const Expr& expr) {
    const auto* reference = std::get_if<scalar::AxisRef>(&expr->kind);
    return reference != nullptr && reference->axis == axis;
  };
  if (const scalar::Apply* cast = scalar::as_apply(index, Opcode::Cast))
    return index->dtype == DType::I32 && numbers_elements(cast->args[0], axis);
  if (is_axis(index)) return true;
  const scalar::Apply* sum = scalar::as_apply(index, Opcode::Add);
  if (sum == nullptr) return false;
  return (is_axis(sum->args[0]) && !uses_axis(sum->args[1], axis)) ||
         (is_axis(sum->args[1]) && !uses_axis(sum->args[0], axis));
}

bool same_accumulator(const Accumulator& a, const Accumulator& b) {
  return a.dtype == b.dtype && scalar::same(a.init, b.init) && scalar::same(a.step, b.step) &&
         scalar::same(a.merge, b.merge);
}

}  // namespace

std::vector<Accumulator> pick_accumulators(const Pick& pick, PickSteps steps) {
  const DType dtype = pick.element->dtype, index_dtype = pick.variable->dtype;
  const Expr value = scalar::accumulator(0, dtype), index = scalar::accumulator(1, index_dtype);
  const Expr other_value = scalar::accumulator(0, dtype, true), other_index = scalar::accumulator(1, index_dtype, true);
  const Expr step = steps == PickSteps::Ascending ? wins_later(pick.kind, pick.element, value)
                                                  : wins(pick.kind, pick.element, pick.variable, value, index);
  const Expr merge = wins(pick.kind, other_value, other_index, value, index);
  const auto choose = [](const Expr& condition, const Expr& taken, const Expr& kept) {
    return scalar::apply(Opcode::Select, {condition, taken, kept});
  };
  const scalar::Value worst = pick.kind == ReduceKind::ArgMax ? lowest_of(dtype) : highest_of(dtype);
  return {
      {"best", dtype, scalar::constant(worst), choose(step, pick.element, value), choose(merge, other_value, value)},
      {"at", index_dtype, scalar::constant(highest_of(index_dtype)), choose(step, pick.variable, index),
       choose(merge, other_index, index)}};
}

std::optional<Pick> pick_of(const Reduction& reduction) {
  if (reduction.accumulators.size() != 2 || reduction.axes.size() != 1) return std::nullopt;
  const scalar::Apply* value = scalar::as_apply(reduction.accumulators[0].step, Opcode::Select);
  const scalar::Apply* index = scalar::as_apply(reduction.accumulators[1].step, Opcode::Select);
  if (value == nullptr || index == nullptr) return std::nullopt;
  Pick pick{ReduceKind::ArgMax, value->args[1], index->args[1]};
  if (pick.element->dtype == DType::Bool || uses_accumulators(pick.element)) return std::nullopt;
  if (!numbers_elements(pick.variable, reduction.axes[0].id)) return std::nullopt;
  for (ReduceKind kind : {ReduceKind::ArgMax, ReduceKind::ArgMin}) {
    pick.kind = kind;
    for (PickSteps steps : {PickSteps::AnyOrder, PickSteps::Ascending}) {
      const std::vector<Accumulator> wanted = pick_accumulators(pick, steps);
      if (same_accumulator(reduction.accumulators[0], wanted[0]) &&
          same_accumulator(reduction.accumulators[1], wanted[1]))
        return pick;
    }
  }
  return std::nullopt;
}

}  // namespace corrloom::tensor
