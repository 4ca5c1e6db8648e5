#include <cmath>

#include "simulator.h"

/// Tensor-core kernels compiled by nvcc, on small integers: every product and sum is exact, so layouts show at once.
namespace corrloom::sim {
namespace {

uint16_t f16(float value) {  // exact for small integers
  if (value == 0) return 0;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return uint16_t((bits >> 16 & 0x8000) | (((bits >> 23 & 0xFF) - 112) << 10) | (bits >> 13 & 0x3FF));
}
uint16_t bf16(float value) {
  return uint16_t(std::bit_cast<uint32_t>(value) >> 16);
}
float small(int i, int seed) {
  return float((i * 7 + seed * 3 + i / 5) % 9 - 4);
}

class Matrix : public ::testing::Test {
 protected:
  void SetUp() override { sim.load(read_ptx("matrix_sm80.ptx")); }
  Simulator sim;
};

TEST_F(Matrix, MmaF16FragmentLayout) {
  std::vector<uint16_t> a(256), b(128);
  for (int i = 0; i < 256; ++i) a[size_t(i)] = f16(small(i, 1));
  for (int i = 0; i < 128; ++i) b[size_t(i)] = f16(small(i, 2));
  const DeviceAddress out = sim.memory.allocate(128 * 4);
  ASSERT_TRUE(clean(sim.launch("mma_f16", {1}, {32}, sim.upload(a), sim.upload(b), out)));
  const auto c = sim.download<float>(out, 128);
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 8; ++j) {
      float sum = float((i >= 8 ? 3 : 1) + j % 2);
      for (int k = 0; k < 16; ++k) sum += small(i * 16 + k, 1) * small(j * 16 + k, 2);
      EXPECT_EQ(c[size_t(i * 8 + j)], sum) << i << " " << j;
    }
  }
}

TEST_F(Matrix, MmaTf32IgnoresTheLowBits) {
  std::vector<float> a(128), b(64);
  for (int i = 0; i < 128; ++i) a[size_t(i)] = std::bit_cast<float>(std::bit_cast<uint32_t>(small(i, 1)) | 0x0FFFu);
  for (int i = 0; i < 64; ++i) b[size_t(i)] = small(i, 2);
  const DeviceAddress out = sim.memory.allocate(128 * 4);
  ASSERT_TRUE(clean(sim.launch("mma_tf32", {1}, {32}, sim.upload(a), sim.upload(b), out)));
  const auto c = sim.download<float>(out, 128);
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 8; ++j) {
      float sum = 0;
      for (int k = 0; k < 8; ++k) sum += small(i * 8 + k, 1) * small(j * 8 + k, 2);
      EXPECT_EQ(c[size_t(i * 8 + j)], sum) << i << " " << j;
    }
  }
}

TEST_F(Matrix, MmaMixesSignedAndUnsignedBytes) {
  std::vector<int8_t> a(512);
  std::vector<uint8_t> b(256);
  for (int i = 0; i < 512; ++i) a[size_t(i)] = int8_t(i * 37);
  for (int i = 0; i < 256; ++i) b[size_t(i)] = uint8_t(i * 91);
  const DeviceAddress out = sim.memory.allocate(128 * 4);
  ASSERT_TRUE(clean(sim.launch("mma_s8", {1}, {32}, sim.upload(a), sim.upload(b), out)));
  const auto c = sim.download<int>(out, 128);
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 8; ++j) {
      int sum = (i >= 8 ? 7 : 5) + j % 2;
      for (int k = 0; k < 32; ++k) sum += int(a[size_t(i * 32 + k)]) * int(b[size_t(j * 32 + k)]);
      EXPECT_EQ(c[size_t(i * 8 + j)], sum) << i << " " << j;
    }
  }
}

TEST_F(Matrix, MmaF64) {
  std::vector<double> a(32), b(32);
  for (int i = 0; i < 32; ++i) a[size_t(i)] = 0.1 * i, b[size_t(i)] = 1.0 / (i + 1);
  const DeviceAddress out = sim.memory.allocate(64 * 8);
  ASSERT_TRUE(clean(sim.launch("mma_f64", {1}, {32}, sim.upload(a), sim.upload(b), out)));
  const auto c = sim.download<double>(out, 64);
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < 8; ++j) {
      double sum = 0;
      for (int k = 0; k < 4; ++k) sum = std::fma(a[size_t(i * 4 + k)], b[size_t(j * 4 + k)], sum);
      EXPECT_EQ(c[size_t(i * 8 + j)], sum) << i << " " << j;
    }
  }
}

void run_gemm(Simulator& sim, int skip_wait, LaunchResult& result, bool& right) {
  const int k = 80;
  std::vector<uint16_t> a(size_t(64 * k)), b(size_t(k * 64));
  for (int i = 0; i < 64 * k; ++i) a[size_t(i)] = bf16(small(i, 1)), b[size_t(i)] = bf16(small(i, 2));
  const DeviceAddress out = sim.memory.allocate(64 * 64 * 4);
  result = sim.launch("gemm_bf16", {1}, {128}, sim.upload(a), sim.upload(b), out, k, skip_wait);
  const auto c = sim.download<float>(out, 64 * 64);
  right = true;
  for (int i = 0; i < 64; ++i) {
    for (int j = 0; j < 64; ++j) {
      float sum = 0;
      for (int p = 0; p < k; ++p) sum += small(i * k + p, 1) * small(p * 64 + j, 2);
      right &= c[size_t(i * 64 + j)] == sum;
    }
  }
}

