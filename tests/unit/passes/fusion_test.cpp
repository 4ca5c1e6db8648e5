#include "compiler/passes/compose_views.h"
#include "compiler/passes/expand_functions.h"
#include "compiler/passes/fuse_epilogue.h"
#include "compiler/passes/inline_elementwise.h"
#include "compiler/passes/remove_dead_ops.h"
#include "ir/tensor/interpret.h"
#include "pass_test.h"

namespace corrloom::passes {
namespace {

using testing::after;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(InlineElementwise, FoldsAChainIntoAReduction) {
  EXPECT_EQ(after({inline_elementwise, remove_dead_ops}, R"(
graph @g(%x: f32[3, 4]) -> (%y) {
  %e: f32[3, 4] = compute [i: 3, j: 4] {
    yield abs(%x[i, j])
  }
  %n: f32[3, 4] = compute [a: 3, b: 4] {
    yield neg(%e[a, b])
  }
  %y: f32[3] = compute [i: 3] reduce [k: 4] ascending {
    acc %s: f32 = 0.0:f32 step add(%s, %n[i, k]) merge add(%s, %s.other)
    yield %s
  }
}
)"),
            R"(graph @g(%x: f32[3, 4]) -> (%y) {
  %y: f32[3] = compute [i: 3] reduce [k: 4] ascending {
    acc %s: f32 = 0.0:f32 step add(%s, neg(abs(%x[i, k]))) merge add(%s, %s.other)
    yield %s
  }
}
)");
}

TEST(InlineElementwise, KeepsWorkThatARereadWouldRepeat) {
  // abs(%v[k]) would be evaluated once for each i.
  EXPECT_THAT(after({inline_elementwise}, R"(
graph @g(%v: f32[4], %x: f32[3, 4]) -> (%y) {
  %e: f32[4] = compute [j: 4] {
    yield abs(%v[j])
  }
  %y: f32[3] = compute [i: 3] reduce [k: 4] ascending {
    acc %s: f32 = 0.0:f32 step fma(%e[k], %x[i, k], %s) merge add(%s, %s.other)
    yield %s
  }
}
)"),
              HasSubstr("fma(%e[k], %x[i, k], %s)"));
}

TEST(InlineElementwise, EqualReadsAreOne) {
  // abs(%x[i]) stands in the result once, and both operands of the product are that node.
  EXPECT_THAT(after({inline_elementwise, remove_dead_ops}, R"(
graph @g(%x: f32[4]) -> (%y) {
  %e: f32[4] = compute [j: 4] {
    yield abs(%x[j])
  }
  %y: f32[4] = compute [i: 4] {
    yield mul(%e[i], %e[i])
  }
}
)"),
              HasSubstr("yield mul($0 = abs(%x[i]), $0)"));
}

TEST(InlineElementwise, FoldsShortRowsOfAStencil) {
  const std::string text = R"(
graph @g(%x: f32[8, 10]) -> (%y) {
  %e: f32[8, 8] = compute [a: 8, b: 8] {
    yield add(%x[a, b], %x[a, add(b, 2:i64)])
  }
  %y: f32[6, 8] = compute [i: 6, j: 8] {
    yield add(add(%e[i, j], %e[add(i, 1:i64), j]), %e[add(i, 2:i64), j])
  }
}
)";
  EXPECT_THAT(after({inline_elementwise, remove_dead_ops}, text), Not(HasSubstr("%e")));
  // Along memory, neighbours do not meet in a register: a body of more than one operation stays.
  std::string along = text;
  along.replace(along.find("%e[add(i, 1:i64), j]"), 20, "%e[i, add(j, 1:i64)]");
  along.replace(along.find("j: 8]"), 5, "j: 7]");
  along.replace(along.find("f32[6, 8] ="), 11, "f32[6, 7] =");
  EXPECT_THAT(after({inline_elementwise, remove_dead_ops}, along), Not(HasSubstr("%e")));
  along.replace(along.find("add(%x[a, b]"), 4, "max(0.5:f32, add(");
  along.replace(along.find("add(b, 2:i64)])"), 15, "add(b, 2:i64)]))");
  EXPECT_THAT(after({inline_elementwise, remove_dead_ops}, along), HasSubstr("%e"));
  // At a border the row is another one.
  std::string border = text;
  border.replace(border.find("%e[add(i, 2:i64), j]"), 20, "%e[if(lt(i, 5:i64), add(i, 2:i64), add(neg(i), 9:i64)), j]");
  EXPECT_THAT(after({inline_elementwise, remove_dead_ops}, border), Not(HasSubstr("%e")));
  // Sizes do not multiply from one stencil to the next: a long body stays.
  std::string again = text;
  again.replace(again.find("add(%x[a, b], %x[a, add(b, 2:i64)])"), 35,
                "sqrt(sqrt(sqrt(sqrt(sqrt(sqrt(add(%x[a, b], %x[a, add(b, 2:i64)])))))))");
  EXPECT_THAT(after({inline_elementwise, remove_dead_ops}, again), HasSubstr("%e"));
}

