// Random changes of the golden files: the parser must come back with spans inside the text, and what it accepts must
// keep the laws of `format`. The seed is printed; CORRLOOM_FUZZ_SEED repeats a run.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <random>

#include "compiler/frontend/format.h"
#include "frontend_testing.h"

namespace corrloom::frontend {
namespace {

using testing::parse_text;
using testing::Parsed;
using testing::read_file;

constexpr int kRounds = 3000;
constexpr std::size_t kLongestText = 3000;

constexpr std::string_view kPieces[] = {
    "(",    ")",    "[",     "]",    "{",     "}",     ",",    ":",     "=",      "->",  "..",  "...",   "*",    "/",
    "//",   "+",    "-",     "<",    ">",     "==",    "&&",   "||",    "!",      "~",   "if ", "then ", "else", "let ",
    " in ", "max(", "min(k", "sum(", " pad ", "edge",  "1",    "0.5",   "x",      "X[i", "\n",  "\r",    "#",    "\"",
    "op ",  "fn ",  "const", "in",   "where", "with",  "0x",   "1e",    "m.f",    "\t",  ".",   "@",     "\xFF", "ü",
    " ",    "any",  "grad",  "wrt",  "along", "param", "\n\n", "# c\n", "import", "as"};

class Fuzz {
 public:
  explicit Fuzz(std::uint64_t seed) : random_(seed) {
    for (const auto& entry : std::filesystem::directory_iterator(CORRLOOM_TEST_DATA "/../../golden/parse")) {
      if (entry.path().extension() != ".loom") continue;
      std::string text = read_file(entry.path().string());
      if (!text.empty() && text.size() <= kLongestText) texts_.push_back(std::move(text));
    }
    std::sort(texts_.begin(), texts_.end());
  }

  std::string next() {
    std::string text = texts_.at(below(texts_.size()));
    for (std::size_t changes = 1 + below(4); changes > 0; --changes) change(text);
    return text;
  }

 private:
  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }

  void change(std::string& text) {
    const std::size_t at = below(text.size() + 1);
    switch (below(5)) {
      case 0:
        text.insert(at, kPieces[below(std::size(kPieces))]);
        break;
      case 1:
        text.erase(at, 1 + below(6));
        break;
      case 2:
        text.insert(at, 1, static_cast<char>(below(256)));
        break;
      case 3: {
        const std::string copy = text.substr(at, below(30));
        text.insert(below(text.size() + 1), copy);
        break;
      }
      default:
        text.resize(at);
        break;
    }
    if (text.empty()) text = " ";
  }

  std::mt19937_64 random_;
  std::vector<std::string> texts_;
};

void check(const std::string& text) {
  const Parsed parsed = parse_text(text);
  for (const Diagnostic& d : parsed.diagnostics.entries()) {
    ASSERT_LE(d.span.begin, d.span.end);
    ASSERT_LE(d.span.end, text.size());
    for (const Note& note : d.notes) ASSERT_LE(note.span.end, text.size());
  }
  parsed.diagnostics.render();
  for (const ast::Item& item : parsed.file.items) {
    const Span span = std::visit([](const auto& node) { return node.span; }, item);
    ASSERT_LT(span.begin, span.end);
    ASSERT_LE(span.end, text.size());
  }
  if (parsed.diagnostics.has_errors()) return;
  const std::string formatted = format(parsed.file);
  const Parsed again = parse_text(formatted);
  ASSERT_FALSE(again.diagnostics.has_errors()) << formatted << again.diagnostics.render();
  ASSERT_EQ(print_tree(parsed.file), print_tree(again.file)) << formatted;
  ASSERT_EQ(format(again.file), formatted);
}

TEST(ParserFuzz, AnyTextIsParsedOrRefused) {
  const char* given = std::getenv("CORRLOOM_FUZZ_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  std::cout << "seed " << seed << "\n";
  Fuzz fuzz(seed);
  for (int round = 0; round < kRounds && !::testing::Test::HasFatalFailure(); ++round) {
    const std::string text = fuzz.next();
    SCOPED_TRACE("seed " + std::to_string(seed) + ", round " + std::to_string(round) + ":\n" + text);
    check(text);
  }
}

TEST(ParserFuzz, AnyBytesAreParsedOrRefused) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 500; ++round) {
    std::string text(random() % 200, ' ');
    for (char& c : text) c = static_cast<char>(random() % 256);
    check(text);
    check("op f() -> Y: f32 {" + text);
  }
}

}  // namespace
}  // namespace corrloom::frontend
