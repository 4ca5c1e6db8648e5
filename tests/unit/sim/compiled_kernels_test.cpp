#include <chrono>
#include <cmath>
#include <random>

#include "simulator.h"

/// Kernels that nvcc compiled (sources beside the PTX) against what C++ computes.
namespace corrloom::sim {
namespace {

class Basics : public ::testing::Test {
 protected:
  void SetUp() override { sim.load(read_ptx("basics_sm80.ptx")); }
  Simulator sim;
};

std::vector<float> random_floats(size_t count, uint32_t seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(engine);
  return values;
}

TEST_F(Basics, SaxpyLeavesTheTailAlone) {
  const auto x = random_floats(1000, 1), y = random_floats(1000, 2);
  const DeviceAddress dx = sim.upload(x), dy = sim.upload(y);
  ASSERT_TRUE(clean(sim.launch("saxpy", {4}, {256}, 997, 2.5f, dx, dy)));
  const auto result = sim.download<float>(dy, 1000);
  for (int i = 0; i < 1000; ++i)
    EXPECT_EQ(result[size_t(i)], i < 997 ? std::fma(2.5f, x[size_t(i)], y[size_t(i)]) : y[size_t(i)]) << i;
}

TEST_F(Basics, TiledMatmulIsBitExact) {
  const int n = 64;
  const auto a = random_floats(n * n, 1), b = random_floats(n * n, 2);
  const DeviceAddress da = sim.upload(a), db = sim.upload(b), dc = sim.memory.allocate(n * n * 4);
  ASSERT_TRUE(clean(sim.launch("matmul", {n / 16, n / 16}, {16, 16}, da, db, dc, n)));
  const auto c = sim.download<float>(dc, n * n);
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int k = 0; k < n; ++k) sum = std::fma(a[size_t(i * n + k)], b[size_t(k * n + j)], sum);
      ASSERT_EQ(c[size_t(i * n + j)], sum) << i << " " << j;
    }
  }
}

TEST_F(Basics, MatmulWithoutTheSecondBarrierRaces) {
  const int n = 64;
  const DeviceAddress da = sim.upload(random_floats(n * n, 1)), db = sim.upload(random_floats(n * n, 2)),
                      dc = sim.memory.allocate(n * n * 4);
  const LaunchResult result = sim.launch("matmul_race", {n / 16, n / 16}, {16, 16}, da, db, dc, n);
  EXPECT_EQ(result.error, LaunchError::Finding);
  ASSERT_FALSE(result.findings.empty());
  EXPECT_EQ(result.findings[0].kind, FindingKind::Race);
}

TEST_F(Basics, ReduceWithShuffles) {
  std::vector<float> x(1000);
  for (size_t i = 0; i < x.size(); ++i) x[i] = float(i % 17);
  float sum = 0;
  for (const float value : x) sum += value;
  const DeviceAddress dx = sim.upload(x), out = sim.memory.allocate(4);
  ASSERT_TRUE(clean(sim.launch("reduce", {1}, {256}, dx, out, 1000)));
  EXPECT_EQ(sim.download<float>(out, 1)[0], sum);
}

TEST_F(Basics, HistogramWithAtomics) {
  std::vector<uint8_t> data(5000);
  std::vector<uint32_t> expected(256, 0);
  for (size_t i = 0; i < data.size(); ++i) ++expected[data[i] = uint8_t(i * i * 31 + i)];
  const DeviceAddress d = sim.upload(data), h = sim.upload(std::vector<uint32_t>(256, 0));
  ASSERT_TRUE(clean(sim.launch("hist", {5}, {128}, d, 5000, h)));
  EXPECT_EQ(sim.download<uint32_t>(h, 256), expected);
}

TEST_F(Basics, RecursionUsesTheStack) {
  const DeviceAddress out = sim.memory.allocate(64 * 4);
  ASSERT_TRUE(clean(sim.launch("recur", {1}, {64}, out)));
  static constexpr int kFib[] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89};
  const auto result = sim.download<int>(out, 64);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(result[size_t(i)], kFib[i % 12]) << i;
}