TEST(InlineElementwise, FoldsPaddingIntoEveryReader) {
  EXPECT_THAT(
      after({inline_elementwise, remove_dead_ops}, R"(
graph @g(%x: f32[4]) -> (%y, %z) {
  %p: f32[6] = compute [i: 6] {
    yield %x[sub(i, 1:i64)] pad 0.0:f32
  }
  %y: f32[5] = compute [i: 5] {
    yield add(%p[i], %p[add(i, 1:i64)])
  }
  %z: f32[6] = compute [i: 6] {
    yield %p[i] pad 7.0:f32
  }
}
)"),
      ::testing::AllOf(HasSubstr("add(%x[sub(i, 1:i64)] pad 0.0:f32, %x[sub(add(i, 1:i64), 1:i64)] pad 0.0:f32)"),
                       HasSubstr("if(land(ge(i, 0:i64), lt(i, 6:i64)), %x[sub(i, 1:i64)] pad 0.0:f32, 7.0:f32)"),
                       Not(HasSubstr("%p"))));
}

TEST(InlineElementwise, KeepsAReadThatIsCheckedAtRunTime) {
  EXPECT_THAT(after({inline_elementwise}, R"(
graph @g(%x: f32[4], %n: i64[4]) -> (%y) {
  %e: f32[4] = compute [i: 4] {
    yield %x[i]
  }
  %y: f32[4] = compute [i: 4] {
    yield %e[%n[i]] check runtime
  }
}
)"),
              HasSubstr("%e[%n[i]] check runtime"));
}

TEST(FuseEpilogue, MakesBiasAndReluTheBody) {
  EXPECT_EQ(after({fuse_epilogue, remove_dead_ops}, R"(
graph @g(%x: f32[3, 4], %b: f32[3]) -> (%y) {
  %s: f32[3] = compute [i: 3] reduce [k: 4] lanes(16) {
    acc %sum: f32 = 0.0:f32 step add(%sum, %x[i, k]) merge add(%sum, %sum.other)
    yield %sum
  }
  %r: f32[3] = compute [a: 3] {
    yield add(%s[a], %b[a])
  }
  %y: f32[3] = compute [c: 3] {
    yield select(gt(%r[c], 0.0:f32), %r[c], 0.0:f32)
  }
}
)"),
            R"(graph @g(%x: f32[3, 4], %b: f32[3]) -> (%y) {
  %y: f32[3] = compute [c: 3] reduce [k: 4] lanes(16) {
    acc %sum: f32 = 0.0:f32 step add(%sum, %x[c, k]) merge add(%sum, %sum.other)
    yield select(gt($0 = add(%sum, %b[c]), 0.0:f32), $0, 0.0:f32)
  }
}
)");
}