TEST_F(Matrix, PipelinedGemmWithLdmatrix) {
  LaunchResult result;
  bool right = false;
  run_gemm(sim, 0, result, right);
  EXPECT_TRUE(clean(result));
  EXPECT_TRUE(right);
  EXPECT_EQ(result.counters.tensor_flops, 2u * 64 * 64 * 80);
}

TEST_F(Matrix, GemmThatDoesNotWaitForItsCopies) {
  LaunchResult result;
  bool right = false;
  run_gemm(sim, 1, result, right);
  EXPECT_EQ(result.error, LaunchError::Finding);
  bool found = false;
  for (const Finding& finding : result.findings) found |= finding.kind == FindingKind::UnsynchronisedAsyncCopy;
  EXPECT_TRUE(found) << result.report();
}

TEST_F(Matrix, WmmaFragmentsRoundTrip) {
  std::vector<uint16_t> a(256), b(256);
  for (int i = 0; i < 256; ++i) a[size_t(i)] = f16(small(i, 1)), b[size_t(i)] = f16(small(i, 2));
  const DeviceAddress out = sim.memory.allocate(256 * 4);
  ASSERT_TRUE(clean(sim.launch("wmma_f16", {1}, {32}, sim.upload(a), sim.upload(b), out)));
  const auto c = sim.download<float>(out, 256);
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 16; ++j) {
      float sum = 1;
      for (int k = 0; k < 16; ++k) sum += small(i * 16 + k, 1) * small(j * 16 + k, 2);
      EXPECT_EQ(c[size_t(i * 16 + j)], 2 * sum) << i << " " << j;
    }
  }
}

TEST_F(Matrix, WmmaBytesOfAnotherShape) {
  std::vector<int8_t> a(512), b(128);
  for (int i = 0; i < 512; ++i) a[size_t(i)] = int8_t(i * 37);
  for (int i = 0; i < 128; ++i) b[size_t(i)] = int8_t(i * 91);
  const DeviceAddress out = sim.memory.allocate(256 * 4);
  ASSERT_TRUE(clean(sim.launch("wmma_s8", {1}, {32}, sim.upload(a), sim.upload(b), out)));
  const auto c = sim.download<int>(out, 256);
  for (int i = 0; i < 32; ++i) {
    for (int j = 0; j < 8; ++j) {
      int sum = 0;
      for (int k = 0; k < 16; ++k) sum += int(a[size_t(i * 16 + k)]) * int(b[size_t(k * 8 + j)]);
      EXPECT_EQ(c[size_t(i * 8 + j)], sum) << i << " " << j;
    }
  }
}

class Hopper : public ::testing::Test {
 protected:
  void SetUp() override { sim.load(read_ptx("hopper_sm90a.ptx")); }

  /// A 2D tensor map of f32[rows, columns].
  std::array<std::byte, 128> map_of(DeviceAddress address, uint64_t rows, uint64_t columns, uint32_t box_rows,
                                    uint32_t box_columns, TensorSwizzle swizzle) {
    TensorMapDescription d;
    d.rank = 2;
    d.address = address;
    d.extent = {columns, rows};
    d.stride_bytes = {columns * 4};
    d.box = {box_columns, box_rows};
    d.swizzle = swizzle;
    std::array<std::byte, 128> bytes;
    EXPECT_EQ(encode_tensor_map(d, bytes), "");
    return bytes;
  }
  Simulator sim;
};

TEST_F(Hopper, TensorLoadClipsAndFillsWithZeros) {
  const int rows = 10, columns = 20;
  std::vector<float> x(rows * columns);
  for (size_t i = 0; i < x.size(); ++i) x[i] = float(i + 1);
  const DeviceAddress in = sim.upload(x), out = sim.memory.allocate(8 * 8 * 4);
  sim.dynamic_shared = 4096;
  ASSERT_TRUE(
      clean(sim.launch("tma_load", {1}, {32}, map_of(in, rows, columns, 8, 8, TensorSwizzle::None), out, 16, -2, 64)));
  const auto tile = sim.download<float>(out, 64);
  for (int r = 0; r < 8; ++r) {
    for (int c = 0; c < 8; ++c) {
      const int y = r - 2, z = c + 16;
      EXPECT_EQ(tile[size_t(r * 8 + c)], y >= 0 && y < rows && z < columns ? x[size_t(y * columns + z)] : 0.0f)
          << r << " " << c;
    }
  }
}

