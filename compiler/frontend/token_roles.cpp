#include "compiler/frontend/token_roles.h"

namespace corrloom::frontend {
namespace {

using Kind = TokenKind;

/// Costs of line ends at one depth of brackets, above those of infix operators (their precedence, 1 to 9).
constexpr int kBehindComma = 1;
constexpr int kBehindIndices = 10;
constexpr int kBehindAssign = 11;
constexpr int kBeforePad = 12;
constexpr int kBehindBracket = 13;
constexpr int kCostOfDepth = 20;

bool is_opening(Kind kind) {
  return kind == Kind::LeftParen || kind == Kind::LeftBracket;
}
bool is_closing(Kind kind) {
  return kind == Kind::RightParen || kind == Kind::RightBracket;
}

class RoleFinder {
 public:
  explicit RoleFinder(const TokenList& list) : tokens_(list.tokens), roles_(tokens_.size()) {}

  std::vector<TokenRole> run() {
    frames_.push_back({});
    for (std::size_t k = 0; k < tokens_.size(); ++k) visit(k);
    return std::move(roles_);
  }

 private:
  /// What is open: brackets, or the whole file. `marks` are the `..` and slice colons of the current entry.
  struct Frame {
    bool has_slices = false;
    bool is_compound = false;
    std::vector<std::size_t> marks = {};
  };

  Kind kind(std::size_t k) const { return tokens_[k].kind; }
  Kind before(std::size_t k, std::size_t steps = 1) const { return k >= steps ? kind(k - steps) : Kind::LineEnd; }

  void visit(std::size_t k) {
    roles_[k].depth = static_cast<int>(frames_.size()) - 1;
    track_item(k);
    switch (kind(k)) {
      case Kind::LeftParen:
      case Kind::LeftBracket:
        frames_.push_back({is_subscript_bracket(k)});
        break;
      case Kind::RightParen:
      case Kind::RightBracket:
        end_entry();
        frames_.pop_back();
        roles_[k].ends_list = kind(k) == Kind::RightParen && before(tokens_[k].partner) == Kind::ReductionWord;
        break;
      case Kind::Comma:
      case Kind::LineEnd:
      case Kind::LeftBrace:
        end_entry();
        break;
      case Kind::Colon:
        roles_[k].is_slice_colon = frames_.back().has_slices;
        if (frames_.back().has_slices) frames_.back().marks.push_back(k);
        break;
      case Kind::Dots:
        frames_.back().marks.push_back(k);
        break;
      default:
        word_or_operator(k);
        break;
    }
  }

  void word_or_operator(std::size_t k) {
    TokenRole& role = roles_[k];
    if (kind(k) == Kind::Pad) {
      role.is_pad_word = before(k) == Kind::RightBracket || before(k) == Kind::Name ||
                         (before(k) == Kind::Pad && !roles_[k - 1].is_pad_word);
    }
    if (kind(k) == Kind::Bang || kind(k) == Kind::Tilde) role.is_prefix = true;
    if (kind(k) == Kind::Minus) role.is_prefix = !ends_operand(k);
    if (kind(k) == Kind::Less && before(k) == Kind::Name && is_item_name(k - 1)) role.is_angle = in_angles_ = true;
    if (kind(k) == Kind::Greater && in_angles_) {
      role.is_angle = true;
      in_angles_ = false;
    }
    const bool is_infix_here = is_infix(kind(k)) && !role.is_prefix;
    role.is_tight = is_infix_here && may_be_tight(k) && touches(k) && touches(k + 1);
    if ((is_infix_here && !role.is_tight) || role.is_pad_word || kind(k) == Kind::If || kind(k) == Kind::Let ||
        kind(k) == Kind::ReductionWord) {
      frames_.back().is_compound = true;
    }
  }

  /// Products everywhere, and sums inside of brackets, may be written `2*pad` and `(window-1)`.
  bool may_be_tight(std::size_t k) const {
    switch (kind(k)) {
      case Kind::Star:
      case Kind::Slash:
      case Kind::DoubleSlash:
      case Kind::Percent:
        return true;
      case Kind::Plus:
      case Kind::Minus:
        return roles_[k].depth > 0;
      default:
        return false;
    }
  }

  /// Whether nothing stands between a token and the one before it.
  bool touches(std::size_t k) const { return tokens_[k - 1].end == tokens_[k].begin; }

  /// Whether the token before `k` ends an operand.
  bool ends_operand(std::size_t k) const {
    switch (before(k)) {
      case Kind::Name:
      case Kind::Integer:
      case Kind::Decimal:
      case Kind::Inf:
      case Kind::Nan:
      case Kind::True:
      case Kind::False:
      case Kind::Edge:
      case Kind::Reflect:
      case Kind::Wrap:
      case Kind::RightBracket:
        return true;
      case Kind::Pad:
        return !roles_[k - 1].is_pad_word;
      case Kind::RightParen:
        return !roles_[k - 1].ends_list;
      default:
        return false;
    }
  }

