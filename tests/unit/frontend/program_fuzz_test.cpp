// Random changes of correct and wrong programs: whatever comes out is loaded, and what loads is lowered into a graph
// that the verifier accepts. CORRLOOM_FUZZ_SEED repeats a run, CORRLOOM_FUZZ_RUNS sets its length.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "lowering_testing.h"

namespace corrloom::frontend {
namespace {

using namespace testing;

std::vector<std::string> seeds() {
  std::vector<std::filesystem::path> paths;
  for (const char* folder : {"/../../golden/errors", "/../../golden/parse"}) {
    for (const auto& entry : std::filesystem::directory_iterator(std::string(CORRLOOM_TEST_DATA) + folder))
      if (entry.path().extension() == ".loom") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> texts;
  for (const auto& path : paths) texts.push_back(read_file(path.string()));
  texts.push_back(
      "const taps: f32[3] = [1, 2, 3]\nfn act<T: float>(x: T) -> T = max(x, 0) * 2\n"
      "op a[s: int = 1, e: float = 0.5](X: f32[N, M], K: f16[M], i: i32, b: bool) -> (Y: f32[N], Z: f16, W: i64[N])\n"
      "    where N % s == 0 with order = any {\n"
      "  let T[n, m] = act(X[n, m]) + (if m > 0 then X[n, m - 1] else e)\n"
      "  let R = reshape(T, [M * N])\n  let C = concat([T[0:1, :], T, X], 0)\n"
      "  Y[n] = sum(m) T[n, m] * f32(K[m]) - max(k: 0..n + 1) R[k] pad 0\n"
      "  Z = sum(m) K[m] * K[m] * 2\n  W[n] = argmax(m) (C[n, m] + taps[0]) + i64(i)\n}\n"
      "op c(X: f32[2, 3]) -> (P: f32[3, 2], Q: f32[4, 3]) {\n"
      "  P = transpose(matmul(X, transpose(matmul(X, transpose(X)) * 0 + 1)) + 1, [1, 0])\n"
      "  Q = pad(X, [[1, 1], [0, 0]], -inf)\n}\n");
  return texts;
}

/// The words and signs of a text, with the space before each.
std::vector<std::string> pieces_of(const std::string& text) {
  std::vector<std::string> pieces;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && text[end] == ' ') ++end;
    const auto is_word = [&](std::size_t k) {
      return std::isalnum(static_cast<unsigned char>(text[k])) != 0 || text[k] == '_';
    };
    if (end < text.size() && is_word(end)) {
      while (end < text.size() && is_word(end)) ++end;
    } else {
      ++end;
    }
    pieces.push_back(text.substr(at, end - at));
    at = end;
  }
  return pieces;
}

TEST(ProgramFuzz, AnyTextIsLoadedOrRefused) {
  const char* given = std::getenv("CORRLOOM_FUZZ_SEED");
  const char* length = std::getenv("CORRLOOM_FUZZ_RUNS");
  const unsigned seed = given != nullptr ? static_cast<unsigned>(std::atoi(given)) : 20240607u;
  const int runs = length != nullptr ? std::atoi(length) : 1500;
  SCOPED_TRACE("CORRLOOM_FUZZ_SEED=" + std::to_string(seed));
  std::mt19937 random(seed);
  const std::vector<std::string> texts = seeds();
  std::vector<std::string> all;
  for (const std::string& text : texts) {
    for (std::string& piece : pieces_of(text)) all.push_back(std::move(piece));
  }
  int loaded = 0;
  for (int run = 0; run < runs; ++run) {
    std::vector<std::string> pieces = pieces_of(texts[run % 3 == 0 ? texts.size() - 1 : random() % texts.size()]);
    for (unsigned changes = 1 + random() % 3; changes > 0 && !pieces.empty(); --changes) {
      const std::size_t at = random() % pieces.size();
      switch (random() % 4) {
        case 0:
          pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(at));
          break;
        case 1:
          pieces[at] = all[random() % all.size()];
          break;
        case 2:
          pieces[at] = pieces[random() % pieces.size()];
          break;
        default:
          pieces.insert(pieces.begin() + static_cast<std::ptrdiff_t>(at), all[random() % all.size()]);
          break;
      }
    }
    std::string text;
    for (const std::string& piece : pieces) text += piece;
    SCOPED_TRACE(text);
    Diagnostics diagnostics;
    const auto program = Program::load(std::make_shared<const SourceFile>("fuzz.loom", text), {}, diagnostics);
    ASSERT_EQ(program.has_value(), !diagnostics.has_errors()) << diagnostics.render();
    if (!program) continue;
    ++loaded;
    for (const OpSignature& op : program->ops()) {
      std::map<std::string, scalar::Value> attributes;
      for (const AttributeSignature& attribute : op.attributes)
        if (!attribute.default_value) attributes[attribute.name] = scalar::Value{attribute.dtype, 0};
      const auto graph = program->lower(op.name, attributes, diagnostics, example_instance(op, random() % 4));
      if (!graph) {
        EXPECT_TRUE(diagnostics.has_errors());
        continue;
      }
      const auto violations = tensor::verify(*graph);
      ASSERT_TRUE(violations.empty()) << violations.front().rule << " " << violations.front().message << "\n"
                                      << tensor::print(*graph);
    }
  }
  EXPECT_GT(loaded, 0);
}

}  // namespace
}  // namespace corrloom::frontend
