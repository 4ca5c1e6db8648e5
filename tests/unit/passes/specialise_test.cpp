#include "compiler/passes/specialise.h"

#include "pass_test.h"

namespace corrloom::passes {
namespace {

using testing::after;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::report_of;

constexpr const char* kCorrelation = R"(graph @corr(%X: f32[H], %K: f32[P]) -> (%Y) symbols [H, P, a: f32] {
  require ge(H, P) "the window is larger than X" showing "H" = H, "P" = P
  %Y: f32[add(sub(H, P), 1:i64)] = compute [i: add(sub(H, P), 1:i64)] reduce [p: P] ascending {
    acc %s: f32 = 0.0:f32 step fma(%X[add(i, p)], mul(%K[p], a), %s) merge add(%s, %s.other)
    yield %s
  }
}
)";

PassContext with(std::map<std::string, std::int64_t> bindings) {
  PassContext ctx;
  for (const auto& [name, value] : bindings) ctx.bindings[name] = scalar::Value::i64(value);
  return ctx;
}

TEST(Specialise, PutsExtentsInPlaceAndKeepsUnboundScalars) {
  PassContext ctx = with({{"H", 8}, {"P", 3}});
  EXPECT_EQ(after({specialise}, kCorrelation, ctx), R"(graph @corr(%X: f32[8], %K: f32[3]) -> (%Y) symbols [a: f32] {
  %Y: f32[6] = compute [i: 6] reduce [p: 3] ascending {
    acc %s: f32 = 0.0:f32 step fma(%X[add(i, p)], mul(%K[p], a), %s) merge add(%s, %s.other)
    yield %s
  }
}
)");
}

TEST(Specialise, ReportsAConditionWithItsValues) {
  const std::string report = report_of({specialise}, kCorrelation, with({{"H", 3}, {"P", 5}}));
  EXPECT_THAT(report, HasSubstr("error[E0250]: the window is larger than X"));
  EXPECT_THAT(report, HasSubstr("H = 3, P = 5"));
  // The negative extent follows from it.
  EXPECT_THAT(report, Not(HasSubstr("E0251")));
}

TEST(Specialise, KeepsConditionsThatStayOpen) {
  PassContext ctx = with({{"P", 3}});
  EXPECT_THAT(after({specialise}, kCorrelation, ctx), HasSubstr("require ge(H, 3:i64)"));
}

TEST(Specialise, ReportsExtentsThatNoTensorHas) {
  const std::string text =
      "graph @g(%X: f32[N]) -> (%Y) symbols [N] {\n  %Y: f32[EXTENT] = compute [i: EXTENT] {\n    yield 0.0:f32\n  "
      "}\n}\n";
  const auto with_extent = [&](const std::string& extent) {
    std::string result = text;
    for (std::size_t at = result.find("EXTENT"); at != std::string::npos; at = result.find("EXTENT"))
      result.replace(at, 6, extent);
    return result;
  };
  const PassContext ctx = with({{"N", std::int64_t{1} << 40}});
  EXPECT_THAT(report_of({specialise}, with_extent("mul(N, N)"), ctx),
              HasSubstr("the extent of dimension 0 of Y overflows 64 bits"));
  EXPECT_THAT(report_of({specialise}, with_extent("sub(1:i64, N)"), ctx), HasSubstr("it would be -1099511627775"));
  EXPECT_THAT(report_of({specialise}, with_extent("mul(N, 4194304:i64)"), ctx), HasSubstr("Y has 2^63 bytes or more"));
  EXPECT_EQ(report_of({specialise}, with_extent("mul(N, 1048576:i64)"), ctx), "");
}

}  // namespace
}  // namespace corrloom::passes
