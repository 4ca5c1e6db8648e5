#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace corrloom::sim::ptx {

enum class TokenKind : uint8_t {
  End,
  Identifier,  ///< starts with a letter, `_`, `$` or `%`
  Dot,         ///< a dot and what sticks to it: `.reg`, `.2d`, `.shared::cluster`; text is without the dot
  Integer,
  Float32,      ///< `0f3F800000`; bits hold the 32-bit pattern
  Float64,      ///< `0d...` or decimal; bits hold the 64-bit pattern
  String,       ///< text without the quotes
  Punctuation,  ///< one of the operators; text holds it
};

/// A token of PTX text. `text` points into the source given to `tokenize`.
struct Token {
  TokenKind kind = TokenKind::End;
  std::string_view text;
  uint64_t bits = 0;
  bool is_unsigned = false;  ///< an integer with suffix U
  int line = 1;              ///< 1-based
  uint32_t begin = 0;        ///< byte offset of the first character
  uint32_t end = 0;          ///< one past the last character
};

/// Text that is not PTX. `line` is 1-based.
struct SyntaxError : std::runtime_error {
  SyntaxError(int where, const std::string& message) : std::runtime_error(message), line(where) {}
  int line;
};

/// Cuts the text into tokens; comments, white space and `#` lines are dropped. The last token is End.
/// Throws SyntaxError on characters that begin no token, numbers that do not fit, and unterminated comments or strings.
/// Source: PTX ISA, "Syntax".
std::vector<Token> tokenize(std::string_view source);

}  // namespace corrloom::sim::ptx
