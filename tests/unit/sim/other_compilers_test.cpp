#include <cmath>

#include "simulator.h"

/// PTX of LLVM 22 (ptx/llvm22.c, clang's IR through opt and llc) and of Triton (ptx/triton_kernels.py).
namespace corrloom::sim {
namespace {

uint16_t f16(float value) {
  if (value == 0) return 0;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return uint16_t((bits >> 16 & 0x8000) | (((bits >> 23 & 0xFF) - 112) << 10) | (bits >> 13 & 0x3FF));
}

class Llvm : public ::testing::Test {
 protected:
  void SetUp() override { sim.load(read_ptx("llvm22_sm80.ptx")); }
  Simulator sim;
};

TEST_F(Llvm, TransposeThroughAPaddedTile) {
  const int n = 37;
  std::vector<float> x(n * n);
  for (size_t i = 0; i < x.size(); ++i) x[i] = float(i);
  const DeviceAddress in = sim.upload(x), out = sim.memory.allocate(n * n * 4);
  const LaunchResult result = sim.launch("transpose", {3, 3}, {16, 16}, out, in, n);
  ASSERT_TRUE(clean(result));
  const auto y = sim.download<float>(out, n * n);
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) ASSERT_EQ(y[size_t(i * n + j)], x[size_t(j * n + i)]);
  }
}

TEST_F(Llvm, ScalarMath) {
  std::vector<float> x{-2.5f, 0.0f, 3.75f, 1e9f, -0.25f, 7.0f, 100.5f, -1.0f};
  std::vector<double> d{1, 2, 3, 4, 5, 6, 7, 8};
  const DeviceAddress out = sim.memory.allocate(8 * 8 * 4);
  ASSERT_TRUE(clean(sim.launch("mathops", {1}, {8}, out, sim.upload(x), sim.upload(d), 8)));
  const auto y = sim.download<float>(out, 64);
  for (size_t i = 0; i < 8; ++i) {
    const float v = x[i];
    const float expected[] = {std::floor(v) + std::sqrt(std::fabs(v)),
                              std::fma(v, v, 1.0f),
                              float(d[i] / 3.0),
                              float(int(v)),
                              std::fmax(v, 0.0f),
                              std::fabs(v),
                              float(uint8_t(i * 37)),
                              std::copysign(2.0f, v)};
    for (size_t k = 0; k < 8; ++k) EXPECT_EQ(y[i * 8 + k], expected[k]) << v << " " << k;
  }
}

TEST_F(Llvm, LongDivision) {
  const std::vector<int64_t> x{100, 7, -1000000000000, 3, -5, 9};
  const DeviceAddress out = sim.memory.allocate(5 * 8);
  ASSERT_TRUE(clean(sim.launch("longdiv", {1}, {5}, out, sim.upload(x), 5)));
  const auto y = sim.download<int64_t>(out, 5);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(y[i], x[i] / x[i + 1] + x[i] % 7);
}

TEST_F(Llvm, LoopsWithBreakAndContinue) {
  const std::vector<int> a{2, 4, 5, 8, 90, 7, 102, 6};
  const DeviceAddress out = sim.memory.allocate(32 * 4);
  ASSERT_TRUE(clean(sim.launch("loops", {1}, {32}, out, sim.upload(a), 8)));
  const auto y = sim.download<int>(out, 32);
  for (int i = 0; i < 32; ++i) {
    int s = 0;
    for (int j = 0; j < 8; ++j) {
      const int v = a[size_t(j)];
      if (v & 1) continue;
      if (v > 100) break;
      s += v * i;
      for (int k = 0; k < (i & 3); ++k) s ^= k + j;
    }
    EXPECT_EQ(y[size_t(i)], s) << i;
  }
}

