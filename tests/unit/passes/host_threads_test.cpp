#include <gtest/gtest.h>

#include <string>

#include "tests/unit/passes/host_test.h"

/// What the recipe does otherwise for several threads.
namespace corrloom::passes {
namespace {

using testing::parsed;
using testing::wide_host;

schedule::Schedule for_threads(int threads, const std::string& graph) {
  PassContext ctx = wide_host();
  ctx.target.l3_bytes = 32 << 20;
  ctx.target.threads = threads;
  return choose_schedule(parsed(graph), ctx);
}

TEST(HostThreads, SumsInsideOfOneBlockAreShared) {
  const auto row_by_matrix = [](const std::string& extent) {
    return "graph @g(%x: f32[768], %w: f32[" + extent + ", 768]) -> (%y) {\n  %y.sum: f32[" + extent +
           "] = compute [o: " + extent +
           "] reduce [k: 768] lanes(16) {\n    acc %s: f32 = 0.0:f32 step fma(%x[k], %w[o, k], %s) merge add(%s, "
           "%s.other)\n    yield %s\n  }\n  %y: f32[" +
           extent + "] = compute [i: " + extent + "] {\n    yield mul(%y.sum[i], %y.sum[i])\n  }\n}\n";
  };
  const auto block = [&](int threads, const std::string& extent) {
    const schedule::Schedule chosen = for_threads(threads, row_by_matrix(extent));
    EXPECT_EQ(chosen.stages.at(0).placement.kind, schedule::Placement::Kind::At);
    return chosen.stages.at(1).loops.at(0);
  };
  EXPECT_GE(block(1, "3072").step, 3072);
  EXPECT_EQ(block(2, "3072"), (schedule::Loop{"i", 192, schedule::Bind::Block}));
  EXPECT_GE(block(2, "64").step, 64);  // too little for two
}

TEST(HostThreads, WhatStaysInTheLastCacheIsNotStreamed) {
  const auto streams = [](int threads, const std::string& rows) {
    return for_threads(threads, "graph @g(%x: f32[" + rows + ", 1024]) -> (%y) {\n  %y: f32[" + rows +
                                    ", 1024] = compute [i: " + rows +
                                    ", j: 1024] {\n    yield mul(%x[i, j], %x[i, j])\n  }\n}\n")
        .stages.at(0)
        .streaming;
  };
  EXPECT_FALSE(streams(1, "2048"));
  EXPECT_TRUE(streams(1, "3072"));   // 12 MiB of 32
  EXPECT_FALSE(streams(2, "3072"));  // read and written 24
  EXPECT_TRUE(streams(2, "4096"));
}

TEST(HostThreads, MuchWorkDoesNotBecomeOneBlock) {
  // A hidden layer inside the only block of the layer after it would be one thread's; little work had better stay near.
  const auto is_inside = [](int threads, const std::string& rows) {
    const tensor::Graph graph = parsed(R"(
graph @g(%x: f32[)" + rows + R"(, 784], %w: f32[256, 784], %v: f32[10, 256]) -> (%y) {
  %h: f32[)" + rows + R"(, 256] = compute [n: )" +
                                       rows + R"(, j: 256] reduce [i: 784] lanes(16) {
    acc %s: f32 = 0.0:f32 step fma(%x[n, i], %w[j, i], %s) merge add(%s, %s.other)
    yield max(%s, 0.0:f32)
  }
  %y: f32[)" + rows + R"(, 10] = compute [m: )" +
                                       rows + R"(, o: 10] reduce [k: 256] lanes(16) {
    acc %t: f32 = 0.0:f32 step fma(%h[m, k], %v[o, k], %t) merge add(%t, %t.other)
    yield %t
  }
}
)");
    PassContext ctx = wide_host();
    ctx.target.threads = threads;
    ctx.target.l1_bytes = 48 << 10;
    ctx.target.l2_bytes = 1 << 20;
    return choose_schedule(graph, ctx).stages.at(0).placement.kind == schedule::Placement::Kind::At;
  };
  EXPECT_TRUE(is_inside(1, "64"));
  EXPECT_FALSE(is_inside(2, "64"));
  EXPECT_TRUE(is_inside(2, "4"));
}

}  // namespace
}  // namespace corrloom::passes
