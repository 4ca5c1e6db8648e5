#include "compiler/frontend/parser.h"

#include <utility>

#include "compiler/frontend/cursor.h"
#include "compiler/frontend/expression_parser.h"
#include "compiler/frontend/layout.h"
#include "compiler/frontend/lexer.h"
#include "ir/base/errors.h"

namespace corrloom::frontend {
namespace {

using Kind = TokenKind;
using ast::ExprRef;

/// Items and statements: the upper half of the grammar.
class FileParser {
 public:
  FileParser(const TokenList& list, Diagnostics& diagnostics) : cursor_(list, diagnostics), expressions_(cursor_) {
    file_.source = list.source;
  }

  ast::File run() {
    while (!cursor_.at(Kind::EndOfFile)) {
      if (!cursor_.accept(Kind::LineEnd)) item();
    }
    return std::move(file_);
  }

 private:
  void item() {
    const int failures = cursor_.failures();
    defined_ = {};
    std::optional<ast::Item> item = any_item();
    // An op with a sound signature is of use even when some of its statements are not.
    if (item && (cursor_.failures() == failures || std::holds_alternative<ast::Op>(*item))) {
      file_.items.push_back(std::move(*item));
      return;
    }
    if (!defined_.text.empty()) file_.broken_names.push_back(defined_);
    if (!item) cursor_.skip_item();
  }

  std::optional<ast::Item> any_item() {
    switch (cursor_.kind()) {
      case Kind::Import:
        return import();
      case Kind::Const:
        return constant();
      case Kind::Fn:
        return function();
      case Kind::Op:
        return op();
      default:
        break;
    }
    Diagnostic* error = cursor_.unexpected("`import`, `const`, `fn` or `op`");
    if (error != nullptr && cursor_.at(Kind::Name)) error->note("statements stand between the braces of an op");
    return {};
  }

  /// The name that an item defines. It is remembered in case that the item turns out to be broken.
  bool item_name(ast::Name& name, std::string_view what) {
    std::optional<ast::Name> found = cursor_.expect_definition(what);
    if (!found) return false;
    defined_ = *found;
    name = std::move(*found);
    return true;
  }

  std::optional<ast::Item> import() {
    const Token word = cursor_.take();
    ast::Import import;
    if (!cursor_.at(Kind::String)) {
      Diagnostic* error = cursor_.unexpected("the path of a file");
      if (error != nullptr) error->help("write it between quotation marks: `import \"filters.loom\"`");
      return {};
    }
    const Token path = cursor_.take();
    const std::string_view quoted = cursor_.text(path);
    import.path = quoted.substr(1, quoted.size() - 2);
    import.path_span = cursor_.span(path);
    if (cursor_.accept(Kind::As)) {
      import.alias = cursor_.expect_definition("a name for the imported file");
      if (!import.alias) return {};
    }
    import.span = cursor_.span_from(word.begin);
    return import;
  }

  std::optional<ast::Item> constant() {
    const Token word = cursor_.take();
    ast::Const constant;
    if (!item_name(constant.name, "the name of a constant")) return {};
    if (cursor_.accept(Kind::Colon)) {
      constant.type = type();
      if (!constant.type) return {};
    }
    if (!cursor_.expect(Kind::Assign)) return {};
    std::optional<ast::Argument> value = expressions_.argument();
    if (!value) return {};
    constant.value = std::move(*value);
    constant.span = cursor_.span_from(word.begin);
    return constant;
  }

  std::optional<ast::Item> function() {
    const Token word = cursor_.take();
    ast::Fn fn;
    if (!item_name(fn.name, "the name of a function")) return {};
    if (!type_parameters(fn.type_parameters)) return {};
    if (!parenthesized_list(fn.parameters, [this] { return fn_parameter(); })) return {};
    if (!arrow("`->` and the dtype of the result")) return {};
    std::optional<ast::Name> result = cursor_.expect_use("the dtype of the result");
    if (!result || !cursor_.expect(Kind::Assign)) return {};
    fn.result = std::move(*result);
    fn.body = expressions_.expression();
    if (!fn.body) return {};
    fn.span = cursor_.span_from(word.begin);
    return fn;
  }

  /// `"(" [element {"," element}] ")"`
  template <class T, class Element>
  bool parenthesized_list(std::vector<T>& out, Element element) {
    if (!cursor_.at(Kind::LeftParen)) {
      cursor_.unexpected("`(` and the parameters");
      return false;
    }
    if (cursor_.kind(1) == Kind::RightParen) {
      cursor_.take();
      cursor_.take();
      return true;
    }
    std::optional<std::vector<T>> list = bracketed(cursor_, element);
    if (list) out = std::move(*list);
    return list.has_value();
  }