TEST(FuseEpilogue, KeepsAReductionThatIsReadElsewhere) {
  const auto graph = [](const std::string& body, const std::string& outputs) {
    return "graph @g(%x: f32[3, 4]) -> (" + outputs + R"() {
  %s: f32[3] = compute [i: 3] reduce [k: 4] ascending {
    acc %sum: f32 = 0.0:f32 step add(%sum, %x[i, k]) merge add(%sum, %sum.other)
    yield %sum
  }
  %y: f32[3] = compute [a: 3] {
    yield )" +
           body + "\n  }\n}\n";
  };
  EXPECT_THAT(after({fuse_epilogue}, graph("neg(%s[a])", "%y")), Not(HasSubstr("%s[")));
  EXPECT_THAT(after({fuse_epilogue}, graph("neg(%s[sub(2:i64, a)])", "%y")), HasSubstr("%s["));  // another element
  EXPECT_THAT(after({fuse_epilogue}, graph("neg(%s[a])", "%y, %s")), HasSubstr("%s["));          // a result
}

TEST(FuseEpilogue, LeavesWhatIsMadeBeforeTheCalls) {
  const char* const text = R"(
graph @g(%w: f32[3, 4], %x: f32[3]) -> (%y) {
  %s: f32[3] = compute [i: 3] reduce [k: 4] ascending {
    acc %sum: f32 = 0.0:f32 step add(%sum, %w[i, k]) merge add(%sum, %sum.other)
    yield %sum
  }
  %r: f32[3] = compute [a: 3] {
    yield neg(%s[a])
  }
  %y: f32[3] = compute [c: 3] {
    yield add(%r[c], %x[c])
  }
}
)";
  PassContext ctx;
  ctx.constants = {"w"};
  const std::string kept = after({fuse_epilogue}, text, ctx);
  EXPECT_THAT(kept, HasSubstr("yield neg(%sum)"));          // as constant as the sum
  EXPECT_THAT(kept, HasSubstr("yield add(%r[c], %x[c])"));  // of the call
  EXPECT_THAT(after({fuse_epilogue}, text), HasSubstr("yield add(neg(%sum), %x[c])"));
}

TEST(RemoveDeadOps, KeepsInputsAndWhatResultsNeed) {
  EXPECT_EQ(after({remove_dead_ops}, R"(
graph @g(%x: f32[3], %unused: f32[2]) -> (%y) {
  %dead: f32[3] = compute [i: 3] {
    yield %x[i]
  }
  %y: f32[3] = compute [i: 3] {
    yield neg(%x[i])
  }
}
)"),
            R"(graph @g(%x: f32[3], %unused: f32[2]) -> (%y) {
  %y: f32[3] = compute [i: 3] {
    yield neg(%x[i])
  }
}
)");
}

TEST(ExpandFunctions, LeavesNoFunction) {
  EXPECT_THAT(after({expand_functions},
                    "graph @g(%x: f32[3]) -> (%y) {\n  %y: f32[3] = compute [i: 3] {\n    yield exp(%x[i])\n  }\n}\n"),
              ::testing::AllOf(Not(HasSubstr("exp(")), HasSubstr("fma(")));
}

TEST(ComposeViews, ReadsThroughATransposeAndASlice) {
  EXPECT_EQ(after({compose_views, remove_dead_ops}, R"(
graph @g(%X: f32[3, 8]) -> (%y) {
  %t: f32[8, 3] = view [i: 8, j: 3] %X[j, i]
  %s: f32[4, 3] = view [a: 4, b: 3] %t[mul(a, 2:i64), b]
  %y: f32[4, 3] = compute [i: 4, j: 3] {
    yield %s[i, j] check proven
  }
}
)"),
            R"(graph @g(%X: f32[3, 8]) -> (%y) {
  %y: f32[4, 3] = compute [i: 4, j: 3] {
    yield %X[j, mul(i, 2:i64)] check proven
  }
}
)");
}

