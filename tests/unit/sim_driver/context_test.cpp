#include <cstring>
#include <thread>

#include "tests/unit/sim_driver/client.h"

namespace corrloom::sim::driver {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Contexts = DriverTest;

TEST_F(Contexts, DevicesDescribeThemselves) {
  int count = 0, value = 0, version = 0;
  char name[64];
  size_t bytes = 0;
  ASSERT_OK(cu().cuDeviceGetCount(&count));
  EXPECT_EQ(count, 2);
  ASSERT_OK(cu().cuDeviceGetName(name, sizeof(name), 1));
  EXPECT_THAT(name, HasSubstr("simulated"));
  ASSERT_OK(cu().cuDeviceTotalMem_v2(&bytes, 0));
  EXPECT_EQ(bytes, size_t(256) << 20);
  const auto attribute = [&](unsigned number) {
    EXPECT_CU(CUDA_SUCCESS, cu().cuDeviceGetAttribute(&value, CUdevice_attribute(number), 0));
    return value;
  };
  EXPECT_EQ(attribute(75), 9);     // COMPUTE_CAPABILITY_MAJOR
  EXPECT_EQ(attribute(10), 32);    // WARP_SIZE
  EXPECT_EQ(attribute(16), 132);   // MULTIPROCESSOR_COUNT
  EXPECT_EQ(attribute(8), 49152);  // MAX_SHARED_MEMORY_PER_BLOCK
  EXPECT_EQ(attribute(41), 1);     // UNIFIED_ADDRESSING
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuDeviceGetAttribute(&value, CUdevice_attribute(9999), 0));
  EXPECT_CU(CUDA_ERROR_INVALID_DEVICE, cu().cuDeviceGetAttribute(&value, CUdevice_attribute(10), 2));
  EXPECT_CU(CUDA_ERROR_INVALID_DEVICE, cu().cuDeviceGet(&value, -1));
  ASSERT_OK(cu().cuDriverGetVersion(&version));
  EXPECT_EQ(version / 1000, 13);
  CUuuid first, second;
  ASSERT_OK(cu().cuDeviceGetUuid(&first, 0));
  ASSERT_OK(cu().cuDeviceGetUuid_v2(&second, 1));
  EXPECT_NE(std::memcmp(&first, &second, 16), 0);
  char bus[20];
  ASSERT_OK(cu().cuDeviceGetPCIBusId(bus, 20, 1));
  ASSERT_OK(cu().cuDeviceGetByPCIBusId(&value, bus));
  EXPECT_EQ(value, 1);
}

TEST_F(Contexts, EachThreadHasAStack) {
  CUcontext own = nullptr, current = nullptr;
  ASSERT_OK(cu().cuCtxCreate_v2(&own, 0, 1));
  ASSERT_OK(cu().cuCtxGetCurrent(&current));
  EXPECT_EQ(current, own);
  CUdevice device = -1;
  ASSERT_OK(cu().cuCtxGetDevice(&device));
  EXPECT_EQ(device, 1);
  std::thread([&] {
    CUdeviceptr address = 0;
    EXPECT_CU(CUDA_SUCCESS, cu().cuCtxGetCurrent(&current));
    EXPECT_EQ(current, nullptr);
    EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, cu().cuMemAlloc_v2(&address, 16));
    EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, cu().cuCtxPopCurrent_v2(&current));
    EXPECT_CU(CUDA_SUCCESS, cu().cuCtxPushCurrent_v2(own));
    EXPECT_CU(CUDA_SUCCESS, cu().cuMemAlloc_v2(&address, 16));
  }).join();
  ASSERT_OK(cu().cuCtxPopCurrent_v2(&current));
  EXPECT_EQ(current, own);
  ASSERT_OK(cu().cuCtxGetCurrent(&current));
  EXPECT_EQ(current, context);
  ASSERT_OK(cu().cuCtxDestroy_v2(own));
  EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, cu().cuCtxDestroy_v2(own));
  EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, cu().cuCtxPushCurrent_v2(own));
  EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, cu().cuCtxSetCurrent(invented<CUcontext>()));
}

