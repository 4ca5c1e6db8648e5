#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "compiler/codegen/host_target.h"
#include "compiler/driver/compile.h"
#include "ir/tensor/text.h"

namespace corrloom::driver {
namespace {

/// Compiles a graph of one compute that requires `condition`, for the host.
std::optional<Compiled> compiled(const std::string& condition, Diagnostics& diagnostics) {
  const std::string text = "graph @g(%X: f32[4]) -> (%Y) symbols [a: f32, n: i64] {\n  require " + condition +
                           " \"no\"\n  %Y: f32[4] = compute [i: 4] {\n    yield mul(%X[i], a)\n  }\n}\n";
  const auto graph = tensor::parse(std::make_shared<const SourceFile>("test.tir", text), diagnostics);
  EXPECT_TRUE(graph.has_value()) << diagnostics.render();
  return graph ? compile(*graph, {.target = codegen::host_target()}, diagnostics) : std::nullopt;
}

TEST(EntryConditions, AreIntegerArithmetic) {
  Diagnostics diagnostics;
  ASSERT_TRUE(compiled("gt(n, 0:i64)", diagnostics).has_value()) << diagnostics.render();
}

/// The runtime computes sizes and conditions in 64-bit integers only; a float that decides one has to be a constant.
TEST(EntryConditions, OverFloatsHaveToBeConstant) {
  Diagnostics diagnostics;
  EXPECT_FALSE(compiled("gt(a, 0.0:f32)", diagnostics).has_value());
  ASSERT_EQ(diagnostics.entries().size(), 1u);
  EXPECT_EQ(diagnostics.entries()[0].code, Code::E0255);
}

}  // namespace
}  // namespace corrloom::driver
