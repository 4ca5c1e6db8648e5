#include "compiler/frontend/parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/frontend/token.h"
#include "frontend_testing.h"

namespace corrloom::frontend {
namespace {

using testing::codes_of;
using ::testing::HasSubstr;
using testing::parse_text;
using testing::Parsed;

std::string statement_codes(const std::string& statements) {
  return codes_of(parse_text("op f(X: f32[N]) -> Y: f32[N] {\n" + statements + "\n}\n").diagnostics);
}

TEST(Parser, SpansCoverWhatTheyName) {
  const Parsed parsed =
      parse_text("op f(X: f32[N]) -> Y: f32[N] {\n  Y[i] = (X[i] + 1) * sum(k: 0..N) X[k] pad -2\n}\n");
  ASSERT_EQ(codes_of(parsed.diagnostics), "");
  const auto& op = std::get<ast::Op>(parsed.file.items.at(0));
  EXPECT_EQ(op.signature_span.text(), "op f(X: f32[N]) -> Y: f32[N]");
  EXPECT_EQ(op.parameters.at(0).span.text(), "X: f32[N]");
  EXPECT_EQ(op.parameters.at(0).type.dims.at(0).span.text(), "N");
  const ast::Statement& statement = op.statements.at(0);
  EXPECT_EQ(statement.target_span.text(), "Y[i]");
  EXPECT_EQ(statement.span.text(), "Y[i] = (X[i] + 1) * sum(k: 0..N) X[k] pad -2");
  const auto& product = std::get<ast::Binary>(statement.value->kind);
  EXPECT_EQ(product.op_span.text(), "*");
  EXPECT_EQ(product.left->span.text(), "(X[i] + 1)");
  EXPECT_TRUE(product.left->parenthesized);
  const auto& sum = std::get<ast::Reduction>(product.right->kind);
  EXPECT_EQ(sum.kind_span.text(), "sum");
  EXPECT_EQ(sum.indices.at(0).range->span.text(), "0..N");
  EXPECT_EQ(std::get<ast::Read>(sum.body->kind).padding->span.text(), "-2");
}

TEST(Parser, KeepsLiteralsAsWrittenAndTheirValues) {
  const Parsed parsed = parse_text("const a = [0x1_F, 18446744073709551615, 18446744073709551616, 1_0.5e-3]");
  ASSERT_EQ(codes_of(parsed.diagnostics), "");
  const auto& list = std::get<std::vector<ast::Argument>>(std::get<ast::Const>(parsed.file.items.at(0)).value.kind);
  const auto literal = [&](std::size_t k) {
    return std::get<ast::Literal>(std::get<ast::ExprRef>(list.at(k).kind)->kind);
  };
  EXPECT_EQ(literal(0).text, "0x1_F");
  EXPECT_EQ(std::get<ast::Integer>(literal(0).value).magnitude, 31u);
  EXPECT_EQ(std::get<ast::Integer>(literal(1).value).magnitude, 18446744073709551615u);
  EXPECT_FALSE(std::get<ast::Integer>(literal(1).value).overflows);
  EXPECT_TRUE(std::get<ast::Integer>(literal(2).value).overflows);
  EXPECT_EQ(std::get<ast::Decimal>(literal(3).value).digits, "10.5e-3");
}

TEST(Parser, ReportsEachBrokenStatementAndKeepsTheOthers) {
  const Parsed parsed = parse_text(
      "op f(X: f32[N]) -> (A: f32[N], B: f32[N], C: f32[N]) {\n"
      "  A[i] = X[i] + * 2\n"
      "  B[i] = X[i]\n"
      "  C[i] = if X[i] > 0 then 1\n"
      "}\n"
      "op g(X: f32[N) -> Y: f32 { Y = }\n"
      "const c = 1\n");
  EXPECT_EQ(codes_of(parsed.diagnostics), "E0103@6:12 E0102@2:17 E0107@4:10 E0102@6:32");
  ASSERT_EQ(parsed.file.items.size(), 2u);
  const auto& op = std::get<ast::Op>(parsed.file.items.at(0));
  EXPECT_TRUE(op.is_broken);
  EXPECT_EQ(op.statements.size(), 1u);
  ASSERT_EQ(parsed.file.broken_names.size(), 1u);
  EXPECT_EQ(parsed.file.broken_names[0].text, "g");
}

TEST(Parser, HelpsWithWhatWasMeant) {
  const auto rendered = [](const std::string& statement) {
    return parse_text("op f(X: f32[N]) -> Y: f32[N] {\n" + statement + "\n}\n").diagnostics.render();
  };
  EXPECT_THAT(rendered("Y[i] = if 0 <= i < 3 then 1 else 0"), HasSubstr("help: write `0 <= i && i < 3`"));
  EXPECT_THAT(rendered("Y[i] = X[i] ** 2"), HasSubstr("help: write a power as a product: `x * x`"));
  EXPECT_THAT(rendered("Y[i] = if X[i] = 0 then 1 else 0"), HasSubstr("help: `==` compares"));
  EXPECT_THAT(rendered("Y[i] = X[i] and X[i]"), HasSubstr("`&&`"));
  EXPECT_THAT(rendered("Y[i] = X[i] +\nY[i] = 2"), HasSubstr("note: test.loom:2:13: the line above ends with `+`"));
  EXPECT_THAT(rendered("Y[i + 1] = 2"), HasSubstr("note: the subscripts on the left are index variables"));
  EXPECT_THAT(rendered("Y[i] = X[i] pad X[0]"), HasSubstr("help: any other value needs parentheses: `pad (...)`"));
  EXPECT_THAT(rendered("Y[i] = max(k) - 1"), HasSubstr("with one entry or a written range is a reduction"));
}

TEST(Parser, OneErrorForOneFault) {
  EXPECT_EQ(statement_codes("Y[i] = X[i @ 2"), "E0101@2:12 E0103@2:9");
  EXPECT_EQ(statement_codes("Y[i] = f(X[i\nY[i] = 2"), "E0103@2:11");
  EXPECT_EQ(statement_codes("Y[i] = sum(k) -X[k]"), "E0106@2:15");
  EXPECT_EQ(statement_codes("Y[i] = (if i > 1 then X[i])"), "E0107@2:9");
  EXPECT_EQ(statement_codes("if X { Y = 1 }\nY[i] = 2"), "E0102@2:1");
}

std::string repeated(const std::string& text, int count) {
  std::string out;
  for (int k = 0; k < count; ++k) out += text;
  return out;
}

TEST(Parser, DeepNestingIsAnErrorOfTheUser) {
  for (const auto& [open, close] : {std::pair("(", ")"), std::pair("f(", ")"), std::pair("X[", "]"), std::pair("-", ""),
                                    std::pair("!", ""), std::pair("if 1 then ", " else 1"), std::pair("sum(k) ", ""),
                                    std::pair("if 1 then 1 else ", ""), std::pair("let x = ", " in x"),
                                    std::pair("f([", "])"), std::pair("X pad (", ")"), std::pair("sum(k: ", ") 1")}) {
    const std::string middle = *open == '-' && open[1] == '\0' ? "x" : "1";
    const Parsed deep =
        parse_text("const a = " + repeated(open, 10000) + middle + repeated(close, 10000) + "\nconst b = 1");
    EXPECT_EQ(codes_of(deep.diagnostics).substr(0, 8), "E0104@1:") << open;
    EXPECT_EQ(deep.diagnostics.entries().size(), 1u) << open;
    EXPECT_EQ(deep.file.items.size(), 1u) << open;
    const Parsed shallow = parse_text("const a = " + repeated(open, 120) + middle + repeated(close, 120));
    EXPECT_EQ(codes_of(shallow.diagnostics), "") << open;
  }
  EXPECT_EQ(codes_of(parse_text("const a = " + repeated("[", 10000)).diagnostics), "E0103@1:10010 E0104@1:267");
}

TEST(Parser, LongChainsEndBeforeTheyOverflowLaterRecursions) {
  EXPECT_EQ(codes_of(parse_text("const a = 1" + repeated(" + 1", ast::kMaxHeight - 1)).diagnostics), "");
  EXPECT_EQ(codes_of(parse_text("const a = 1" + repeated(" + 1", 25000)).diagnostics), "E0104@1:11");
  EXPECT_EQ(codes_of(parse_text("const a = sum(k) 1" + repeated(" * 1", 25000)).diagnostics), "E0104@1:18");
  // Width is no depth.
  EXPECT_EQ(codes_of(parse_text("const a = [1" + repeated(", 1", 50000) + "]").diagnostics), "");
}

TEST(Parser, RefusesFilesThatAreTooLarge) {
  const Parsed parsed = parse_text(std::string(kMaxSourceBytes + 1, ' '));
  EXPECT_EQ(codes_of(parsed.diagnostics), "E0104@1:1");
  EXPECT_EQ(codes_of(parse_text(std::string(kMaxSourceBytes, ' ')).diagnostics), "");
}

TEST(Parser, GivesUpAfterManyErrors) {
  const std::string statements = repeated("Y = 1 1\n", 5000);
  const Parsed parsed = parse_text("op f() -> Y: f32 {\n" + statements + "}\n");
  EXPECT_EQ(parsed.diagnostics.entries().size(), static_cast<std::size_t>(kMaxErrors));
}

}  // namespace
}  // namespace corrloom::frontend