TEST(ComposeViews, JudgesPaddingAgainstTheView) {
  // The slice ends before %X does: element 4 of the slice is padding, although %X has it.
  const std::string text = after({compose_views}, R"(
graph @g(%X: f32[8]) -> (%y, %z) {
  %s: f32[4] = view [a: 4] %X[a]
  %y: f32[5] = compute [i: 5] {
    yield %s[i] pad 0.0:f32
  }
  %z: f32[5] = compute [i: 5] {
    yield %s[i] pad edge
  }
}
)");
  EXPECT_THAT(text, HasSubstr("yield if(lt(i, 4:i64), %X[i] check proven, 0.0:f32)"));
  EXPECT_THAT(text, HasSubstr("yield %X[min(i, 3:i64)] check proven"));
}

TEST(ComposeViews, PadsAViewAsTheInterpreterDoes) {
  tensor::Array input{DType::F32, {8}, {}};
  for (int k = 0; k < 8; ++k) input.bits.push_back(scalar::Value::f32(static_cast<float>(k)).bits);
  for (const std::string pad : {"edge", "wrap", "reflect", "-1.0:f32"}) {
    for (const std::string extent : {"1", "4"}) {
      const tensor::Graph graph =
          testing::parsed("graph @g(%X: f32[8]) -> (%y) {\n  %s: f32[" + extent + "] = view [a: " + extent +
                          "] %X[add(a, 2:i64)]\n  %y: f32[21] = compute [i: 21] {\n    yield %s[sub(i, 9:i64)] pad " +
                          pad + "\n  }\n}\n");
      PassContext ctx;
      const auto wanted = tensor::interpret(graph, {input}, {});
      const auto found = tensor::interpret(remove_dead_ops(compose_views(graph, ctx), ctx), {input}, {});
      EXPECT_EQ(wanted[0].bits, found[0].bits) << pad << " of " << extent;
    }
  }
}

TEST(ComposeViews, KeepsPaddingThroughATranspose) {
  EXPECT_THAT(after({compose_views}, R"(
graph @g(%X: f32[3, 8]) -> (%y) {
  %t: f32[8, 3] = view [i: 8, j: 3] %X[j, i]
  %y: f32[9, 3] = compute [i: 9, j: 3] {
    yield %t[i, j] pad reflect
  }
}
)"),
              HasSubstr("%X[j, i] pad reflect"));
}

TEST(ComposeViews, KeepsReshapesOfMemoryAndReadsThroughThoseOfViews) {
  const std::string text = after({compose_views, remove_dead_ops}, R"(
graph @g(%X: f32[3, 8]) -> (%y, %z) {
  %r: f32[24] = reshape %X
  %t: f32[8, 3] = view [i: 8, j: 3] %X[j, i]
  %u: f32[24] = reshape %t
  %y: f32[24] = compute [i: 24] {
    yield %r[i] check proven
  }
  %z: f32[24] = compute [i: 24] {
    yield %u[i] check proven
  }
}
)");
  EXPECT_THAT(text, HasSubstr("yield %r[i] check proven"));
  EXPECT_THAT(text, HasSubstr("yield %X[mod(i, 3:i64), floordiv(i, 3:i64)] check proven"));
}

TEST(ComposeViews, CopiesResultsThatAreViews) {
  EXPECT_THAT(
      after({compose_views}, "graph @g(%X: f32[3, 8]) -> (%t) {\n  %t: f32[8, 3] = view [i: 8, j: 3] %X[j, i]\n}\n"),
      HasSubstr("%t: f32[8, 3] = compute [i: 8, j: 3] {\n    yield %X[j, i] check proven"));
}

TEST(ComposeViews, CopiesAViewThatIsCheckedAtRunTime) {
  EXPECT_THAT(after({compose_views}, R"(
graph @g(%X: f32[8], %n: i64[3]) -> (%y) {
  %s: f32[4] = view [a: 4] %X[a]
  %y: f32[3] = compute [i: 3] {
    yield %s[%n[i]] check runtime
  }
}
)"),
              ::testing::AllOf(HasSubstr("%s: f32[4] = compute"), HasSubstr("%s[%n[i]] check runtime")));
}

}  // namespace
}  // namespace corrloom::passes
