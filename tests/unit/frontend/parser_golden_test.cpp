// Every tests/golden/parse/NAME.loom has its tree and its errors in NAME.tree beside it. To rewrite these, run with
// CORRLOOM_UPDATE_GOLDENS=1 in the environment and read what git shows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "compiler/frontend/format.h"
#include "frontend_testing.h"

namespace corrloom::frontend {
namespace {

using testing::parse_text;
using testing::Parsed;
using testing::read_file;

std::vector<std::filesystem::path> golden_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(CORRLOOM_TEST_DATA "/../../golden/parse")) {
    if (entry.path().extension() == ".loom") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

class ParserGolden : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(ParserGolden, HasItsTree) {
  const std::filesystem::path& path = GetParam();
  const Parsed parsed = parse_text(read_file(path.string()), path.filename().string());
  const std::string found = print_tree(parsed.file) + parsed.diagnostics.render();
  const std::string tree = std::filesystem::path(path).replace_extension(".tree").string();
  if (std::getenv("CORRLOOM_UPDATE_GOLDENS") != nullptr) std::ofstream(tree, std::ios::binary) << found;
  EXPECT_TRUE(std::filesystem::exists(tree));
  EXPECT_EQ(found, read_file(tree));
  EXPECT_EQ(parsed.diagnostics.has_errors(), path.filename().string().rfind("error_", 0) == 0);
}

TEST_P(ParserGolden, KeepsItsTreeWhenFormatted) {
  const Parsed parsed = parse_text(read_file(GetParam().string()));
  if (parsed.diagnostics.has_errors()) return;
  const std::string text = format(parsed.file);
  const Parsed again = parse_text(text);
  EXPECT_EQ(print_tree(parsed.file), print_tree(again.file)) << text;
  EXPECT_EQ(format(again.file), text);
}

INSTANTIATE_TEST_SUITE_P(All, ParserGolden, ::testing::ValuesIn(golden_files()),
                         [](const auto& info) { return info.param.stem().string(); });

}  // namespace
}  // namespace corrloom::frontend
