#pragma once

#include "compiler/frontend/ast.h"
#include "ir/base/diagnostics.h"

namespace corrloom::frontend {

/// Largest text that is parsed, in bytes.
inline constexpr std::size_t kMaxSourceBytes = std::size_t{4} << 20;
/// How deep brackets, prefix operators, `if`, `let` and reductions may be nested.
inline constexpr int kMaxNesting = 256;

/// Parses a `.loom` file. Goes on after an error at the next statement or item, so that all independent errors are
/// reported; what was parsed without one is returned. Any sequence of bytes is accepted as `source`.
ast::File parse(const SourceRef& source, Diagnostics& diagnostics);

}  // namespace corrloom::frontend
