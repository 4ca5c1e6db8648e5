#include "compiler/frontend/format.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "compiler/frontend/layout.h"
#include "compiler/frontend/lexer.h"
#include "compiler/frontend/token_roles.h"
#include "ir/base/errors.h"

namespace corrloom::frontend {
namespace {

using Kind = TokenKind;

constexpr int kIndent = 2;
constexpr int kContinuation = 4;

class Formatter {
 public:
  explicit Formatter(TokenList list)
      : list_(std::move(list)), roles_(token_roles(list_)), text_(list_.source->text()) {}

  std::string run() {
    std::size_t at = 0;
    while (kind(at) != Kind::EndOfFile) {
      if (kind(at) == Kind::LineEnd) {
        ++at;
        continue;
      }
      const std::size_t end = unit_end(at);
      comments_before(list_.tokens[at].begin);
      if (kind(at) == Kind::RightBrace) {
        indent_ -= kIndent;
      } else {
        separate(list_.tokens[at].begin);
      }
      unit(at, end);
      if (kind(end - 1) == Kind::LeftBrace) {
        indent_ += kIndent;
        at_edge_ = true;
      }
      at = end;
    }
    comments_before(static_cast<std::uint32_t>(text_.size()));
    return std::move(out_);
  }

 private:
  Kind kind(std::size_t at) const { return list_.tokens[at].kind; }

  /// The end of what begins at `first` and canonically has lines of its own: an item, the head of an op up to its `{`,
  /// a statement, or a `}`.
  std::size_t unit_end(std::size_t first) const {
    if (kind(first) == Kind::RightBrace) return first + 1;
    std::size_t at = first;
    do {
      if (kind(at++) == Kind::LeftBrace) return at;
    } while (kind(at) != Kind::EndOfFile && kind(at) != Kind::LineEnd && kind(at) != Kind::RightBrace &&
             !is_item_word(kind(at)));
    return at;
  }

  bool has_line_end(std::uint32_t begin, std::uint32_t end) const {
    return text_.substr(begin, end - begin).find_first_of("\r\n") != std::string_view::npos;
  }

  /// Whether there is an empty line in a stretch between tokens and comments.
  bool has_empty_line(std::uint32_t begin, std::uint32_t end) const {
    const int lines = list_.source->line_of(end) - list_.source->line_of(begin);
    return lines > 1;
  }

  /// Leaves an empty line where the source has one or more. A file and a body have none at their edges.
  void separate(std::uint32_t begin) {
    if (!at_edge_ && has_empty_line(last_end_, begin)) out_ += '\n';
    at_edge_ = false;
  }

  /// Writes the comments before `end` on lines of their own.
  void comments_before(std::uint32_t end) {
    while (next_comment_ < list_.comments.size() && list_.comments[next_comment_].begin < end) {
      const Comment comment = list_.comments[next_comment_++];
      separate(comment.begin);
      out_.append(static_cast<std::size_t>(indent_), ' ');
      write_comment(comment);
      out_ += '\n';
      last_end_ = comment.end;
    }
  }

  void write_comment(const Comment& comment) { out_ += text_.substr(comment.begin, comment.end - comment.begin); }

  /// Writes the tokens from `first` to `end`. Comments between them, and those behind them on the last line, end lines
  /// where they stand.
  void unit(std::size_t first, std::size_t end) {
    std::size_t at = first;
    while (at < end) {
      std::size_t stop = at + 1;
      while (stop < end && !comment_between(stop)) ++stop;
      piece(at, stop, first);
      last_end_ = list_.tokens[stop - 1].end;
      at = stop;
      comments_behind(next_token_begin(at), at < end, indent_ + kContinuation);
    }
  }

  /// Where the next token with a text begins, from token `at` on.
  std::uint32_t next_token_begin(std::size_t at) const {
    while (kind(at) == Kind::LineEnd) ++at;
    return list_.tokens[at].begin;
  }

  /// The indent of a line that goes on with token `at`: deeper inside brackets (but for those that ended their line)
  /// and for the body of a reduction.
  int continuation_indent(std::size_t at) {
    if (kind(at - 1) == Kind::LeftParen || kind(at - 1) == Kind::LeftBracket) {
      if (roles_[at].depth == 1) hanging_end_ = list_.tokens[at - 1].partner;
    }
    const bool hangs = roles_[at].depth == 1 && at < hanging_end_;
    const bool is_inner = (roles_[at].depth > 0 && !hangs) || roles_[at - 1].ends_list;
    return indent_ + (is_inner ? 2 * kContinuation : kContinuation);
  }

  /// Whether a comment stands between token `at` and the one before.
  bool comment_between(std::size_t at) const {
    const auto after = std::lower_bound(list_.comments.begin(), list_.comments.end(), list_.tokens[at - 1].end,
                                        [](const Comment& c, std::uint32_t offset) { return c.begin < offset; });
    return after != list_.comments.end() && after->begin < list_.tokens[at].begin;
  }

