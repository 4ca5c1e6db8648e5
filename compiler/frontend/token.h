#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "ir/base/source.h"

namespace corrloom::frontend {

enum class TokenKind : std::uint8_t {
  EndOfFile,
  LineEnd,
  Bad,  ///< has been reported as an error already; nothing accepts it
  Name,
  Integer,
  Decimal,
  String,
  ReductionWord,  ///< `sum prod any all argmax argmin`, and `min max` where they are reductions
  MinMaxWord,     ///< `min max` where they are functions
  // Words that can be nothing else, `pad` excepted: it may also name an attribute and a function.
  Import,
  As,
  Const,
  Fn,
  Op,
  Grad,
  Wrt,
  Param,
  Along,
  Where,
  With,
  If,
  Then,
  Else,
  Let,
  In,
  Inf,
  Nan,
  True,
  False,
  Pad,
  Edge,
  Reflect,
  Wrap,
  LeftParen,
  RightParen,
  LeftBracket,
  RightBracket,
  LeftBrace,
  RightBrace,
  Comma,
  Colon,
  Assign,
  Arrow,
  Dots,
  Ellipsis,
  Star,
  Slash,
  DoubleSlash,
  Percent,
  Plus,
  Minus,
  ShiftLeft,
  ShiftRight,
  Ampersand,
  Caret,
  Bar,
  EqualEqual,
  BangEqual,
  Less,
  LessEqual,
  Greater,
  GreaterEqual,
  AndAnd,
  BarBar,
  Bang,
  Tilde,
};

/// One token: bytes `begin` to `end` of the file. A `LineEnd` is the empty range behind the last token of its line.
struct Token {
  static constexpr std::uint32_t kNoPartner = std::numeric_limits<std::uint32_t>::max();

  TokenKind kind = TokenKind::EndOfFile;
  bool first_on_line = false;
  bool begins_item = false;  ///< set by `lay_out`: nothing before this token reaches over it
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::uint32_t partner = kNoPartner;  ///< of a bracket: the index of the one that it belongs to
};

/// `# ...` up to the end of its line, without the spaces before that.
struct Comment {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

/// After so many errors the rest of a file is not looked at.
inline constexpr int kMaxErrors = 100;

/// The tokens of a file in order; the last one is `EndOfFile`.
struct TokenList {
  SourceRef source;
  std::vector<Token> tokens;
  std::vector<Comment> comments;
  bool is_whole = true;  ///< false when the lexer gave up after `kMaxErrors`

  std::string_view text(const Token& token) const {
    return std::string_view(source->text()).substr(token.begin, token.end - token.begin);
  }
  Span span(const Token& token) const { return {source, token.begin, token.end}; }
};

/// How a kind is named in a message: "`then`", "a name", "the end of the line".
std::string_view describe(TokenKind kind);

/// True for the infix operators; a line that ends or begins with one belongs to the statement around it.
constexpr bool is_infix(TokenKind kind) {
  return kind >= TokenKind::Star && kind <= TokenKind::BarBar;
}
/// How tightly an infix operator binds, from 1 for `||` to `kTermPrecedence`; 0 for all other tokens.
int precedence(TokenKind kind);
inline constexpr int kComparisonPrecedence = 3;
inline constexpr int kSumPrecedence = 8;
inline constexpr int kTermPrecedence = 9;

/// True for the words with which the items of a file begin.
constexpr bool is_item_word(TokenKind kind) {
  return kind == TokenKind::Import || kind == TokenKind::Const || kind == TokenKind::Fn || kind == TokenKind::Op;
}
/// True for what a name could be mistaken for: every reserved word.
constexpr bool is_word(TokenKind kind) {
  return kind >= TokenKind::ReductionWord && kind <= TokenKind::Wrap;
}

}  // namespace corrloom::frontend
