// import "std": what it brings, what wins over it, and that all of it is right.
#include "compiler/std/standard_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "compiler/frontend/library.h"
#include "ir/scalar/expr.h"
#include "lowering_testing.h"

namespace corrloom::frontend {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace testing;

std::vector<std::string> standard_names() {
  Diagnostics diagnostics;
  const std::unique_ptr<Library> library = load_standard_modules(diagnostics);
  EXPECT_FALSE(diagnostics.has_errors()) << diagnostics.render();
  std::vector<std::string> names;
  for (const auto& [name, item] : library->root().items) names.push_back(name);
  return names;
}

TEST(StandardLibrary, EveryDefinitionIsSound) {
  std::string text;
  for (const EmbeddedFile& file : standard_library()) text += std::string(file.text) + "\n";
  Diagnostics diagnostics;
  // As a user's file, so that nothing goes unchecked.
  Program::load(std::make_shared<const SourceFile>("std.loom", text), {}, diagnostics);
  EXPECT_EQ(diagnostics.render(), "");
}

TEST(StandardLibrary, FilesAreSortedAndTheirNamesAreApart) {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : standard_library()) names.emplace_back(file.name);
  EXPECT_GE(names.size(), 10U);
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_GE(standard_names().size(), 155U);  // a name that stands twice would have been an error
}

TEST(StandardLibrary, HidesNoBuiltInFunctionAndNoShortName) {
  const std::set<std::string> built_in{"matmul", "reshape", "transpose", "concat", "pad",
                                       "clamp",  "lowest",  "highest",   "epsilon"};
  for (const std::string& name : standard_names()) {
    const auto opcode = scalar::parse_opcode(name);
    EXPECT_FALSE(opcode && scalar::info(*opcode).callable) << name;
    EXPECT_EQ(built_in.count(name), 0U) << name;
    EXPECT_GE(name.size(), 3U) << name << " is a name that users give their indices";
  }
}

TEST(StandardLibrary, GivesFunctionsAndOps) {
  const Program program = load_text(
      "import \"std\"\n"
      "op f(X: f32[N]) -> (Y: f32[N], Z: f32[N], R: f32[2*N - 1]) {\n"
      "  Y = relu(X)\n  Z[i] = leaky_relu(X[i] + 1, 0.5)\n  R = convolve1d(X, X)\n}\n");
  const auto results = run(program, "f", {{{"X", floats({3}, {-3, 0, 2})}}});
  EXPECT_THAT(values_of(results[0]), ElementsAre(0, 0, 2));
  EXPECT_THAT(values_of(results[1]), ElementsAre(-1, 1, 3));
  EXPECT_THAT(values_of(results[2]), ElementsAre(9, 0, -12, 0, 4));
}

TEST(StandardLibrary, MayHaveAnAlias) {
  const Program program = load_text("import \"std\" as s\nop f(X: f32[N]) -> Y: f32[N] {\n  Y = s.relu(X)\n}\n");
  EXPECT_THAT(values_of(run(program, "f", {{{"X", floats({2}, {-3, 2})}}})[0]), ElementsAre(0, 2));
  EXPECT_EQ(errors_of("import \"std\" as s\nop f(X: f32[N]) -> Y: f32[N] {\n  Y = relu(X)\n}\n"), "E0201@3:7");
}

TEST(StandardLibrary, DefinitionsAndLocalNamesOfTheFileWin) {
  const Program program = load_text(
      "import \"std\"\nfn relu(x: f32) -> f32 = x + 10\n"
      "op f(X: f32[N]) -> (Y: f32[N], mean: f32) {\n  Y = relu(X)\n  let linear = sum(i) X[i]\n  mean = linear / "
      "f32(N)\n}\n");
  const auto results = run(program, "f", {{{"X", floats({2}, {-3, 5})}}});
  EXPECT_THAT(values_of(results[0]), ElementsAre(7, 15));
  EXPECT_THAT(values_of(results[1]), ElementsAre(1));
}

TEST(StandardLibrary, ItsOpsAreFoundByName) {
  const Program program = load_text("import \"std\"\n");
  ASSERT_NE(program.find("eye"), nullptr);
  const auto results = run(program, "eye", {{}, {}, {{"N", scalar::Value::i64(2)}}});
  EXPECT_THAT(values_of(results[0]), ElementsAre(1, 0, 0, 1));
  Diagnostics diagnostics;
  EXPECT_NE(Program::load_standard_library(diagnostics)->find("eye"), nullptr);
}

TEST(StandardLibrary, ErrorsShowItsLines) {
  const Program program = load_text("import \"std\"\n");
  EXPECT_THAT(entry_errors(program, "randint",
                           {{},
                            {{"low", scalar::Value::i64(3)},
                             {"high", scalar::Value::i64(2)},
                             {"seed", scalar::Value::integer(DType::U64, 0)}},
                            {{"N", scalar::Value::i64(2)}}}),
              AllOf(HasSubstr("std/generators.loom:"), HasSubstr("low < high")));
}

TEST(StandardLibrary, AResolverMayGiveAnother) {
  const ImportResolver own = [](const std::string& path) -> std::optional<SourceRef> {
    return std::make_shared<const SourceFile>(path, "fn relu(x: f32) -> f32 = x + 10");
  };
  const Program program = load_text("import \"std\"\nop f(X: f32[N]) -> Y: f32[N] {\n  Y = relu(X)\n}\n", own);
  EXPECT_THAT(values_of(run(program, "f", {{{"X", floats({1}, {-3})}}})[0]), ElementsAre(7));
}

}  // namespace
}  // namespace corrloom::frontend
