#pragma once

#include <string>
#include <vector>

#include "compiler/codegen/emit.h"
#include "ir/kernel/target.h"
#include "ir/loop/function.h"
#include "ir/tensor/interpret.h"

/// What the tests of this folder share: small functions, and ways to run them.
namespace corrloom::testing {

/// Writes a function value by value; nothing is folded or checked.
class FunctionWriter {
 public:
  explicit FunctionWriter(std::string name) { function_.name = std::move(name), function_.stage = loop::Stage::Flat; }

  loop::BufferId buffer(const std::string& name, DType dtype, std::int64_t count, bool written);
  loop::ValueId constant(scalar::Value value, int lanes = 1);
  loop::ValueId index(std::int64_t value) { return constant(scalar::Value::i64(value)); }
  loop::ValueId apply(scalar::Opcode opcode, std::vector<loop::ValueId> args, DType result);
  loop::ValueId ramp(loop::ValueId base, std::int64_t stride, int lanes);
  loop::ValueId load(loop::BufferId buffer, loop::ValueId index, loop::ValueId mask = {});
  void store(loop::BufferId buffer, loop::ValueId index, loop::ValueId value, loop::ValueId mask = {});
  /// Opens a loop over blocks; what follows is its body, until `finish`. Returns the variable.
  loop::ValueId open_blocks(std::int64_t extent);
  loop::Function finish();

 private:
  loop::ValueId define(loop::Type type, decltype(loop::Instr::kind) kind);
  void append(loop::Instr instr);

  loop::Function function_;
  loop::Block body_;
  loop::For blocks_;
  bool is_open_ = false;
};

/// y[k] = opcode(x0[k], x1[k], ...) for `count` elements, `lanes` of them in each block.
loop::Function elementwise(scalar::Opcode opcode, const std::vector<DType>& operands, DType result, int lanes,
                           std::int64_t count);

/// The function of a text; fails the test when it does not parse or verify.
loop::Function parse_function(const std::string& text);

tensor::Array array_of(DType dtype, const std::vector<scalar::Value>& values);

/// A source whose entry is made from the function's name and whose arguments are all of its buffers and symbols.
codegen::KernelSource source_of(const loop::Function& function);
/// The code, or a failed test with the diagnostics.
codegen::EmittedCode emit_or_fail(const std::vector<codegen::KernelSource>& sources, const kernel::Target& target,
                                  codegen::EmitOptions options = {});

/// Runs blocks [0, blocks) of a loaded entry on the arrays, in place, as the runtime does. Gives the word of the error
/// slot.
std::uint64_t run_entry(void (*entry)(void* const*, std::int64_t, std::int64_t), const loop::Function& function,
                        std::vector<tensor::Array>& arrays, const std::vector<scalar::Value>& symbols,
                        std::int64_t blocks);
/// Compiles and runs one function.
std::uint64_t run_on(const kernel::Target& target, const loop::Function& function, std::vector<tensor::Array>& arrays,
                     const std::vector<scalar::Value>& symbols, std::int64_t blocks);

/// Bits are equal when they are equal or both NaN.
bool same_bits(const scalar::Value& a, const scalar::Value& b);

/// The corners of a dtype: zeros, ones, extremes, denormals, ties, NaNs, the ends of the integers.
std::vector<scalar::Value> edge_values(DType dtype);

/// The host as it is, and (on x86) the same processor told to do without its newer instructions.
std::vector<kernel::Target> host_targets();

}  // namespace corrloom::testing
