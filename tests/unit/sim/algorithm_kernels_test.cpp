#include <algorithm>
#include <numeric>

#include "simulator.h"

/// Whole algorithms that nvcc compiled (ptx/algorithms.cu), most of which synchronise in their own way: right answers,
/// and no finding of the sanitizer.
namespace corrloom::sim {
namespace {

class Algorithms : public ::testing::TestWithParam<uint64_t> {
 protected:
  void SetUp() override {
    sim.options.schedule_seed = GetParam();
    sim.load(read_ptx("algorithms_sm80.ptx"));
  }
  DeviceAddress zeros(size_t count) { return sim.upload(std::vector<int>(count, 0)); }
  Simulator sim;
};

std::vector<int> numbers(int count) {
  std::vector<int> values(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) values[size_t(i)] = (i * 7919 + 13) % 101;
  return values;
}

TEST_P(Algorithms, ScanWithDecoupledLookback) {
  const auto in = numbers(256 * 20);
  const DeviceAddress out = sim.memory.allocate(in.size() * 4);
  ASSERT_TRUE(
      clean(sim.launch("lookback", {20}, {256}, sim.upload(in), out, zeros(20), zeros(20), zeros(20), zeros(1))));
  std::vector<int> expected(in.size());
  std::partial_sum(in.begin(), in.end(), expected.begin());
  EXPECT_EQ(sim.download<int>(out, in.size()), expected);
}

TEST_P(Algorithms, BitonicSortAndScanInShared) {
  auto in = numbers(256);
  const DeviceAddress sorted = sim.upload(in), scanned = sim.upload(in);
  ASSERT_TRUE(clean(sim.launch("bitonic", {1}, {256}, sorted)));
  ASSERT_TRUE(clean(sim.launch("scan", {1}, {256}, scanned)));
  std::vector<int> expected(256);
  std::partial_sum(in.begin(), in.end(), expected.begin());
  EXPECT_EQ(sim.download<int>(scanned, 256), expected);
  std::ranges::sort(in);
  EXPECT_EQ(sim.download<int>(sorted, 256), in);
}

TEST_P(Algorithms, StencilWithHalo) {
  std::vector<float> in(700);
  for (size_t i = 0; i < 700; ++i) in[i] = float(i % 11);
  const DeviceAddress out = sim.memory.allocate(700 * 4);
  ASSERT_TRUE(clean(sim.launch("stencil", {3}, {256}, sim.upload(in), out, 700)));
  const auto y = sim.download<float>(out, 700);
  for (size_t i = 0; i < 700; ++i) EXPECT_EQ(y[i], (i ? in[i - 1] : 0) + 2 * in[i] + (i + 1 < 700 ? in[i + 1] : 0));
}

TEST_P(Algorithms, WarpReductionInShared) {
  const auto in = numbers(64);
  const DeviceAddress out = sim.memory.allocate(8);
  ASSERT_TRUE(clean(sim.launch("warpreduce", {1}, {64}, sim.upload(in), out)));
  EXPECT_EQ(sim.download<int>(out, 2)[1], std::accumulate(in.begin() + 32, in.end(), 0));
}

TEST_P(Algorithms, WarpAggregatedFilter) {
  const auto in = numbers(1000);
  const DeviceAddress out = zeros(1000), count = zeros(1);
  ASSERT_TRUE(clean(sim.launch("aggregated", {4}, {256}, sim.upload(in), out, count, 1000)));
  std::vector<int> expected;
  std::ranges::copy_if(in, std::back_inserter(expected), [](int v) { return v % 3 == 0; });
  const auto found = size_t(sim.download<int>(count, 1)[0]);
  ASSERT_EQ(found, expected.size());
  auto y = sim.download<int>(out, found);
  std::ranges::sort(y);
  std::ranges::sort(expected);
  EXPECT_EQ(y, expected);
}

TEST_P(Algorithms, LastBlockSumsUp) {
  std::vector<float> in(5000, 0.5f);
  const DeviceAddress part = sim.memory.allocate(40), out = sim.memory.allocate(4);
  ASSERT_TRUE(clean(sim.launch("lastblock", {10}, {128}, sim.upload(in), part, out, zeros(1), 5000)));
  EXPECT_EQ(sim.download<float>(out, 1)[0], 2500.0f);
}

TEST_P(Algorithms, MutexQueueAndHandOff) {
  const DeviceAddress data = zeros(16);
  ASSERT_TRUE(clean(sim.launch("mutex", {12}, {32}, zeros(1), data, 16)));
  for (int i = 0; i < 16; ++i) EXPECT_EQ(sim.download<int>(data, 16)[size_t(i)], 12 * i);
  const auto work = numbers(50);
  DeviceAddress out = sim.memory.allocate(50 * 32 * 4);
  ASSERT_TRUE(clean(sim.launch("queue", {6}, {32}, zeros(1), sim.upload(work), out, 50)));
  const auto y = sim.download<int>(out, 1600);
  for (int i = 0; i < 1600; ++i) EXPECT_EQ(y[size_t(i)], work[size_t(i / 32)] * (i % 32));
  out = sim.memory.allocate(256);
  ASSERT_TRUE(clean(sim.launch("handoff", {2}, {64}, zeros(1), sim.memory.allocate(256), out)));
  for (int i = 0; i < 64; ++i) EXPECT_EQ(sim.download<int>(out, 64)[size_t(i)], (i ^ 5) * 7);
}

TEST_P(Algorithms, LanesWaitForTheirNeighbours) {
  const DeviceAddress out = zeros(32);
  ASSERT_TRUE(clean(sim.launch("intrawarp", {1}, {32}, out)));
  EXPECT_EQ(sim.download<int>(out, 32)[31], 31);
}

TEST_P(Algorithms, SharedMemoryUsedTwice) {
  std::vector<float> in(64);
  for (size_t i = 0; i < 64; ++i) in[i] = float(i);
  const DeviceAddress out = sim.memory.allocate(256);
  sim.dynamic_shared = 512;
  ASSERT_TRUE(clean(sim.launch("sharedunion", {1}, {64}, out, sim.upload(in))));
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(sim.download<float>(out, 64)[i], float(i ^ 3));
}

TEST_P(Algorithms, LoopsWithContinueBreakAndGoto) {
  const DeviceAddress out = sim.memory.allocate(96 * 4);
  ASSERT_TRUE(clean(sim.launch("tri", {1}, {96}, out, 60)));
  const auto y = sim.download<int>(out, 96);
  for (int t = 0; t < 96; ++t) {
    int s = 0;
    for (int i = 0; i < 60 && s <= 5000; ++i) {
      if ((t + i) % 3 == 0) continue;
      for (int j = 0; j < i; ++j) {
        if (((t ^ j) & 7) == 5) break;
        s += j;
        if (s > 5000) break;
      }
    }
    EXPECT_EQ(y[size_t(t)], s) << t;
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, Algorithms, ::testing::Values(0, 1, 12345));

}  // namespace
}  // namespace corrloom::sim
