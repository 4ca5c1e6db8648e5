#pragma once

#include "ir/loop/function.h"

namespace llvm {
class Constant;
class IRBuilderBase;
class LLVMContext;
class Type;
class Value;
}  // namespace llvm

/// How values of Loop IR live in LLVM: an integer dtype as iN, a bool as i1, f16 and bf16 as i16 (the emitter only
/// moves and converts them), f32 and f64 as themselves; in memory a bool is an i8 of 0 or 1. Lanes above 1 make a
/// vector.
namespace corrloom::codegen {

llvm::Type* register_type(llvm::LLVMContext& context, loop::Type type);
llvm::Type* memory_type(llvm::LLVMContext& context, loop::Type type);

/// The value in every lane.
llvm::Constant* constant_of(llvm::LLVMContext& context, const scalar::Value& value, int lanes);
llvm::Constant* constant_i64(llvm::LLVMContext& context, std::int64_t value);

/// A register value in its memory form, and back.
llvm::Value* to_memory(llvm::IRBuilderBase& builder, llvm::Value* value, DType dtype);
llvm::Value* from_memory(llvm::IRBuilderBase& builder, llvm::Value* value, DType dtype);

}  // namespace corrloom::codegen