TEST_F(Contexts, ADestroyedContextThatIsStillCurrentSaysSo) {
  CUcontext own = nullptr;
  ASSERT_OK(cu().cuCtxCreate_v4(&own, nullptr, 0, 1));
  std::thread([&] { EXPECT_CU(CUDA_SUCCESS, cu().cuCtxDestroy_v2(own)); }).join();
  CUdeviceptr address = 0;
  EXPECT_CU(CUDA_ERROR_CONTEXT_IS_DESTROYED, cu().cuMemAlloc_v2(&address, 16));
  EXPECT_CU(CUDA_ERROR_CONTEXT_IS_DESTROYED, cu().cuCtxSynchronize());
  CUcontext popped = nullptr;
  EXPECT_CU(CUDA_SUCCESS, cu().cuCtxPopCurrent_v2(&popped));
}

TEST_F(Contexts, AContextTakesItsMemoryWithIt) {
  size_t before = 0, after = 0;
  CUcontext own = nullptr;
  CUdeviceptr address = 0;
  ASSERT_OK(cu().cuMemGetInfo_v2(&before, nullptr));
  ASSERT_OK(cu().cuCtxCreate_v3(&own, nullptr, 0, 0, 0));
  ASSERT_OK(cu().cuMemAlloc_v2(&address, 1 << 20));
  ASSERT_OK(cu().cuCtxDestroy_v2(own));
  ASSERT_OK(cu().cuMemGetInfo_v2(&after, nullptr));
  EXPECT_EQ(before, after);
}

TEST_F(Contexts, PrimaryContextsCountTheirUsers) {
  CUcontext again = nullptr;
  unsigned flags = 0;
  int active = 0;
  ASSERT_OK(cu().cuDevicePrimaryCtxRetain(&again, 0));
  EXPECT_EQ(again, context);
  ASSERT_OK(cu().cuDevicePrimaryCtxRelease_v2(0));
  ASSERT_OK(cu().cuDevicePrimaryCtxGetState(0, &flags, &active));
  EXPECT_EQ(active, 1);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuCtxDestroy_v2(context));
  ASSERT_OK(cu().cuDevicePrimaryCtxGetState(1, &flags, &active));
  EXPECT_EQ(active, 0);
  EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, cu().cuDevicePrimaryCtxRelease_v2(1));
  ASSERT_OK(cu().cuDevicePrimaryCtxSetFlags_v2(1, CU_CTX_SCHED_BLOCKING_SYNC));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuDevicePrimaryCtxSetFlags_v2(1, 0x1000));
  ASSERT_OK(cu().cuDevicePrimaryCtxGetState(1, &flags, &active));
  EXPECT_EQ(flags, unsigned(CU_CTX_SCHED_BLOCKING_SYNC));
  ASSERT_OK(cu().cuDevicePrimaryCtxSetFlags_v2(1, 0));
}

TEST_F(Contexts, Limits) {
  size_t value = 0;
  for (const CUlimit limit : {CU_LIMIT_STACK_SIZE, CU_LIMIT_PRINTF_FIFO_SIZE, CU_LIMIT_MALLOC_HEAP_SIZE}) {
    ASSERT_OK(cu().cuCtxGetLimit(&value, limit));
    EXPECT_GT(value, 0u);
    ASSERT_OK(cu().cuCtxSetLimit(limit, 4096));
    ASSERT_OK(cu().cuCtxGetLimit(&value, limit));
    EXPECT_EQ(value, 4096u);
  }
  EXPECT_CU(CUDA_ERROR_UNSUPPORTED_LIMIT, cu().cuCtxGetLimit(&value, CUlimit(77)));
  EXPECT_CU(CUDA_ERROR_UNSUPPORTED_LIMIT, cu().cuCtxSetLimit(CUlimit(77), 1));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuCtxGetLimit(nullptr, CU_LIMIT_STACK_SIZE));
}