  bool arrow(std::string_view wanted) {
    if (!cursor_.at(Kind::Arrow)) {
      cursor_.unexpected(wanted);
      return false;
    }
    cursor_.take();
    return true;
  }

  std::optional<ast::FnParameter> fn_parameter() {
    const std::uint32_t begin = cursor_.peek().begin;
    std::optional<ast::Name> name = cursor_.expect_definition("the name of a parameter");
    if (!name || !cursor_.expect(Kind::Colon)) return {};
    std::optional<ast::Name> type = cursor_.expect_use("a dtype");
    if (!type) return {};
    return ast::FnParameter{std::move(*name), std::move(*type), cursor_.span_from(begin)};
  }

  /// `["<" NAME ":" class {"," NAME ":" class} ">"]`
  bool type_parameters(std::vector<ast::TypeParameter>& out) {
    if (!cursor_.accept(Kind::Less)) return true;
    std::optional<std::vector<ast::TypeParameter>> list = comma_separated(cursor_, [this] { return type_parameter(); });
    if (!list || !cursor_.expect(Kind::Greater)) return false;
    out = std::move(*list);
    return true;
  }

  std::optional<ast::TypeParameter> type_parameter() {
    const std::uint32_t begin = cursor_.peek().begin;
    std::optional<ast::Name> name = cursor_.expect_definition("the name of a type parameter");
    if (!name || !cursor_.expect(Kind::Colon)) return {};
    std::optional<ast::Name> type_class = name_or_reduction("`float`, `integer`, `number` or `any`");
    if (!type_class) return {};
    return ast::TypeParameter{std::move(*name), std::move(*type_class), cursor_.span_from(begin)};
  }

  /// `any` is the name of a class of types and of an order; elsewhere it is a reduction.
  std::optional<ast::Name> name_or_reduction(std::string_view what) {
    if (!cursor_.at(Kind::ReductionWord)) return cursor_.expect_use(what);
    const Token token = cursor_.take();
    return ast::Name{std::string(cursor_.text(token)), cursor_.span(token)};
  }

  std::optional<ast::Type> type() {
    std::optional<ast::Name> name = cursor_.expect_use("a dtype");
    if (!name) return {};
    ast::Type type;
    type.name = std::move(*name);
    if (cursor_.at(Kind::LeftBracket)) {
      if (cursor_.kind(1) == Kind::RightBracket) {
        cursor_.take();
        Diagnostic* error = cursor_.unexpected("a dimension");
        if (error != nullptr) error->help("a scalar is written without brackets: `" + type.name.text + "`");
        return {};
      }
      std::optional<std::vector<ast::Dim>> dims = bracketed(cursor_, [this] { return expressions_.dim(); });
      if (!dims) return {};
      type.dims = std::move(*dims);
    }
    type.span = cursor_.span_from(type.name.span.begin);
    return type;
  }

  std::optional<ast::Item> op() {
    const Token word = cursor_.take();
    const int failures = cursor_.failures();
    ast::Op op;
    if (!item_name(op.name, "the name of an op")) return broken_op(op);
    if (cursor_.at(Kind::Assign)) return gradient(word, std::move(op.name));
    if (!signature(op, word) || !clauses(op)) return broken_op(op);
    if (!cursor_.at(Kind::LeftBrace)) {
      cursor_.unexpected("`{` and the statements of the op");
      return broken_op(op);
    }
    if (cursor_.failures() != failures) return broken_op(op);
    body(op);
    op.span = cursor_.span_from(word.begin);
    return op;
  }

  /// The signature is wrong: only the statements are looked at, for errors of their own.
  std::optional<ast::Item> broken_op(ast::Op& op) {
    cursor_.skip_head();
    if (cursor_.at(Kind::LeftBrace)) body(op);
    return {};
  }

  std::optional<ast::Item> gradient(const Token& word, ast::Name name) {
    cursor_.take();
    ast::Grad grad;
    grad.name = std::move(name);
    if (!cursor_.expect(Kind::Grad)) return {};
    std::optional<ast::Name> of = cursor_.expect_use("the name of an op");
    if (!of || !cursor_.expect(Kind::Wrt)) return {};
    grad.of = std::move(*of);
    std::optional<std::vector<ast::Name>> wrt =
        comma_separated(cursor_, [this] { return cursor_.expect_use("the name of an input"); });
    if (!wrt) return {};
    grad.wrt = std::move(*wrt);
    grad.span = cursor_.span_from(word.begin);
    return grad;
  }

