#include <limits>
#include <utility>

#include "ir/base/errors.h"
#include "ir/tensor/graph.h"

namespace corrloom::tensor {
namespace {

using scalar::Opcode;
using scalar::Value;

/// The greatest value of a dtype: +inf for floats.
Value highest_of(DType dtype) {
  if (is_float(dtype)) return Value::floating(dtype, std::numeric_limits<double>::infinity());
  if (dtype == DType::Bool) return Value::boolean(true);
  const std::uint64_t ones = ~std::uint64_t{0} >> (64 - bit_width(dtype));
  return {dtype, is_signed_integer(dtype) ? ones >> 1 : ones};
}

/// The least value of a dtype: -inf for floats.
Value lowest_of(DType dtype) {
  if (is_float(dtype)) return Value::floating(dtype, -std::numeric_limits<double>::infinity());
  if (!is_signed_integer(dtype)) return {dtype, 0};
  return {dtype, std::uint64_t{1} << (bit_width(dtype) - 1)};
}

Value number(DType dtype, int value) {
  return is_float(dtype) ? Value::floating(dtype, value) : Value::integer(dtype, value);
}

Expr to_dtype(const Expr& expr, DType dtype) {
  return expr->dtype == dtype ? expr : scalar::cast(expr, dtype);
}

/// One accumulator that combines elements and partial results by the same operation.
Accumulator combining(std::string name, Opcode opcode, Value init, const Expr& element) {
  const Expr self = scalar::accumulator(0, init.dtype);
  return {std::move(name), init.dtype, scalar::constant(init), scalar::apply(opcode, {self, element}),
          scalar::apply(opcode, {self, scalar::accumulator(0, init.dtype, true)})};
}

/// Whether (value, index) replaces (kept, kept_index): it is better, or as good and earlier. A NaN is better than any
/// number. This is a total order of the pairs, so that partial results may be merged in any order.
Expr wins(ReduceKind kind, const Expr& value, const Expr& index, const Expr& kept, const Expr& kept_index) {
  using scalar::apply;
  const Expr better = apply(kind == ReduceKind::ArgMax ? Opcode::Gt : Opcode::Lt, {value, kept});
  const Expr earlier = apply(Opcode::Lt, {index, kept_index});
  const Expr tie = apply(Opcode::And, {apply(Opcode::Eq, {value, kept}), earlier});
  const Expr by_number = apply(Opcode::Or, {better, tie});
  if (!is_float(value->dtype)) return by_number;
  const Expr kept_is_number = apply(Opcode::Not, {apply(Opcode::IsNan, {kept})});
  const Expr by_nan = apply(Opcode::And, {apply(Opcode::IsNan, {value}), apply(Opcode::Or, {kept_is_number, earlier})});
  return apply(Opcode::Or, {by_number, by_nan});
}

/// The two accumulators of argmax and argmin. The index starts above every index, so that the first element wins even
/// over an equal initial value.
std::vector<Accumulator> arg_accumulators(ReduceKind kind, const Expr& element, const Expr& variable) {
  const DType dtype = element->dtype;
  const Expr value = scalar::accumulator(0, dtype), index = scalar::accumulator(1, DType::I64);
  const Expr other_value = scalar::accumulator(0, dtype, true), other_index = scalar::accumulator(1, DType::I64, true);
  const Expr step = wins(kind, element, variable, value, index);
  const Expr merge = wins(kind, other_value, other_index, value, index);
  const auto choose = [](const Expr& condition, const Expr& taken, const Expr& kept) {
    return scalar::apply(Opcode::Select, {condition, taken, kept});
  };
  const Value worst = kind == ReduceKind::ArgMax ? lowest_of(dtype) : highest_of(dtype);
  return {{"best", dtype, scalar::constant(worst), choose(step, element, value), choose(merge, other_value, value)},
          {"at", DType::I64, scalar::constant(highest_of(DType::I64)), choose(step, variable, index),
           choose(merge, other_index, index)}};
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

bool is_accumulator(const Expr& expr, int index, bool other) {
  const auto* reference = std::get_if<scalar::AccRef>(&expr->kind);
  return reference != nullptr && reference->index == index && reference->other == other;
}

/// True for operations that give the same bits in any order, given that each partial result starts from `init`.
bool is_exact(Opcode opcode, DType dtype, const Expr& init) {
  const Value* start = scalar::as_constant(init);
  if (start == nullptr) return false;
  switch (opcode) {
    case Opcode::Min:
    case Opcode::Max:
    case Opcode::And:
    case Opcode::Or:
    case Opcode::LazyAnd:
    case Opcode::LazyOr:
      return true;  // an init that is combined more than once changes nothing
    case Opcode::Add:
      return is_integer(dtype) && start->bits == 0;
    case Opcode::Xor:
      return start->bits == 0;
    case Opcode::Mul:
      return is_integer(dtype) && start->bits == 1;
    default:
      return false;
  }
}

/// step = op(acc, element) in either order, merge = op(acc, other), for an exact op.
bool combines_exactly(const Accumulator& accumulator, int index) {
  const auto* step = std::get_if<scalar::Apply>(&accumulator.step->kind);
  const auto* merge = std::get_if<scalar::Apply>(&accumulator.merge->kind);
  if (step == nullptr || merge == nullptr || step->opcode != merge->opcode || step->args.size() != 2) return false;
  if (!is_exact(step->opcode, accumulator.dtype, accumulator.init)) return false;
  const bool left = is_accumulator(step->args[0], index, false);
  if (!left && !is_accumulator(step->args[1], index, false)) return false;
  return !uses_accumulators(step->args[left ? 1 : 0]) && is_accumulator(merge->args[0], index, false) &&
         is_accumulator(merge->args[1], index, true);
}

/// True when `index` has another value at each element of a reduction over `axis`: the axis, or the axis plus something
/// that it does not change.
bool numbers_elements(const Expr& index, AxisId axis) {
  const auto is_axis = [&](const Expr& expr) {
    const auto* reference = std::get_if<scalar::AxisRef>(&expr->kind);
    return reference != nullptr && reference->axis == axis;
  };
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

/// True for the accumulators of an argmax or argmin over one axis: they pick the first in a total order.
bool picks_by_total_order(const Reduction& reduction) {
  if (reduction.accumulators.size() != 2 || reduction.axes.size() != 1) return false;
  const scalar::Apply* value = scalar::as_apply(reduction.accumulators[0].step, Opcode::Select);
  const scalar::Apply* index = scalar::as_apply(reduction.accumulators[1].step, Opcode::Select);
  if (value == nullptr || index == nullptr) return false;
  const Expr &element = value->args[1], &variable = index->args[1];
  const DType dtype = element->dtype;
  if (dtype == DType::Bool || variable->dtype != DType::I64) return false;
  if (uses_accumulators(element) || !numbers_elements(variable, reduction.axes[0].id)) return false;
  for (ReduceKind kind : {ReduceKind::ArgMax, ReduceKind::ArgMin}) {
    const std::vector<Accumulator> wanted = arg_accumulators(kind, element, variable);
    if (same_accumulator(reduction.accumulators[0], wanted[0]) &&
        same_accumulator(reduction.accumulators[1], wanted[1]))
      return true;
  }
  return false;
}

}  // namespace

std::vector<Accumulator> accumulators_of(ReduceKind kind, DType operand, const Expr& element, const Expr& variable,
                                         Expr& result) {
  CORRLOOM_CHECK(element != nullptr, "a reduction needs an element");
  const bool wide = is_narrow_float(operand) && (kind == ReduceKind::Sum || kind == ReduceKind::Prod);
  const DType carried = wide ? DType::F32 : operand;
  CORRLOOM_CHECK(element->dtype == operand || element->dtype == carried, "a ", name_of(kind), " of ", name_of(operand),
                 " got an element of ", name_of(element->dtype));
  result = to_dtype(scalar::accumulator(0, carried), operand);
  switch (kind) {
    case ReduceKind::Sum:
      return {combining("sum", Opcode::Add, number(carried, 0), to_dtype(element, carried))};
    case ReduceKind::Prod:
      return {combining("prod", Opcode::Mul, number(carried, 1), to_dtype(element, carried))};
    case ReduceKind::Min:
      return {combining("min", Opcode::Min, highest_of(operand), element)};
    case ReduceKind::Max:
      return {combining("max", Opcode::Max, lowest_of(operand), element)};
    case ReduceKind::Any:
      return {combining("any", Opcode::Or, Value::boolean(false), element)};
    case ReduceKind::All:
      return {combining("all", Opcode::And, Value::boolean(true), element)};
    case ReduceKind::ArgMax:
    case ReduceKind::ArgMin:
      CORRLOOM_CHECK(variable != nullptr, name_of(kind), " needs its variable");
      result = scalar::accumulator(1, DType::I64);
      return arg_accumulators(kind, element, variable);
  }
  CORRLOOM_CHECK(false, "an unknown reduction");
  return {};
}

bool is_order_free(const Reduction& reduction) {
  bool exact = true;
  for (std::size_t k = 0; k < reduction.accumulators.size(); ++k)
    exact = exact && combines_exactly(reduction.accumulators[k], static_cast<int>(k));
  return exact || picks_by_total_order(reduction);
}

}  // namespace corrloom::tensor
