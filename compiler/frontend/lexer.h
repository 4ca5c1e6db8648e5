#pragma once

#include "compiler/frontend/token.h"
#include "ir/base/diagnostics.h"

namespace corrloom::frontend {

/// Splits a file into tokens, with a `LineEnd` at every end of a line that holds one; comments are kept apart.
/// A byte order mark at the start is skipped; `\n`, `\r\n` and a lone `\r` end lines. Brackets have no partners yet and
/// every `min` and `max` is a `MinMaxWord`: see layout.h.
TokenList lex(const SourceRef& source, Diagnostics& diagnostics);

}  // namespace corrloom::frontend
