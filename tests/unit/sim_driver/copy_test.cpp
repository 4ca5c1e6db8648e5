#include <cstring>
#include <numeric>

#include "tests/unit/sim_driver/client.h"

/// Boxes of three dimensions, and copies between devices, against loops over single bytes.
namespace corrloom::sim::driver {
namespace {

using Bytes = std::vector<uint8_t>;

/// One side of a box: where it begins in memory whose rows and slices are larger than it.
struct Side {
  size_t x = 0, y = 0, z = 0, pitch = 0, height = 0;
  size_t at(size_t i, size_t j, size_t k) const { return ((z + k) * height + y + j) * pitch + x + i; }
};
struct Box {
  size_t width, height, depth;
};

Bytes pattern(size_t bytes, unsigned seed) {
  Bytes values(bytes);
  for (size_t i = 0; i < bytes; ++i) values[i] = uint8_t((i * 131 + seed) >> 1);
  return values;
}

/// What a copy must make of `to`.
Bytes expected(Bytes to, const Side& to_side, const Bytes& from, const Side& from_side, const Box& box) {
  for (size_t k = 0; k < box.depth; ++k) {
    for (size_t j = 0; j < box.height; ++j) {
      for (size_t i = 0; i < box.width; ++i) to[to_side.at(i, j, k)] = from[from_side.at(i, j, k)];
    }
  }
  return to;
}

template <class Description>
Description describe(const Side& from, const Side& to, const Box& box) {
  Description d = {};
  d.srcXInBytes = from.x, d.srcY = from.y, d.srcZ = from.z, d.srcPitch = from.pitch, d.srcHeight = from.height;
  d.dstXInBytes = to.x, d.dstY = to.y, d.dstZ = to.z, d.dstPitch = to.pitch, d.dstHeight = to.height;
  d.WidthInBytes = box.width, d.Height = box.height, d.Depth = box.depth;
  return d;
}

constexpr Side kFrom{3, 1, 1, 23, 5}, kTo{5, 2, 0, 32, 6};
constexpr Box kBox{11, 3, 2};
constexpr size_t kFromBytes = 23 * 5 * 3, kToBytes = 32 * 6 * 2;

class Boxes : public DriverTest {
 protected:
  const Bytes from = pattern(kFromBytes, 1), to = pattern(kToBytes, 99);
  const Bytes result = expected(to, kTo, from, kFrom, kBox);
};

TEST_F(Boxes, BetweenHostAndDevice) {
  auto up = describe<CUDA_MEMCPY3D>(kFrom, kTo, kBox);
  up.srcMemoryType = CU_MEMORYTYPE_HOST;
  up.srcHost = from.data();
  up.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  up.dstDevice = upload(to);
  ASSERT_OK(cu().cuMemcpy3D_v2(&up));
  EXPECT_EQ(download<uint8_t>(up.dstDevice, kToBytes), result);

  Bytes host = to;
  auto down = describe<CUDA_MEMCPY3D>(kFrom, kTo, kBox);
  down.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  down.srcDevice = upload(from);
  down.dstMemoryType = CU_MEMORYTYPE_HOST;
  down.dstHost = host.data();
  ASSERT_OK(cu().cuMemcpy3D_v2(&down));
  EXPECT_EQ(host, result);
}

TEST_F(Boxes, OnOneDeviceInTheOrderOfAStream) {
  const CUstream s = stream();
  auto copy = describe<CUDA_MEMCPY3D>(kFrom, kTo, kBox);
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = allocate(kFromBytes);
  copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.dstDevice = upload(to);
  ASSERT_OK(launch(load(slow_kernel()), 1, 1, upload<uint32_t>({0}), 300'000, 1, s));
  ASSERT_OK(cu().cuMemcpyHtoDAsync_v2(copy.srcDevice, from.data(), kFromBytes, s));
  ASSERT_OK(cu().cuMemcpy3DAsync_v2(&copy, s));
  ASSERT_OK(cu().cuStreamSynchronize(s));
  EXPECT_EQ(download<uint8_t>(copy.dstDevice, kToBytes), result);
}

TEST_F(Boxes, PitchAndHeightOfZeroStandForTheLeast) {
  const Side tight{0, 0, 0, 7, 4};
  const Box box{7, 4, 3};
  auto copy = describe<CUDA_MEMCPY3D>({0, 0, 0, 0, 0}, tight, box);
  const Bytes source = pattern(7 * 4 * 3, 5);
  Bytes target(7 * 4 * 3);
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = upload(source);
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = target.data();
  ASSERT_OK(cu().cuMemcpy3D_v2(&copy));
  EXPECT_EQ(target, source);
}

TEST_F(Boxes, RefusesWhatDoesNotFit) {
  auto good = describe<CUDA_MEMCPY3D>(kFrom, kTo, kBox);
  good.srcMemoryType = good.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  good.srcDevice = upload(from);
  good.dstDevice = upload(to);
  const auto spoil = [&](auto change) {
    auto copy = good;
    change(copy);
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemcpy3D_v2(&copy));
  };
  spoil([](auto& c) { c.srcPitch = 13; });  // x + width is 14
  spoil([](auto& c) { c.dstPitch = 15; });  // 16
  spoil([](auto& c) { c.srcHeight = 3; });  // y + height is 4
  spoil([](auto& c) { c.dstHeight = 4; });  // 5
  spoil([](auto& c) { c.srcZ = 2; });       // one slice too many
  spoil([](auto& c) { c.dstZ = 1; });
  spoil([](auto& c) { c.Depth = 3; });
  spoil([](auto& c) { c.srcDevice = 64; });
  spoil([](auto& c) { c.srcLOD = 1; });
  spoil([](auto& c) { c.WidthInBytes = SIZE_MAX; });
  EXPECT_EQ(download<uint8_t>(good.dstDevice, kToBytes), to);
  ASSERT_OK(cu().cuMemcpy3D_v2(&good));
  EXPECT_EQ(download<uint8_t>(good.dstDevice, kToBytes), result);
}

TEST_F(Boxes, ACapturedCopyIsANode) {
  const CUstream s = stream();
  auto copy = describe<CUDA_MEMCPY3D>(kFrom, kTo, kBox);
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = upload(from);
  copy.dstDevice = upload(to);
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  ASSERT_OK(cu().cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
  ASSERT_OK(cu().cuMemcpy3DAsync_v2(&copy, s));
  ASSERT_OK(cu().cuStreamEndCapture(s, &graph));
  EXPECT_EQ(download<uint8_t>(copy.dstDevice, kToBytes), to);
  ASSERT_OK(cu().cuGraphInstantiateWithFlags(&executable, graph, 0));
  ASSERT_OK(cu().cuGraphLaunch(executable, s));
  ASSERT_OK(cu().cuStreamSynchronize(s));
  EXPECT_EQ(download<uint8_t>(copy.dstDevice, kToBytes), result);
}

class PeerCopies : public Boxes {
 protected:
  void SetUp() override {
    Boxes::SetUp();
    ASSERT_OK(cu().cuDevicePrimaryCtxRetain(&second, 1));
    ASSERT_OK(cu().cuCtxPushCurrent_v2(second));
    there = upload(to);
    CUcontext popped = nullptr;
    ASSERT_OK(cu().cuCtxPopCurrent_v2(&popped));
    here = upload(from);
  }
  void TearDown() override {
    cu().cuDevicePrimaryCtxReset_v2(1);
    cu().cuDevicePrimaryCtxRelease_v2(1);
    Boxes::TearDown();
  }
  CUcontext second = nullptr;
  CUdeviceptr here = 0, there = 0;
};

TEST_F(PeerCopies, Boxes) {
  auto copy = describe<CUDA_MEMCPY3D_PEER>(kFrom, kTo, kBox);
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = here;
  copy.dstDevice = there;
  copy.srcContext = context;
  copy.dstContext = second;
  ASSERT_OK(cu().cuMemcpy3DPeer(&copy));
  ASSERT_OK(cu().cuCtxSynchronize());
  EXPECT_EQ(download<uint8_t>(there, kToBytes), result);

  // The other way round, on a stream.
  const CUstream s = stream();
  auto back = describe<CUDA_MEMCPY3D_PEER>(kTo, kFrom, kBox);
  back.srcMemoryType = back.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  back.srcDevice = there;
  back.dstDevice = here;
  back.srcContext = second;
  back.dstContext = context;
  const Bytes blank = pattern(kFromBytes, 7);
  ASSERT_OK(cu().cuMemcpyHtoDAsync_v2(here, blank.data(), kFromBytes, s));
  ASSERT_OK(cu().cuMemcpy3DPeerAsync(&back, s));
  ASSERT_OK(cu().cuStreamSynchronize(s));
  EXPECT_EQ(download<uint8_t>(here, kFromBytes), expected(blank, kFrom, result, kTo, kBox));

  copy.dstContext = invented<CUcontext>();
  EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, cu().cuMemcpy3DPeer(&copy));
}

TEST_F(PeerCopies, RangesAndOffsets) {
  ASSERT_OK(cu().cuMemcpyPeer(there + 5, second, here + 100, context, 37));
  ASSERT_OK(cu().cuCtxSynchronize());
  Bytes wanted = to;
  std::copy_n(from.begin() + 100, 37, wanted.begin() + 5);
  EXPECT_EQ(download<uint8_t>(there, kToBytes), wanted);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemcpyPeer(there, second, here + 1, context, kFromBytes));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemcpyPeer(there + kToBytes - 4, second, here, context, 5));
  EXPECT_CU(CUDA_SUCCESS, cu().cuMemcpyPeer(there, second, here, context, 0));
}

}  // namespace
}  // namespace corrloom::sim::driver