  /// From the type parameters to the results.
  bool signature(ast::Op& op, const Token& word) {
    if (!type_parameters(op.type_parameters)) return false;
    if (cursor_.at(Kind::LeftBracket)) {
      std::optional<std::vector<ast::Attribute>> attributes = bracketed(cursor_, [this] { return attribute(); });
      if (!attributes) return false;
      op.attributes = std::move(*attributes);
    }
    if (!parenthesized_list(op.parameters, [this] { return parameter(); })) return false;
    if (!arrow("`->` and the results")) return false;
    if (!results(op.results)) return false;
    op.signature_span = cursor_.span_from(word.begin);
    return true;
  }

  std::optional<ast::Attribute> attribute() {
    const Token token = cursor_.peek();
    ast::Attribute attribute;
    if (token.kind == Kind::Pad) {
      cursor_.take();
      attribute.name = {std::string(cursor_.text(token)), cursor_.span(token)};
    } else {
      std::optional<ast::Name> name = cursor_.expect_definition("the name of an attribute");
      if (!name) return {};
      attribute.name = std::move(*name);
    }
    if (!cursor_.expect(Kind::Colon)) return {};
    std::optional<ast::Name> type = cursor_.expect_use("`int`, `float` or `bool`");
    if (!type) return {};
    attribute.type = std::move(*type);
    if (cursor_.accept(Kind::Assign)) {
      attribute.default_value = expressions_.expression();
      if (!attribute.default_value) return {};
    }
    attribute.span = cursor_.span_from(token.begin);
    return attribute;
  }

  std::optional<ast::Parameter> parameter() {
    const std::uint32_t begin = cursor_.peek().begin;
    ast::Parameter parameter;
    parameter.is_owned = cursor_.accept(Kind::Param);
    std::optional<ast::Name> name = cursor_.expect_definition("the name of a parameter");
    if (!name || !cursor_.expect(Kind::Colon)) return {};
    std::optional<ast::Type> parameter_type = type();
    if (!parameter_type) return {};
    parameter.name = std::move(*name);
    parameter.type = std::move(*parameter_type);
    if (cursor_.accept(Kind::Assign)) {
      const bool has_sign = cursor_.at(Kind::Minus);
      if (has_sign) {
        Diagnostic* error = cursor_.unexpected("a literal without a sign");
        if (error != nullptr)
          error->help("pass the value at the call, or use an attribute, whose default may be any expression");
        return {};
      }
      parameter.default_value = expressions_.literal();
      if (!parameter.default_value) return {};
    }
    parameter.span = cursor_.span_from(begin);
    return parameter;
  }

  bool results(std::vector<ast::Result>& out) {
    std::optional<std::vector<ast::Result>> list;
    if (cursor_.at(Kind::LeftParen)) {
      list = bracketed(cursor_, [this] { return result(); });
    } else if (std::optional<ast::Result> single = result()) {
      list.emplace().push_back(std::move(*single));
    }
    if (list) out = std::move(*list);
    return list.has_value();
  }

  std::optional<ast::Result> result() {
    const std::uint32_t begin = cursor_.peek().begin;
    std::optional<ast::Name> name = cursor_.expect_definition("the name of a result");
    if (!name) return {};
    if (!cursor_.at(Kind::Colon)) {
      Diagnostic* error = cursor_.unexpected("`:` and the type of the result");
      if (error != nullptr) error->help("results are named: `-> Y: f32[N]`");
      return {};
    }
    cursor_.take();
    std::optional<ast::Type> result_type = type();
    if (!result_type) return {};
    ast::Result result{std::move(*name), std::move(*result_type), {}, {}};
    if (cursor_.accept(Kind::In)) {
      result.in = cursor_.expect_use("the name of an input");
      if (!result.in) return {};
    }
    result.span = cursor_.span_from(begin);
    return result;
  }

  /// `["where" expr {"," expr}] {"with" NAME "=" NAME}`
  bool clauses(ast::Op& op) {
    if (cursor_.accept(Kind::Where)) {
      do {
        ExprRef condition = expressions_.expression();
        if (!condition) return false;
        op.where.push_back(std::move(condition));
      } while (cursor_.accept(Kind::Comma));
    }
    while (cursor_.at(Kind::With)) {
      const Token word = cursor_.take();
      std::optional<ast::Name> name = cursor_.expect_use("`order` or `math`");
      if (!name || !cursor_.expect(Kind::Assign)) return false;
      std::optional<ast::Name> value = name_or_reduction("a name");
      if (!value) return false;
      op.with.push_back({std::move(*name), std::move(*value), cursor_.span_from(word.begin)});
    }
    return true;
  }

