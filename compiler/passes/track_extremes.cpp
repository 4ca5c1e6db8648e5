#include <limits>

#include "compiler/passes/lower_compute.h"

namespace corrloom::passes {

using loop::ValueId;
using scalar::Expr;
using scalar::Opcode;

/// The maximum or minimum of floats that the reduction is, if it is one of one value.
///
/// A maximum of two that keeps NaN and the order of zeros takes five instructions. Over many, three are enough: the
/// larger one, with NaN and equal zeros passed over; the signs of all, of which those of zeros follow when all are
/// over; and whether all were numbers.
std::optional<ComputeLowering::Extreme> ComputeLowering::extreme_of_step() const {
  if (compute_.reduction->accumulators.size() != 1) return std::nullopt;
  const tensor::Accumulator& accumulator = compute_.reduction->accumulators.front();
  if (accumulator.dtype != DType::F32 && accumulator.dtype != DType::F64) return std::nullopt;
  for (Opcode opcode : {Opcode::Max, Opcode::Min}) {
    const scalar::Apply* apply = scalar::as_apply(accumulator.step, opcode);
    if (apply == nullptr) continue;
    for (std::size_t k : {0u, 1u}) {
      bool others = false;
      scalar::for_each_node(apply->args[1 - k],
                            [&](const Expr& node) { others |= std::holds_alternative<scalar::AccRef>(node->kind); });
      if (std::holds_alternative<scalar::AccRef>(apply->args[k]->kind) && !others)
        return Extreme{opcode == Opcode::Max, apply->args[1 - k]};
    }
  }
  return std::nullopt;
}

ValueId ComputeLowering::bits_of(ValueId value) {
  return builder_.apply(Opcode::Bitcast, {value}, builder_.type(value).dtype == DType::F32 ? DType::I32 : DType::I64);
}

/// An extreme so far as the first element of others.
std::vector<ValueId> ComputeLowering::tracked(ValueId extreme) {
  return {extreme, bits_of(extreme), builder_.apply(Opcode::Eq, {extreme, extreme})};
}

/// Takes one more element.
std::vector<ValueId> ComputeLowering::with_element(const Extreme& extreme, const std::vector<ValueId>& before,
                                                   ValueId element) {
  const ValueId wins = builder_.apply(extreme.is_max ? Opcode::Gt : Opcode::Lt, {element, before[0]});
  return {builder_.apply(Opcode::Select, {wins, element, before[0]}),
          builder_.apply(extreme.is_max ? Opcode::And : Opcode::Or, {before[1], bits_of(element)}),
          builder_.apply(Opcode::And, {before[2], builder_.apply(Opcode::Eq, {element, element})})};
}

/// What all elements make. Where the extreme is zero, none is on its far side: a zero of the sign that wins is then the
/// only element whose sign can tell.
ValueId ComputeLowering::untracked(const std::vector<ValueId>& state) {
  const DType dtype = builder_.type(state[0]).dtype;
  const int lanes = builder_.type(state[0]).lanes;
  const bool is_short = dtype == DType::F32;
  const ValueId sign =
      builder_.constant(is_short ? scalar::Value::integer(DType::I32, std::numeric_limits<std::int32_t>::min())
                                 : scalar::Value::i64(std::numeric_limits<std::int64_t>::min()),
                        lanes);
  const ValueId zero = builder_.apply(Opcode::Bitcast, {builder_.apply(Opcode::And, {state[1], sign})}, dtype);
  const ValueId nothing = builder_.constant(is_short ? scalar::Value::f32(0) : scalar::Value::f64(0), lanes);
  const ValueId nan = builder_.constant(is_short ? scalar::Value::f32(std::numeric_limits<float>::quiet_NaN())
                                                 : scalar::Value::f64(std::numeric_limits<double>::quiet_NaN()),
                                        lanes);
  const ValueId signed_extreme =
      builder_.apply(Opcode::Select, {builder_.apply(Opcode::Eq, {state[0], nothing}), zero, state[0]});
  return builder_.apply(Opcode::Select, {state[2], signed_extreme, nan});
}

}  // namespace corrloom::passes
