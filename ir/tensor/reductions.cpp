#include <limits>
#include <utility>

#include "ir/base/errors.h"
#include "ir/tensor/picks.h"

namespace corrloom::tensor {
namespace {

using scalar::Opcode;
using scalar::Value;

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

bool uses_accumulators(const Expr& expr) {
  bool found = false;
  scalar::for_each_node(expr,
                        [&](const Expr& node) { found = found || std::holds_alternative<scalar::AccRef>(node->kind); });
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

}  // namespace

Value highest_of(DType dtype) {
  if (is_float(dtype)) return Value::floating(dtype, std::numeric_limits<double>::infinity());
  if (dtype == DType::Bool) return Value::boolean(true);
  const std::uint64_t ones = ~std::uint64_t{0} >> (64 - bit_width(dtype));
  return {dtype, is_signed_integer(dtype) ? ones >> 1 : ones};
}

Value lowest_of(DType dtype) {
  if (is_float(dtype)) return Value::floating(dtype, -std::numeric_limits<double>::infinity());
  if (!is_signed_integer(dtype)) return {dtype, 0};
  return {dtype, std::uint64_t{1} << (bit_width(dtype) - 1)};
}

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
      return pick_accumulators({kind, element, variable}, PickSteps::AnyOrder);
  }
  CORRLOOM_CHECK(false, "an unknown reduction");
  return {};
}

bool is_order_free(const Reduction& reduction) {
  bool exact = true;
  for (std::size_t k = 0; k < reduction.accumulators.size(); ++k)
    exact = exact && combines_exactly(reduction.accumulators[k], static_cast<int>(k));
  return exact || pick_of(reduction).has_value();
}

}  // namespace corrloom::tensor
