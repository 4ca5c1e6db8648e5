#pragma once

#include "compiler/codegen/target_description.h"
#include "ir/loop/function.h"

namespace llvm {
class Module;
}

namespace corrloom::codegen {

/// Writes the kernel's body into its entry: one emitter for every target.
///
/// Every loop is written with its test at the end, carries its values in phis, and is marked not to be unrolled. A
/// contiguous access is one vector load or store, a constant summand of an offset a displacement of its own.
void emit_function(llvm::Module& module, const KernelSource& kernel, const TargetTraits& traits, const Entry& entry);

}  // namespace corrloom::codegen
