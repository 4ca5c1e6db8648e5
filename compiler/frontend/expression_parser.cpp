#include "compiler/frontend/expression_parser.h"

#include <algorithm>
#include <charconv>

#include "compiler/frontend/parser.h"
#include "ir/base/match.h"

namespace corrloom::frontend {
namespace {

using Kind = TokenKind;
using ast::BinaryOp;
using ast::ExprRef;

/// Longest text that a help repeats.
constexpr std::size_t kShownText = 30;

int height(const ExprRef& expr) {
  return expr ? expr->height : 0;
}
int height(const ast::Argument& argument) {
  return match(
      argument.kind, [](const ExprRef& expr) { return height(expr); },
      [](const std::vector<ast::Argument>& list) {
        int highest = 0;
        for (const ast::Argument& entry : list) highest = std::max(highest, height(entry));
        return highest;
      });
}
int height(const ast::Subscript& subscript) {
  return match(
      subscript.kind, [](const ExprRef& expr) { return height(expr); },
      [](const ast::Slice& s) {
        return std::max({height(s.begin), height(s.end), height(s.step)});
      },
      [](const ast::Pack&) { return 0; });
}

// The height of what is below a node.
int below(const ast::Literal&) {
  return 0;
}
int below(const ast::Read& read) {
  int highest = 0;
  for (const ast::Subscript& subscript : read.subscripts) highest = std::max(highest, height(subscript));
  if (read.padding) {
    if (const auto* value = std::get_if<ExprRef>(&read.padding->kind)) highest = std::max(highest, height(*value));
  }
  return highest;
}
int below(const ast::Call& call) {
  int highest = 0;
  for (const ast::NamedArgument& attribute : call.attributes) highest = std::max(highest, height(attribute.value));
  for (const ast::Argument& argument : call.arguments) highest = std::max(highest, height(argument));
  return highest;
}
int below(const ast::Reduction& reduction) {
  int highest = height(reduction.body);
  for (const ast::Index& index : reduction.indices) {
    if (index.range) highest = std::max({highest, height(index.range->begin), height(index.range->end)});
  }
  return highest;
}
int below(const ast::Unary& unary) {
  return height(unary.operand);
}
int below(const ast::Binary& binary) {
  return std::max(height(binary.left), height(binary.right));
}
int below(const ast::If& node) {
  return std::max({height(node.condition), height(node.then_value), height(node.else_value)});
}
int below(const ast::LetIn& node) {
  return std::max(height(node.value), height(node.body));
}

std::string without_underscores(std::string_view text) {
  std::string out(text);
  out.erase(std::remove(out.begin(), out.end(), '_'), out.end());
  return out;
}

ast::Integer integer_value(std::string_view text) {
  std::string digits = without_underscores(text);
  const bool is_hex = digits.size() > 1 && digits[1] == 'x';
  if (is_hex) digits.erase(0, 2);
  ast::Integer value;
  const std::from_chars_result result =
      std::from_chars(digits.data(), digits.data() + digits.size(), value.magnitude, is_hex ? 16 : 10);
  value.overflows = result.ec == std::errc::result_out_of_range;
  return value;
}

bool is_shown(std::string_view text) {
  return !text.empty() && text.size() <= kShownText && text.find_first_of("\r\n") == std::string_view::npos;
}

std::optional<BinaryOp> binary_op(Kind kind) {
  switch (kind) {
    case Kind::BarBar:
      return BinaryOp::Or;
    case Kind::AndAnd:
      return BinaryOp::And;
    case Kind::EqualEqual:
      return BinaryOp::Equal;
    case Kind::BangEqual:
      return BinaryOp::NotEqual;
    case Kind::Less:
      return BinaryOp::Less;
    case Kind::LessEqual:
      return BinaryOp::LessEqual;
    case Kind::Greater:
      return BinaryOp::Greater;
    case Kind::GreaterEqual:
      return BinaryOp::GreaterEqual;
    case Kind::Bar:
      return BinaryOp::BitOr;
    case Kind::Caret:
      return BinaryOp::BitXor;
    case Kind::Ampersand:
      return BinaryOp::BitAnd;
    case Kind::ShiftLeft:
      return BinaryOp::ShiftLeft;
    case Kind::ShiftRight:
      return BinaryOp::ShiftRight;
    case Kind::Plus:
      return BinaryOp::Add;
    case Kind::Minus:
      return BinaryOp::Subtract;
    case Kind::Star:
      return BinaryOp::Multiply;
    case Kind::Slash:
      return BinaryOp::Divide;
    case Kind::DoubleSlash:
      return BinaryOp::FloorDivide;
    case Kind::Percent:
      return BinaryOp::Modulo;
    default:
      return {};
  }
}

ast::ReductionKind reduction_kind(std::string_view word) {
  using ast::ReductionKind;
  for (const ReductionKind kind : {ReductionKind::Sum, ReductionKind::Prod, ReductionKind::Max, ReductionKind::Min,
                                   ReductionKind::Any, ReductionKind::All, ReductionKind::Argmax}) {
    if (spelling(kind) == word) return kind;
  }
  return ReductionKind::Argmin;
}

/// Counts how deep the parser is in itself.
class Nested {
 public:
  explicit Nested(int& depth) : depth_(++depth) {}
  ~Nested() { --depth_; }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;
  bool too_deep() const { return depth_ > kMaxNesting; }

