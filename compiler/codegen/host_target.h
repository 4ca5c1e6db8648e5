#pragma once

#include "ir/kernel/target.h"

namespace corrloom::codegen {

/// The processor that this process runs on, as LLVM names it: with its features, vector registers and cache sizes.
kernel::Target host_target();

}  // namespace corrloom::codegen
