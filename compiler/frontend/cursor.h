#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "compiler/frontend/ast.h"
#include "compiler/frontend/token.h"
#include "ir/base/diagnostics.h"

namespace corrloom::frontend {

/// What may follow an operand of a statement.
inline constexpr std::string_view kOperatorOrEnd = "an operator or the end of the statement";

/// A place in a list of tokens, and the reports of what is wrong there. After a report the caller unwinds to a
/// statement or an item and recovers; a list, an optional or an expression that is empty says that something has been
/// reported.
class Cursor {
 public:
  /// `list` comes from `lay_out` and outlives the cursor.
  Cursor(const TokenList& list, Diagnostics& diagnostics) : list_(list), diagnostics_(diagnostics) {}

  const Token& peek(std::size_t ahead = 0) const;
  TokenKind kind(std::size_t ahead = 0) const { return peek(ahead).kind; }
  bool at(TokenKind kind) const { return peek().kind == kind; }
  /// At the end of the file or where an item must begin: nothing before reaches over it.
  bool at_new_item() const { return peek().begins_item; }
  std::string_view text(const Token& token) const { return list_.text(token); }
  Span span(const Token& token) const { return list_.span(token); }
  /// From a byte to the end of the last token taken.
  Span span_from(std::uint32_t begin) const;

  /// Takes the current token. `EndOfFile` stays where it is.
  Token take();
  bool accept(TokenKind kind);
  /// Takes a token of this kind or reports that it is missing.
  std::optional<Token> expect(TokenKind kind);
  /// Takes the bracket that belongs to `opening`, or reports that something else stands there.
  bool expect_closing(const Token& opening);

  /// True at what an expression cannot reach over: the end of a line or a file, a closing bracket, a comma, a new item.
  bool at_end_of_operand() const;
  /// True when an error here would follow from one that has been reported.
  bool follows_from_earlier() const { return is_muted_ || at(TokenKind::Bad); }

  /// A name that is defined here: without a point.
  std::optional<ast::Name> expect_definition(std::string_view what);
  /// A name that refers to something; `m.f` is one.
  std::optional<ast::Name> expect_use(std::string_view what);

  /// Reports "expected WANTED, found ..." at the current token. Null when that follows from an error reported before.
  Diagnostic* unexpected(std::string_view wanted);
  Diagnostic& report(Code code, Span span, std::string title, std::string label = {});

  /// How often something was wrong, silent failures included.
  int failures() const { return failures_; }
  /// Goes on behind the statement in which something was wrong: to its `LineEnd`, the `}` of the body or the next item.
  void skip_statement();
  /// Goes on behind the broken head of an op: to the `{` of its body or the next item.
  void skip_head();
  /// Goes on at the next item.
  void skip_item();

 private:
  void explain(Diagnostic& error, std::string_view wanted) const;
  void give_up_after_too_many();

  const TokenList& list_;
  Diagnostics& diagnostics_;
  std::size_t at_ = 0;
  std::uint32_t last_end_ = 0;
  int failures_ = 0;
  bool is_muted_ = false;  ///< inside a bracket that is never closed: that has been reported
};

}  // namespace corrloom::frontend
