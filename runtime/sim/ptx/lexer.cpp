#include "runtime/sim/ptx/lexer.h"

#include <bit>
#include <charconv>
#include <cstdlib>

namespace corrloom::sim::ptx {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool follows_identifier(char c) {
  return is_letter(c) || is_digit(c) || c == '_' || c == '$';
}
bool starts_identifier(char c) {
  return is_letter(c) || c == '_' || c == '$' || c == '%';
}
bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/// Walks over the source once; each method consumes one thing.
class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    std::vector<Token> tokens;
    tokens.reserve(source_.size() / 4 + 1);
    for (;;) {
      skip_blanks();
      tokens.push_back(next());
      if (tokens.back().kind == TokenKind::End) return tokens;
    }
  }

 private:
  char at(size_t ahead = 0) const { return position_ + ahead < source_.size() ? source_[position_ + ahead] : '\0'; }
  bool done() const { return position_ >= source_.size(); }

  void advance() {
    if (source_[position_] == '\n') {
      ++line_;
      line_has_token_ = false;
    }
    ++position_;
  }

  void skip_block_comment() {
    const int start = line_;
    position_ += 2;
    while (!done() && !(at() == '*' && at(1) == '/')) advance();
    if (done()) throw SyntaxError(start, "unterminated comment");
    position_ += 2;
  }

  void skip_line() {
    while (!done() && at() != '\n') advance();
  }

  void skip_blanks() {
    while (!done()) {
      const char c = at();
      if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v') {
        advance();
      } else if (c == '/' && at(1) == '/') {
        skip_line();
      } else if (c == '/' && at(1) == '*') {
        skip_block_comment();
      } else if (c == '#' && !line_has_token_) {
        skip_line();  // a line marker of the C preprocessor
      } else if (c == '\0' && position_ + 1 == source_.size()) {
        advance();  // the terminator of a C string given with its length
      } else {
        return;
      }
    }
  }

  Token next() {
    Token token;
    token.line = line_;
    token.begin = uint32_t(position_);
    line_has_token_ = true;
    if (!done()) scan(token);
    token.end = uint32_t(position_);
    return token;
  }

  void scan(Token& token) {
    const char c = at();
    if (is_digit(c)) return scan_number(token);
    if (c == '%' ? (is_letter(at(1)) || at(1) == '_' || at(1) == '$') : starts_identifier(c)) {
      return scan_identifier(token);
    }
    if (c == '.' && (follows_identifier(at(1)))) return scan_dot(token);
    if (c == '"') return scan_string(token);
    scan_punctuation(token);
  }

  void scan_identifier(Token& token) {
    const size_t begin = position_++;
    while (follows_identifier(at())) ++position_;
    token.kind = TokenKind::Identifier;
    token.text = source_.substr(begin, position_ - begin);
  }

  void scan_dot(Token& token) {
    const size_t begin = ++position_;
    while (follows_identifier(at()) || (at() == ':' && at(1) == ':' && follows_identifier(at(2)))) {
      position_ += at() == ':' ? 2 : 1;
    }
    token.kind = TokenKind::Dot;
    token.text = source_.substr(begin, position_ - begin);
  }

  void scan_string(Token& token) {
    const size_t begin = ++position_;
    while (!done() && at() != '"' && at() != '\n') position_ += at() == '\\' && at(1) != '\n' ? 2 : 1;
    if (done() || at() != '"') throw SyntaxError(line_, "unterminated string");
    token.kind = TokenKind::String;
    token.text = source_.substr(begin, position_ - begin);
    ++position_;
  }

  void scan_punctuation(Token& token) {
    static constexpr std::string_view kTwo[] = {"<<", ">>", "<=", ">=", "==", "!=", "&&", "||"};
    static constexpr std::string_view kOne = "{}()[],;:=+-*/@!<>|&~^?%.";
    token.kind = TokenKind::Punctuation;
    for (const std::string_view two : kTwo) {
      if (source_.substr(position_, 2) != two) continue;
      token.text = source_.substr(position_, 2);
      position_ += 2;
      return;
    }
    if (kOne.find(at()) == std::string_view::npos) {
      throw SyntaxError(line_, "unexpected character code " + std::to_string(int(uint8_t(at()))));
    }
    token.text = source_.substr(position_++, 1);
  }

  /// `0f`/`0d` and exactly 8/16 hexadecimal digits.
  bool scan_float_pattern(Token& token) {
    const char kind = char(at(1) | 0x20);
    if (at() != '0' || (kind != 'f' && kind != 'd')) return false;
    const size_t digits = kind == 'f' ? 8 : 16;
    for (size_t i = 0; i < digits; ++i) {
      if (!is_hex(at(2 + i))) return false;
    }
    if (follows_identifier(at(2 + digits))) return false;
    token.kind = kind == 'f' ? TokenKind::Float32 : TokenKind::Float64;
    token.text = source_.substr(position_, 2 + digits);
    std::from_chars(token.text.data() + 2, token.text.data() + 2 + digits, token.bits, 16);
    position_ += 2 + digits;
    return true;
  }

  /// Where a decimal floating-point literal that starts here ends; 0 when it is an integer.
  size_t decimal_float_end() const {
    size_t end = position_;
    while (end < source_.size() && is_digit(source_[end])) ++end;
    bool is_float = false;
    if (end < source_.size() && source_[end] == '.') {
      is_float = true;
      ++end;
      while (end < source_.size() && is_digit(source_[end])) ++end;
    }
    if (end < source_.size() && (source_[end] | 0x20) == 'e') {
      size_t exponent = end + 1;
      if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) ++exponent;
      if (exponent < source_.size() && is_digit(source_[exponent])) {
        is_float = true;
        end = exponent;
        while (end < source_.size() && is_digit(source_[end])) ++end;
      }
    }
    return is_float ? end : 0;
  }

  void scan_number(Token& token) {
    if (scan_float_pattern(token)) return;
    const size_t begin = position_;
    if (const size_t end = decimal_float_end(); end != 0 && !(at() == '0' && (at(1) | 0x20) == 'x')) {
      const std::string digits(source_.substr(begin, end - begin));
      token.kind = TokenKind::Float64;
      token.bits = std::bit_cast<uint64_t>(std::strtod(digits.c_str(), nullptr));
      position_ = end;
    } else {
      scan_integer(token);
    }
    token.text = source_.substr(begin, position_ - begin);
    if (follows_identifier(at())) throw SyntaxError(line_, "malformed number '" + std::string(token.text) + at() + "'");
  }

  void scan_integer(Token& token) {
    int base = 10;
    if (at() == '0' && (at(1) | 0x20) == 'x') {
      base = 16;
      position_ += 2;
    } else if (at() == '0' && (at(1) | 0x20) == 'b') {
      base = 2;
      position_ += 2;
    } else if (at() == '0' && is_digit(at(1))) {
      base = 8;
      ++position_;
    }
    const char* first = source_.data() + position_;
    const auto [last, error] = std::from_chars(first, source_.data() + source_.size(), token.bits, base);
    if (error == std::errc::result_out_of_range) throw SyntaxError(line_, "integer does not fit 64 bits");
    if (error != std::errc() || last == first) throw SyntaxError(line_, "malformed integer");
    position_ += size_t(last - first);
    token.kind = TokenKind::Integer;
    if (at() == 'U') {
      token.is_unsigned = true;
      ++position_;
    }
  }

  std::string_view source_;
  size_t position_ = 0;
  int line_ = 1;
  bool line_has_token_ = false;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  return Lexer(source).run();
}

}  // namespace corrloom::sim::ptx
