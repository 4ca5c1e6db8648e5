#include "tests/unit/sim_driver/client.h"

/// Virtual memory as allocators with growing segments use it.
namespace corrloom::sim::driver {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr size_t kChunk = size_t(2) << 20;

class Virtual : public DriverTest {
 protected:
  static CUmemAllocationProp properties(int device = 0) {
    CUmemAllocationProp prop = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    return prop;
  }
  static CUmemGenericAllocationHandle create(size_t bytes = kChunk, int device = 0) {
    const CUmemAllocationProp prop = properties(device);
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_CU(CUDA_SUCCESS, cu().cuMemCreate(&handle, bytes, &prop, 0));
    return handle;
  }
  static CUdeviceptr reserve(size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_CU(CUDA_SUCCESS, cu().cuMemAddressReserve(&address, bytes, 0, 0, 0));
    return address;
  }
  static CUresult set_access(CUdeviceptr address, size_t bytes, int device = 0,
                             CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
    const CUmemAccessDesc description = {{CU_MEM_LOCATION_TYPE_DEVICE, device}, flags};
    return cu().cuMemSetAccess(address, bytes, &description, 1);
  }
  /// A range with two chunks mapped one behind the other.
  CUdeviceptr two_chunks() {
    const CUdeviceptr address = reserve(4 * kChunk);
    for (size_t i = 0; i < 2; ++i) {
      const CUmemGenericAllocationHandle handle = create();
      EXPECT_CU(CUDA_SUCCESS, cu().cuMemMap(address + i * kChunk, kChunk, 0, handle, 0));
      EXPECT_CU(CUDA_SUCCESS, cu().cuMemRelease(handle));
    }
    EXPECT_CU(CUDA_SUCCESS, set_access(address, 2 * kChunk));
    return address;
  }
  /// Runs a kernel and returns what it printed to the standard error besides its result.
  std::string run(CUresult expected, CUdeviceptr out, CUdeviceptr in) {
    testing::internal::CaptureStderr();
    EXPECT_CU(CUDA_SUCCESS, launch(load(add_kernel()), 1, 32, out, in, 1));
    EXPECT_CU(expected, cu().cuCtxSynchronize());
    return testing::internal::GetCapturedStderr();
  }
};

TEST_F(Virtual, ASegmentThatGrows) {
  int supported = 0;
  ASSERT_OK(cu().cuDeviceGetAttribute(&supported, CUdevice_attribute(102), 0));
  EXPECT_EQ(supported, 1);
  size_t granularity = 0, before = 0, during = 0, after = 0;
  const CUmemAllocationProp prop = properties();
  ASSERT_OK(cu().cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  EXPECT_EQ(granularity, kChunk);
  ASSERT_OK(cu().cuMemGetInfo_v2(&before, nullptr));
  const CUdeviceptr address = two_chunks();
  ASSERT_OK(cu().cuMemGetInfo_v2(&during, nullptr));
  EXPECT_EQ(before - during, 2 * kChunk);
  // A copy, a memset and a kernel across the border of the chunks.
  const CUdeviceptr border = address + kChunk - 64;
  std::vector<uint32_t> values(32);
  for (uint32_t i = 0; i < 32; ++i) values[i] = i * i;
  ASSERT_OK(cu().cuMemcpyHtoD_v2(border, values.data(), 128));
  EXPECT_EQ(download<uint32_t>(border, 32), values);
  const CUdeviceptr out = allocate(128);
  EXPECT_EQ(run(CUDA_SUCCESS, out, border), "");
  for (uint32_t& v : values) ++v;
  EXPECT_EQ(download<uint32_t>(out, 32), values);
  ASSERT_OK(cu().cuMemsetD32_v2(border, 7, 32));
  EXPECT_THAT(download<uint32_t>(border, 32), Each(7u));
  ASSERT_OK(cu().cuMemcpyDtoD_v2(border, out, 128));
  EXPECT_EQ(download<uint32_t>(border, 32), values);
  ASSERT_OK(cu().cuMemGetInfo_v2(&during, nullptr));
  ASSERT_OK(cu().cuMemUnmap(address, 2 * kChunk));
  ASSERT_OK(cu().cuMemAddressFree(address, 4 * kChunk));
  ASSERT_OK(cu().cuMemGetInfo_v2(&after, nullptr));
  EXPECT_EQ(after - during, 2 * kChunk);
}

TEST_F(Virtual, WithoutAccessAKernelFaults) {
  const CUdeviceptr address = reserve(kChunk);
  const CUmemGenericAllocationHandle handle = create();
  ASSERT_OK(cu().cuMemMap(address, kChunk, 0, handle, 0));
  unsigned long long flags = 7;
  const CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  ASSERT_OK(cu().cuMemGetAccess(&flags, &here, address));
  EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemsetD8_v2(address, 0, 16));
  ASSERT_OK(set_access(address, kChunk));
  ASSERT_OK(cu().cuMemGetAccess(&flags, &here, address + 100));
  EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  ASSERT_OK(cu().cuMemsetD8_v2(address, 0, 128));
  EXPECT_EQ(run(CUDA_SUCCESS, allocate(128), address), "");
  ASSERT_OK(set_access(address, kChunk, 0, CU_MEM_ACCESS_FLAGS_PROT_NONE));
  EXPECT_THAT(run(CUDA_ERROR_ILLEGAL_ADDRESS, allocate(128), address), HasSubstr("use after free"));
}

TEST_F(Virtual, UseAfterUnmapIsFound) {
  const CUdeviceptr address = two_chunks();
  ASSERT_OK(cu().cuMemsetD8_v2(address, 0, 2 * kChunk));
  ASSERT_OK(cu().cuCtxSynchronize());
  ASSERT_OK(cu().cuMemUnmap(address + kChunk, kChunk));
  EXPECT_EQ(run(CUDA_SUCCESS, address, address + kChunk - 128), "");  // the first chunk is still there
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemsetD8_v2(address + kChunk - 4, 0, 8));
  EXPECT_THAT(run(CUDA_ERROR_ILLEGAL_ADDRESS, address, address + kChunk - 64), HasSubstr("use after free"));
}

