#pragma once

#include "compiler/frontend/token.h"
#include "ir/base/diagnostics.h"

namespace corrloom::frontend {

/// Gives the tokens of `lex` their places in the text, so that the parser needs no look at lines:
/// - Brackets get their partners. One without a partner is reported here, and the parser keeps silent about it.
/// - A `min` or `max` that is a reduction becomes a `ReductionWord`: its list has one entry or a written range, or an
///   operand follows on the same line.
/// - Only those `LineEnd`s are kept that end a statement: inside braces, outside other brackets, not behind an
/// operator,
///   `=`, `,`, `then`, `else`, `in` or a reduction's list, and not before an infix operator, `pad`, `then`, `else`,
///   `in`, `where` or `with`.
TokenList lay_out(TokenList list, Diagnostics& diagnostics);

/// True when a line that ends with this kind of token goes on below, whatever is there.
bool continues_below(TokenKind last);

}  // namespace corrloom::frontend
