#include "compiler/frontend/format.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "frontend_testing.h"

namespace corrloom::frontend {
namespace {

using testing::codes_of;
using testing::parse_text;
using testing::Parsed;

/// The formatted text, after its two laws have been checked.
std::string formatted(const std::string& text) {
  const Parsed before = parse_text(text);
  EXPECT_EQ(codes_of(before.diagnostics), "") << text;
  const std::string once = format(before.file);
  const Parsed after = parse_text(once);
  EXPECT_EQ(codes_of(after.diagnostics), "") << once;
  EXPECT_EQ(print_tree(before.file), print_tree(after.file)) << once;
  EXPECT_EQ(format(after.file), once);
  return once;
}

std::string formatted_value(const std::string& value) {
  const std::string head = "op f() -> Y: f32 {\n  Y = ";
  const std::string text = formatted(head + value + "\n}\n");
  EXPECT_EQ(text.substr(0, head.size()), head);
  return text.substr(head.size(), text.size() - head.size() - 3);
}

TEST(Format, SpacesAreCanonical) {
  EXPECT_EQ(formatted_value("a+b *- c- -d"), "a + b * -c - -d");
  EXPECT_EQ(formatted_value("! a&&~b"), "!a && ~b");
  EXPECT_EQ(formatted_value("f ( x ,y , [1,2 ] )"), "f(x, y, [1, 2])");
  EXPECT_EQ(formatted_value("conv[stride=2,pad=-1] (X)"), "conv[stride = 2, pad = -1](X)");
  EXPECT_EQ(formatted_value("sum(i,j :0 .. n,...d)X[ i ]"), "sum(i, j: 0..n, ...d) X[i]");
  EXPECT_EQ(formatted_value("sum(j: 0..i +1)(X[j])"), "sum(j: 0 .. i + 1) (X[j])");
  EXPECT_EQ(formatted_value("X[1 : ,: : 2, n-1:m]"), "X[1:, ::2, n-1:m]");
  EXPECT_EQ(formatted_value("X[i]pad(v)+Z pad -1"), "X[i] pad (v) + Z pad -1");
  EXPECT_EQ(formatted_value("pad(X,[[1,1]],0)+pad"), "pad(X, [[1, 1]], 0) + pad");
  EXPECT_EQ(formatted_value("if a<b then-1 else(2)"), "if a < b then -1 else (2)");
  EXPECT_EQ(formatted_value("max(a,b)-max(k)X[k]"), "max(a, b) - max(k) X[k]");
  EXPECT_EQ(formatted_value("-sum(k)(-X[k])"), "-sum(k) (-X[k])");
}

TEST(Format, KeepsProductsAndInnerSumsTight) {
  EXPECT_EQ(formatted_value("a+b*c-d //2"), "a + b*c - d // 2");
  EXPECT_EQ(formatted_value("X[2*i+p-1, i +1]*(n-1)"), "X[2*i+p-1, i + 1]*(n-1)");
  EXPECT_EQ(formatted_value("X[2*i + p - 1] * a<b"), "X[2*i + p - 1] * a < b");
  EXPECT_EQ(formatted_value("sum(j: i-1..i+2) X[j]"), "sum(j: i-1..i+2) X[j]");
}

TEST(Format, Heads) {
  EXPECT_EQ(
      formatted(
          "op f < T:any > [ n:int=1 ] (param X:T[ n,...D ],s:f32=2)->(Y:T[n]in X,Z:f32)where n>0,n<8 with order=any{}"),
      "op f<T: any>[n: int = 1](param X: T[n, ...D], s: f32 = 2) -> (Y: T[n] in X, Z: f32) where n > 0, n < 8\n"
      "    with order = any {\n}\n");
  EXPECT_EQ(formatted("op f(X: f32[a_long_name_of_a_size, another_long_name]) -> Y: f32[a_long_name_of_a_size] where "
                      "another_long_name > 1, a_long_name_of_a_size < 5 {}"),
            "op f(X: f32[a_long_name_of_a_size, another_long_name]) -> Y: f32[a_long_name_of_a_size]\n"
            "    where another_long_name > 1, a_long_name_of_a_size < 5 {\n}\n")
      << "a clause that does not fit goes down as a whole";
  EXPECT_EQ(formatted("fn f<T:any>(x:T)->T=x<x"), "fn f<T: any>(x: T) -> T = x < x\n");
  EXPECT_EQ(formatted("import   \"a b\"as m\nop d=grad f wrt X,Y"), "import \"a b\" as m\nop d = grad f wrt X, Y\n");
}

TEST(Format, KeepsCommentsAndGroups) {
  EXPECT_EQ(
      formatted("\n\n# top  \n\n\n\nconst a = 1 # one\nconst b = 2\n\n# two\nop f() -> Y: f32 { # head\n\n"
                "# first\nlet a = 1\n\n\nY = a # b\n# more\n  # own\n+ 2 # c\n\n# last\n\n} # tail\n\n\n# end\n\n"),
      "# top\n\nconst a = 1  # one\nconst b = 2\n\n# two\nop f() -> Y: f32 {  # head\n"
      "  # first\n  let a = 1\n\n  Y = a  # b\n      # more\n      # own\n      + 2  # c\n\n  # last\n}  # tail\n\n# "
      "end\n");
  EXPECT_EQ(formatted("op f() -> Y: f32 { Y = 1 } # tail"), "op f() -> Y: f32 {\n  Y = 1\n}  # tail\n");
  EXPECT_EQ(formatted("# only"), "# only\n");
  EXPECT_EQ(formatted(""), "");
}

TEST(Format, KeepsLinesEndedByHand) {
  EXPECT_EQ(formatted_value("a\n  + b"), "a\n      + b");
  EXPECT_EQ(formatted_value("if a\n then b\n else\n c"), "if a\n      then b\n      else\n      c");
  EXPECT_EQ(formatted("op f(\nX: f32[N],\nY: f32[N]) -> Z: f32[N] { Z[i] = X[i] }").substr(0, 35),
            "op f(\n    X: f32[N],\n    Y: f32[N])");
  EXPECT_EQ(formatted_value("f(a,\nb, c)"), "f(a,\n          b, c)");
  EXPECT_EQ(formatted("op f(\n  X: f32[N],\n\n  Y: f32[N]\n)\n-> Z: f32[N]\nwhere N > 0\n{ Z[i] = X[i] }"),
            "op f(\n  X: f32[N],\n  Y: f32[N])\n    -> Z: f32[N]\n    where N > 0 {\n  Z[i] = X[i]\n}\n");
}

TEST(Format, KeepsIndentsThatAreDeeperThanTheStatement) {
  EXPECT_EQ(formatted("op f() -> Y: f32 {\n    Y = 1\n      + 2\n        + 3 +\n\t4\n  + 5\n}"),
            "op f() -> Y: f32 {\n  Y = 1\n    + 2\n      + 3 +\n      4\n      + 5\n}\n");
  EXPECT_EQ(formatted_value("let a = 1 in\n    let b = 2 in\n    a + b"), "let a = 1 in\n    let b = 2 in\n    a + b");
}

TEST(Format, BreaksLongLines) {
  const std::string operand = "a_long_name_of_a_tensor[index]";
  EXPECT_EQ(formatted_value(operand + " * " + operand + " + " + operand + " * " + operand + " * 2"),
            operand + " * " + operand + "\n      + " + operand + " * " + operand + " * 2");
  // The operand of a `max` with two indices stays beside its list.
  const std::string body = std::string(110, 'x');
  EXPECT_NE(formatted("const a = max(i, j) " + body).find("j) " + body), std::string::npos);
  EXPECT_EQ(formatted_value("sum(i, j) " + body), "sum(i, j)\n          " + body);
}

TEST(Format, StaysWithinTheWidth) {
  std::string sum = "X[i, j]";
  for (int k = 0; k < 100; ++k) sum += " + f(X[i, j], [1, 2]) * X[j, i]";
  const std::string text = formatted("op f(X: f32[N, M]) -> Y: f32[N, M] { Y[i, j] = " + sum + " }");
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    EXPECT_LE(end - begin, static_cast<std::size_t>(kFormatWidth));
  }
}

TEST(Format, HoldsItsLawsOnEveryProgramHere) {
  const std::filesystem::path root = std::filesystem::path(CORRLOOM_TEST_DATA) / "../../..";
  int programs = 0;
  for (const char* folder : {"compiler/std", "examples", "tests/e2e", "tests/golden"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      if (entry.path().extension() != ".loom") continue;
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string text(std::istreambuf_iterator<char>(file), {});
      if (parse_text(text).diagnostics.has_errors()) continue;
      SCOPED_TRACE(entry.path());
      formatted(text);
      ++programs;
    }
  }
  EXPECT_GT(programs, 100);
}

TEST(Format, LineEndsBecomeNewlines) {
  EXPECT_EQ(formatted("\xEF\xBB\xBF"
                      "const a = 1 # x\r\n\r\n\r\nconst b = 2\rconst c = 3"),
            "const a = 1  # x\n\nconst b = 2\nconst c = 3\n");
}

}  // namespace
}  // namespace corrloom::frontend
