#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/base/dtype.h"
#include "ir/base/source.h"

namespace corrloom {

/// A token of IR text, of every level. `//` begins a comment that ends with the line.
struct IrToken {
  enum class Kind : std::uint8_t {
    End,
    Word,    ///< `compute`, `H`, `i.1`, `cast.f32`: letters, digits, `_` and `.`, not beginning with a digit or a `.`
    Value,   ///< `%name`
    Global,  ///< `@name`
    Shared,  ///< `$0`
    Number,  ///< `4`, `-0.5:f32`, `0x1f`, `inf:f32`, `nan:0x7fc00001:f32`
    String,  ///< `"a \"quoted\" text"`
    Punct,   ///< `->` or one of `( ) [ ] { } < > , : ; = | * + - / & ! ? #`
  };
  Kind kind = Kind::End;
  std::string text;                 ///< without sigil, quotes, escapes and dtype suffix
  std::optional<DType> dtype = {};  ///< of a Number with a suffix
  Span span = {};

  bool is(std::string_view punct) const { return kind == Kind::Punct && text == punct; }
  bool is_word(std::string_view word) const { return kind == Kind::Word && text == word; }
};

/// Walks the tokens of an IR text. After the first error it stands at the end of the text for good, so parsers need not
/// test every step: loops end, and only that first error is reported.
class IrCursor {
 public:
  /// Reads all tokens. Reports E0401 on a character or literal that IR text does not have.
  IrCursor(const SourceRef& text, Diagnostics& diagnostics);

  /// The token `ahead` of the current one; the End token beyond the end.
  const IrToken& peek(std::size_t ahead = 0) const;
  /// The current token, which is then passed.
  const IrToken& next();
  bool at_end() const { return peek().kind == IrToken::Kind::End; }
  bool failed() const { return failed_; }

  /// Passes the current token if it is that punctuation or that word.
  bool accept(std::string_view punct);
  bool accept_word(std::string_view word);
  /// Like `accept`, but reports E0402 when it is something else.
  bool expect(std::string_view punct);
  bool expect_word(std::string_view word);
  /// Passes a token of that kind and gives its text; reports E0402 (naming `what`) and gives "" when it is another one.
  std::string expect(IrToken::Kind kind, std::string_view what);
  /// A Number without a fraction, with no suffix or that of i64; reports E0402 otherwise.
  std::int64_t expect_integer(std::string_view what);
  /// A dtype's name; reports E0402 otherwise.
  DType expect_dtype();

  /// Reports an error at a token (the first one only) and moves to the end.
  void fail(Code code, const Span& span, std::string title, std::string label = {});
  /// E0402 at the current token: `wanted` was expected.
  void fail_expected(std::string_view wanted);

  /// For texts whose parts are read out of order: where the cursor stands, and going there (nowhere after an error).
  std::size_t position() const { return at_; }
  void go_to(std::size_t position);
  /// Passes a balanced group that begins at the current `(`, `[` or `{`; reports E0402 when it does not end.
  void skip_group();

 private:
  std::vector<IrToken> tokens_;
  std::size_t at_ = 0;
  bool failed_ = false;
  Diagnostics& diagnostics_;
};

/// A string in quotes, so that the lexer reads it back.
std::string quote_ir(std::string_view text);

}  // namespace corrloom
