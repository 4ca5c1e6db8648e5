#include "ir/base/ir_lexer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/base/ir_names.h"

namespace corrloom {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

SourceRef source_of(std::string text) {
  return std::make_shared<const SourceFile>("test.ir", std::move(text));
}

/// Kind, text and dtype of each token: `V:x`, `N:4:i64`.
std::vector<std::string> tokens_of(const std::string& text) {
  Diagnostics diagnostics;
  IrCursor cursor(source_of(text), diagnostics);
  std::vector<std::string> tokens;
  while (!cursor.at_end()) {
    const IrToken& token = cursor.next();
    tokens.push_back(std::string(1, "EWVGSNSP"[static_cast<int>(token.kind)]) + ":" + token.text +
                     (token.dtype ? ":" + std::string(name_of(*token.dtype)) : ""));
  }
  EXPECT_FALSE(diagnostics.has_errors()) << diagnostics.render();
  return tokens;
}

std::string error_of(const std::string& text) {
  Diagnostics diagnostics;
  IrCursor cursor(source_of(text), diagnostics);
  EXPECT_TRUE(cursor.failed());
  EXPECT_TRUE(cursor.at_end());
  return diagnostics.render();
}

TEST(IrLexer, Names) {
  EXPECT_THAT(tokens_of("a i.1 cast.f32 _ %x.other @g $12"),
              ElementsAre("W:a", "W:i.1", "W:cast.f32", "W:_", "V:x.other", "G:g", "S:12"));
}

TEST(IrLexer, Numbers) {
  EXPECT_THAT(tokens_of("4 -3 2:i64 -0.5:f32 1e-05:f64 0x1f:u8 -1e+3"),
              ElementsAre("N:4", "N:-3", "N:2:i64", "N:-0.5:f32", "N:1e-05:f64", "N:0x1f:u8", "N:-1e+3"));
  EXPECT_THAT(tokens_of("inf:f32 -inf:f16 nan:bf16 nan:0x7fc00001:f32 nan:0x7e01"),
              ElementsAre("N:inf:f32", "N:-inf:f16", "N:nan:bf16", "N:nan:0x7fc00001:f32", "N:nan:0x7e01"));
  EXPECT_THAT(tokens_of("inf nan -inf"), ElementsAre("W:inf", "W:nan", "N:-inf"));
}

TEST(IrLexer, PunctuationAndComments) {
  EXPECT_THAT(tokens_of("->-[i: 4] // rest \"of the line\n}"),
              ElementsAre("P:->", "P:-", "P:[", "W:i", "P::", "N:4", "P:]", "P:}"));
}

TEST(IrLexer, StringsComeBack) {
  const std::string text = std::string("a \"b\"\\\n\t\x01\x7f \xc3\xa4", 13);
  Diagnostics diagnostics;
  IrCursor cursor(source_of(quote_ir(text)), diagnostics);
  EXPECT_EQ(cursor.expect(IrToken::Kind::String, "a string"), text);
  EXPECT_FALSE(diagnostics.has_errors()) << diagnostics.render();
}

TEST(IrLexer, Faults) {
  EXPECT_THAT(error_of("a ~ b"), HasSubstr("test.ir:1:3: error[E0401]"));
  EXPECT_THAT(error_of("% x"), HasSubstr("a name has to follow `%`"));
  EXPECT_THAT(error_of("\"open\n\""), HasSubstr("a string is not closed"));
  EXPECT_THAT(error_of("\"\\q\""), HasSubstr("an escape"));
  EXPECT_THAT(error_of("1:f31"), HasSubstr("unknown dtype `f31`"));
}

TEST(IrCursor, ReportsOneErrorAndStaysAtTheEnd) {
  Diagnostics diagnostics;
  IrCursor cursor(source_of("a b c"), diagnostics);
  EXPECT_TRUE(cursor.accept_word("a"));
  EXPECT_FALSE(cursor.expect(","));
  EXPECT_FALSE(cursor.expect("]"));
  cursor.go_to(0);
  EXPECT_TRUE(cursor.at_end());
  ASSERT_EQ(diagnostics.entries().size(), 1u);
  EXPECT_EQ(diagnostics.entries()[0].title, "expected `,`, found `b`");
}

TEST(IrCursor, Integers) {
  const auto integer_of = [](const std::string& text) -> std::optional<std::int64_t> {
    Diagnostics diagnostics;
    IrCursor cursor(source_of(text), diagnostics);
    const std::int64_t value = cursor.expect_integer("a number");
    return diagnostics.has_errors() ? std::nullopt : std::optional(value);
  };
  EXPECT_EQ(integer_of("-12"), -12);
  EXPECT_EQ(integer_of("7:i64"), 7);
  for (const char* text : {"1.5", "7:i32", "x", "99999999999999999999", ""})
    EXPECT_EQ(integer_of(text), std::nullopt) << text;
}

TEST(IrCursor, SkipsGroups) {
  Diagnostics diagnostics;
  IrCursor cursor(source_of("(a [b] {c}) d (e"), diagnostics);
  cursor.skip_group();
  EXPECT_TRUE(cursor.accept_word("d"));
  cursor.skip_group();
  EXPECT_TRUE(cursor.failed());
}

TEST(IrNames, AreDistinctAndStable) {
  IrNames names = IrNames::with_reserved_words();
  EXPECT_EQ(names.make_unique("Y"), "Y");
  EXPECT_EQ(names.make_unique("Y"), "Y.1");
  EXPECT_EQ(names.make_unique("Y.1"), "Y.2");
  EXPECT_EQ(names.make_unique("nan"), "nan.1");
  EXPECT_EQ(names.make_unique(""), "_");
  EXPECT_EQ(names.make_unique("a b-c"), "a_b_c");
  EXPECT_EQ(names.make_unique("1x"), "_1x");
  EXPECT_EQ(names.make_unique("x.other"), "x_other");
  EXPECT_EQ(as_ir_name(as_ir_name("3.\xc3\xa4.other")), as_ir_name("3.\xc3\xa4.other"));
}

}  // namespace
}  // namespace corrloom
