#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>

#include "compiler/passes/canonicalise.h"
#include "compiler/passes/check_bounds.h"
#include "compiler/passes/compose_views.h"
#include "compiler/passes/cut_reductions.h"
#include "compiler/passes/expand_functions.h"
#include "compiler/passes/fuse_epilogue.h"
#include "compiler/passes/inline_elementwise.h"
#include "compiler/passes/lower_padding.h"
#include "compiler/passes/materialise_outputs.h"
#include "compiler/passes/name_uniquely.h"
#include "compiler/passes/pipeline.h"
#include "compiler/passes/remove_dead_ops.h"
#include "compiler/passes/specialise.h"
#include "compiler/passes/split_axes.h"
#include "compiler/passes/split_epilogue.h"
#include "ir/tensor/text.h"
#include "ir/tensor/verify.h"
#include "tests/unit/ir/tensor/parsed.h"
#include "tests/unit/ir/tensor/random_graph.h"

namespace corrloom::passes {
namespace {

using Pass = tensor::Graph (*)(tensor::Graph, PassContext&);
struct NamedPass {
  const char* name;
  Pass run;
};

/// The passes that keep every bit, alone and after those that define bits.
constexpr NamedPass kPasses[] = {
    {"specialise", specialise},
    {"check_bounds", check_bounds},
    {"lower_padding", lower_padding},
    {"compose_views", compose_views},
    {"materialise_outputs", materialise_outputs},
    {"split_axes", split_axes},
    {"canonicalise", canonicalise},
    {"inline_elementwise", inline_elementwise},
    {"fuse_epilogue", fuse_epilogue},
    {"cut_reductions", cut_reductions},
    {"expand_functions", expand_functions},
    {"split_epilogue", split_epilogue},
    {"remove_dead_ops", remove_dead_ops},
    {"name_uniquely", name_uniquely},
};

/// Equal bits, or both NaN.
bool same_bits(const tensor::Array& a, const tensor::Array& b) {
  if (a.dtype != b.dtype || a.extents != b.extents) return false;
  for (std::int64_t k = 0; k < a.count(); ++k) {
    const bool both_nan = is_float(a.dtype) && std::isnan(a.at(k).as_f64()) && std::isnan(b.at(k).as_f64());
    if (a.at(k) != b.at(k) && !both_nan) return false;
  }
  return true;
}

void expect_same_meaning(const tensor::Graph& before, const tensor::Graph& after, const testing::RandomCase& sample,
                         const std::string& where) {
  for (const tensor::Violation& violation : tensor::verify(after))
    FAIL() << where << ": " << violation.rule << " " << violation.op << ": " << violation.message << "\n"
           << tensor::print(after);
  std::vector<scalar::Value> symbols;
  for (const tensor::Symbol& symbol : after.symbols) {
    for (std::size_t k = 0; k < sample.graph.symbols.size(); ++k)
      if (sample.graph.symbols[k].name == symbol.name) symbols.push_back(sample.symbols[k]);
  }
  std::vector<scalar::Value> symbols_before;
  for (const tensor::Symbol& symbol : before.symbols) {
    for (std::size_t k = 0; k < sample.graph.symbols.size(); ++k)
      if (sample.graph.symbols[k].name == symbol.name) symbols_before.push_back(sample.symbols[k]);
  }
  const auto wanted = tensor::interpret(before, sample.inputs, symbols_before);
  const auto found = tensor::interpret(after, sample.inputs, symbols);
  ASSERT_EQ(wanted.size(), found.size()) << where;
  for (std::size_t k = 0; k < wanted.size(); ++k)
    ASSERT_TRUE(same_bits(wanted[k], found[k])) << where << ", output " << k << "\n"
                                                << tensor::print(before) << tensor::print(after);
}

PassContext context_of(const testing::RandomCase& sample) {
  PassContext ctx;
  for (std::size_t k = 0; k < sample.graph.symbols.size(); ++k)
    ctx.bindings[sample.graph.symbols[k].name] = sample.symbols[k];
  return ctx;
}

/// The graph with "any order" said of the reductions that have it: rewritten, their operations may not show it.
tensor::Graph with_free_orders(tensor::Graph graph) {
  for (tensor::Op& op : graph.ops) {
    auto* compute = std::get_if<tensor::Compute>(&op.kind);
    if (compute != nullptr && compute->reduction && compute->reduction->order.kind == tensor::Order::Kind::Any)
      compute->numerics.order = tensor::Numerics::OrderMode::Any;
  }
  return graph;
}

class PassLaws : public ::testing::TestWithParam<int> {};

TEST_P(PassLaws, EachPassKeepsEveryBit) {
  for (std::uint64_t seed = 100u * static_cast<unsigned>(GetParam());
       seed < 100u * static_cast<unsigned>(GetParam()) + 6; ++seed) {
    testing::RandomGraphOptions options;
    options.symbolic = seed % 2 == 0;
    options.parts = seed % 3 != 0;
    const testing::RandomCase sample = testing::random_case(seed, options);
    for (const NamedPass& pass : kPasses) {
      PassContext ctx = context_of(sample);
      const tensor::Graph after = pass.run(with_free_orders(sample.graph), ctx);
      const std::string where = std::string(pass.name) + ", seed " + std::to_string(seed);
      ASSERT_FALSE(ctx.diagnostics.has_errors()) << where << ctx.diagnostics.render();
      expect_same_meaning(sample.graph, after, sample, where);
      if (HasFatalFailure()) return;
    }
  }
}

// Longer axes, of which more are multiples of what they are divided by.
TEST(SplitAxes, KeepEveryBit) {
  std::int64_t splits = 0;
  for (std::uint64_t seed = 90000; seed < 90150; ++seed) {
    const testing::RandomCase sample = testing::random_case(seed, {.ops = 5, .max_extent = 8});
    PassContext ctx = context_of(sample);
    const tensor::Graph after = split_axes(with_free_orders(sample.graph), ctx);
    splits += ctx.counters["axes split"];
    expect_same_meaning(sample.graph, after, sample, "seed " + std::to_string(seed));
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(splits, 10);
}

TEST(CutReductions, KeepEveryBit) {
  std::int64_t cuts = 0;
  for (std::uint64_t seed = 91000; seed < 91300; ++seed) {
    const testing::RandomCase sample =
        testing::random_case(seed, {.max_extent = 8, .symbolic = seed % 2 == 0, .pads = false, .parts = true});
    PassContext ctx = context_of(sample);
    const tensor::Graph after = cut_reductions(with_free_orders(sample.graph), ctx);
    cuts += ctx.counters["reductions cut"];
    for (const tensor::Op& op : after.ops) {
      const auto* compute = std::get_if<tensor::Compute>(&op.kind);
      const bool is_cut = compute == nullptr || !compute->reduction || compute->reduction->order.part == 0;
      EXPECT_TRUE(is_cut) << "seed " << seed;
    }
    expect_same_meaning(sample.graph, after, sample, "seed " + std::to_string(seed));
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(cuts, 60);
}

// Rows that are walked whole and such that are not, no element up to several parts, sizes known and not.
TEST(CutReductions, KeepEveryBitOfSeveralAxes) {
  for (std::int64_t rows = 0; rows < 7; ++rows) {
    for (std::int64_t columns = 0; columns < 7; ++columns) {
      testing::RandomCase sample{
          testing::parsed(R"(graph @g(%X: f32[M, N, 3], %W: f32[N]) -> (%Y, %Z) symbols [M, N] {
  %Y: f32[3] = compute [j: 3] reduce [m: M, n: N] lanes(2) parts(4) {
    acc %s: f32 = 0.0:f32 step add(%s, %X[m, n, j]) merge add(%s, %s.other)
    yield %s
  }
  %Z: f32[] = compute [] reduce [m: M, n: N, j: 3] ascending parts(5) {
    acc %p: f32 = 1.0:f32 step mul(%p, add(%X[m, n, j], %W[n])) merge mul(%p, %p.other)
    yield mul(%p, 2.0:f32)
  }
}
)"),
          {testing::random_array(static_cast<std::uint64_t>(7 * rows + columns), DType::F32, {rows, columns, 3}),
           testing::random_array(static_cast<std::uint64_t>(columns), DType::F32, {columns})},
          {scalar::Value::i64(rows), scalar::Value::i64(columns)}};
      for (const bool open : {true, false}) {
        PassContext ctx = context_of(sample);
        const tensor::Graph graph = open ? sample.graph : specialise(sample.graph, ctx);
        expect_same_meaning(sample.graph, cut_reductions(graph, ctx), sample,
                            std::to_string(rows) + " rows of " + std::to_string(columns));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(PassLaws, TheWholeRowKeepsEveryBit) {
  for (std::uint64_t seed = 100u * static_cast<unsigned>(GetParam()) + 50;
       seed < 100u * static_cast<unsigned>(GetParam()) + 56; ++seed) {
    const testing::RandomCase sample = testing::random_case(seed, {.ops = 8, .symbolic = true});
    PassContext ctx = context_of(sample);
    tensor::Graph graph = sample.graph;
    // Passes up to `set_orders` decide bits; all after it keep those.
    std::optional<tensor::Graph> reference;
    for (const TensorPass& pass : tensor_passes()) {
      const std::string where = "row up to " + std::string(pass.name) + ", seed " + std::to_string(seed);
      graph = pass.run(std::move(graph), ctx);
      ASSERT_FALSE(ctx.diagnostics.has_errors()) << where << ctx.diagnostics.render();
      if (reference) expect_same_meaning(*reference, graph, sample, where);
      if (HasFatalFailure()) return;
      if (pass.name == "set_orders") reference = graph;
    }
    ASSERT_TRUE(reference.has_value()) << "no pass sets orders";
  }
}

TEST_P(PassLaws, CanonicalFormsStayAsTheyAre) {
  constexpr std::uint64_t kSeeds = 25;
  for (std::uint64_t k = 0; k < kSeeds; ++k) {
    const std::uint64_t seed = static_cast<std::uint64_t>(GetParam()) * kSeeds + 70000 + k;
    const testing::RandomCase sample = testing::random_case(seed);
    PassContext ctx = context_of(sample);
    // Dead ops keep apart what live ones would join, so they go first.
    const tensor::Graph live = remove_dead_ops(compose_views(specialise(sample.graph, ctx), ctx), ctx);
    const tensor::Graph once = remove_dead_ops(canonicalise(live, ctx), ctx);
    EXPECT_EQ(tensor::print(once), tensor::print(canonicalise(once, ctx))) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, PassLaws, ::testing::Range(0, 20));

}  // namespace
}  // namespace corrloom::passes
