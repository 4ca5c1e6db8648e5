#include <cmath>
#include <map>

#include "simulator.h"

/// Kernels on top of CUDA's device libraries (ptx/library.cu): libdevice, half, cooperative groups, libcu++.
namespace corrloom::sim {
namespace {

class Library : public ::testing::Test {
 protected:
  void SetUp() override { sim.load(read_ptx("library_sm80.ptx")); }
  Simulator sim;
};

std::vector<int> numbers(int count) {
  std::vector<int> values(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) values[size_t(i)] = (i * 37 + 11) % 50;
  return values;
}

TEST_F(Library, SimdIntrinsics) {
  std::vector<uint32_t> a(33);
  for (size_t i = 0; i < a.size(); ++i) a[i] = uint32_t(i * 2654435761u + 12345);
  const DeviceAddress out = sim.memory.allocate(32 * 12 * 4);
  ASSERT_TRUE(clean(sim.launch("simd", {1}, {32}, out, sim.upload(a))));
  const auto y = sim.download<uint32_t>(out, 32 * 12);
  for (size_t i = 0; i < 32; ++i) {
    const uint32_t x = a[i], z = a[i + 1];
    uint32_t add = 0, difference = 0, greater = 0, sum = 0, max2 = 0;
    for (int k = 0; k < 4; ++k) {
      const uint8_t p = uint8_t(x >> (8 * k)), q = uint8_t(z >> (8 * k));
      add |= uint32_t(uint8_t(p + q)) << (8 * k);
      difference |= uint32_t(std::abs(p - q)) << (8 * k);
      greater |= (p > q ? 0xFFu : 0u) << (8 * k);
      sum += uint32_t(std::abs(p - q));
    }
    for (int k = 0; k < 2; ++k)
      max2 |= uint32_t(uint16_t(std::max(int16_t(x >> (16 * k)), int16_t(z >> (16 * k))))) << (16 * k);
    EXPECT_EQ(y[i * 12], add);
    EXPECT_EQ(y[i * 12 + 1], difference);
    EXPECT_EQ(y[i * 12 + 2], max2);
    EXPECT_EQ(y[i * 12 + 3], greater);
    EXPECT_EQ(y[i * 12 + 4], sum);
    EXPECT_EQ(y[i * 12 + 6], i == 0 ? z : (z << i) | (x >> (32 - i)));
    EXPECT_EQ(y[i * 12 + 9], uint32_t(uint64_t(x) * z >> 32));
  }
}

TEST_F(Library, DoublePrecisionFunctions) {
  std::vector<double> a(64);
  for (size_t i = 0; i < 64; ++i) a[i] = double(i) * 0.37 - 9;
  const DeviceAddress out = sim.memory.allocate(64 * 8);
  ASSERT_TRUE(clean(sim.launch("dmath", {1}, {64}, out, sim.upload(a))));
  const auto y = sim.download<double>(out, 64);
  for (size_t i = 0; i < 64; ++i) {
    const double x = a[i];
    const double expected = std::sin(x) + std::cos(x) * std::exp(x) + std::log(std::fabs(x) + 1) +
                            std::pow(std::fabs(x), 1.5) + std::atan2(x, 2.0) + std::erf(x) +
                            std::tgamma(std::fabs(x) + 1) + std::cbrt(x) + std::fmod(x, 0.3) + std::sqrt(std::fabs(x)) +
                            1 / std::sqrt(std::fabs(x) + 1) + std::tanh(x) + std::hypot(x, 3.0) +
                            std::remainder(x, 0.7);
    // tgamma is within 10 ulp, the others within 2; cos(x) * exp(x) scales its own error.
    EXPECT_NEAR(y[i], expected, 1e-14 * (std::fabs(expected) + std::exp(x) + std::tgamma(std::fabs(x) + 1))) << x;
  }
}

TEST_F(Library, SinglePrecisionIntrinsicsRun) {
  std::vector<float> a(32);
  for (size_t i = 0; i < 32; ++i) a[i] = float(i) * 0.11f - 1.5f;
  const DeviceAddress out = sim.memory.allocate(32 * 4);
  ASSERT_TRUE(clean(sim.launch("fmath", {1}, {32}, out, sim.upload(a))));
  for (const float value : sim.download<float>(out, 32)) EXPECT_TRUE(std::isfinite(value));
}

TEST_F(Library, CooperativeGroups) {
  const auto a = numbers(64);
  const DeviceAddress out = sim.memory.allocate(64 * 4);
  ASSERT_TRUE(clean(sim.launch("cgk", {1}, {64}, out, sim.upload(a))));
  const auto y = sim.download<int>(out, 64);
  for (int i = 0; i < 64; ++i) {
    const int warp = i / 32 * 32, tile = i / 8 * 8, v = a[size_t(i)];
    int s = 0, m = -1, odd_sum = 0, odd = 0, odd_rank = 0, label = 0, same_parity = 0;
    uint32_t match = 0, ballot = 0;
    bool any = false;
    for (int k = warp; k < warp + 32; ++k) {
      const int w = a[size_t(k)];
      s += w;
      odd += w & 1;
      if (w & 1) odd_sum += w;
      if ((w & 1) && k < i) ++odd_rank;
      label += (w & 3) == (v & 3);
      same_parity += (w & 1) == (v & 1);
      match |= uint32_t((w & 7) == (v & 7)) << (k - warp);
    }
    for (int k = tile; k < tile + 8; ++k) {
      m = std::max(m, a[size_t(k)]);
      any |= a[size_t(k)] == 3;
      ballot |= uint32_t(a[size_t(k)] & 1) << (k - tile);
    }
    int r = a[size_t(warp)];
    if (v & 1) r += odd + odd_rank + odd_sum;
    r += label + same_parity;
    EXPECT_EQ(uint32_t(y[size_t(i)]), uint32_t(s + m * 3 + r + a[size_t(i ^ 1)] + any) + ballot + match) << i;
  }
}

TEST_F(Library, BarrierAndPipelineObjects) {
  const auto a = numbers(1024);
  const DeviceAddress in = sim.upload(a), out = sim.memory.allocate(256 * 4);
  ASSERT_TRUE(clean(sim.launch("barr", {1}, {256}, out, in)));
  auto y = sim.download<int>(out, 256);
  for (int i = 0; i < 256; ++i) EXPECT_EQ(y[size_t(i)], a[size_t(i ^ 1)]) << i;
  ASSERT_TRUE(clean(sim.launch("pipe", {1}, {256}, out, in, 4)));
  y = sim.download<int>(out, 256);
  for (int i = 0; i < 256; ++i) {
    int sum = 0;
    for (int k = 0; k < 4; ++k) sum += a[size_t(k * 256 + (i ^ 3))];
    EXPECT_EQ(y[size_t(i)], sum) << i;
  }
}

TEST_F(Library, AtomicReferences) {
  const DeviceAddress count = sim.upload(std::vector<int>{0}), out = sim.memory.allocate(64 * 4);
  ASSERT_TRUE(clean(sim.launch("cuat", {1}, {64}, count, out)));
  EXPECT_EQ(sim.download<int>(count, 1)[0], 7);
}

TEST_F(Library, EightBitFloats) {
  std::vector<float> a(33);
  for (size_t i = 0; i < a.size(); ++i) a[i] = float(i) * 1.7f - 20;
  const DeviceAddress out = sim.memory.allocate(32), pair = sim.memory.allocate(64), q = sim.memory.allocate(128);
  ASSERT_TRUE(clean(sim.launch("fp8", {1}, {32}, out, pair, sim.upload(a), q)));
  const auto y = sim.download<float>(q, 32);
  // e4m3 has 4 significant bits, e5m2 three: halves of 2^-4 and 2^-3 relative.
  for (size_t i = 0; i < 32; ++i)
    EXPECT_NEAR(y[i], a[i] + a[i] + a[i + 1], std::fabs(a[i]) / 16 + (std::fabs(a[i]) + std::fabs(a[i + 1])) / 8 + 0.01)
        << i;
}

TEST_F(Library, AssertNamesItsPlace) {
  ASSERT_TRUE(clean(sim.launch("asrt", {1}, {4}, sim.upload(std::vector<int>{1, 1, 1, 1}))));
  EXPECT_EQ(sim.printed.substr(0, 8), "1  1.50 ");
  const LaunchResult result = sim.launch("asrt", {1}, {4}, sim.upload(std::vector<int>{1, 1, 0, 1}));
  EXPECT_EQ(result.error, LaunchError::Assert);
  EXPECT_NE(result.message.find("a[threadIdx.x]==1"), std::string::npos) << result.message;
}

TEST_F(Library, HeapVirtualCallsAndRecursion) {
  const DeviceAddress out = sim.memory.allocate(64 * 8);
  const uint64_t before = sim.memory.free_bytes();
  ASSERT_TRUE(clean(sim.launch("heap", {1}, {32}, out)));
  EXPECT_EQ(sim.memory.free_bytes(), before);
  ASSERT_TRUE(clean(sim.launch("virt", {1}, {32}, out)));
  auto y = sim.download<int>(out, 32);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(y[size_t(i)], i & 1 ? i * 3 : i);
  ASSERT_TRUE(clean(sim.launch("recf", {1}, {32}, out)));
  const auto z = sim.download<float>(out, 32);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(z[size_t(i)], std::pow(3.0f, float(i % 6)));
  ASSERT_TRUE(clean(sim.launch("lam", {1}, {32}, out)));
  y = sim.download<int>(out, 32);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(y[size_t(i)], (i * 5 % 17 + i) * (i * 5 % 17 + i));
}

TEST_F(Library, WideIntegers) {
  __extension__ typedef unsigned __int128 U;
  std::vector<U> a(33);
  for (size_t i = 0; i < a.size(); ++i) a[i] = U(i * 0x9E3779B97F4A7C15ull) << 50 | (i * 77 + 1);
  const DeviceAddress out = sim.memory.allocate(32 * 16);
  ASSERT_TRUE(clean(sim.launch("i128", {1}, {32}, out, sim.upload(a))));
  const auto y = sim.download<U>(out, 32);
  for (size_t i = 0; i < 32; ++i) EXPECT_TRUE(y[i] == a[i] * a[i + 1] + a[i] / 3) << i;
}

TEST_F(Library, VotesAndBlockCounts) {
  const DeviceAddress out = sim.memory.allocate(64 * 4);
  ASSERT_TRUE(clean(sim.launch("votes", {1}, {64}, out)));
}

TEST_F(Library, GlobalsConstantsAndManaged) {
  const DeviceAddress out = sim.memory.allocate(32 * 4);
  sim.options.checks.races = false;  // `man` is written by every thread on purpose
  ASSERT_TRUE(clean(sim.launch("globals", {1}, {32}, out)));
  const auto y = sim.download<float>(out, 32);
  EXPECT_EQ(y[1], 4.0f);
  EXPECT_EQ(y[2], 9.0f);
  EXPECT_EQ(sim.download<int>(sim.module->find_global("gcount")->address, 1)[0], 32);
}

TEST_F(Library, HalvesAndTheirAtomics) {
  const DeviceAddress h = sim.upload(std::vector<uint32_t>(64, 0x3C003C00)), o = sim.memory.allocate(128),
                      b = sim.upload(std::vector<uint32_t>(32, 0x3F803F80));
  ASSERT_TRUE(clean(sim.launch("halfs", {1}, {32}, o, h, b)));
  const DeviceAddress zero = sim.upload(std::vector<uint64_t>(8, 0));
  sim.options.checks.races = false;  // mixes atomics of several widths on one word
  ASSERT_TRUE(clean(sim.launch("hatom", {1}, {32}, zero, zero + 8, zero + 16, zero + 24, zero + 32, zero + 40)));
  EXPECT_EQ(sim.download<uint16_t>(zero, 1)[0], 0x5000);
  EXPECT_EQ(sim.download<double>(zero + 24, 1)[0], 32.0);
}

TEST_F(Library, ManyRegistersStaySeparate) {
  std::vector<float> a(64);
  for (size_t i = 0; i < 64; ++i) a[i] = float(i % 5) * 0.25f - 0.5f;
  const DeviceAddress out = sim.memory.allocate(32 * 32 * 4);
  ASSERT_TRUE(clean(sim.launch("big", {1}, {32}, out, sim.upload(a), 5)));
  std::vector<float> acc(a.begin(), a.begin() + 32);
  for (size_t k = 0; k < 5; ++k) {
    for (size_t i = 0; i < 32; ++i) acc[i] = std::fma(acc[i], a[k], acc[(i * 7 + k) % 32]);
  }
  const auto y = sim.download<float>(out, 32 * 32);
  for (size_t i = 0; i < 32; ++i) EXPECT_EQ(y[7 * 32 + i], acc[i]) << i;
}

}  // namespace
}  // namespace corrloom::sim