 private:
  int& depth_;
};

}  // namespace

template <class Node>
ExprRef ExpressionParser::make(std::uint32_t begin, Node node) {
  const int height = below(node) + 1;
  const Span span = cursor_.span_from(begin);
  if (height > ast::kMaxHeight) {
    cursor_.report(Code::E0104, span, "an expression of more than " + std::to_string(ast::kMaxHeight) + " steps")
        .help("name parts of it with `let`");
    return nullptr;
  }
  return std::make_shared<ast::Expr>(ast::Expr{std::move(node), span, false, height});
}

ExprRef ExpressionParser::expression() {
  return binary(1);
}
ExprRef ExpressionParser::sum() {
  return binary(kSumPrecedence);
}

ExprRef ExpressionParser::binary(int loosest) {
  ExprRef left = unary();
  bool is_comparison = false;
  while (left) {
    const std::optional<BinaryOp> op = binary_op(cursor_.kind());
    const int tightness = precedence(cursor_.kind());
    if (!op || tightness < loosest) break;
    const Token token = cursor_.take();
    ExprRef right = binary(tightness + 1);
    if (!right) return nullptr;
    const bool was_comparison = std::exchange(is_comparison, tightness == kComparisonPrecedence);
    if (was_comparison && is_comparison) report_chain(*left, token, *right);
    left = combine(token, *op, std::move(left), std::move(right));
  }
  return left;
}

ExprRef ExpressionParser::combine(const Token& token, BinaryOp op, ExprRef left, ExprRef right) {
  const std::uint32_t begin = left->span.begin;
  return make(begin, ast::Binary{op, cursor_.span(token), std::move(left), std::move(right)});
}

void ExpressionParser::report_chain(const ast::Expr& comparison, const Token& second, const ast::Expr& third) {
  Diagnostic& error = cursor_.report(Code::E0105, cursor_.span(second), "comparisons do not chain",
                                     "this would compare a bool with a number");
  const auto& first = std::get<ast::Binary>(comparison.kind);
  const std::string_view middle = first.right->span.text();
  if (!is_shown(comparison.span.text()) || !is_shown(third.span.text())) {
    error.help("join two comparisons by `&&`");
    return;
  }
  error.help("write `" + std::string(comparison.span.text()) + " && " + std::string(middle) + " " +
             std::string(cursor_.text(second)) + " " + std::string(third.span.text()) + "`");
}

ExprRef ExpressionParser::unary() {
  switch (cursor_.kind()) {
    case Kind::Minus:
      return prefixed(ast::UnaryOp::Negate);
    case Kind::Bang:
      return prefixed(ast::UnaryOp::Not);
    case Kind::Tilde:
      return prefixed(ast::UnaryOp::Complement);
    default:
      return operand();
  }
}

ExprRef ExpressionParser::prefixed(ast::UnaryOp op) {
  const Nested nested(nesting_);
  if (nested.too_deep()) return report_nesting();
  const Token token = cursor_.take();
  ExprRef value = unary();
  if (!value) return nullptr;
  return make(token.begin, ast::Unary{op, cursor_.span(token), std::move(value)});
}

ExprRef ExpressionParser::report_nesting() {
  cursor_.report(Code::E0104, cursor_.span(cursor_.peek()),
                 "an expression is nested more than " + std::to_string(kMaxNesting) + " levels deep");
  return nullptr;
}

ExprRef ExpressionParser::operand() {
  // Whatever nests does so through here or through `prefixed`, lists of arguments excepted.
  const Nested nested(nesting_);
  if (nested.too_deep()) return report_nesting();
  switch (cursor_.kind()) {
    case Kind::Integer:
    case Kind::Decimal:
    case Kind::Inf:
    case Kind::Nan:
    case Kind::True:
    case Kind::False: {
      const std::uint32_t begin = cursor_.peek().begin;
      return make(begin, *literal());
    }
    case Kind::LeftParen:
      return parenthesized();
    case Kind::If:
      return conditional();
    case Kind::Let:
      return let_in();
    case Kind::ReductionWord:
      return reduction();
    case Kind::MinMaxWord:
      return min_max_call();
    case Kind::Name:
    case Kind::Pad:
      return call_or_read();
    default:
      break;
  }
  const Kind found = cursor_.kind();
  Diagnostic* error = cursor_.unexpected("an expression");
  if (error != nullptr && is_word(found)) error->note("this is a reserved word of the language");
  return nullptr;
}

std::optional<ast::Literal> ExpressionParser::literal() {
  ast::Literal literal;
  const Token token = cursor_.peek();
  literal.text = cursor_.text(token);
  literal.span = cursor_.span(token);
  switch (token.kind) {
    case Kind::Integer:
      literal.value = integer_value(literal.text);
      break;
    case Kind::Decimal:
      literal.value = ast::Decimal{without_underscores(literal.text)};
      break;
    case Kind::Inf:
      literal.value = ast::Infinity{};
      break;
    case Kind::Nan:
      literal.value = ast::NotANumber{};
      break;
    case Kind::True:
      literal.value = ast::Boolean{true};
      break;
    case Kind::False:
      literal.value = ast::Boolean{false};
      break;
    default:
      cursor_.unexpected("a literal");
      return {};
  }
  cursor_.take();
  return literal;
}

ExprRef ExpressionParser::parenthesized() {
  const Token opening = cursor_.take();
  ExprRef inner = expression();
  if (!inner || !cursor_.expect_closing(opening)) return nullptr;
  // The node has just been made and is held by nobody else; a copy at each level would make deep nesting slow.
  const std::shared_ptr<ast::Expr> expr = std::const_pointer_cast<ast::Expr>(inner);
  expr->span = cursor_.span_from(opening.begin);
  expr->parenthesized = true;
  return inner;
}

ExprRef ExpressionParser::conditional() {
  const Token word = cursor_.take();
  ExprRef condition = expression();
  if (!condition || !cursor_.expect(Kind::Then)) return nullptr;
  ExprRef then_value = expression();
  if (!then_value) return nullptr;
  if (cursor_.at_end_of_operand() && !cursor_.follows_from_earlier()) {
    cursor_.report(Code::E0107, cursor_.span(word), "this `if` has no `else`", "every element needs a value")
        .help("add `else` and the value for the other case");
    return nullptr;
  }
  if (!cursor_.expect(Kind::Else)) return nullptr;
  ExprRef else_value = expression();
  if (!else_value) return nullptr;
  return make(word.begin, ast::If{std::move(condition), std::move(then_value), std::move(else_value)});
}

ExprRef ExpressionParser::let_in() {
  const Token word = cursor_.take();
  std::optional<ast::Name> name = cursor_.expect_definition("the name of a value");
  if (!name || !cursor_.expect(Kind::Assign)) return nullptr;
  ExprRef value = expression();
  if (!value || !cursor_.expect(Kind::In)) return nullptr;
  ExprRef body = expression();
  if (!body) return nullptr;
  return make(word.begin, ast::LetIn{std::move(*name), std::move(value), std::move(body)});
}

ExprRef ExpressionParser::reduction() {
  const Token word = cursor_.take();
  if (!cursor_.at(Kind::LeftParen)) {
    cursor_.unexpected("`(` and the indices of `" + std::string(cursor_.text(word)) + "`");
    return nullptr;
  }
  std::optional<std::vector<ast::Index>> indices = bracketed(cursor_, [this] { return index(); });
  if (!indices) return nullptr;
  ExprRef body = product(word);
  if (!body) return nullptr;
  return make(word.begin, ast::Reduction{reduction_kind(cursor_.text(word)), cursor_.span(word), std::move(*indices),
                                         std::move(body)});
}

ExprRef ExpressionParser::product(const Token& word) {
  const std::string name(cursor_.text(word));
  const Token first = cursor_.peek();
  ExprRef body;
  if (first.kind == Kind::Minus || first.kind == Kind::Bang || first.kind == Kind::Tilde) {
    const std::string sign(cursor_.text(first));
    Diagnostic& error =
        cursor_.report(Code::E0106, cursor_.span(first), "the body of `" + name + "` begins with `" + sign + "`");
    if (name == "max" || name == "min") {
      error.note("`" + name +
                 "(...)` with one entry or a written range is a reduction; with two entries it is a function");
    }
    error.help("put the body in parentheses, `" + name + "(...) (" + sign + "...)`" +
               (sign == "-" ? ", or the reduction, `(" + name + "(...) ...) - ...`" : ""));
    body = unary();
  } else {
    body = operand();
  }
  while (body && cursor_.at(Kind::Star)) {
    const Token star = cursor_.take();
    ExprRef factor = unary();
    if (!factor) return nullptr;
    body = combine(star, BinaryOp::Multiply, std::move(body), std::move(factor));
  }
  return body;
}

ExprRef ExpressionParser::min_max_call() {
  const Token word = cursor_.take();
  if (!cursor_.at(Kind::LeftParen)) {
    cursor_.unexpected("`(` behind `" + std::string(cursor_.text(word)) + "`");
    return nullptr;
  }
  return call({std::string(cursor_.text(word)), cursor_.span(word)}, {});
}

ExprRef ExpressionParser::call_or_read() {
  const Token token = cursor_.take();
  ast::Name name{std::string(cursor_.text(token)), cursor_.span(token)};
  if (cursor_.at(Kind::LeftParen)) return call(std::move(name), {});
  if (!cursor_.at(Kind::LeftBracket)) return read(std::move(name), {});

  const bool has_attributes =
      (cursor_.kind(1) == Kind::Name || cursor_.kind(1) == Kind::Pad) && cursor_.kind(2) == Kind::Assign;
  if (!has_attributes) {
    std::optional<std::vector<ast::Subscript>> subscripts = bracketed(cursor_, [this] { return subscript(); });
    return subscripts ? read(std::move(name), std::move(*subscripts)) : nullptr;
  }
  std::optional<std::vector<ast::NamedArgument>> attributes = bracketed(cursor_, [this] { return named_argument(); });
  if (!attributes) return nullptr;
  if (!cursor_.at(Kind::LeftParen)) {
    cursor_.unexpected("`(` and the arguments of `" + name.text + "`");
    return nullptr;
  }
  return call(std::move(name), std::move(*attributes));
}

ExprRef ExpressionParser::call(ast::Name callee, std::vector<ast::NamedArgument> attributes) {
  const std::uint32_t begin = callee.span.begin;
  std::vector<ast::Argument> arguments;
  if (cursor_.kind(1) == Kind::RightParen && callee.text != "min" && callee.text != "max") {
    cursor_.take();
    cursor_.take();
  } else {
    std::optional<std::vector<ast::Argument>> list = bracketed(cursor_, [this] { return argument(); });
    if (!list) return nullptr;
    arguments = std::move(*list);
  }
  return make(begin, ast::Call{std::move(callee), std::move(attributes), std::move(arguments)});
}

std::optional<ast::NamedArgument> ExpressionParser::named_argument() {
  const Token token = cursor_.peek();
  if (token.kind != Kind::Name && token.kind != Kind::Pad) {
    cursor_.unexpected("the name of an attribute");
    return {};
  }
  cursor_.take();
  if (!cursor_.expect(Kind::Assign)) return {};
  ExprRef value = expression();
  if (!value) return {};
  return ast::NamedArgument{
      {std::string(cursor_.text(token)), cursor_.span(token)}, std::move(value), cursor_.span_from(token.begin)};
}

std::optional<ast::Argument> ExpressionParser::argument() {
  const std::uint32_t begin = cursor_.peek().begin;
  if (!cursor_.at(Kind::LeftBracket)) {
    ExprRef expr = expression();
    if (!expr) return {};
    return ast::Argument{std::move(expr), cursor_.span_from(begin)};
  }
  const Nested nested(nesting_);
  if (nested.too_deep()) {
    cursor_.report(Code::E0104, cursor_.span(cursor_.peek()),
                   "a list is nested more than " + std::to_string(kMaxNesting) + " levels deep");
    return {};
  }
  std::optional<std::vector<ast::Argument>> list = bracketed(cursor_, [this] { return argument(); });
  if (!list) return {};
  return ast::Argument{std::move(*list), cursor_.span_from(begin)};
}

ExprRef ExpressionParser::read(ast::Name name, std::vector<ast::Subscript> subscripts) {
  const std::uint32_t begin = name.span.begin;
  std::optional<ast::Padding> pad;
  if (cursor_.accept(Kind::Pad)) {
    pad = padding();
    if (!pad) return nullptr;
  }
  return make(begin, ast::Read{std::move(name), std::move(subscripts), std::move(pad)});
}

std::optional<ast::Subscript> ExpressionParser::subscript() {
  const std::uint32_t begin = cursor_.peek().begin;
  if (cursor_.accept(Kind::Ellipsis)) {
    std::optional<ast::Name> name = cursor_.expect_use("the name of a pack");
    if (!name) return {};
    return ast::Subscript{ast::Pack{std::move(*name)}, cursor_.span_from(begin)};
  }
  ExprRef first;
  if (!cursor_.at(Kind::Colon)) {
    first = expression();
    if (!first) return {};
    if (!cursor_.at(Kind::Colon)) return ast::Subscript{std::move(first), cursor_.span_from(begin)};
  }
  cursor_.take();
  const auto is_left_out = [this] {
    return cursor_.at(Kind::Colon) || cursor_.at(Kind::Comma) || cursor_.at(Kind::RightBracket);
  };
  ast::Slice slice{std::move(first), nullptr, nullptr};
  if (!is_left_out() && !(slice.end = expression())) return {};
  if (cursor_.accept(Kind::Colon) && !is_left_out() && !(slice.step = expression())) return {};
  return ast::Subscript{std::move(slice), cursor_.span_from(begin)};
}

std::optional<ast::Padding> ExpressionParser::padding() {
  const Token token = cursor_.peek();
  std::optional<ast::PadMode> mode;
  if (token.kind == Kind::Edge) mode = ast::PadMode::Edge;
  if (token.kind == Kind::Reflect) mode = ast::PadMode::Reflect;
  if (token.kind == Kind::Wrap) mode = ast::PadMode::Wrap;
  if (mode) {
    cursor_.take();
    return ast::Padding{*mode, cursor_.span(token)};
  }
  ExprRef value = padding_value();
  if (!value) return {};
  return ast::Padding{std::move(value), cursor_.span_from(token.begin)};
}

ExprRef ExpressionParser::padding_value() {
  const Token token = cursor_.peek();
  switch (token.kind) {
    case Kind::Integer:
    case Kind::Decimal:
    case Kind::Inf:
    case Kind::Nan:
    case Kind::True:
    case Kind::False:
      return make(token.begin, *literal());
    case Kind::LeftParen:
      return parenthesized();
    case Kind::Minus: {
      cursor_.take();
      const std::uint32_t begin = cursor_.peek().begin;
      std::optional<ast::Literal> value = literal();
      if (!value) return nullptr;
      return make(token.begin, ast::Unary{ast::UnaryOp::Negate, cursor_.span(token), make(begin, std::move(*value))});
    }
    case Kind::Name: {
      cursor_.take();
      ast::Name name{std::string(cursor_.text(token)), cursor_.span(token)};
      if (cursor_.at(Kind::LeftParen)) return call(std::move(name), {});
      if (!cursor_.at(Kind::LeftBracket)) return make(token.begin, ast::Read{std::move(name), {}, {}});
      break;
    }
    default:
      break;
  }
  Diagnostic* error = cursor_.unexpected("a padding");
  if (error == nullptr) return nullptr;
  error->note("a padding is `edge`, `reflect`, `wrap`, a literal, a name or a call");
  error->help("any other value needs parentheses: `pad (...)`");
  return nullptr;
}

std::optional<ast::Index> ExpressionParser::index() {
  const std::uint32_t begin = cursor_.peek().begin;
  ast::Index index;
  index.is_pack = cursor_.accept(Kind::Ellipsis);
  std::optional<ast::Name> name = cursor_.expect_definition("an index variable");
  if (!name) return {};
  index.name = std::move(*name);
  if (cursor_.accept(Kind::Colon)) {
    index.range = range();
    if (!index.range) return {};
  }
  index.span = cursor_.span_from(begin);
  return index;
}

std::optional<ast::Range> ExpressionParser::range() {
  const std::uint32_t begin = cursor_.peek().begin;
  ExprRef first = sum();
  if (!first) return {};
  if (!cursor_.accept(Kind::Dots)) return ast::Range{nullptr, std::move(first), cursor_.span_from(begin)};
  ExprRef end = sum();
  if (!end) return {};
  return ast::Range{std::move(first), std::move(end), cursor_.span_from(begin)};
}

std::optional<ast::Dim> ExpressionParser::dim() {
  const std::uint32_t begin = cursor_.peek().begin;
  if (cursor_.accept(Kind::Ellipsis)) {
    std::optional<ast::Name> name = cursor_.expect_use("the name of a pack");
    if (!name) return {};
    return ast::Dim{ast::Pack{std::move(*name)}, cursor_.span_from(begin)};
  }
  ExprRef expr = expression();
  if (!expr) return {};
  return ast::Dim{std::move(expr), cursor_.span_from(begin)};
}

}  // namespace corrloom::frontend