TEST_F(Hopper, SwizzlePermutesSixteenByteUnits) {
  std::vector<float> x(16 * 32);
  for (size_t i = 0; i < x.size(); ++i) x[i] = float(i);
  const DeviceAddress in = sim.upload(x), out = sim.memory.allocate(16 * 32 * 4);
  sim.dynamic_shared = 4096;
  ASSERT_TRUE(
      clean(sim.launch("tma_load", {1}, {32}, map_of(in, 16, 32, 16, 32, TensorSwizzle::Bytes128), out, 0, 0, 512)));
  const auto tile = sim.download<float>(out, 512);
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 32; ++column) {
      const int unit = (column / 4) ^ (row % 8);  // rows of 128 bytes: bits 4-6 ^= bits 7-9
      EXPECT_EQ(tile[size_t(row * 32 + unit * 4 + column % 4)], x[size_t(row * 32 + column)]) << row << " " << column;
    }
  }
}

TEST_F(Hopper, WaitingForTooManyBytesTimesOut) {
  const DeviceAddress in = sim.upload(std::vector<float>(256, 1)), out = sim.memory.allocate(2048);
  sim.dynamic_shared = 4096;
  sim.options.watchdog = std::chrono::milliseconds(200);
  // The tile holds 64 numbers, the kernel expects 65.
  const LaunchResult result =
      sim.launch("tma_load", {1}, {32}, map_of(in, 16, 16, 8, 8, TensorSwizzle::None), out, 0, 0, 65);
  EXPECT_EQ(result.error, LaunchError::Timeout);
}

TEST_F(Hopper, TensorStoreWritesInsideOnly) {
  const DeviceAddress out = sim.upload(std::vector<float>(10 * 20, -1));
  sim.dynamic_shared = 4096;
  ASSERT_TRUE(clean(sim.launch("tma_store", {1}, {32}, map_of(out, 10, 20, 8, 8, TensorSwizzle::None), 16, 6, 64)));
  const auto y = sim.download<float>(out, 200);
  for (int r = 0; r < 10; ++r) {
    for (int c = 0; c < 20; ++c)
      EXPECT_EQ(y[size_t(r * 20 + c)], r >= 6 && c >= 16 ? float((r - 6) * 8 + c - 16 + 1) : -1.0f) << r << " " << c;
  }
}

TEST_F(Hopper, ProducerAndConsumerThroughBarriers) {
  const int tiles = 11;
  std::vector<float> x(size_t(tiles * 128));
  for (size_t i = 0; i < x.size(); ++i) x[i] = float(i % 13);
  const DeviceAddress out = sim.memory.allocate(32 * 4);
  ASSERT_TRUE(clean(sim.launch("pipeline", {1}, {64}, sim.upload(x), out, tiles)));
  const auto sums = sim.download<float>(out, 32);
  for (int lane = 0; lane < 32; ++lane) {
    float sum = 0;
    for (int t = 0; t < tiles; ++t) {
      for (int i = 0; i < 4; ++i) sum += x[size_t(t * 128 + lane * 4 + i)];
    }
    EXPECT_EQ(sums[size_t(lane)], sum) << lane;
  }
}

TEST_F(Hopper, ClusterReadsEachOthersSharedMemory) {
  const DeviceAddress out = sim.memory.allocate(8 * 32 * 4);
  ASSERT_TRUE(clean(sim.launch("dsmem", {8}, {32}, out)));
  const auto y = sim.download<int>(out, 256);
  for (int i = 0; i < 256; ++i) EXPECT_EQ(y[size_t(i)], 600 + 4 * (i % 32));
}

TEST_F(Hopper, WgmmaWithoutSwizzle) {
  std::vector<uint16_t> a(64 * 16), b(32 * 16);
  for (int i = 0; i < 64 * 16; ++i) a[size_t(i)] = bf16(small(i, 1));
  for (int i = 0; i < 32 * 16; ++i) b[size_t(i)] = bf16(small(i, 2));
  const DeviceAddress out = sim.memory.allocate(64 * 32 * 4);
  ASSERT_TRUE(clean(sim.launch("wgmma_bf16", {1}, {128}, sim.upload(a), sim.upload(b), out)));
  const auto c = sim.download<float>(out, 64 * 32);
  for (int i = 0; i < 64; ++i) {
    for (int j = 0; j < 32; ++j) {
      float sum = 0.5f;
      for (int k = 0; k < 16; ++k) sum += small(i * 16 + k, 1) * small(j * 16 + k, 2);
      ASSERT_EQ(c[size_t(i * 32 + j)], sum) << i << " " << j;
    }
  }
}

TEST_F(Hopper, CooperativeGridsWaitForEachOther) {
  const int n = 64 * 20;
  const DeviceAddress data = sim.memory.allocate(n * 4), out = sim.memory.allocate(n * 4);
  sim.cooperative = true;
  ASSERT_TRUE(clean(sim.launch("grid_sync", {20}, {64}, data, out, n)));
  const auto y = sim.download<int>(out, n);
  for (int i = 0; i < n; ++i) EXPECT_EQ(y[size_t(i)], (i + 33) % n);
}

}  // namespace
}  // namespace corrloom::sim