TEST_F(Virtual, FreshMemoryIsUninitialised) {
  const CUdeviceptr address = two_chunks();
  EXPECT_THAT(run(CUDA_ERROR_LAUNCH_FAILED, allocate(128), address), HasSubstr("uninitialised read"));
}

TEST_F(Virtual, RacesAreSeen) {
  testing::internal::CaptureStderr();
  ASSERT_OK(launch(load(kernel_text(".reg .u64 %d; .reg .u32 %t; ld.param.u64 %d, [out]; mov.u32 %t, %tid.x; "
                                    "st.global.u32 [%d], %t;")),
                   1, 64, two_chunks(), 0, 0));
  EXPECT_CU(CUDA_ERROR_LAUNCH_FAILED, cu().cuCtxSynchronize());
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("race"));
}

TEST_F(Virtual, OneMemoryAtTwoAddresses) {
  const CUdeviceptr first = reserve(kChunk), second = reserve(kChunk);
  const CUmemGenericAllocationHandle handle = create();
  ASSERT_OK(cu().cuMemMap(first, kChunk, 0, handle, 0));
  ASSERT_OK(cu().cuMemMap(second, kChunk, 0, handle, 0));
  ASSERT_OK(set_access(first, kChunk));
  ASSERT_OK(set_access(second, kChunk));
  ASSERT_OK(cu().cuMemsetD32_v2(first, 41, 32));
  EXPECT_EQ(run(CUDA_SUCCESS, first, second), "");
  EXPECT_THAT(download<uint32_t>(second, 32), Each(42u));
  CUmemGenericAllocationHandle again = 0;
  ASSERT_OK(cu().cuMemRelease(handle));
  ASSERT_OK(cu().cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(second + 5)));
  EXPECT_EQ(again, handle);
  CUmemAllocationProp prop = {};
  ASSERT_OK(cu().cuMemGetAllocationPropertiesFromHandle(&prop, again));
  EXPECT_EQ(prop.type, CU_MEM_ALLOCATION_TYPE_PINNED);
  EXPECT_EQ(prop.location.id, 0);
  ASSERT_OK(cu().cuMemRelease(again));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemRelease(again));
  // Mapped elsewhere it still holds what it held.
  ASSERT_OK(cu().cuMemUnmap(first, kChunk));
  EXPECT_THAT(download<uint32_t>(second, 32), Each(42u));
}

TEST_F(Virtual, APeerReachesItWhenItMay) {
  const CUdeviceptr address = reserve(kChunk);
  ASSERT_OK(cu().cuMemMap(address, kChunk, 0, create(kChunk, 1), 0));  // on device 1, used by device 0
  ASSERT_OK(set_access(address, kChunk, 0));
  ASSERT_OK(cu().cuMemsetD32_v2(address, 1, 32));
  EXPECT_EQ(run(CUDA_SUCCESS, address, address), "");
  EXPECT_THAT(download<uint32_t>(address, 32), Each(2u));
}

TEST_F(Virtual, RefusesWhatMakesNoSense) {
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle handle = 0;
  CUmemAllocationProp prop = properties();
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemAddressReserve(nullptr, kChunk, 0, 0, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemAddressReserve(&address, 0, 0, 0, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemAddressReserve(&address, kChunk + 1, 0, 0, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemAddressReserve(&address, kChunk, 3, 0, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemCreate(&handle, kChunk / 2, &prop, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemCreate(&handle, kChunk, nullptr, 0));
  EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY, cu().cuMemCreate(&handle, size_t(1) << 40, &prop, 0));
  prop.location.id = 99;
  EXPECT_CU(CUDA_ERROR_INVALID_DEVICE, cu().cuMemCreate(&handle, kChunk, &prop, 0));
  const CUdeviceptr range = reserve(2 * kChunk);
  const CUmemGenericAllocationHandle memory = create();
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemMap(range, 2 * kChunk, 0, memory, 0));  // larger than it is
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemMap(range + 64, kChunk, 0, memory, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemMap(range, kChunk, kChunk, memory, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemMap(64 * kChunk, kChunk, 0, memory, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemMap(range, kChunk, 0, memory + 16, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, set_access(range, kChunk));  // nothing is mapped
  ASSERT_OK(cu().cuMemMap(range, kChunk, 0, memory, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemMap(range, kChunk, 0, create(), 0));  // taken
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, set_access(range, 2 * kChunk));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemAddressFree(range, 2 * kChunk));  // still mapped
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemUnmap(range, kChunk / 2));
  ASSERT_OK(cu().cuMemUnmap(range, kChunk));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemUnmap(range, kChunk));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemAddressFree(range, kChunk));
  ASSERT_OK(cu().cuMemAddressFree(range, 2 * kChunk));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemAddressFree(range, 2 * kChunk));
}

}  // namespace
}  // namespace corrloom::sim::driver
