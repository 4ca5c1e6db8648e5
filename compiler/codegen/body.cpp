#include "compiler/codegen/body.h"

#include <algorithm>
#include <bit>

#include "ir/base/errors.h"

namespace corrloom::codegen {
namespace {

using loop::ValueId;

std::size_t position(ValueId id) {
  return static_cast<std::size_t>(id.index);
}

/// The offset of an access, which a contiguous one needs only as a scalar.
ValueId offset_of(const loop::Instr& instr) {
  if (const auto* load = std::get_if<loop::Load>(&instr.kind)) return load->index.at(0);
  if (const auto* store = std::get_if<loop::Store>(&instr.kind)) return store->index.at(0);
  return {};
}

}  // namespace

Body::Body(const loop::Function& function)
    : function_(function),
      definitions_(function.values.size()),
      needs_lanes_(function.values.size()),
      values_(function.values.size()) {
  loop::for_each_block(function.body, [&](const loop::Block& block) { index_block(block); });
}

void Body::index_block(const loop::Block& block) {
  for (const loop::Instr& instr : block.instrs) {
    for (ValueId result : instr.results) definitions_.at(position(result)) = &instr;
    const ValueId offset = offset_of(instr);
    bool is_offset_seen = false;  // a value that is stored at the offset that it is, as in `Y[i] = i`, needs lanes
    for (ValueId operand : loop::operands(instr)) {
      const bool is_offset = operand == offset && !is_offset_seen;
      is_offset_seen |= is_offset;
      if (operand && !is_offset) needs_lanes_.at(position(operand)) = true;
    }
    const loop::Ramp* ramp = offset ? as_ramp(offset) : nullptr;
    if (offset && (ramp == nullptr || ramp->stride != 1)) needs_lanes_.at(position(offset)) = true;
  }
  for (ValueId yield : block.yields) needs_lanes_.at(position(yield)) = true;
}

llvm::Value* Body::value(ValueId id) const {
  CORRLOOM_CHECK(id && position(id) < values_.size() && values_[position(id)] != nullptr, function_.name,
                 " uses value ", id.index, " where it is not defined");
  return values_[position(id)];
}

void Body::bind(ValueId id, llvm::Value* value) {
  values_.at(position(id)) = value;
}

template <class Kind>
const Kind* Body::defined_as(ValueId id) const {
  const loop::Instr* instr = id ? definitions_.at(position(id)) : nullptr;
  return instr == nullptr ? nullptr : std::get_if<Kind>(&instr->kind);
}

const loop::Ramp* Body::as_ramp(ValueId id) const {
  return defined_as<loop::Ramp>(id);
}

const scalar::Value* Body::known(ValueId id) const {
  if (const auto* splat = defined_as<loop::Splat>(id)) return known(splat->scalar);
  const auto* constant = defined_as<loop::Constant>(id);
  return constant == nullptr ? nullptr : &constant->value;
}

ValueId Body::uniform_scalar(ValueId id) const {
  if (type(id).lanes == 1) return id;
  if (const auto* splat = defined_as<loop::Splat>(id)) return splat->scalar;
  const loop::Ramp* ramp = as_ramp(id);
  return ramp != nullptr && ramp->stride == 0 ? ramp->base : ValueId{};
}

Body::Offset Body::split_offset(ValueId id) const {
  if (const scalar::Value* constant = known(id)) return {{}, constant->as_i64()};
  const auto* sum = defined_as<loop::Apply>(id);
  if (sum == nullptr || sum->opcode != loop::Opcode::Add) return {id, 0};
  if (const scalar::Value* constant = known(sum->args[1])) return {sum->args[0], constant->as_i64()};
  if (const scalar::Value* constant = known(sum->args[0])) return {sum->args[1], constant->as_i64()};
  return {id, 0};
}

int Body::known_zero_bits(ValueId id, int depth) const {
  constexpr int kAll = 62;
  constexpr int kDeepest = 12;
  if (const scalar::Value* constant = known(id)) return constant->bits == 0 ? kAll : std::countr_zero(constant->bits);
  const auto* apply = defined_as<loop::Apply>(id);
  if (apply == nullptr || depth == kDeepest || apply->args.size() != 2) return 0;
  const int first = known_zero_bits(apply->args[0], depth + 1);
  const int second = known_zero_bits(apply->args[1], depth + 1);
  if (apply->opcode == loop::Opcode::Add || apply->opcode == loop::Opcode::Sub) return std::min(first, second);
  return apply->opcode == loop::Opcode::Mul ? std::min(first + second, kAll) : 0;
}

}  // namespace corrloom::codegen