TEST_F(Llvm, AtomicsAndStructParameters) {
  const DeviceAddress count = sim.upload(std::vector<int>{5}), sum = sim.upload(std::vector<float>{0.5f});
  ASSERT_TRUE(clean(sim.launch("atom", {3}, {64}, count, sum)));
  EXPECT_EQ(sim.download<int>(count, 1)[0], 5 + 192);
  EXPECT_EQ(sim.download<float>(sum, 1)[0], 192.5f);
  struct P {
    int a;
    float b[5];
    int64_t c;
  } p{3, {1, 2, 3, 4, 5}, 100};
  const DeviceAddress out = sim.memory.allocate(32 * 4);
  ASSERT_TRUE(clean(sim.launch("byval", {1}, {32}, p, out)));
  const auto y = sim.download<float>(out, 32);
  for (size_t i = 0; i < 32; ++i) EXPECT_EQ(y[i], p.b[i % 5] + 103);
}

TEST(Triton, VectorAddWithATail) {
  for (const std::string file : {"triton_vadd_sm80.ptx", "triton_vadd_sm90.ptx"}) {
    Simulator sim;
    sim.load(read_ptx(file));
    std::vector<float> x(1000), y(1000);
    for (size_t i = 0; i < 1000; ++i) x[i] = float(i), y[i] = float(3 * i);
    const DeviceAddress out = sim.upload(std::vector<float>(1000, -1)), none = 0;
    ASSERT_TRUE(clean(sim.launch("vadd", {4}, {128}, sim.upload(x), sim.upload(y), out, 997, none, none)));
    const auto z = sim.download<float>(out, 1000);
    for (size_t i = 0; i < 1000; ++i) EXPECT_EQ(z[i], i < 997 ? float(4 * i) : -1.0f);
  }
}

TEST(Triton, SoftmaxByRows) {
  for (const std::string file : {"triton_softmax_sm80.ptx", "triton_softmax_sm90.ptx"}) {
    Simulator sim;
    sim.load(read_ptx(file));
    const int n = 700;
    std::vector<float> x(2 * n);
    for (size_t i = 0; i < x.size(); ++i) x[i] = float((i * 37) % 101) / 25;
    const DeviceAddress out = sim.memory.allocate(2 * n * 4), none = 0;
    sim.dynamic_shared = 1024;
    ASSERT_TRUE(clean(sim.launch("softmax", {2}, {128}, out, sim.upload(x), n, none, none)));
    const auto y = sim.download<float>(out, 2 * n);
    for (int r = 0; r < 2; ++r) {
      double sum = 0;
      for (int i = 0; i < n; ++i) sum += std::exp(double(x[size_t(r * n + i)]));
      // exp(v) by ex2 of a rounded product: a few ulp; the sum of n terms adds at most n / 2 more, far less in
      // practice.
      for (int i = 0; i < n; ++i)
        EXPECT_NEAR(y[size_t(r * n + i)], std::exp(double(x[size_t(r * n + i)])) / sum, 1e-6 / std::sqrt(n));
    }
  }
}

TEST(Triton, MatmulWithMmaAndWithWgmma) {
  for (const std::string file : {"triton_matmul_sm80.ptx", "triton_matmul_sm90.ptx"}) {
    Simulator sim;
    sim.load(read_ptx(file));
    const int m = 128, n = 64, k = 96;
    const auto value = [](int i, int seed) { return float((i * 7 + seed * 3 + i / 5) % 9 - 4); };
    std::vector<uint16_t> a(size_t(m * k)), b(size_t(k * n));
    for (int i = 0; i < m * k; ++i) a[size_t(i)] = f16(value(i, 1));
    for (int i = 0; i < k * n; ++i) b[size_t(i)] = f16(value(i, 2));
    const DeviceAddress out = sim.memory.allocate(uint64_t(m * n * 4)), none = 0;
    sim.dynamic_shared = 32768;
    ASSERT_TRUE(
        clean(sim.launch("matmul", {m / 64, n / 64}, {128}, sim.upload(a), sim.upload(b), out, m, n, k, none, none)));
    const auto c = sim.download<float>(out, size_t(m * n));
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        float sum = 0;
        for (int p = 0; p < k; ++p) sum += value(i * k + p, 1) * value(p * n + j, 2);
        ASSERT_EQ(c[size_t(i * n + j)], sum) << file << " " << i << " " << j;
      }
    }
  }
}

}  // namespace
}  // namespace corrloom::sim
