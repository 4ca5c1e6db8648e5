#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/kernel/kernel.h"
#include "ir/kernel/target.h"
#include "ir/loop/function.h"

namespace corrloom::codegen {

/// One kernel to be compiled.
struct KernelSource {
  const loop::Function* function = nullptr;  ///< stage Flat, functions expanded; outlives the call
  std::string entry;                         ///< symbol of the entry, unique in the program: see `symbol_name`
  /// What the entry takes, in order. The k-th Buffer is the function's k-th global buffer, whatever its `index`. A
  /// Scalar's `index` is the function's SymbolId; so is the symbol of a Size that is just one symbol. Other sizes are
  /// passed, and nothing reads them. A function with checks needs the ErrorSlot.
  std::vector<kernel::Argument> arguments;
  /// No written buffer shares storage with another buffer of this kernel.
  bool exclusive_buffers = true;
  /// What the addresses of all buffers are multiples of, in bytes; accesses whose offsets allow it become as wide.
  int alignment_bytes = 1;
};

struct EmitOptions {
  bool want_llvm = false;      ///< fill `llvm_ir`
  bool want_assembly = false;  ///< fill `assembly` (for PTX the code itself)
};

/// The code of a program's kernels.
struct EmittedCode {
  std::string bytes;    ///< host: a relocatable object; PTX: its text
  int ptx_version = 0;  ///< 63, 70, ...: the `.version` of the text
  int spills = 0;       ///< values that innermost loops of the host's code store to the stack
  std::string llvm_ir, assembly;
};

/// Compiles all kernels of a program into one module for the target. Safe to call from many threads at once.
///
/// Reports E0301 when a kernel exceeds a limit of the target, and returns nothing. Throws InternalError for a target
/// that this build cannot compile for, for a function that no pass should have made, and when LLVM gives up; the
/// process and later calls stay sound.
std::optional<EmittedCode> emit(std::span<const KernelSource> kernels, const kernel::Target& target,
                                const EmitOptions& options, Diagnostics& diagnostics);

/// A symbol for a kernel of that name: `loom_corr2d_0` for `corr2d.0`. The prefix keeps it apart from PTX's reserved
/// words and from the names of library routines.
std::string symbol_name(std::string_view kernel);

/// The arguments of a function that stands alone: its global buffers, then every symbol as a Scalar, then the ErrorSlot
/// if it has checks.
std::vector<kernel::Argument> all_arguments(const loop::Function& function);

/// The threads of a block of the function: the extent of its Thread loop, or 1.
int thread_count(const loop::Function& function);

}  // namespace corrloom::codegen
