#include "compiler/frontend/layout.h"

#include <optional>
#include <utility>

namespace corrloom::frontend {
namespace {

using Kind = TokenKind;
using Index = std::uint32_t;

bool is_opening(Kind kind) {
  return kind == Kind::LeftParen || kind == Kind::LeftBracket || kind == Kind::LeftBrace;
}
bool is_closing(Kind kind) {
  return kind == Kind::RightParen || kind == Kind::RightBracket || kind == Kind::RightBrace;
}

Kind closing_of(Kind opening) {
  if (opening == Kind::LeftParen) return Kind::RightParen;
  return opening == Kind::LeftBracket ? Kind::RightBracket : Kind::RightBrace;
}

/// A line that begins with one of these belongs to the one above.
bool continues_above(Kind kind) {
  return is_infix(kind) || kind == Kind::Pad || kind == Kind::Then || kind == Kind::Else || kind == Kind::In ||
         kind == Kind::Where || kind == Kind::With;
}

bool begins_operand(Kind kind) {
  switch (kind) {
    case Kind::Name:
    case Kind::Integer:
    case Kind::Decimal:
    case Kind::ReductionWord:
    case Kind::MinMaxWord:
    case Kind::If:
    case Kind::Let:
    case Kind::Inf:
    case Kind::Nan:
    case Kind::True:
    case Kind::False:
    case Kind::LeftParen:
    case Kind::Pad:
      return true;
    default:
      return false;
  }
}

/// Pairs brackets and tells reductions from functions, in one walk over the tokens.
class Brackets {
 public:
  Brackets(TokenList& list, Diagnostics& diagnostics)
      : list_(list), tokens_(list.tokens), diagnostics_(diagnostics), ends_a_list_(tokens_.size(), false) {}

  /// For each token whether it is the `)` that ends a reduction's list.
  std::vector<bool> pair() {
    find_next_braces();
    for (Index k = 0; k < tokens_.size(); ++k) {
      const Kind kind = tokens_[k].kind;
      if (is_opening(kind)) {
        if (kind == Kind::LeftBrace) give_up_to_brace(k);
        push(k);
      } else if (is_closing(kind)) {
        close(k);
      } else if (kind == Kind::Comma && !open_.empty()) {
        ++open_.back().entries;
      } else if (kind == Kind::Colon && !open_.empty()) {
        open_.back().has_colon = true;
      } else if (kind == Kind::EndOfFile || begins_new_item(k)) {
        give_up(0, k);
        tokens_[k].begins_item = true;
      }
    }
    return std::move(ends_a_list_);
  }

 private:
  struct Open {
    Index at;
    int entries = 1;
    bool has_colon = false;
  };

  void find_next_braces() {
    next_brace_.resize(tokens_.size());
    Kind next = Kind::EndOfFile;
    for (Index k = static_cast<Index>(tokens_.size()); k-- > 0;) {
      next_brace_[k] = next;
      if (tokens_[k].kind == Kind::LeftBrace || tokens_[k].kind == Kind::RightBrace) next = tokens_[k].kind;
    }
  }

  /// Whether an item must begin at `k`, so that what is open is never closed. A stray `const` inside a body, whose `}`
  /// is still to come, begins none.
  bool begins_new_item(Index k) const {
    if (!tokens_[k].first_on_line || !is_item_word(tokens_[k].kind)) return false;
    return open_braces_ == 0 || next_brace_[k] != Kind::RightBrace;
  }

  void push(Index k) {
    open_.push_back({k});
    open_braces_ += tokens_[k].kind == Kind::LeftBrace;
  }

  Open pop() {
    const Open open = open_.back();
    open_.pop_back();
    open_braces_ -= tokens_[open.at].kind == Kind::LeftBrace;
    return open;
  }

  /// Takes all but the outermost `keep` brackets as unclosed, because `found` stands here. Those of one line are one
  /// fault.
  void give_up(std::size_t keep, Index found) {
    int reported_line = 0;
    while (open_.size() > keep) {
      const Token& token = tokens_[pop().at];
      const int line = list_.source->line_of(token.begin);
      if (line != reported_line && errors_++ < kMaxErrors) report_unclosed(token, found);
      reported_line = line;
    }
  }

  void report_unclosed(const Token& token, Index found) {
    const std::string wanted(describe(closing_of(token.kind)));
    Diagnostic& error = diagnostics_.report(Code::E0103, list_.span(token),
                                            std::string(describe(token.kind)) + " is not closed", "wanted " + wanted);
    if (tokens_[found].kind == Kind::EndOfFile) {
      error.note("the file ends before a " + wanted);
    } else {
      error.note(std::string(describe(tokens_[found].kind)) + " stands before a " + wanted, list_.span(tokens_[found]));
    }
  }

  /// A body begins or ends at `found`: parentheses and square brackets do not reach over it.
  void give_up_to_brace(Index found) {
    std::size_t keep = open_.size();
    while (keep > 0 && tokens_[open_[keep - 1].at].kind != Kind::LeftBrace) --keep;
    give_up(keep, found);
  }

