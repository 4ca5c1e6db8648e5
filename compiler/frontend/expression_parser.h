#pragma once

#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "compiler/frontend/ast.h"
#include "compiler/frontend/cursor.h"

namespace corrloom::frontend {

/// The part of the grammar from `expr` downwards, and what statements share with it (index lists). Every function takes
/// the tokens of its rule, or reports an error and returns nothing.
class ExpressionParser {
 public:
  explicit ExpressionParser(Cursor& cursor) : cursor_(cursor) {}

  ast::ExprRef expression();
  /// An expression of sums and tighter operators: the ends of ranges.
  ast::ExprRef sum();
  std::optional<ast::Index> index();
  std::optional<ast::Argument> argument();
  /// `expr` or `...D`.
  std::optional<ast::Dim> dim();
  std::optional<ast::Literal> literal();

 private:
  ast::ExprRef binary(int loosest);
  ast::ExprRef unary();
  ast::ExprRef prefixed(ast::UnaryOp op);
  ast::ExprRef operand();
  ast::ExprRef parenthesized();
  ast::ExprRef conditional();
  ast::ExprRef let_in();
  ast::ExprRef reduction();
  ast::ExprRef product(const Token& word);
  ast::ExprRef min_max_call();
  ast::ExprRef call_or_read();
  ast::ExprRef call(ast::Name callee, std::vector<ast::NamedArgument> attributes);
  ast::ExprRef read(ast::Name name, std::vector<ast::Subscript> subscripts);
  ast::ExprRef padding_value();
  std::optional<ast::Padding> padding();
  std::optional<ast::Subscript> subscript();
  std::optional<ast::NamedArgument> named_argument();
  std::optional<ast::Range> range();

  ast::ExprRef combine(const Token& token, ast::BinaryOp op, ast::ExprRef left, ast::ExprRef right);
  ast::ExprRef report_nesting();
  void report_chain(const ast::Expr& comparison, const Token& second, const ast::Expr& third);
  /// The node, unless the tree would grow too high.
  template <class Node>
  ast::ExprRef make(std::uint32_t begin, Node node);

  Cursor& cursor_;
  int nesting_ = 0;
};

/// `element {"," element}`, up to something else.
template <class Element>
auto comma_separated(Cursor& cursor, Element element) {
  std::vector<typename std::invoke_result_t<Element>::value_type> list;
  using List = std::optional<decltype(list)>;
  do {
    auto entry = element();
    if (!entry) return List();
    list.push_back(std::move(*entry));
  } while (cursor.accept(TokenKind::Comma));
  return List(std::move(list));
}

/// `element {"," element}` between the brackets of which the opening one is the current token.
template <class Element>
auto bracketed(Cursor& cursor, Element element) {
  const Token opening = cursor.take();
  auto list = comma_separated(cursor, element);
  if (list && !cursor.expect_closing(opening)) list.reset();
  return list;
}

}  // namespace corrloom::frontend
