#include <gtest/gtest.h>

#include "compiler/api/corrloom.h"

namespace corrloom {
namespace {

/// A triangle over as many elements would take minutes.
TEST(RunningTest, CostsOnePass) {
  constexpr std::int64_t kCount = 1000003;
  const Library library = Library::parse("op f(X: i64[N]) -> Y: i64[N] { Y[i] = sum(j: 0..i+1) X[j] }", "running.loom");
  const Tensor sums = library["f"](ones({kCount}, i64));
  for (const std::int64_t at : {std::int64_t{0}, std::int64_t{1}, kCount / 2, kCount - 1})
    EXPECT_EQ(sums.element(at).as_i64(), at + 1);
}

}  // namespace
}  // namespace corrloom
