#include "compiler/frontend/lexer.h"

#include <gtest/gtest.h>

#include "compiler/frontend/layout.h"
#include "frontend_testing.h"

namespace corrloom::frontend {
namespace {

using Kind = TokenKind;

TokenList lexed(const std::string& text, Diagnostics& diagnostics) {
  return lex(std::make_shared<SourceFile>("test.loom", text), diagnostics);
}

/// The texts of the tokens, a line end as `;`, what is bad in `?...?`.
std::string texts(const TokenList& list) {
  std::string out;
  for (const Token& token : list.tokens) {
    if (token.kind == Kind::EndOfFile) break;
    if (!out.empty()) out += ' ';
    const std::string text(list.text(token));
    out += token.kind == Kind::LineEnd ? ";" : token.kind == Kind::Bad ? "?" + text + "?" : text;
  }
  return out;
}

std::string lex_texts(const std::string& text) {
  Diagnostics diagnostics;
  return texts(lexed(text, diagnostics));
}

std::string laid_out(const std::string& text) {
  Diagnostics diagnostics;
  return texts(lay_out(lexed(text, diagnostics), diagnostics));
}

std::string lex_codes(const std::string& text) {
  Diagnostics diagnostics;
  lexed(text, diagnostics);
  return testing::codes_of(diagnostics);
}

TEST(Lexer, TakesTheLongestSymbol) {
  EXPECT_EQ(lex_texts("a<<b<=c<d->e//f..g...h&&i&j||k|l!=!m==n"),
            "a << b <= c < d -> e // f .. g ... h && i & j || k | l != ! m == n ;");
}

TEST(Lexer, NumbersEndWhereRangesBegin) {
  EXPECT_EQ(lex_texts("0..1.5..2 1...x 1e5 1_0.0_1e-3 0x1Fg"), "0 .. 1.5 .. 2 1 ... x 1e5 1_0.0_1e-3 ?0x1Fg? ;");
  EXPECT_EQ(lex_texts("then 1else 2"), "then 1 else 2 ;");
}

TEST(Lexer, DottedNamesAreOneToken) {
  EXPECT_EQ(lex_texts("m.f a.b.c n..m sum.x"), "m.f a.b ?.? c n .. m sum ?.? x ;");
}

TEST(Lexer, WordsAreReservedAsAWhole) {
  Diagnostics diagnostics;
  const TokenList list = lexed("sum summed min minimum in inn pad padded", diagnostics);
  const Kind expected[] = {Kind::ReductionWord, Kind::Name, Kind::MinMaxWord, Kind::Name, Kind::In,
                           Kind::Name,          Kind::Pad,  Kind::Name};
  for (std::size_t k = 0; k < std::size(expected); ++k) EXPECT_EQ(list.tokens[k].kind, expected[k]) << k;
}

TEST(Lexer, EveryKindOfLineEndEndsALineOnce) {
  EXPECT_EQ(lex_texts("a\nb\r\nc\rd\n\r\r\n\ne"), "a ; b ; c ; d ; e ;");
  EXPECT_EQ(lex_texts("# one\ra # two\r\n\"s\"#"), "a ; \"s\" ;");
}

TEST(Lexer, SkipsAByteOrderMarkAtTheStartOnly) {
  EXPECT_EQ(lex_texts("\xEF\xBB\xBF"
                      "a"),
            "a ;");
  EXPECT_EQ(lex_codes("a \xEF\xBB\xBF"), "E0101@1:3");
}

TEST(Lexer, KeepsCommentsApart) {
  Diagnostics diagnostics;
  const TokenList list = lexed("a # one  \n# zwölf\n", diagnostics);
  ASSERT_EQ(list.comments.size(), 2u);
  EXPECT_EQ(list.source->text().substr(list.comments[0].begin, list.comments[0].end - list.comments[0].begin), "# one");
  EXPECT_FALSE(diagnostics.has_errors());
}

TEST(Lexer, ReportsWhatIsNoToken) {
  EXPECT_EQ(lex_codes("a @ b"), "E0101@1:3");
  EXPECT_EQ(lex_codes("größe"), "E0101@1:3");
  EXPECT_EQ(lex_codes("\"abc\n\"d\""), "E0101@1:1");
  EXPECT_EQ(lex_codes("1. 0x .5 1.5f 0x_"), "E0101@1:1 E0101@1:4 E0101@1:7 E0101@1:10 E0101@1:15");
  EXPECT_EQ(lex_codes(std::string("a \0\0\0 b", 7)), "E0101@1:3");
}

TEST(Lexer, GivesUpAfterManyErrors) {
  std::string text;
  for (int k = 0; k < 1000; ++k) text += "@ ";
  Diagnostics diagnostics;
  const TokenList list = lexed(text, diagnostics);
  EXPECT_EQ(diagnostics.entries().size(), static_cast<std::size_t>(kMaxErrors));
  EXPECT_FALSE(list.is_whole);
}

TEST(Layout, LineEndsEndStatementsInBracesOnly) {
  EXPECT_EQ(laid_out("op\nf {\na\nb\n}\nc\n"), "op f { ; a ; b ; } c");
  EXPECT_EQ(laid_out("{\na +\nb\n- c\n(d\n, e\n)\nf\n}"), "{ ; a + b - c ; ( d , e ) ; f ; }");
}

TEST(Layout, AReductionsListGoesOn) {
  EXPECT_EQ(laid_out("{\nsum(k)\nx\nf(k)\ny\n}"), "{ ; sum ( k ) x ; f ( k ) ; y ; }");
  EXPECT_EQ(laid_out("{\nmax(k)\nx\nmax(a, b)\ny\nmax(a, b: 2)\nz\n}"),
            "{ ; max ( k ) x ; max ( a , b ) ; y ; max ( a , b : 2 ) z ; }");
}

TEST(Layout, TellsReductionsFromFunctions) {
  const auto is_reduction = [](const std::string& text) {
    Diagnostics diagnostics;
    return lay_out(lexed(text, diagnostics), diagnostics).tokens[0].kind == Kind::ReductionWord;
  };
  EXPECT_TRUE(is_reduction("max(i) - 1"));
  EXPECT_TRUE(is_reduction("max(i, j) x"));
  EXPECT_TRUE(is_reduction("max(i, j) (x)"));
  EXPECT_TRUE(is_reduction("max(i, j: 3) - x"));
  EXPECT_TRUE(is_reduction("max(f(i, j))"));
  EXPECT_FALSE(is_reduction("max(i, j) - 1"));
  EXPECT_FALSE(is_reduction("max(i, X[1:2]) * 2"));
  EXPECT_FALSE(is_reduction("max(i, j)\nx"));
}

TEST(Layout, PairsBracketsAndReportsTheOthers) {
  Diagnostics diagnostics;
  const TokenList list = lay_out(lexed("op f { a(b[c]) }", diagnostics), diagnostics);
  EXPECT_FALSE(diagnostics.has_errors());
  EXPECT_EQ(list.tokens[2].partner, 10u);
  EXPECT_EQ(list.tokens[4].partner, 9u);
  EXPECT_EQ(list.tokens[8].partner, 6u);

  const auto codes = [](const std::string& text) {
    Diagnostics found;
    lay_out(lexed(text, found), found);
    return testing::codes_of(found);
  };
  EXPECT_EQ(codes("op f { a(b }"), "E0103@1:9");
  EXPECT_EQ(codes("op f { a) }"), "E0103@1:9");
  EXPECT_EQ(codes("op f { (a] }"), "E0103@1:10");
  EXPECT_EQ(codes("op f {\na\nop g {\n}"), "E0103@1:6");
  EXPECT_EQ(codes("op f {\nconst a\n}"), "");
  EXPECT_EQ(codes("const a = [1\nconst b = (2\n"), "E0103@1:11 E0103@2:11");
}

}  // namespace
}  // namespace corrloom::frontend
