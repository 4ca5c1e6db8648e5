#include <algorithm>
#include <cmath>
#include <complex>
#include <numeric>

#include "compiled.h"

/// Primitives of CUB, and what else comes as a library of device code, as nvcc compiles them.
namespace corrloom::sim {
namespace {

class Cub : public CompiledKernels {};

TEST_P(Cub, BlockScan) {
  const auto in = numbers(512);
  const DeviceAddress total = zeros(2);
  const auto y = run<int>("block_scan", {1}, {128}, 512, sim.upload(in), kOut, total);
  std::vector<int> expected(512);
  std::exclusive_scan(in.begin(), in.end(), expected.begin(), 0);
  EXPECT_EQ(y, expected);
  EXPECT_EQ(sim.download<int>(total, 2), (std::vector<int>{std::accumulate(in.begin(), in.end(), 0),
                                                           *std::max_element(in.begin(), in.begin() + 128)}));
}

TEST_P(Cub, BlockReduce) {
  std::vector<float> in(384);
  for (size_t i = 0; i < in.size(); ++i) in[i] = float(i * 37 % 101);
  const auto y = run<float>("block_reduce", {3}, {128}, 9, sim.upload(in), kOut);
  for (int b = 0; b < 3; ++b) {
    const auto first = in.begin() + b * 128;
    EXPECT_EQ(y[size_t(b * 3)], std::accumulate(first, first + 128, 0.0f));
    EXPECT_EQ(y[size_t(b * 3 + 1)], *std::max_element(first, first + 128));
    EXPECT_EQ(y[size_t(b * 3 + 2)], std::accumulate(first, first + 77, 0.0f));
  }
}

TEST_P(Cub, Sorts) {
  std::vector<unsigned> keys(640);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = unsigned(i * 2654435761u) >> (i % 3 * 9);
  const DeviceAddress data = sim.upload(keys);
  const auto values = run<int>("block_sort", {1}, {128}, 640, data, kOut);
  const auto sorted = sim.download<unsigned>(data, 640);
  for (size_t i = 0; i < 640; ++i) EXPECT_EQ(sorted[i], keys[size_t(values[i])]);
  std::ranges::sort(keys);
  EXPECT_EQ(sorted, keys);

  std::vector<float> floats(300);
  for (size_t i = 0; i < floats.size(); ++i) floats[i] = float(i * 7919 % 1009) - 500;
  const DeviceAddress f = sim.upload(floats);
  ASSERT_TRUE(clean(sim.launch("merge_sort", {1}, {128}, f, 300)));
  std::ranges::sort(floats);
  EXPECT_EQ(sim.download<float>(f, 300), floats);
}

TEST_P(Cub, Histogram) {
  std::vector<uint8_t> in(1024);
  std::vector<int> expected(64, 0);
  for (size_t i = 0; i < in.size(); ++i) expected[in[i] = uint8_t(i * i / 5 % 64)] += 1001;
  EXPECT_EQ(run<int>("block_histogram", {1}, {128}, 64, sim.upload(in), kOut), expected);
}

TEST_P(Cub, Neighbours) {
  auto in = numbers(512);
  for (int& v : in) v /= 300;
  const auto y = run<int>("neighbours", {1}, {128}, 512, sim.upload(in), kOut);
  for (size_t t = 0; t < 128; ++t) {
    for (size_t i = 0; i < 4; ++i) {
      const size_t blocked = t * 4 + i, striped = i * 128 + t;
      const int difference = blocked == 0 ? in[0] : in[blocked] - in[blocked - 1];
      const int head = blocked == 0 || in[blocked] != in[blocked - 1];
      const int rotated = i == 0 ? in[(t + 5) % 128 * 4] * 100000 : 0;
      EXPECT_EQ(y[blocked], in[striped] * 4 + head + 1000 * difference + rotated) << t << ' ' << i;
    }
  }
}

TEST_P(Cub, WarpPrimitives) {
  const auto in = numbers(256);
  const auto y = run<int>("warp_primitives", {1}, {128}, 512, sim.upload(in), kOut);
  for (size_t t = 0; t < 128; ++t) {
    const auto warp = std::ptrdiff_t(t / 32 * 32);
    EXPECT_EQ(y[t], std::accumulate(in.begin() + warp, in.begin() + std::ptrdiff_t(t) + 1, 0));
    int sum = 0;
    for (size_t i = t; t % 5 == 0 && i < t / 16 * 16 + 16 && (i == t || i % 5 != 0); ++i) sum += in[i];
    EXPECT_EQ(y[128 + t], sum) << t;
  }
  for (size_t w = 0; w < 4; ++w) {
    std::vector<int> all;
    for (size_t i = 0; i < 32; ++i) all.push_back(in[w * 32 + i]), all.push_back(in[w * 32 + i + 128]);
    std::ranges::sort(all);
    EXPECT_TRUE(std::equal(all.begin(), all.end(), y.begin() + 256 + std::ptrdiff_t(w) * 64));
  }
}

TEST_P(Cub, DecoupledLookBack) {
  const int tiles = 40;
  const auto in = numbers(tiles * 128);
  const DeviceAddress state = sim.memory.allocate(1 << 20);
  ASSERT_TRUE(clean(sim.launch("lookback_init", {1}, {128}, state, tiles)));
  const auto y = run<int>("lookback_scan", {tiles}, {128}, tiles * 128, state, tiles, sim.upload(in), kOut);
  std::vector<int> expected(in.size());
  std::exclusive_scan(in.begin(), in.end(), expected.begin(), 0);
  EXPECT_EQ(y, expected);
}

TEST_P(Cub, ComplexNumbers) {
  using C = std::complex<float>;
  std::vector<C> in;
  for (int i = 0; i < 32; ++i) in.emplace_back(float(i) * 0.5f - 3, 2 - float(i % 5));
  const auto y = run<C>("complex_numbers", {1}, {32}, 32, kOut, sim.upload(in));
  const C b(1.5f, -0.5f);
  for (size_t i = 0; i < 32; ++i) {
    const C expected = in[i] * b / (b + C(2)) + std::conj(in[i]) - std::polar(std::abs(in[i]), 0.25f);
    EXPECT_LT(std::abs(y[i] - expected), 2e-6f * (1 + std::abs(expected))) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Nvcc, Cub, variants({"cub_sm80.ptx"}), variant_name);

}  // namespace
}  // namespace corrloom::sim
