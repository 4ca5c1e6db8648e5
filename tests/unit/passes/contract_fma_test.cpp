#include "compiler/passes/contract_fma.h"

#include "pass_test.h"

namespace corrloom::passes {
namespace {

using testing::after;

/// The body after the pass, given the body before, over f32 tensors a to d.
std::string contracted(const std::string& body, const std::string& with = "", const std::string& dtype = "f32") {
  const std::string text = after({contract_fma}, "graph @g(%a: " + dtype + "[], %b: " + dtype + "[], %c: " + dtype +
                                                     "[], %d: " + dtype + "[]) -> (%Y) {\n  %Y: " + dtype +
                                                     "[] = compute [] " + with + "{\n    yield " + body + "\n  }\n}\n");
  const std::size_t begin = text.find("yield ") + 6;
  return text.substr(begin, text.find('\n', begin) - begin);
}

TEST(ContractFma, ContractsTheFourForms) {
  EXPECT_EQ(contracted("add(mul(%a[], %b[]), %c[])"), "fma(%a[], %b[], %c[])");
  EXPECT_EQ(contracted("add(%c[], mul(%a[], %b[]))"), "fma(%a[], %b[], %c[])");
  EXPECT_EQ(contracted("sub(mul(%a[], %b[]), %c[])"), "fma(%a[], %b[], neg(%c[]))");
  EXPECT_EQ(contracted("sub(%c[], mul(%a[], %b[]))"), "fma(neg(%a[]), %b[], %c[])");
}

TEST(ContractFma, TakesTheLeftOfTwoProducts) {
  EXPECT_EQ(contracted("add(mul(%a[], %b[]), mul(%c[], %d[]))"), "fma(%a[], %b[], mul(%c[], %d[]))");
}

TEST(ContractFma, ContractsAProductThatIsSharedToo) {
  EXPECT_EQ(contracted("add(add($0 = mul(%a[], %b[]), %c[]), sqrt($0))"),
            "add(fma($0 = %a[], $1 = %b[], %c[]), sqrt(mul($0, $1)))");
}

TEST(ContractFma, StopsAtWhatEndsAnExpression) {
  EXPECT_EQ(contracted("add(fence(mul(%a[], %b[])), %c[])"), "add(mul(%a[], %b[]), %c[])");
  EXPECT_EQ(contracted("add(neg(mul(%a[], %b[])), %c[])"), "add(neg(mul(%a[], %b[])), %c[])");
  EXPECT_EQ(contracted("add(cast.f32(mul(%a[], %b[])), %c[])"), "add(cast.f32(mul(%a[], %b[])), %c[])");
}

TEST(ContractFma, LeavesStrictOpsAndIntegersAlone) {
  EXPECT_EQ(contracted("add(fence(mul(%a[], %b[])), %c[])", "with strict "), "add(mul(%a[], %b[]), %c[])");
  EXPECT_EQ(contracted("add(mul(%a[], %b[]), %c[])", "with strict "), "add(mul(%a[], %b[]), %c[])");
  EXPECT_EQ(contracted("add(mul(%a[], %b[]), %c[])", "", "i32"), "add(mul(%a[], %b[]), %c[])");
}

TEST(ContractFma, ContractsTheStepOfASum) {
  EXPECT_THAT(after({contract_fma}, R"(
graph @dot(%a: f32[4], %b: f32[4]) -> (%Y) {
  %Y: f32[] = compute [] reduce [k: 4] ascending {
    acc %s: f32 = 0.0:f32 step add(%s, mul(%a[k], %b[k])) merge add(%s, %s.other)
    yield %s
  }
}
)"),
              ::testing::HasSubstr("step fma(%a[k], %b[k], %s) merge add(%s, %s.other)"));
}

}  // namespace
}  // namespace corrloom::passes
