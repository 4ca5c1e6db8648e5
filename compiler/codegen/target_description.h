#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/codegen/emit.h"
#include "ir/kernel/target.h"

namespace llvm {
class BasicBlock;
class Function;
class IRBuilderBase;
class Module;
class Value;
}  // namespace llvm

namespace corrloom::codegen {

/// What the emitter asks of a target. Everything else of a target lies in the functions below.
struct TargetTraits {
  bool runs_threads = false;        ///< blocks of threads (PTX); otherwise a thread loop is a loop
  bool has_vector_memory = true;    ///< masked vector accesses, gathers and scatters; otherwise they go lane by lane
  bool has_half = true;             ///< f16 <-> f32 in one instruction
  bool has_approximations = false;  ///< instructions for `scalar::is_approximable`
  bool has_minimum = false;         ///< `llvm.minimum` and `llvm.maximum` of f32 in one instruction
  bool has_minimum_f64 = false;
  bool has_range = false;           ///< x86's `vrange`: the lesser or greater, with zeros in order
  bool has_minimum_number = false;  ///< `llvm.minimumnum` and `llvm.maximumnum` in one instruction
  int dot_bytes = 0;                ///< widest vector whose products of bytes are one instruction; 0: none
  int pair_dot_bytes = 0;           ///< the same for products of bf16
  bool has_scale = false;           ///< a vector of 64 bytes times powers of two is one instruction
  bool has_short_scale = false;     ///< so is one of 32 or 16 bytes
  bool has_streaming = false;       ///< stores of whole, aligned vectors past the caches, ordered by `emit_host_fence`
  std::string vector_clobbers;      ///< constraint of inline assembly that clobbers all vector registers; empty: none
  unsigned global_space = 0;        ///< LLVM's address spaces
  unsigned shared_space = 0;
  long long private_bytes = 0;  ///< what Local buffers (and Shared ones, without threads) of a kernel may take
};

struct TargetDescription {
  std::string triple, cpu, features;
  int ptx_version = 0;  ///< 0: not PTX
  TargetTraits traits;
};

/// How LLVM is to compile for the target; nothing when this build does not know it.
std::optional<TargetDescription> describe(const kernel::Target& target);
std::optional<TargetDescription> describe_host(const kernel::Target& target);
std::optional<TargetDescription> describe_ptx(const kernel::Target& target);

/// The entry of a kernel, its prologue written: what the body needs, and where it goes on.
struct Entry {
  llvm::Function* function = nullptr;  ///< the body is written at the end of its last block
  std::vector<llvm::Value*> buffers;   ///< pointer of each global buffer, by BufferId; null for others
  std::vector<llvm::Value*> symbols;   ///< register value of each symbol that is passed, by SymbolId
  llvm::Value* error_slot = nullptr;   ///< pointer to the word for failed checks; null when it is not passed
  llvm::Value* first_block = nullptr;  ///< i64
  llvm::Value* last_block = nullptr;   ///< i64, behind the last; null: only `first_block` runs
  llvm::Value* thread = nullptr;       ///< i64, number of the thread in its block; null: thread loops are loops
};

/// `void entry(ptr args, i64 first_block, i64 last_block)` that unpacks its arguments and calls the body, an internal
/// function whose parameters say what does not alias. Returns the body.
Entry open_host_entry(llvm::Module& module, const KernelSource& kernel);
/// Lets what was stored past the caches be seen before anything that follows.
void emit_host_fence(llvm::IRBuilderBase& builder);
/// A PTX kernel whose parameters are the arguments.
Entry open_ptx_entry(llvm::Module& module, const KernelSource& kernel);
/// An approximable function of one f32.
llvm::Value* emit_ptx_approximation(llvm::IRBuilderBase& builder, loop::Opcode function, llvm::Value* x);
/// Lets the threads of a block wait for each other; what they wrote is visible behind it.
void emit_ptx_barrier(llvm::IRBuilderBase& builder);

}  // namespace corrloom::codegen
