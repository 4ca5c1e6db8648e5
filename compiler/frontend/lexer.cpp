#include "compiler/frontend/lexer.h"

#include <algorithm>
#include <string>
#include <utility>

namespace corrloom::frontend {
namespace {

using Kind = TokenKind;

constexpr std::pair<std::string_view, Kind> kWords[] = {
    {"all", Kind::ReductionWord},
    {"along", Kind::Along},
    {"any", Kind::ReductionWord},
    {"argmax", Kind::ReductionWord},
    {"argmin", Kind::ReductionWord},
    {"as", Kind::As},
    {"const", Kind::Const},
    {"edge", Kind::Edge},
    {"else", Kind::Else},
    {"false", Kind::False},
    {"fn", Kind::Fn},
    {"grad", Kind::Grad},
    {"if", Kind::If},
    {"import", Kind::Import},
    {"in", Kind::In},
    {"inf", Kind::Inf},
    {"let", Kind::Let},
    {"max", Kind::MinMaxWord},
    {"min", Kind::MinMaxWord},
    {"nan", Kind::Nan},
    {"op", Kind::Op},
    {"pad", Kind::Pad},
    {"param", Kind::Param},
    {"prod", Kind::ReductionWord},
    {"reflect", Kind::Reflect},
    {"sum", Kind::ReductionWord},
    {"then", Kind::Then},
    {"true", Kind::True},
    {"where", Kind::Where},
    {"with", Kind::With},
    {"wrap", Kind::Wrap},
    {"wrt", Kind::Wrt},
};

/// Longer spellings stand before their beginnings.
constexpr std::pair<std::string_view, Kind> kSymbols[] = {
    {"...", Kind::Ellipsis}, {"..", Kind::Dots},         {"->", Kind::Arrow},      {"//", Kind::DoubleSlash},
    {"<<", Kind::ShiftLeft}, {">>", Kind::ShiftRight},   {"==", Kind::EqualEqual}, {"!=", Kind::BangEqual},
    {"<=", Kind::LessEqual}, {">=", Kind::GreaterEqual}, {"&&", Kind::AndAnd},     {"||", Kind::BarBar},
    {"(", Kind::LeftParen},  {")", Kind::RightParen},    {"[", Kind::LeftBracket}, {"]", Kind::RightBracket},
    {"{", Kind::LeftBrace},  {"}", Kind::RightBrace},    {",", Kind::Comma},       {":", Kind::Colon},
    {"=", Kind::Assign},     {"*", Kind::Star},          {"/", Kind::Slash},       {"%", Kind::Percent},
    {"+", Kind::Plus},       {"-", Kind::Minus},         {"&", Kind::Ampersand},   {"^", Kind::Caret},
    {"|", Kind::Bar},        {"<", Kind::Less},          {">", Kind::Greater},     {"!", Kind::Bang},
    {"~", Kind::Tilde},
};

// The locale must not decide what a letter is.
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_word_char(char c) {
  return is_letter(c) || is_digit(c);
}
bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

Kind kind_of_word(std::string_view word) {
  const auto* at = std::lower_bound(std::begin(kWords), std::end(kWords), word,
                                    [](const auto& row, std::string_view w) { return row.first < w; });
  return at != std::end(kWords) && at->first == word ? at->second : Kind::Name;
}

std::string hex_byte(unsigned char byte) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  return {kDigits[byte >> 4], kDigits[byte & 15]};
}

class Lexer {
 public:
  Lexer(const SourceRef& source, Diagnostics& diagnostics)
      : text_(source->text()), source_(source), diagnostics_(diagnostics) {}

  TokenList run() {
    if (text_.substr(0, 3) == "\xEF\xBB\xBF") at_ = 3;
    while (at_ < text_.size()) next();
    end_line();
    const auto size = static_cast<std::uint32_t>(text_.size());
    tokens_.push_back({Kind::EndOfFile, true, false, size, size});
    return {source_, std::move(tokens_), std::move(comments_), errors_ < kMaxErrors};
  }

 private:
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  template <class Predicate>
  void skip_while(Predicate holds) {
    while (at_ < text_.size() && holds(text_[at_])) ++at_;
  }

  void push(Kind kind, std::size_t begin) {
    tokens_.push_back(
        {kind, !line_has_tokens_, false, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(at_)});
    line_has_tokens_ = true;
  }

  /// The characters from `begin` to here are no token of the language.
  Diagnostic& bad(std::size_t begin, std::string title, std::string label = {}) {
    push(Kind::Bad, begin);
    const Span span{source_, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(at_)};
    Diagnostic& error = diagnostics_.report(Code::E0101, span, std::move(title), std::move(label));
    if (++errors_ == kMaxErrors) {
      error.note("the rest of the file is not looked at: too many errors");
      at_ = text_.size();
    }
    return error;
  }

  void end_line() {
    if (!line_has_tokens_) return;
    const std::uint32_t end = tokens_.back().end;
    tokens_.push_back({Kind::LineEnd, false, false, end, end});
    line_has_tokens_ = false;
  }

  void next() {
    const char c = peek();
    if (c == ' ' || c == '\t') {
      ++at_;
    } else if (c == '\n' || c == '\r') {
      ++at_;
      end_line();
    } else if (c == '#') {
      comment();
    } else if (c == '"') {
      string();
    } else if (is_digit(c)) {
      number();
    } else if (is_letter(c)) {
      word();
    } else if (c == '.' && is_digit(peek(1))) {
      point_first();
    } else if (!symbol()) {
      unknown();
    }
  }

