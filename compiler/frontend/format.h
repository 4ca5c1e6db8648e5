#pragma once

#include <string>

#include "compiler/frontend/ast.h"

namespace corrloom::frontend {

/// Longest line that `format` writes where the grammar allows a line end.
inline constexpr int kFormatWidth = 120;

/// The canonical text of a file that was parsed without an error: what `corrloom fmt` writes.
///
/// Every statement begins on a line of its own, indented by two spaces; what does not fit `kFormatWidth` columns goes
/// on below, indented by four more. A line that was ended by hand stays ended there, and the next one keeps
/// its indent where that is deeper than its statement's; products (sums too, inside of brackets) that were written
/// without spaces stay so. Comments stay with the tokens beside them. Empty lines between statements and items stay, at
/// most one at a time. Lines end with `\n`, and a byte order mark is dropped. Laws: `format(parse(format(x))) ==
/// format(x)`, and the trees of `x` and `format(x)` are equal.
std::string format(const ast::File& file);

}  // namespace corrloom::frontend
