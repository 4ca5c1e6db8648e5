#pragma once

#include "compiler/api/corrloom.h"
#include "compiler/driver/compile.h"
#include "compiler/frontend/frontend.h"

namespace corrloom::tools {

/// The graph compiled for a target in strict order, whatever order it declares, with every symbol put in as a constant.
/// Throws CompileError.
driver::Compiled compile_strictly(const tensor::Graph& graph, const frontend::SymbolValues& values,
                                  const kernel::Target& target);

}  // namespace corrloom::tools