TEST_F(Basics, PrintfFormatsOnTheHost) {
  ASSERT_TRUE(clean(sim.launch("hello", {1}, {32}, 7)));
  EXPECT_EQ(sim.printed, "hi 7 str 2.500000 1099511627776\n");
}

TEST_F(Basics, SpinLockWithinAWarpMakesProgress) {
  const DeviceAddress lock = sim.upload(std::vector<int>{0}), count = sim.upload(std::vector<int>{0});
  ASSERT_TRUE(clean(sim.launch("spin", {2}, {64}, lock, count)));
  EXPECT_EQ(sim.download<int>(count, 1)[0], 128);
}

TEST_F(Basics, LanesWithDifferentTripCounts) {
  const DeviceAddress out = sim.memory.allocate(256 * 4);
  ASSERT_TRUE(clean(sim.launch("collatz", {2}, {128}, out)));
  const auto result = sim.download<int>(out, 256);
  for (int i = 0; i < 256; ++i) {
    int steps = 0;
    for (uint32_t m = uint32_t(i + 1); m != 1; ++steps) m = m & 1 ? 3 * m + 1 : m / 2;
    EXPECT_EQ(result[size_t(i)], steps) << i;
  }
}

TEST_F(Basics, LibdeviceMathIsClose) {
  const auto x = random_floats(64, 3);
  const DeviceAddress dx = sim.upload(x), out = sim.memory.allocate(64 * 4);
  ASSERT_TRUE(clean(sim.launch("math", {1}, {64}, out, dx)));
  const auto result = sim.download<float>(out, 64);
  for (size_t i = 0; i < 64; ++i) {
    const double v = x[i];
    const double expected = std::sin(v) + std::exp(v) + std::log(std::fabs(v) + 1) + std::pow(std::fabs(v), 1.3) +
                            std::tanh(v) + std::erf(v);
    EXPECT_NEAR(result[i], expected, 2e-6) << v;  // six terms below 3, each within 2 ulp, and five additions
  }
}

TEST_F(Basics, CallsThroughATableOfFunctions) {
  const DeviceAddress out = sim.memory.allocate(32 * 4);
  ASSERT_TRUE(clean(sim.launch("indirect", {1}, {32}, out)));
  const auto result = sim.download<int>(out, 32);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(result[size_t(i)], i & 1 ? i * 3 : i + 3);
}

TEST_F(Basics, SwitchThroughABranchTable) {
  const DeviceAddress out = sim.memory.allocate(64 * 4);
  ASSERT_TRUE(clean(sim.launch("sw", {1}, {64}, out, 42)));
  const auto result = sim.download<int>(out, 64);
  for (int i = 0; i < 64; ++i) {
    const int expected[] = {5, i * 3, i ^ 7, i << 2, i - 9, i * i, 42, i / 3, -1};
    EXPECT_EQ(result[size_t(i)], expected[i % 9]) << i;
  }
}

TEST_F(Basics, MatmulIsFastEnough) {
  const int n = 128;
  const DeviceAddress da = sim.upload(random_floats(n * n, 1)), db = sim.upload(random_floats(n * n, 2)),
                      dc = sim.memory.allocate(n * n * 4);
  for (const bool checked : {true, false}) {
    if (!checked) sim.options.checks = Checks::none(), sim.options.count = false;
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_TRUE(clean(sim.launch("matmul", {n / 16, n / 16}, {16, 16}, da, db, dc, n)));
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    RecordProperty(checked ? "seconds_checked" : "seconds_unchecked", std::to_string(seconds));
    std::printf("matmul 128^3, checks %s: %.3f s\n", checked ? "on" : "off", seconds);
  }
}

}  // namespace
}  // namespace corrloom::sim