  /// Where in `open_` the bracket is that `k` closes. What is opened inside that one is then unclosed.
  std::optional<std::size_t> opening_for(Index k) const {
    for (std::size_t n = open_.size(); n-- > 0;) {
      const Kind opening = tokens_[open_[n].at].kind;
      if (closing_of(opening) == tokens_[k].kind) return n;
      if (opening == Kind::LeftBrace) return {};
    }
    return {};
  }

  void close(Index k) {
    const std::optional<std::size_t> opening = opening_for(k);
    if (!opening) {
      close_other_kind(k);
      return;
    }
    give_up(*opening + 1, k);
    match(k);
  }

  /// No bracket of this kind is open. The innermost one, of another kind, is taken to be meant.
  void close_other_kind(Index k) {
    const std::string closing(describe(tokens_[k].kind));
    const bool is_meant =
        !open_.empty() && tokens_[k].kind != Kind::RightBrace && tokens_[open_.back().at].kind != Kind::LeftBrace;
    if (!is_meant) {
      if (tokens_[k].kind == Kind::RightBrace) give_up_to_brace(k);
      if (errors_++ < kMaxErrors) {
        diagnostics_.report(Code::E0103, list_.span(tokens_[k]), closing + " closes nothing");
      }
      tokens_[k].kind = Kind::Bad;
      return;
    }
    const Token& opening = tokens_[open_.back().at];
    if (errors_++ < kMaxErrors) {
      diagnostics_
          .report(Code::E0103, list_.span(tokens_[k]),
                  closing + " does not close " + std::string(describe(opening.kind)),
                  "wanted " + std::string(describe(closing_of(opening.kind))))
          .note("opened here", list_.span(opening));
    }
    tokens_[k].kind = closing_of(opening.kind);
    match(k);
  }

  void match(Index k) {
    const Open open = pop();
    tokens_[open.at].partner = k;
    tokens_[k].partner = open.at;
    if (tokens_[k].kind == Kind::RightParen) decide_reduction(open, k);
  }

  void decide_reduction(const Open& open, Index close) {
    Index before = open.at;
    while (before > 0 && tokens_[before - 1].kind == Kind::LineEnd) --before;
    if (before == 0) return;
    Token& word = tokens_[before - 1];
    if (word.kind == Kind::MinMaxWord) {
      const bool operand_follows = begins_operand(tokens_[close + 1].kind);  // `EndOfFile` is behind every `)`
      if (open.entries > 1 && !open.has_colon && !operand_follows) return;
      word.kind = Kind::ReductionWord;
    }
    ends_a_list_[close] = word.kind == Kind::ReductionWord;
  }

  TokenList& list_;
  std::vector<Token>& tokens_;
  Diagnostics& diagnostics_;
  std::vector<bool> ends_a_list_;
  std::vector<Kind> next_brace_;
  std::vector<Open> open_;
  int open_braces_ = 0;
  int errors_ = 0;
};

/// Indices of the tokens that stay: all but the line ends that end no statement.
std::vector<Index> kept_tokens(const std::vector<Token>& tokens, const std::vector<bool>& ends_a_list) {
  std::vector<Index> kept;
  kept.reserve(tokens.size());
  int depth = 0;  // of parentheses and square brackets that have partners
  int braces = 0;
  for (Index k = 0; k < tokens.size(); ++k) {
    const Token& token = tokens[k];
    const bool has_partner = token.partner != Token::kNoPartner;
    if (token.begins_item) braces = 0;
    if (token.kind == Kind::LeftBrace) ++braces;
    if (token.kind == Kind::RightBrace) --braces;
    if (has_partner && (token.kind == Kind::LeftParen || token.kind == Kind::LeftBracket)) ++depth;
    if (has_partner && (token.kind == Kind::RightParen || token.kind == Kind::RightBracket)) --depth;
    if (token.kind == Kind::LineEnd) {
      // A `LineEnd` always has a token before and behind it.
      const Kind before = tokens[k - 1].kind;
      const Kind after = tokens[k + 1].kind;
      if (depth > 0 || braces <= 0 || continues_below(before) || ends_a_list[k - 1] || continues_above(after)) continue;
    }
    kept.push_back(k);
  }
  return kept;
}

}  // namespace

bool continues_below(Kind last) {
  return is_infix(last) || last == Kind::Bang || last == Kind::Tilde || last == Kind::Assign || last == Kind::Comma ||
         last == Kind::Then || last == Kind::Else || last == Kind::In;
}

TokenList lay_out(TokenList list, Diagnostics& diagnostics) {
  const std::vector<bool> ends_a_list = Brackets(list, diagnostics).pair();
  const std::vector<Index> kept = kept_tokens(list.tokens, ends_a_list);

  std::vector<Index> new_index(list.tokens.size());
  std::vector<Token> tokens;
  tokens.reserve(kept.size());
  for (Index k : kept) {
    new_index[k] = static_cast<Index>(tokens.size());
    tokens.push_back(list.tokens[k]);
  }
  for (Token& token : tokens) {
    if (token.partner != Token::kNoPartner) token.partner = new_index[token.partner];
  }
  list.tokens = std::move(tokens);
  return list;
}

}  // namespace corrloom::frontend