  /// Ends a line, with the comment that stands on it; when the unit goes on, all comments up to `limit` are inside it.
  void comments_behind(std::uint32_t limit, bool goes_on, int indent) {
    const bool has_comment = next_comment_ < list_.comments.size() && list_.comments[next_comment_].begin < limit;
    if (has_comment && !has_line_end(last_end_, list_.comments[next_comment_].begin)) {
      out_ += "  ";
      write_comment(list_.comments[next_comment_]);
      last_end_ = list_.comments[next_comment_++].end;
    }
    out_ += '\n';
    if (!goes_on) return;
    while (next_comment_ < list_.comments.size() && list_.comments[next_comment_].begin < limit) {
      out_.append(static_cast<std::size_t>(indent), ' ');
      write_comment(list_.comments[next_comment_++]);
      out_ += '\n';
    }
  }

  int width(std::size_t at) const {
    const std::string_view text = list_.text(list_.tokens[at]);
    // Continuation bytes of UTF-8, in the path of an import, take no column.
    return static_cast<int>(
        std::count_if(text.begin(), text.end(), [](unsigned char c) { return (c & 0xC0) != 0x80; }));
  }

  /// Whether the person who wrote the text ended a line before token `at`. A bracket that closes, a comma and the brace
  /// of a body go up to what they belong to.
  bool is_broken_by_hand(std::size_t at) const {
    if (!has_line_end(list_.tokens[at - 1].end, list_.tokens[at].begin) || roles_[at - 1].is_prefix) return false;
    switch (kind(at)) {
      case Kind::RightParen:
      case Kind::RightBracket:
      case Kind::Comma:
      case Kind::LeftBrace:
        return false;
      default:
        return true;
    }
  }

  /// The column of a token in the text, or nothing behind a tab.
  std::optional<int> written_column(std::size_t at) const {
    const std::string_view before = text_.substr(0, list_.tokens[at].begin);
    const std::size_t line = before.find_last_of("\r\n");
    const std::string_view columns = line == std::string_view::npos ? before : before.substr(line + 1);
    if (columns.find('\t') != std::string_view::npos) return std::nullopt;
    return static_cast<int>(columns.size());
  }

  /// The indent of token `at`, which begins a line of the unit that begins with `first`: as far from it as it was
  /// written, where that is deeper.
  int indent_of_line(std::size_t at, std::size_t first) {
    const int otherwise = continuation_indent(at);
    if (!is_broken_by_hand(at)) return otherwise;
    const std::optional<int> here = written_column(at), begin = written_column(first);
    constexpr int kFar = kFormatWidth / 2;
    if (!here || !begin || *here - *begin < kIndent || *here - *begin > kFar) return otherwise;
    return indent_ + *here - *begin;
  }

  /// Writes tokens without comments between them, on as few lines as the width and the line ends in the text allow;
  /// without the last line's end. The unit begins with `first`.
  void piece(std::size_t at, std::size_t end, std::size_t first) {
    int indent = at == first ? indent_ : indent_of_line(at, first);
    while (true) {
      std::size_t limit = at + 1;
      while (limit < end && !is_broken_by_hand(limit)) ++limit;
      const std::size_t stop = line_end(at, limit, indent);
      out_.append(static_cast<std::size_t>(indent), ' ');
      for (std::size_t k = at; k < stop; ++k) {
        if (k > at && has_space_before(list_, roles_, k)) out_ += ' ';
        out_ += list_.text(list_.tokens[k]);
      }
      if (stop == end) return;
      out_ += '\n';
      at = stop;
      indent = indent_of_line(at, first);
    }
  }

  /// The end of a line that begins with token `first`: the cheapest place that leaves it short enough, the last of
  /// equals; when nothing is short enough, the first place there is.
  std::size_t line_end(std::size_t first, std::size_t end, int indent) const {
    int columns = indent + width(first);
    std::size_t best = end;
    int best_cost = -1;
    for (std::size_t k = first + 1; k < end; ++k) {
      const int cost = break_cost(list_, roles_, k);
      if (cost >= 0 && (best_cost < 0 || cost <= best_cost)) {
        best = k;
        best_cost = cost;
      }
      columns += (has_space_before(list_, roles_, k) ? 1 : 0) + width(k);
      if (columns > kFormatWidth && best_cost >= 0) return best;
    }
    return end;
  }

  TokenList list_;
  std::vector<TokenRole> roles_;
  std::string_view text_;
  std::string out_;
  int indent_ = 0;
  std::uint32_t last_end_ = 0;
  std::size_t next_comment_ = 0;
  std::size_t hanging_end_ = 0;  ///< the bracket that closes the last one that ended its line
  bool at_edge_ = true;
};

}  // namespace

std::string format(const ast::File& file) {
  CORRLOOM_CHECK(file.source != nullptr, "nothing to format");
  Diagnostics diagnostics;
  TokenList list = lay_out(lex(file.source, diagnostics), diagnostics);
  CORRLOOM_CHECK(!diagnostics.has_errors(), "the file was not parsed without an error");
  return Formatter(std::move(list)).run();
}

}  // namespace corrloom::frontend
