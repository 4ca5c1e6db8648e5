#pragma once

#include <span>

#include "compiler/codegen/target_description.h"
#include "ir/loop/function.h"

namespace llvm {
class IRBuilderBase;
class Value;
}  // namespace llvm

namespace corrloom::codegen {

/// An operand of a primitive. `known` is its value when it is the same constant in every lane.
struct Operand {
  llvm::Value* value = nullptr;
  loop::Type type;
  const scalar::Value* known = nullptr;
};

/// One primitive, lane by lane, with exactly the meaning of `scalar::evaluate`. All operands have the lanes of
/// `result`. Throws InternalError for what `scalar::is_lowerable` refuses.
llvm::Value* emit_primitive(llvm::IRBuilderBase& builder, const TargetTraits& traits, loop::Opcode opcode,
                            std::span<const Operand> operands, loop::Type result);

// Its parts.

/// Arithmetic, shifts, bitwise operations, min, max and abs of integers (and bitwise ones of bools).
llvm::Value* emit_integer(llvm::IRBuilderBase& builder, loop::Opcode opcode, std::span<const Operand> operands);
/// `x | y` of halves that lie beside each other in two vectors, the lower ones in `x` and the upper ones moved in `y`:
/// the vectors as they are. Null for anything else.
llvm::Value* emit_joined_halves(llvm::IRBuilderBase& builder, llvm::Value* x, llvm::Value* y);
/// Arithmetic, roundings, min and max of f32 and f64.
llvm::Value* emit_float(llvm::IRBuilderBase& builder, const TargetTraits& traits, loop::Opcode opcode,
                        std::span<const Operand> operands);
/// A float times a power of two (Opcode::Scale).
llvm::Value* emit_scale(llvm::IRBuilderBase& builder, const TargetTraits& traits, std::span<const Operand> operands);
/// Products of bytes, summed (Opcode::Dot).
llvm::Value* emit_dot(llvm::IRBuilderBase& builder, const TargetTraits& traits, std::span<const Operand> operands);
llvm::Value* emit_compare(llvm::IRBuilderBase& builder, loop::Opcode opcode, std::span<const Operand> operands);
llvm::Value* emit_cast(llvm::IRBuilderBase& builder, const TargetTraits& traits, const Operand& operand,
                       loop::Type result);
llvm::Value* emit_bitcast(llvm::IRBuilderBase& builder, const Operand& operand, loop::Type result);

}  // namespace corrloom::codegen