  void comment() {
    const std::size_t begin = at_;
    skip_while([](char c) { return c != '\n' && c != '\r'; });
    std::size_t end = at_;
    while (end > begin && (text_[end - 1] == ' ' || text_[end - 1] == '\t')) --end;
    comments_.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)});
  }

  void string() {
    const std::size_t begin = at_++;
    skip_while([](char c) { return c != '"' && c != '\n' && c != '\r'; });
    if (peek() != '"') {
      bad(begin, "a string is not closed", "no `\"` before the end of the line");
      return;
    }
    ++at_;
    push(Kind::String, begin);
  }

  void word() {
    const std::size_t begin = at_;
    skip_while(is_word_char);
    const Kind kind = kind_of_word(text_.substr(begin, at_ - begin));
    if (kind == Kind::Name && peek() == '.' && is_letter(peek(1))) {
      ++at_;
      skip_while(is_word_char);
    }
    push(kind, begin);
  }

  void digits() {
    skip_while([](char c) { return is_digit(c) || c == '_'; });
  }

  /// `e5`, `E-3`; false and nothing taken when there is none.
  bool exponent() {
    if (peek() != 'e' && peek() != 'E') return false;
    const std::size_t sign = peek(1) == '+' || peek(1) == '-' ? 1 : 0;
    if (!is_digit(peek(1 + sign))) return false;
    at_ += 1 + sign;
    skip_while(is_digit);
    return true;
  }

  void number() {
    const std::size_t begin = at_;
    if (peek() == '0' && peek(1) == 'x') {
      hexadecimal();
      return;
    }
    digits();
    bool decimal = false;
    if (peek() == '.' && is_digit(peek(1))) {
      decimal = true;
      ++at_;
      digits();
    } else if (peek() == '.' && peek(1) != '.') {
      ++at_;
      exponent();
      const std::string whole(text_.substr(begin, at_ - begin));
      bad(begin, "no digit behind the point of `" + whole + "`")
          .help("a point has digits on both sides: write `" + whole.substr(0, whole.find('.')) + ".0" +
                whole.substr(whole.find('.') + 1) + "`");
      return;
    }
    decimal |= exponent();
    if (!runs_into_word(begin)) push(decimal ? Kind::Decimal : Kind::Integer, begin);
  }

  void hexadecimal() {
    const std::size_t begin = at_;
    at_ += 2;
    skip_while([](char c) { return is_hex(c) || c == '_'; });
    const std::string_view digits = text_.substr(begin + 2, at_ - begin - 2);
    if (std::none_of(digits.begin(), digits.end(), is_hex)) {
      skip_while(is_word_char);
      bad(begin, "`" + std::string(text_.substr(begin, at_ - begin)) + "` is not a number",
          "`0x` is followed by hexadecimal digits");
      return;
    }
    if (!runs_into_word(begin)) push(Kind::Integer, begin);
  }

  /// Reports letters directly behind a number, as in `1.5f`. A reserved word may stand there: `then 1else 2`.
  bool runs_into_word(std::size_t begin) {
    if (!is_word_char(peek())) return false;
    const std::size_t end = at_;
    skip_while(is_word_char);
    if (kind_of_word(text_.substr(end, at_ - end)) != Kind::Name) {
      at_ = end;
      return false;
    }
    const std::string number(text_.substr(begin, end - begin));
    bad(begin, "`" + std::string(text_.substr(begin, at_ - begin)) + "` is neither a number nor a name")
        .help("a number takes the dtype that its place needs; a cast says otherwise: `f32(" + number + ")`");
    return true;
  }

  void point_first() {
    const std::size_t begin = at_++;
    skip_while(is_word_char);
    const std::string text(text_.substr(begin, at_ - begin));
    bad(begin, "no digit before the point of `" + text + "`")
        .help("a point has digits on both sides: write `0" + text + "`");
  }

  bool symbol() {
    for (const auto& [spelling, kind] : kSymbols) {
      if (text_.substr(at_, spelling.size()) != spelling) continue;
      const std::size_t begin = at_;
      at_ += spelling.size();
      push(kind, begin);
      return true;
    }
    return false;
  }

  /// One error for a run of characters that the language does not have, so that a binary file is not a thousand errors.
  void unknown() {
    const std::size_t begin = at_;
    const auto first = static_cast<unsigned char>(peek());
    if (first >= 0x80) {
      skip_while([](char c) { return static_cast<unsigned char>(c) >= 0x80; });
      Diagnostic& error = bad(begin, "a character that the language does not have");
      error.note("letters beyond ASCII may stand in comments and in the paths of imports only");
      return;
    }
    skip_while([first](char c) { return static_cast<unsigned char>(c) == first; });
    if (first < 0x20 || first == 0x7F) {
      bad(begin, "a control character, byte 0x" + hex_byte(first));
      return;
    }
    Diagnostic& error = bad(begin, "the language has no `" + std::string(1, text_[begin]) + "`");
    if (first == ';') error.help("a statement ends at the end of its line");
    if (first == '\'') error.help("the path of an import stands between `\"`");
    if (first == '@') error.help("a matrix product is `matmul(A, B)`, or `sum(k) A[i, k] * B[k, j]`");
    if (first == '?') error.help("a conditional is `if c then a else b`");
  }

  std::string_view text_;
  SourceRef source_;
  Diagnostics& diagnostics_;
  std::size_t at_ = 0;
  int errors_ = 0;
  bool line_has_tokens_ = false;
  std::vector<Token> tokens_;
  std::vector<Comment> comments_;
};

}  // namespace

TokenList lex(const SourceRef& source, Diagnostics& diagnostics) {
  return Lexer(source, diagnostics).run();
}

}  // namespace corrloom::frontend