/// A test with a second device's primary context.
class TwoDevices : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    ASSERT_OK(cu().cuDevicePrimaryCtxRetain(&second, 1));
  }
  void TearDown() override {
    cu().cuDevicePrimaryCtxReset_v2(1);
    cu().cuDevicePrimaryCtxRelease_v2(1);
    DriverTest::TearDown();
  }
  CUcontext second = nullptr;
};

TEST_F(TwoDevices, CopyBetweenThem) {
  const CUdeviceptr here = upload<uint32_t>({1, 2, 3});
  ASSERT_OK(cu().cuCtxSetCurrent(second));
  const CUdeviceptr there = allocate(12);
  EXPECT_NE(here >> 40, there >> 40);
  ASSERT_OK(cu().cuMemcpyPeer(there, second, here, context, 12));
  EXPECT_THAT(download<uint32_t>(there, 3), ElementsAre(1, 2, 3));
  ASSERT_OK(cu().cuMemcpyPeerAsync(there, second, here + 4, context, 8, nullptr));
  ASSERT_OK(cu().cuStreamSynchronize(nullptr));
  EXPECT_THAT(download<uint32_t>(there, 3), ElementsAre(2, 3, 3));
  EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, cu().cuMemcpyPeer(there, invented<CUcontext>(), here, context, 12));
  int ordinal = -1;
  ASSERT_OK(cu().cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, there));
  EXPECT_EQ(ordinal, 1);
}

TEST_F(TwoDevices, KernelsReachThePeerOnlyWithAccess) {
  int can = 0, value = 0;
  ASSERT_OK(cu().cuDeviceCanAccessPeer(&can, 0, 1));
  EXPECT_EQ(can, 1);
  ASSERT_OK(cu().cuDeviceCanAccessPeer(&can, 0, 0));
  EXPECT_EQ(can, 0);
  ASSERT_OK(cu().cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1));
  EXPECT_EQ(value, 1);
  ASSERT_OK(cu().cuCtxSetCurrent(second));
  const CUdeviceptr there = upload<uint32_t>({5, 6});
  ASSERT_OK(cu().cuCtxSetCurrent(context));
  const CUdeviceptr here = allocate(8);
  EXPECT_CU(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cu().cuCtxDisablePeerAccess(second));
  EXPECT_CU(CUDA_ERROR_INVALID_DEVICE, cu().cuCtxEnablePeerAccess(context, 0));
  ASSERT_OK(cu().cuCtxEnablePeerAccess(second, 0));
  EXPECT_CU(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cu().cuCtxEnablePeerAccess(second, 0));
  const CUfunction add = load(add_kernel());
  ASSERT_OK(launch(add, 1, 2, here, there, 1));
  EXPECT_THAT(download<uint32_t>(here, 2), ElementsAre(6, 7));
  ASSERT_OK(cu().cuCtxDisablePeerAccess(second));
  testing::internal::CaptureStderr();
  ASSERT_OK(launch(add, 1, 2, here, there, 1));
  EXPECT_CU(CUDA_ERROR_ILLEGAL_ADDRESS, cu().cuCtxSynchronize());
  testing::internal::GetCapturedStderr();
  // The other device goes on.
  ASSERT_OK(cu().cuCtxSetCurrent(second));
  EXPECT_THAT(download<uint32_t>(there, 2), ElementsAre(5, 6));
}

TEST_F(TwoDevices, ObjectsBelongToTheirContext) {
  const CUfunction add = load(add_kernel());
  const CUevent mine = event();
  ASSERT_OK(cu().cuCtxSetCurrent(second));
  const CUdeviceptr there = upload<uint32_t>({5, 6});
  EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, launch(add, 1, 2, there, there, 1));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cu().cuEventRecord(mine, nullptr));
  // Waiting for the other's event is fine.
  EXPECT_CU(CUDA_SUCCESS, cu().cuStreamWaitEvent(nullptr, mine, 0));
  EXPECT_CU(CUDA_SUCCESS, cu().cuCtxSynchronize());
}

}  // namespace
}  // namespace corrloom::sim::driver
