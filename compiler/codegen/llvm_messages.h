#pragma once

#include <string>

namespace llvm {
class LLVMContext;
}

namespace corrloom::codegen {

/// The name of the block that begins a loop without a loop inside, of a function that does not only copy.
inline constexpr const char* kInnermostLoop = "innermost";

/// What LLVM said while it compiled.
struct Messages {
  std::string errors;
  /// Values that the innermost loops of the host's code store to the stack: the schedule wants more registers than
  /// there are.
  int spills = 0;
};

/// Has the context write down what it says from now on; `messages` outlives it.
void collect_messages(llvm::LLVMContext& context, Messages& messages);

}  // namespace corrloom::codegen
