#include <algorithm>
#include <numeric>

#include "compiled.h"

/// Clusters, distributed shared memory, bulk and tensor copies, as nvcc compiles them.
namespace corrloom::sim {
namespace {

class Clusters : public CompiledKernels {
 protected:
  using Map = std::array<std::byte, 128>;
  static Map encode(const TensorMapDescription& description) {
    Map map;
    EXPECT_EQ(encode_tensor_map(description, map), "");
    return map;
  }
};

TEST_P(Clusters, HistogramInDistributedMemory) {
  std::vector<int> in(3000), expected(256, 0);
  for (size_t i = 0; i < in.size(); ++i) ++expected[size_t(in[i] = int(i * i + i / 7) & 255)];
  const DeviceAddress bins = zeros(256), data = sim.upload(in);
  sim.cluster = Dim3{4};
  sim.dynamic_shared = 256;
  ASSERT_TRUE(clean(sim.launch("histogram", {12}, {96}, data, 3000, bins, 64)));
  EXPECT_EQ(sim.download<int>(bins, 256), expected);
}

TEST_P(Clusters, RingOfBlocks) {
  for (const Dim3 cluster : {Dim3{4, 1, 1}, Dim3{2, 2, 1}, Dim3{2, 2, 2}, Dim3{1, 3, 2}}) {
    sim.cluster = cluster;
    const Dim3 grid{cluster.x * 2, cluster.y, cluster.z * 2};
    const auto y = run<int>("ring", grid, {64}, int(grid.count()) * 64);
    const auto size = int(cluster.count());
    // A value that went all the way round is back where it began, one more for each step.
    for (uint32_t b = 0; b < grid.count(); ++b) {
      const uint32_t bx = b % grid.x % cluster.x, by = b / grid.x % grid.y % cluster.y,
                     bz = b / grid.x / grid.y % cluster.z;
      const auto rank = int(bx + cluster.x * (by + cluster.y * bz));
      for (int t = 0; t < 64; ++t) EXPECT_EQ(y[b * 64 + uint32_t(t)], rank * 100 + t + size + 110000) << b << ' ' << t;
    }
  }
}

TEST_P(Clusters, ReductionOverACluster) {
  std::vector<float> in(3 * 512);
  for (size_t i = 0; i < in.size(); ++i) in[i] = float(i % 17);
  const auto y = run<float>("cluster_reduce", {6}, {256}, 3, sim.upload(in), kOut);
  for (int c = 0; c < 3; ++c)
    EXPECT_EQ(y[size_t(c)], std::accumulate(in.begin() + c * 512, in.begin() + c * 512 + 512, 0.0f));
}

TEST_P(Clusters, RemoteBarriersAndStores) {
  const auto y = run<int>("remote_barriers", {8}, {32}, 256);
  for (int b = 0; b < 8; ++b) {
    for (int t = 0; t < 32; ++t) EXPECT_EQ(y[size_t(b * 32 + t)], (b + 3) % 4 * 1000 + t);
  }
}

TEST_P(Clusters, BulkCopies) {
  const auto in = numbers(3 * 300);
  sim.dynamic_shared = 1200;
  const auto y = run<int>("bulk_roundtrip", {3}, {96}, 900, sim.upload(in), kOut, 300);
  for (size_t i = 0; i < 900; ++i) EXPECT_EQ(y[i], in[i] * 3 + 1);
  sim.dynamic_shared = 0;
  const DeviceAddress sum = zeros(64), least = sim.upload(std::vector<int>(64, 50)),
                      d = sim.upload(std::vector<double>(32, 1));
  ASSERT_TRUE(clean(sim.launch("bulk_reduce", {5}, {64}, sum, least, d)));
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(sim.download<int>(sum, 64)[size_t(i)], 5 * i + 10);
    EXPECT_EQ(sim.download<int>(least, 64)[size_t(i)], std::min(50, i));
    EXPECT_EQ(sim.download<double>(d, 32)[size_t(i / 2)], 1 + 2.5 * (i / 2));
  }
}

TEST_P(Clusters, Multicast) {
  const auto in = numbers(128);
  const auto y = run<int>("multicast", {4}, {128}, 512, sim.upload(in), kOut);
  for (int i = 0; i < 512; ++i) EXPECT_EQ(y[size_t(i)], i / 128 == 2 ? -1 : in[size_t(i % 128)]);
}

/// Byte that a swizzle of `span` bytes puts at `at`; the tile starts at a multiple of 1024.
uint32_t swizzled(uint32_t at, uint32_t span) {
  const uint32_t units = span / 16 - 1;
  return span == 0 ? at : at ^ (at / 128 & units) << 4;
}

struct TensorCase {
  uint32_t rank;
  std::array<uint32_t, 5> extent, box;
  std::array<int, 3> at;
  TensorSwizzle swizzle;
  std::array<uint32_t, 5> step{1, 1, 1, 1, 1};
};

TEST_P(Clusters, TensorsOfEveryRankAndSwizzle) {
  const TensorCase cases[] = {
      {1, {200}, {64}, {24}, TensorSwizzle::None},
      {1, {200}, {64}, {180}, TensorSwizzle::None},
      {2, {64, 40}, {8, 16}, {16, 9}, TensorSwizzle::Bytes32},
      {2, {64, 40}, {16, 16}, {40, 30}, TensorSwizzle::Bytes64},
      {2, {64, 40}, {32, 16}, {-5, -3}, TensorSwizzle::Bytes128},
      {2, {64, 40}, {32, 16}, {8, 4}, TensorSwizzle::None, {1, 2, 1, 1, 1}},
      {3, {36, 10, 7}, {32, 4, 3}, {4, 8, 5}, TensorSwizzle::Bytes128},
      {4, {12, 6, 5, 4}, {8, 3, 2, 2}, {2, 4, 3}, TensorSwizzle::Bytes32},
      {5, {8, 4, 3, 3, 3}, {4, 2, 2, 2, 2}, {4, 1, 2}, TensorSwizzle::None},
  };
  for (const TensorCase& test : cases) {
    size_t elements = 1, tile = 1;
    TensorMapDescription map;
    map.type = TensorType::S32;
    map.rank = test.rank;
    map.swizzle = test.swizzle;
    uint64_t stride = 1;
    std::array<uint32_t, 5> count{1, 1, 1, 1, 1};
    for (uint32_t d = 0; d < test.rank; ++d) {
      map.extent[d] = test.extent[d];
      map.box[d] = test.box[d];
      map.element_stride[d] = test.step[d];
      count[d] = (test.box[d] + test.step[d] - 1) / test.step[d];
      if (d > 0) map.stride_bytes[d - 1] = stride * 4;
      stride *= d == 0 ? (test.extent[0] + 3) / 4 * 4 : test.extent[d];
      tile *= count[d];
    }
    elements = size_t(stride);
    std::vector<int> in(elements);
    std::iota(in.begin(), in.end(), 1);
    map.address = sim.upload(in);
    TensorMapDescription to = map;
    to.address = zeros(elements);
    sim.dynamic_shared = uint32_t(tile * 4);
    const auto y = run<int>("tensor" + std::to_string(test.rank), {1}, {64}, int(tile), encode(map), encode(to), kOut,
                            int(tile), test.at[0], test.at[1], test.at[2]);
    std::vector<int> written(elements, 0);
    const uint32_t span = test.swizzle == TensorSwizzle::None ? 0 : 16u << uint32_t(test.swizzle);
    for (uint32_t i = 0; i < tile; ++i) {
      uint64_t element = 0, step = 1;
      bool inside = true;
      uint32_t rest = i;
      for (uint32_t d = 0; d < test.rank; ++d) {
        const int64_t at = (d < 3 ? test.at[d] : 1) + int64_t(rest % count[d]) * test.step[d];
        rest /= count[d];
        inside &= at >= 0 && at < int64_t(test.extent[d]);
        element += uint64_t(at) * step;
        step *= d == 0 ? (test.extent[0] + 3) / 4 * 4 : test.extent[d];
      }
      const int expected = inside ? in[size_t(element)] : 0;
      EXPECT_EQ(y[swizzled(i * 4, span) / 4], expected) << "rank " << test.rank << " element " << i;
      if (inside) written[size_t(element)] = expected + 1000;
    }
    EXPECT_EQ(sim.download<int>(to.address, elements), written) << "rank " << test.rank;
  }
}

TEST_P(Clusters, TensorReduction) {
  for (const int op : {0, 1}) {
    TensorMapDescription map;
    map.rank = 2;
    map.extent = {20, 10};
    map.stride_bytes = {80};
    map.box = {16, 8};
    map.address = sim.upload(std::vector<float>(200, 3));
    ASSERT_TRUE(clean(sim.launch("tensor_reduce", {3}, {32}, encode(map), op)));
    const auto y = sim.download<float>(map.address, 200);
    for (int r = 0; r < 10; ++r) {
      for (int c = 0; c < 20; ++c) {
        float expected = 3;
        if (r >= 4 && c >= 8) {
          const auto v = float((c - 8) + (r - 4) * 2);
          expected = op == 0 ? 3 + 3 * v + 3 : std::max(3.0f, v + 2);
        }
        EXPECT_EQ(y[size_t(r * 20 + c)], expected) << r << ' ' << c;
      }
    }
  }
}

TEST_P(Clusters, Im2col) {
  // N 2, H 6, W 7, C 8; a 3 x 3 filter with padding 1: the corners of the pixel box are -1 and -1.
  constexpr int kC = 8, kW = 7, kH = 6, kN = 2, kPixels = 32, kChannels = 4;
  std::vector<int> in(size_t(kC * kW * kH * kN));
  std::iota(in.begin(), in.end(), 1);
  TensorMapDescription map;
  map.type = TensorType::S32;
  map.rank = 4;
  map.extent = {kC, kW, kH, kN};
  map.stride_bytes = {kC * 4, kC * kW * 4, kC * kW * kH * 4};
  map.box = {kChannels, kPixels};
  map.im2col = true;
  map.lower_corner = {-1, -1};
  map.upper_corner = {-1, -1};
  map.address = sim.upload(in);
  sim.dynamic_shared = kPixels * kChannels * 4;
  const int c0 = 4, w0 = 3, h0 = 2, n0 = 0, ow = 2, oh = 1;
  const auto y = run<int>("im2col", {1}, {64}, kPixels * kChannels, encode(map), kOut, kPixels * kChannels, c0, w0, h0,
                          n0, ow, oh);
  int w = w0, h = h0, n = n0;
  for (int p = 0; p < kPixels; ++p) {
    for (int c = 0; c < kChannels; ++c) {
      const int x = w + ow, z = h + oh;
      const bool inside = x >= 0 && x < kW && z >= 0 && z < kH && n < kN;
      EXPECT_EQ(y[size_t(p * kChannels + c)], inside ? in[size_t(((n * kH + z) * kW + x) * kC + c0 + c)] : 0)
          << p << ' ' << c;
    }
    if (++w > kW - 1 - 1) {
      w = -1;
      if (++h > kH - 1 - 1) h = -1, ++n;
    }
  }
}

TEST_P(Clusters, PipelineOverATensor) {
  constexpr int kTiles = 11;
  std::vector<float> in(16 * 32 * kTiles);
  for (size_t i = 0; i < in.size(); ++i) in[i] = float(i % 101);
  TensorMapDescription map;
  map.rank = 2;
  map.extent = {32 * kTiles, 16};
  map.stride_bytes = {32 * kTiles * 4};
  map.box = {32, 16};
  map.address = sim.upload(in);
  const auto y = run<float>("tensor_pipeline", {1}, {96}, 64, encode(map), kOut, kTiles);
  for (int t = 0; t < 64; ++t) {
    float sum = 0;
    for (int i = 0; i < kTiles; ++i) {
      for (int r = 0; r < 8; ++r) sum += in[size_t((t / 32 * 8 + r) * 32 * kTiles + i * 32 + t % 32)];
    }
    EXPECT_EQ(y[size_t(t)], sum);
  }
}

INSTANTIATE_TEST_SUITE_P(Nvcc, Clusters, variants({"clusters_sm90a.ptx"}), variant_name);

}  // namespace
}  // namespace corrloom::sim