  void body(ast::Op& op) {
    cursor_.take();
    while (!cursor_.at(Kind::RightBrace) && !cursor_.at_new_item()) {
      if (cursor_.accept(Kind::LineEnd)) continue;
      const int failures = cursor_.failures();
      std::optional<ast::Statement> statement = this->statement();
      if (statement && !at_statement_end()) report_statement_goes_on();
      if (statement && cursor_.failures() == failures) {
        op.statements.push_back(std::move(*statement));
        continue;
      }
      op.is_broken = true;
      cursor_.skip_statement();
    }
    cursor_.accept(Kind::RightBrace);
  }

  bool at_statement_end() const {
    return cursor_.at(Kind::LineEnd) || cursor_.at(Kind::RightBrace) || cursor_.at_new_item();
  }

  void report_statement_goes_on() {
    const bool begins_statement = cursor_.at(Kind::Name) || cursor_.at(Kind::Let);
    Diagnostic* error = cursor_.unexpected(kOperatorOrEnd);
    if (error != nullptr && begins_statement) error->note("each statement begins on a line of its own");
  }

  std::optional<ast::Statement> statement() {
    const std::uint32_t begin = cursor_.peek().begin;
    ast::Statement statement;
    statement.is_let = cursor_.accept(Kind::Let);
    if (!target(statement)) return {};
    if (cursor_.accept(Kind::Along)) {
      statement.along = cursor_.expect_use("an index variable");
      if (!statement.along) return {};
    }
    if (!cursor_.expect(Kind::Assign)) return {};
    statement.value = expressions_.expression();
    if (!statement.value) return {};
    statement.span = cursor_.span_from(begin);
    return statement;
  }

  /// `NAME | NAME "[" ix {"," ix} "]" | "(" NAME {"," NAME} ")"`
  bool target(ast::Statement& statement) {
    const std::uint32_t begin = cursor_.peek().begin;
    if (cursor_.at(Kind::LeftParen)) {
      std::optional<std::vector<ast::Name>> names =
          bracketed(cursor_, [this] { return cursor_.expect_definition("the name of a value"); });
      if (!names) return false;
      statement.target = ast::TupleTarget{std::move(*names)};
    } else {
      const std::string_view wanted =
          statement.is_let ? "a name behind `let`" : "a statement: `NAME[...] = ...` or `let NAME[...] = ...`";
      std::optional<ast::Name> name = cursor_.expect_definition(wanted);
      if (!name) return false;
      if (!cursor_.at(Kind::LeftBracket)) {
        statement.target = std::move(*name);
      } else {
        std::optional<std::vector<ast::Index>> indices = bracketed(cursor_, [this] { return left_index(); });
        if (!indices) return false;
        statement.target = ast::IndexedTarget{std::move(*name), std::move(*indices)};
      }
    }
    statement.target_span = cursor_.span_from(begin);
    return true;
  }

  /// An index on the left side, where expressions are a likely mistake.
  std::optional<ast::Index> left_index() {
    std::optional<ast::Index> index = expressions_.index();
    if (!index || cursor_.at(Kind::Comma) || cursor_.at(Kind::RightBracket)) return index;
    Diagnostic* error = cursor_.unexpected("`,` or `]` behind an index variable");
    if (error != nullptr)
      error->note("the subscripts on the left are index variables: a statement defines every element");
    return {};
  }

  Cursor cursor_;
  ExpressionParser expressions_;
  ast::File file_;
  ast::Name defined_;
};

}  // namespace

ast::File parse(const SourceRef& source, Diagnostics& diagnostics) {
  CORRLOOM_CHECK(source != nullptr, "nothing to parse");
  if (source->text().size() > kMaxSourceBytes) {
    diagnostics
        .report(Code::E0104, {source, 0, 0}, "the file is larger than " + std::to_string(kMaxSourceBytes) + " bytes")
        .help("split it and use `import`");
    return {source, {}, {}};
  }
  TokenList list = lex(source, diagnostics);
  if (!list.is_whole) return {source, {}, {}};
  list = lay_out(std::move(list), diagnostics);
  return FileParser(list, diagnostics).run();
}

}  // namespace corrloom::frontend