  bool is_item_name(std::size_t k) const { return before(k) == Kind::Fn || before(k) == Kind::Op; }

  void track_item(std::size_t k) {
    if (kind(k) == Kind::Op && frames_.size() == 1) before_parameters_ = true;
    if (kind(k) == Kind::LeftParen || kind(k) == Kind::Assign) before_parameters_ = false;
  }

  /// Whether the `[` holds subscripts of a read; not those of a left side, attributes or a list.
  bool is_subscript_bracket(std::size_t k) const {
    if (kind(k) != Kind::LeftBracket || before_parameters_) return false;
    if (before(k) != Kind::Name && before(k) != Kind::Pad) return false;
    const bool begins_statement = before(k, 2) == Kind::LineEnd || before(k, 2) == Kind::LeftBrace;
    return !begins_statement && !(before(k, 2) == Kind::Let);
  }

  void end_entry() {
    Frame& frame = frames_.back();
    for (std::size_t mark : frame.marks) roles_[mark].is_spaced = frame.is_compound;
    frame.marks.clear();
    frame.is_compound = false;
  }

  const std::vector<Token>& tokens_;
  std::vector<TokenRole> roles_;
  std::vector<Frame> frames_;
  bool before_parameters_ = false;
  bool in_angles_ = false;
};

/// Whether a `..` or slice colon at `mark` is set off from `beside`; the other marks of a slice and brackets are not.
bool is_set_off(const TokenRole& mark, Kind beside) {
  return mark.is_spaced && beside != Kind::Colon && beside != Kind::Comma && !is_closing(beside);
}

}  // namespace

std::vector<TokenRole> token_roles(const TokenList& list) {
  return RoleFinder(list).run();
}

bool has_space_before(const TokenList& list, const std::vector<TokenRole>& roles, std::size_t at) {
  if (at == 0) return false;
  const Kind before = list.tokens[at - 1].kind;
  const Kind here = list.tokens[at].kind;
  const TokenRole& role_before = roles[at - 1];
  const TokenRole& role = roles[at];

  // `- -x`: two signs side by side read as one.
  if (before == Kind::Minus && here == Kind::Minus) return true;
  if (is_opening(before) || before == Kind::Ellipsis || role_before.is_prefix) return false;
  if (role.is_tight || role_before.is_tight) return false;
  if (is_closing(here) || here == Kind::Comma || role.is_angle) return false;
  if (role_before.is_angle) return list.tokens[at - 1].kind == Kind::Greater && !is_opening(here);
  if (here == Kind::Dots || role.is_slice_colon) return before != Kind::Comma ? is_set_off(role, before) : true;
  if (here == Kind::Colon) return false;
  if (before == Kind::Dots || role_before.is_slice_colon) return is_set_off(role_before, here);
  if (here == Kind::LeftBracket) return before != Kind::Name && before != Kind::Pad;
  if (here == Kind::LeftParen) {
    const bool is_callee = before == Kind::Name || before == Kind::RightBracket || before == Kind::ReductionWord ||
                           before == Kind::MinMaxWord || (before == Kind::Pad && !role_before.is_pad_word);
    return !is_callee;
  }
  return true;
}

int break_cost(const TokenList& list, const std::vector<TokenRole>& roles, std::size_t at) {
  if (at == 0) return -1;
  const Kind before = list.tokens[at - 1].kind;
  const Kind here = list.tokens[at].kind;
  const int depth = roles[at].depth * kCostOfDepth;

  if (is_opening(before)) return is_closing(here) ? -1 : depth + kBehindBracket;
  if (roles[at].is_tight || roles[at - 1].is_tight) return -1;
  if (before == Kind::Comma) return depth + kBehindComma;
  if (before == Kind::In) return depth;
  if (here == Kind::Then || here == Kind::Else || here == Kind::Arrow || here == Kind::Where || here == Kind::With) {
    return depth;
  }
  if (is_infix(here) && !roles[at].is_prefix && !roles[at].is_angle) return depth + precedence(here);
  if (before == Kind::Assign) return depth + kBehindAssign;
  if (roles[at].is_pad_word) return depth + kBeforePad;
  if (roles[at - 1].ends_list) {
    // Behind `max(i, j)` the operand must stay on the line that makes it a reduction.
    const Token& word = list.tokens[list.tokens[at - 1].partner - 1];
    const std::string_view text = list.text(word);
    return text == "max" || text == "min" ? -1 : depth + kBehindIndices;
  }
  return -1;
}

}  // namespace corrloom::frontend
