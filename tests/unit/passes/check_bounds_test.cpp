#include "compiler/passes/check_bounds.h"

#include "compiler/passes/specialise.h"
#include "pass_test.h"

namespace corrloom::passes {
namespace {

using testing::after;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::report_of;

std::string graph_of(const std::string& inputs, const std::string& axes, const std::string& body) {
  return "graph @g(" + inputs + ") -> (%Y) {\n  %Y: f32[4] = compute [" + axes + "] {\n    yield " + body +
         "\n  }\n}\n";
}

TEST(CheckBounds, ProvesAWindow) {
  const std::string text = after({check_bounds}, R"(
graph @corr(%X: f32[6], %K: f32[3]) -> (%Y) {
  %Y: f32[4] = compute [i: 4] reduce [p: 3] ascending {
    acc %s: f32 = 0.0:f32 step fma(%X[add(i, p)], %K[p], %s) merge add(%s, %s.other)
    yield %s
  }
}
)");
  EXPECT_THAT(text, HasSubstr("fma(%X[add(i, p)] check proven, %K[p] check proven, %s)"));
}

TEST(CheckBounds, NamesTheFirstPointOutside) {
  const std::string report = report_of({check_bounds}, R"(
graph @corr(%X: f32[4], %K: f32[3]) -> (%Y) {
  %Y: f32[4] = compute [i: 4] reduce [p: 3 from 1:i64] ascending {
    acc %s: f32 = 0.0:f32 step add(%s, %X[add(i, p)]) merge add(%s, %s.other)
    yield %s
  }
}
)");
  EXPECT_THAT(report, HasSubstr("error[E0252]: `X[add(i, p)]` reads outside of X"));
  // The range of p starts at 1, so the user calls its third value 3.
  EXPECT_THAT(report, HasSubstr("i = 2, p = 3: the first subscript is 4, but X has extent 4 there"));
  EXPECT_THAT(report, HasSubstr("pad 0.0"));
  EXPECT_THAT(report, Not(HasSubstr("every time")));
}

TEST(CheckBounds, JudgesABranchUnderItsCondition) {
  const std::string body = "if(ge(i, 1:i64), %X[sub(i, 1:i64)], %X[i])";
  EXPECT_THAT(after({check_bounds}, graph_of("%X: f32[4]", "i: 4", body)), HasSubstr("%X[sub(i, 1:i64)] check proven"));
  EXPECT_THAT(report_of({check_bounds}, graph_of("%X: f32[4]", "i: 4", "if(ge(i, 1:i64), %X[i], %X[sub(i, 1:i64)])")),
              HasSubstr("i = 0: the first subscript is -1"));
}

TEST(CheckBounds, JudgesTheRightSideOfLazyOperatorsUnderTheLeft) {
  const std::string guard = "select(land(lt(i, 3:i64), gt(%X[add(i, 1:i64)], 0.0:f32)), 1.0:f32, 0.0:f32)";
  EXPECT_THAT(after({check_bounds}, graph_of("%X: f32[4]", "i: 4", guard)), HasSubstr("check proven"));
  const std::string denial = "select(lor(ge(i, 3:i64), gt(%X[add(i, 1:i64)], 0.0:f32)), 1.0:f32, 0.0:f32)";
  EXPECT_THAT(after({check_bounds}, graph_of("%X: f32[4]", "i: 4", denial)), HasSubstr("check proven"));
}

TEST(CheckBounds, ASharedReadHasToHoldOnEveryWay) {
  const std::string shared = "add(if(lt(i, 3:i64), $0 = %X[add(i, 1:i64)], 0.0:f32), $0)";
  EXPECT_THAT(report_of({check_bounds}, graph_of("%X: f32[4]", "i: 4", shared)), HasSubstr("E0252"));
}

TEST(CheckBounds, LeavesDataToTheRunTime) {
  const std::string body = "%X[%I[i]]";
  EXPECT_THAT(after({check_bounds}, graph_of("%X: f32[9], %I: i64[4]", "i: 4", body)),
              HasSubstr("%X[%I[i] check proven] check runtime"));
}

TEST(CheckBounds, ProvesDataThatAConditionBounds) {
  const std::string body = "if(land(ge($0 = %I[i], 0:i64), lt($0, 9:i64)), %X[$0], 0.0:f32)";
  EXPECT_THAT(after({check_bounds}, graph_of("%X: f32[9], %I: i64[4]", "i: 4", body)),
              HasSubstr("%X[$0] check proven"));
  EXPECT_THAT(after({check_bounds}, graph_of("%X: f32[256], %I: u8[4]", "i: 4", "%X[cast.i64(%I[i])]")),
              Not(HasSubstr("runtime")));
}

TEST(CheckBounds, LeavesPaddedReadsAlone) {
  EXPECT_THAT(after({check_bounds}, graph_of("%X: f32[4]", "i: 4", "%X[mul(i, 9:i64)] pad 0.0:f32")),
              Not(HasSubstr("check")));
  EXPECT_THAT(report_of({check_bounds}, graph_of("%X: f32[0]", "i: 4", "%X[i] pad edge")),
              HasSubstr("pads with elements of a tensor that has none"));
  // Whichever dimension it is, and when only data says whether the read is reached.
  EXPECT_THAT(report_of({check_bounds}, graph_of("%X: f32[3, 0]", "i: 4", "%X[i, i] pad wrap")),
              HasSubstr("dimension 1 of X has extent 0"));
  EXPECT_THAT(report_of({check_bounds},
                        graph_of("%X: f32[3, 0], %B: bool[4]", "i: 4", "if(%B[i], %X[i, i] pad edge, 0.0:f32)")),
              HasSubstr("dimension 1 of X has extent 0"));
}

TEST(CheckBounds, JudgesWindowsOfVaryingSize) {
  const std::string text = after({check_bounds}, R"(
graph @prefix(%X: f32[4]) -> (%Y) {
  %Y: f32[4] = compute [i: 4] reduce [j: add(i, 1:i64)] ascending {
    acc %s: f32 = 0.0:f32 step add(%s, %X[j]) merge add(%s, %s.other)
    yield %s
  }
}
)");
  EXPECT_THAT(text, HasSubstr("%X[j] check proven"));
}

TEST(CheckBounds, HoldsWhereNothingIsRead) {
  EXPECT_THAT(
      after({check_bounds},
            "graph @g(%X: f32[0]) -> (%Y) {\n  %Y: f32[0] = compute [i: 0] {\n    yield %X[add(i, 7:i64)]\n  }\n}\n"),
      HasSubstr("check proven"));
}

/// A subscript with products of axes, over too many points to try, in a body.
std::string far_read(const std::string& before, const std::string& after) {
  const std::string subscript = "mod(add(mul(i, j), mul(mul(i, i), 2:i64)), add(mul(mul(j, j), j), 8:i64))";
  return "graph @g(%X: f32[7]) -> (%Y) {\n  %Y: f32[3000, 3000] = compute [i: 3000, j: 3000] {\n    yield " +
         (before.empty() ? "" : before + "lt(" + subscript + ", 7:i64), ") + "%X[" + subscript + "]" + after +
         "\n  }\n}\n";
}

TEST(CheckBounds, SaysWhenItCannotDecideAndWhatSettlesIt) {
  const std::string report = report_of({check_bounds}, far_read("", ""));
  EXPECT_THAT(report, HasSubstr("error[E0253]: cannot decide whether"));
  EXPECT_THAT(report, HasSubstr("has to be in 0..7"));
  EXPECT_THAT(report, HasSubstr(" pad 0.0`, or an `if` or `where` that bounds the subscript"));
  EXPECT_EQ(report_of({check_bounds}, far_read("", " pad 0.0:f32")), "");
  EXPECT_EQ(report_of({check_bounds}, far_read("if(", ", 0.0:f32)")), "");
}

TEST(CheckBounds, LeavesOpenSizesToTheEntryAndDataToTheRun) {
  const std::string text = after({check_bounds}, R"(
graph @g(%X: f32[N], %I: i64[M]) -> (%Y, %Z) symbols [N, M] {
  %Y: f32[M] = compute [i: M] {
    yield %X[add(i, 3:i64)]
  }
  %Z: f32[M] = compute [j: M] {
    yield %X[%I[j]]
  }
}
)");
  EXPECT_THAT(text, HasSubstr("%X[add(i, 3:i64)] check proven"));
  EXPECT_THAT(text, HasSubstr("%X[%I[j] check proven] check runtime"));
}

TEST(CheckBounds, WantsARangeForArgmax) {
  const auto text = [](const std::string& extent) {
    return "graph @g(%X: f32[4, 5]) -> (%Y) {\n  %Y: i64[4] = compute [i: 4] reduce [k: " + extent + "] ascending {\n" +
           R"(
    acc %best: f32 = -inf:f32 step select(gt(%X[i, k], %best), %X[i, k], %best) merge select(gt(%best.other, %best), %best.other, %best)
    acc %at: i64 = 9223372036854775807:i64 step select(gt(%X[i, k], %best), k, %at) merge min(%at, %at.other)
    yield %at
  }
}
)";
  };
  EXPECT_EQ(report_of({check_bounds}, text("5")), "");
  EXPECT_THAT(report_of({check_bounds}, text("0")), HasSubstr("error[E0254]"));
  EXPECT_THAT(report_of({check_bounds}, text("i")), HasSubstr("the range of k is empty at i = 0"));
}

}  // namespace
}  // namespace corrloom::passes
