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

}  // namespace
}  // namespace corrloom::passes
