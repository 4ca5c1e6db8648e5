#include "compiler/frontend/cursor.h"

#include <algorithm>

#include "compiler/frontend/layout.h"

namespace corrloom::frontend {
namespace {

using Kind = TokenKind;

constexpr std::string_view kCommaOrParen = "`,` or `)`";
/// Longest token that a message repeats.
constexpr std::size_t kShownToken = 40;

/// The token as a message names it.
std::string found_text(const TokenList& list, const Token& token) {
  switch (token.kind) {
    case Kind::EndOfFile:
    case Kind::LineEnd:
    case Kind::Bad:
      return std::string(describe(token.kind));
    default:
      break;
  }
  const std::string_view text = list.text(token);
  if (text.size() > kShownToken) return std::string(describe(token.kind));
  if (token.kind == Kind::String) return "the string " + std::string(text);
  return "`" + std::string(text) + "`";
}

/// What the writer of a word or operator of another language may have meant behind an operand.
std::string_view meant_behind_operand(std::string_view found) {
  if (found == "and") return "a conjunction is written `&&`";
  if (found == "or") return "a disjunction is written `||`";
  if (found == "=") return "`==` compares; a name is given a value by `let name = value in ...`";
  if (found == "pad") return "only a read can be padded: `X[i] pad 0`";
  if (found == "in") return "a statement `let` has no `in`: the name holds for the statements below";
  return {};
}

}  // namespace

const Token& Cursor::peek(std::size_t ahead) const {
  return list_.tokens[std::min(at_ + ahead, list_.tokens.size() - 1)];
}

Span Cursor::span_from(std::uint32_t begin) const {
  return {list_.source, begin, std::max(begin, last_end_)};
}

Token Cursor::take() {
  const Token token = peek();
  if (token.kind == Kind::EndOfFile) return token;
  if (token.partner == Token::kNoPartner && (token.kind == Kind::LeftParen || token.kind == Kind::LeftBracket)) {
    is_muted_ = true;
  }
  last_end_ = token.end;
  ++at_;
  return token;
}

bool Cursor::accept(Kind kind) {
  if (!at(kind)) return false;
  take();
  return true;
}

std::optional<Token> Cursor::expect(Kind kind) {
  if (at(kind)) return take();
  unexpected(describe(kind));
  return {};
}

bool Cursor::expect_closing(const Token& opening) {
  if (opening.partner != Token::kNoPartner && &peek() == &list_.tokens[opening.partner]) {
    take();
    return true;
  }
  const bool round = opening.kind == Kind::LeftParen;
  Diagnostic* error = unexpected(round ? kCommaOrParen : std::string_view("`,` or `]`"));
  const auto line = [this](const Token& token) { return list_.source->line_of(token.begin); };
  if (error != nullptr && line(opening) != line(peek())) {
    error->note("this " + std::string(describe(opening.kind)) + " is open", span(opening));
  }
  return false;
}

bool Cursor::at_end_of_operand() const {
  switch (kind()) {
    case Kind::LineEnd:
    case Kind::EndOfFile:
    case Kind::RightParen:
    case Kind::RightBracket:
    case Kind::RightBrace:
    case Kind::Comma:
      return true;
    default:
      return at_new_item();
  }
}

std::optional<ast::Name> Cursor::expect_definition(std::string_view what) {
  std::optional<ast::Name> name = expect_use(what);
  if (name && name->is_dotted()) {
    report(Code::E0102, name->span, "a name with a point cannot be defined",
           "`" + name->text + "` belongs to an import");
  }
  return name;
}

std::optional<ast::Name> Cursor::expect_use(std::string_view what) {
  if (at(Kind::Name)) {
    const Token token = take();
    return ast::Name{std::string(text(token)), span(token)};
  }
  const Kind found = kind();
  Diagnostic* error = unexpected(what);
  if (error == nullptr || !is_word(found)) return {};
  error->note(found == Kind::Pad ? "`pad` may name an attribute, nothing else"
                                 : "this is a reserved word of the language");
  return {};
}

Diagnostic* Cursor::unexpected(std::string_view wanted) {
  const Token& found = peek();
  if (follows_from_earlier()) {
    ++failures_;
    return nullptr;
  }
  Diagnostic& error =
      report(Code::E0102, span(found), "expected " + std::string(wanted) + ", found " + found_text(list_, found));
  explain(error, wanted);
  return &error;
}

void Cursor::explain(Diagnostic& error, std::string_view wanted) const {
  if (at_ == 0) return;
  // Where the line of the fault belongs to the one above, that may be the fault.
  std::size_t first = at_;
  while (first > 0 && !list_.tokens[first].first_on_line) --first;
  if (first > 0 && continues_below(list_.tokens[first - 1].kind)) {
    const Token& last = list_.tokens[first - 1];
    error.note("the line above ends with " + std::string(describe(last.kind)) + ", so the statement goes on here",
               span(last));
    return;
  }
  const std::string_view before = text(list_.tokens[at_ - 1]);
  const std::string_view found = text(peek());
  std::string_view help;
  if (wanted == kOperatorOrEnd || wanted == describe(Kind::Then) || wanted == kCommaOrParen) {
    help = meant_behind_operand(found);
  }
  if (before == "not") help = "a negation is written `!`";
  if (before == "*" && found == "*") help = "write a power as a product: `x * x`";
  if (!help.empty()) error.help(std::string(help));
}

Diagnostic& Cursor::report(Code code, Span span, std::string title, std::string label) {
  Diagnostic& error = diagnostics_.report(code, std::move(span), std::move(title), std::move(label));
  if (++failures_ == kMaxErrors) error.note("the rest of the file is not looked at: too many errors");
  return error;
}

void Cursor::give_up_after_too_many() {
  is_muted_ = false;
  if (failures_ >= kMaxErrors) at_ = list_.tokens.size() - 1;
}

void Cursor::skip_statement() {
  while (!at(Kind::LineEnd) && !at(Kind::RightBrace) && !at_new_item() && !at(Kind::EndOfFile)) {
    // Braces inside a statement are no part of the language; what is in them belongs to the fault.
    const Token& token = peek();
    if (token.kind == Kind::LeftBrace && token.partner != Token::kNoPartner) at_ = token.partner;
    take();
  }
  give_up_after_too_many();
}

void Cursor::skip_head() {
  while (!at(Kind::LeftBrace) && !at_new_item() && !at(Kind::EndOfFile)) take();
  give_up_after_too_many();
}

void Cursor::skip_item() {
  while (!at_new_item() && !at(Kind::EndOfFile)) take();
  give_up_after_too_many();
}

}  // namespace corrloom::frontend
