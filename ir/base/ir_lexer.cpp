#include "ir/base/ir_lexer.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace corrloom {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_name_part(char c) {
  return is_letter(c) || is_digit(c) || c == '.';
}

constexpr std::string_view kPunctuation = "()[]{}<>,:;=|*+-/&!?#";

std::optional<int> hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return std::nullopt;
}

/// Splits a text into tokens; stops at the first fault.
class Lexer {
 public:
  explicit Lexer(const SourceRef& file) : file_(file), text_(file->text()) {}

  std::vector<IrToken> run() {
    while (skip_blanks(), at_ < text_.size() && fault_.empty()) read_token();
    tokens_.push_back({IrToken::Kind::End, {}, {}, span_from(std::min(at_, text_.size()))});
    return std::move(tokens_);
  }

  const std::string& fault() const { return fault_; }
  const Span& fault_span() const { return fault_span_; }

 private:
  char look(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool looks_at(std::string_view what) const { return text_.substr(at_).starts_with(what); }

  Span span_from(std::size_t begin) const {
    return {file_, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(at_)};
  }

  void add(IrToken::Kind kind, std::string text, std::size_t begin, std::optional<DType> dtype = {}) {
    tokens_.push_back({kind, std::move(text), dtype, span_from(begin)});
  }

  void fail(std::size_t begin, std::string fault) {
    at_ = std::max(at_, begin + 1);
    fault_ = std::move(fault);
    fault_span_ = span_from(begin);
  }

  void skip_blanks() {
    while (at_ < text_.size()) {
      if (looks_at("//")) {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r') {
        ++at_;
      } else {
        return;
      }
    }
  }

  std::string take_name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name_part(text_[at_])) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  /// True at `inf:f32`, `nan:...` and at a `-` before `inf` or `nan`; a bare `inf` is a Word.
  bool begins_like_special_value() const {
    const bool negative = looks_at("-inf") || looks_at("-nan");
    return looks_at("inf:") || looks_at("nan:") || (negative && !is_name_part(look(4)));
  }

  void read_token() {
    const char c = look();
    const std::size_t after_sign = c == '-' ? 1 : 0;
    if (is_digit(look(after_sign)) || begins_like_special_value()) return read_number();
    if (is_letter(c)) {
      const std::size_t begin = at_;
      std::string word = take_name();
      return add(IrToken::Kind::Word, std::move(word), begin);
    }
    if (c == '%') return read_sigil(IrToken::Kind::Value);
    if (c == '@') return read_sigil(IrToken::Kind::Global);
    if (c == '$') return read_sigil(IrToken::Kind::Shared);
    if (c == '"') return read_string();
    const std::size_t begin = at_;
    if (looks_at("->")) {
      at_ += 2;
      return add(IrToken::Kind::Punct, "->", begin);
    }
    if (kPunctuation.find(c) == std::string_view::npos) return fail(begin, "a character that IR text does not have");
    ++at_;
    add(IrToken::Kind::Punct, std::string(1, c), begin);
  }

  void read_sigil(IrToken::Kind kind) {
    const std::size_t begin = at_++;
    std::string name = take_name();
    if (name.empty()) return fail(begin, std::string("a name has to follow `") + text_[begin] + "`");
    add(kind, std::move(name), begin);
  }

