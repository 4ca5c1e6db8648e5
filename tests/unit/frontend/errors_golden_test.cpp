// Every tests/golden/errors/NAME.loom marks its errors: `# error[E0207]: part of the title` at the end of the guilty
// line, several on one line behind semicolons. Nothing else may be reported, and nothing less.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "compiler/frontend/frontend.h"
#include "frontend_testing.h"

namespace corrloom::frontend {
namespace {

using testing::read_file;

struct Expected {
  std::string file;
  int line;
  std::string code;
  std::string text;
  bool is_met = false;
};

std::vector<std::filesystem::path> error_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(CORRLOOM_TEST_DATA "/../../golden/errors"))
    if (entry.path().extension() == ".loom") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

/// The marks of one file.
void collect(const std::string& name, const std::string& text, std::vector<Expected>& expected) {
  const std::string mark = "error[";
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const std::size_t comment = line.find("# " + mark);
    if (comment == std::string::npos) continue;
    for (std::size_t at = line.find(mark, comment); at != std::string::npos; at = line.find(mark, at + 1)) {
      const std::size_t begin = line.find(": ", at) + 2;
      const std::size_t end = line.find("; error[", begin);
      const std::size_t code = at + mark.size();
      expected.push_back({name, number, line.substr(code, line.find(']', at) - code),
                          line.substr(begin, end == std::string::npos ? end : end - begin)});
    }
  }
}

class ErrorsGolden : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(ErrorsGolden, ReportsWhatIsMarked) {
  std::vector<Expected> expected;
  const std::string name = GetParam().filename().string();
  const std::string text = read_file(GetParam().string());
  collect(name, text, expected);
  const auto resolver = [&](const std::string& path) -> std::optional<SourceRef> {
    const auto file = GetParam().parent_path() / path;
    if (!std::filesystem::is_regular_file(file)) return {};
    const std::string imported = read_file(file.string());
    collect(path, imported, expected);
    return std::make_shared<const SourceFile>(path, imported);
  };
  Diagnostics diagnostics;
  const auto program = Program::load(std::make_shared<const SourceFile>(name, text), resolver, diagnostics);
  EXPECT_FALSE(program.has_value());
  for (const Diagnostic& error : diagnostics.entries()) {
    ASSERT_TRUE(error.span.file) << error.title;
    const auto match = std::find_if(expected.begin(), expected.end(), [&](const Expected& one) {
      return !one.is_met && one.file == error.span.file->name() &&
             one.line == error.span.file->line_of(error.span.begin) && one.code == name_of(error.code) &&
             error.title.find(one.text) != std::string::npos;
    });
    if (match == expected.end()) {
      ADD_FAILURE() << "not marked:\n" << render(error);
    } else {
      match->is_met = true;
    }
  }
  EXPECT_FALSE(expected.empty());
  for (const Expected& one : expected)
    EXPECT_TRUE(one.is_met) << one.file << ":" << one.line << " not reported: " << one.code << " " << one.text;
}

INSTANTIATE_TEST_SUITE_P(All, ErrorsGolden, ::testing::ValuesIn(error_files()),
                         [](const auto& info) { return info.param.stem().string(); });

}  // namespace
}  // namespace corrloom::frontend