  /// Digits, letters and points, and a sign after an exponent's `e`.
  void take_number_body() {
    const bool hex = looks_at("0x");
    while (at_ < text_.size()) {
      const bool exponent_sign =
          !hex && (look() == '-' || look() == '+') && (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E');
      if (!is_name_part(look()) && !exponent_sign) return;
      ++at_;
    }
  }

  void read_number() {
    const std::size_t begin = at_;
    if (look() == '-') ++at_;
    const bool is_nan = looks_at("nan");
    take_number_body();
    if (is_nan && looks_at(":0x")) {
      ++at_;
      take_number_body();
    }
    std::string literal(text_.substr(begin, at_ - begin));
    if (look() != ':' || !is_letter(look(1))) return add(IrToken::Kind::Number, std::move(literal), begin);
    ++at_;
    const std::string suffix = take_name();
    const std::optional<DType> dtype = parse_dtype(suffix);
    if (!dtype) return fail(begin, "a literal has the unknown dtype `" + suffix + "`");
    add(IrToken::Kind::Number, std::move(literal), begin, dtype);
  }

  void read_string() {
    const std::size_t begin = at_++;
    std::string value;
    while (at_ < text_.size() && look() != '"' && look() != '\n') {
      if (look() != '\\') {
        value += text_[at_++];
      } else if (!read_escape(value)) {
        return fail(begin, "an escape that IR text does not have");
      }
    }
    if (look() != '"') return fail(begin, "a string is not closed");
    ++at_;
    add(IrToken::Kind::String, std::move(value), begin);
  }

  bool read_escape(std::string& value) {
    const char c = look(1);
    if (c == '"' || c == '\\' || c == 'n' || c == 't') {
      value += c == 'n' ? '\n' : c == 't' ? '\t' : c;
      at_ += 2;
      return true;
    }
    const std::optional<int> high = hex_digit(look(2)), low = hex_digit(look(3));
    if (c != 'x' || !high || !low) return false;
    value += static_cast<char>(*high * 16 + *low);
    at_ += 4;
    return true;
  }

  SourceRef file_;
  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<IrToken> tokens_;
  std::string fault_;
  Span fault_span_;
};

std::string describe(const IrToken& token) {
  if (token.kind == IrToken::Kind::End) return "the end of the text";
  if (token.kind == IrToken::Kind::String) return "a string";
  return "`" + std::string(token.span.text()) + "`";
}

}  // namespace

IrCursor::IrCursor(const SourceRef& text, Diagnostics& diagnostics) : diagnostics_(diagnostics) {
  Lexer lexer(text);
  tokens_ = lexer.run();
  if (!lexer.fault().empty()) fail(Code::E0401, lexer.fault_span(), lexer.fault());
}

const IrToken& IrCursor::peek(std::size_t ahead) const {
  const std::size_t last = tokens_.size() - 1;
  return tokens_[ahead > last - at_ ? last : at_ + ahead];
}

const IrToken& IrCursor::next() {
  const IrToken& token = peek();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool IrCursor::accept(std::string_view punct) {
  if (!peek().is(punct)) return false;
  next();
  return true;
}

bool IrCursor::accept_word(std::string_view word) {
  if (!peek().is_word(word)) return false;
  next();
  return true;
}

bool IrCursor::expect(std::string_view punct) {
  if (accept(punct)) return true;
  fail_expected("`" + std::string(punct) + "`");
  return false;
}

bool IrCursor::expect_word(std::string_view word) {
  if (accept_word(word)) return true;
  fail_expected("`" + std::string(word) + "`");
  return false;
}

std::string IrCursor::expect(IrToken::Kind kind, std::string_view what) {
  if (peek().kind == kind) return next().text;
  fail_expected(what);
  return {};
}

std::int64_t IrCursor::expect_integer(std::string_view what) {
  const IrToken& token = peek();
  std::int64_t value = 0;
  const char* end = token.text.data() + token.text.size();
  const auto [read_to, error] = std::from_chars(token.text.data(), end, value);
  const bool is_i64 = !token.dtype || *token.dtype == DType::I64;
  if (token.kind != IrToken::Kind::Number || !is_i64 || error != std::errc{} || read_to != end) {
    fail_expected(what);
    return 0;
  }
  next();
  return value;
}

DType IrCursor::expect_dtype() {
  const std::optional<DType> dtype = peek().kind == IrToken::Kind::Word ? parse_dtype(peek().text) : std::nullopt;
  if (dtype) {
    next();
  } else {
    fail_expected("a dtype");
  }
  return dtype.value_or(DType::I64);
}

void IrCursor::fail(Code code, const Span& span, std::string title, std::string label) {
  if (!failed_) diagnostics_.report(code, span, std::move(title), std::move(label));
  failed_ = true;
  at_ = tokens_.size() - 1;
}

void IrCursor::fail_expected(std::string_view wanted) {
  const IrToken token = peek();
  fail(Code::E0402, token.span, "expected " + std::string(wanted) + ", found " + describe(token));
}

void IrCursor::go_to(std::size_t position) {
  if (!failed_) at_ = std::min(position, tokens_.size() - 1);
}

void IrCursor::skip_group() {
  int open = 0;
  do {
    const IrToken& token = next();
    if (token.kind == IrToken::Kind::End) return fail_expected("a closing bracket");
    if (token.is("(") || token.is("[") || token.is("{")) ++open;
    if (token.is(")") || token.is("]") || token.is("}")) --open;
  } while (open > 0);
}

std::string quote_ir(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace corrloom
