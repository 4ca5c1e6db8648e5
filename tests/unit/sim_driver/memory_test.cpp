#include <cstring>
#include <numeric>

#include "tests/unit/sim_driver/client.h"

namespace corrloom::sim::driver {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using Memory = DriverTest;

TEST_F(Memory, IsAllocatedFreedAndAccountedFor) {
  size_t before = 0, after = 0, total = 0;
  ASSERT_OK(cu().cuMemGetInfo_v2(&before, &total));
  const CUdeviceptr address = allocate(1000);
  EXPECT_GE(address, uint64_t(1) << 47);
  EXPECT_EQ(address % 256, 0u);
  ASSERT_OK(cu().cuMemGetInfo_v2(&after, nullptr));
  EXPECT_EQ(before - after, 1024u);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemFree_v2(address + 1));
  EXPECT_CU(CUDA_SUCCESS, cu().cuMemFree_v2(address));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemFree_v2(address));
  EXPECT_CU(CUDA_SUCCESS, cu().cuMemFree_v2(0));
  ASSERT_OK(cu().cuMemGetInfo_v2(&after, nullptr));
  EXPECT_EQ(before, after);
}

TEST_F(Memory, RefusesWhatDoesNotFit) {
  CUdeviceptr address = 0;
  size_t pitch = 0;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemAlloc_v2(&address, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemAlloc_v2(nullptr, 16));
  EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY, cu().cuMemAlloc_v2(&address, size_t(1) << 40));
  EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY, cu().cuMemAlloc_v2(&address, SIZE_MAX));
  EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY, cu().cuMemAllocPitch_v2(&address, &pitch, SIZE_MAX / 2, SIZE_MAX / 2, 4));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemAllocPitch_v2(&address, &pitch, 100, 3, 5));
  ASSERT_OK(cu().cuMemAllocPitch_v2(&address, &pitch, 100, 3, 4));
  EXPECT_EQ(pitch, 512u);
}

TEST_F(Memory, CopiesStayInsideAllocations) {
  const CUdeviceptr a = allocate(64), b = allocate(64);
  std::vector<std::byte> host(128);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemcpyHtoD_v2(a, host.data(), 65));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemcpyHtoD_v2(a - 1, host.data(), 1));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemcpyDtoH_v2(host.data(), b + 1, 64));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemcpyDtoD_v2(a, b, 100));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemcpyHtoD_v2(a, nullptr, 4));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemcpyHtoD_v2(CUdeviceptr(uintptr_t(host.data())), host.data(), 4));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemcpy(a, UINT64_MAX - 8, 16));
  EXPECT_CU(CUDA_SUCCESS, cu().cuMemcpyHtoD_v2(a, nullptr, 0));
  EXPECT_CU(CUDA_SUCCESS, cu().cuMemcpyHtoD_v2(a, host.data(), 64));
}

TEST_F(Memory, GenericCopiesKnowTheirSides) {
  const CUdeviceptr a = allocate(16), b = allocate(16);
  std::vector<uint32_t> in = {1, 2, 3, 4}, out(4);
  ASSERT_OK(cu().cuMemcpy(a, uintptr_t(in.data()), 16));
  ASSERT_OK(cu().cuMemcpy(b, a, 16));
  ASSERT_OK(cu().cuMemcpy(uintptr_t(out.data()), b, 16));
  EXPECT_EQ(in, out);
}

TEST_F(Memory, MemsetsOfEveryWidth) {
  const CUdeviceptr a = allocate(64);
  ASSERT_OK(cu().cuMemsetD8_v2(a, 0xAB, 64));
  EXPECT_THAT(download<uint8_t>(a, 64), Each(0xAB));
  ASSERT_OK(cu().cuMemsetD16_v2(a, 0x1234, 32));
  EXPECT_THAT(download<uint16_t>(a, 32), Each(0x1234));
  ASSERT_OK(cu().cuMemsetD32_v2(a, 0x12345678, 16));
  EXPECT_THAT(download<uint32_t>(a, 16), Each(0x12345678u));
  ASSERT_OK(cu().cuMemsetD32Async(a, 7, 2, nullptr));
  ASSERT_OK(cu().cuMemsetD2D8_v2(a + 16, 16, 1, 3, 2));
  ASSERT_OK(cu().cuMemsetD2D32Async(a + 48, 8, 9, 1, 2, nullptr));
  const std::vector<uint32_t> words = download<uint32_t>(a, 16);
  EXPECT_THAT(words, ElementsAre(7, 7, 0x12345678, 0x12345678, 0x12010101, 0x12345678, 0x12345678, 0x12345678,
                                 0x12010101, 0x12345678, 0x12345678, 0x12345678, 9, 0x12345678, 9, 0x12345678));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemsetD32_v2(a + 2, 0, 1));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemsetD32_v2(a, 0, 17));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemsetD2D8_v2(a, 2, 1, 3, 2));
}

TEST_F(Memory, CopiesRectangles) {
  std::vector<uint32_t> in(5 * 7), out(3 * 4, 0);
  std::iota(in.begin(), in.end(), 0u);
  const CUdeviceptr a = upload(in);
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = a;
  copy.srcPitch = 7 * 4;
  copy.srcXInBytes = 2 * 4;
  copy.srcY = 1;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = out.data();
  copy.dstPitch = 4 * 4;
  copy.WidthInBytes = 4 * 4;
  copy.Height = 3;
  ASSERT_OK(cu().cuMemcpy2D_v2(&copy));
  EXPECT_THAT(out, ElementsAre(9, 10, 11, 12, 16, 17, 18, 19, 23, 24, 25, 26));
  copy.srcY = 3;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemcpy2D_v2(&copy));
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  EXPECT_CU(CUDA_ERROR_NOT_SUPPORTED, cu().cuMemcpy2D_v2(&copy));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemcpy2D_v2(nullptr));
}

TEST_F(Memory, CopiesBoxes) {
  std::vector<uint32_t> in(2 * 3 * 5), out(2 * 2 * 2, 0);
  std::iota(in.begin(), in.end(), 0u);
  const CUdeviceptr a = allocate(in.size() * 4);
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = in.data();
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = a;
  copy.srcPitch = copy.dstPitch = 5 * 4;
  copy.srcHeight = copy.dstHeight = 3;
  copy.WidthInBytes = 20;
  copy.Height = 3;
  copy.Depth = 2;
  ASSERT_OK(cu().cuMemcpy3DAsync_v2(&copy, nullptr));
  CUDA_MEMCPY3D back = {};
  back.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
  back.srcDevice = a;
  back.srcPitch = 20;
  back.srcHeight = 3;
  back.srcXInBytes = 12;
  back.srcY = 1;
  back.dstMemoryType = CU_MEMORYTYPE_HOST;
  back.dstHost = out.data();
  back.dstPitch = 8;
  back.dstHeight = 2;
  back.WidthInBytes = 8;
  back.Height = 2;
  back.Depth = 2;
  ASSERT_OK(cu().cuMemcpy3D_v2(&back));
  EXPECT_THAT(out, ElementsAre(8, 9, 13, 14, 23, 24, 28, 29));
}

TEST_F(Memory, KernelsReachPinnedRegisteredAndManagedMemory) {
  const CUfunction add = load(add_kernel());
  void* pinned = nullptr;
  CUdeviceptr managed = 0, mapped = 0;
  std::vector<uint32_t> own = {1, 2, 3, 4};
  ASSERT_OK(cu().cuMemHostAlloc(&pinned, 16, 0));
  ASSERT_OK(cu().cuMemAllocManaged(&managed, 16, CU_MEM_ATTACH_GLOBAL));
  ASSERT_OK(cu().cuMemHostRegister_v2(own.data(), 16, 0));
  ASSERT_OK(cu().cuMemHostGetDevicePointer_v2(&mapped, own.data(), 0));
  ASSERT_OK(launch(add, 1, 4, uintptr_t(pinned), mapped, 1));
  ASSERT_OK(launch(add, 1, 4, managed, uintptr_t(pinned), 1));
  ASSERT_OK(cu().cuCtxSynchronize());
  EXPECT_EQ(static_cast<uint32_t*>(pinned)[3], 5u);
  EXPECT_EQ(reinterpret_cast<uint32_t*>(managed)[3], 6u);
  EXPECT_CU(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cu().cuMemHostRegister_v2(own.data() + 1, 4, 0));
  EXPECT_CU(CUDA_SUCCESS, cu().cuMemHostUnregister(own.data()));
  EXPECT_CU(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cu().cuMemHostUnregister(own.data()));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemFreeHost(own.data()));
  EXPECT_CU(CUDA_SUCCESS, cu().cuMemFreeHost(pinned));
  EXPECT_CU(CUDA_SUCCESS, cu().cuMemFree_v2(managed));
  // The client's own memory is no longer the device's.
  testing::internal::CaptureStderr();
  ASSERT_OK(launch(add, 1, 4, mapped, mapped, 1));
  EXPECT_CU(CUDA_ERROR_ILLEGAL_ADDRESS, cu().cuCtxSynchronize());
  testing::internal::GetCapturedStderr();
}

TEST_F(Memory, PageableSourcesMayChangeOnceTheCallReturns) {
  const CUstream s = stream();
  const CUdeviceptr out = upload<uint32_t>({0}), in = allocate(4);
  ASSERT_OK(launch(load(slow_kernel()), 1, 1, out, 1'000'000, 1, s));
  uint32_t value = 5;
  ASSERT_OK(cu().cuMemcpyHtoDAsync_v2(in, &value, 4, s));
  value = 6;
  ASSERT_OK(cu().cuStreamSynchronize(s));
  EXPECT_THAT(download<uint32_t>(in, 1), ElementsAre(5));
}

TEST_F(Memory, AttributesOfAPointer) {
  const CUdeviceptr address = allocate(100);
  CUmemorytype type{};
  CUdeviceptr start = 0;
  size_t bytes = 0;
  int ordinal = -1;
  CUcontext owner = nullptr;
  unsigned managed = 7;
  ASSERT_OK(cu().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address + 5));
  ASSERT_OK(cu().cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address + 5));
  ASSERT_OK(cu().cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address + 5));
  ASSERT_OK(cu().cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address));
  ASSERT_OK(cu().cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, address));
  ASSERT_OK(cu().cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address));
  EXPECT_EQ(type, CU_MEMORYTYPE_DEVICE);
  EXPECT_EQ(start, address);
  EXPECT_EQ(bytes, 100u);
  EXPECT_EQ(ordinal, 0);
  EXPECT_EQ(owner, context);
  EXPECT_EQ(managed, 0u);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_HOST_POINTER, address));
  int local = 0;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cu().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, uintptr_t(&local)));
  CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void* data[] = {&type, &ordinal};
  ASSERT_OK(cu().cuPointerGetAttributes(2, wanted, data, uintptr_t(&local)));
  EXPECT_EQ(unsigned(type), 0u);
  EXPECT_EQ(ordinal, -2);
  CUdeviceptr base = 0;
  ASSERT_OK(cu().cuMemGetAddressRange_v2(&base, &bytes, address + 99));
  EXPECT_EQ(base, address);
  EXPECT_CU(CUDA_ERROR_NOT_FOUND, cu().cuMemGetAddressRange_v2(&base, &bytes, address + 100));
}

TEST_F(Memory, PoolsAllocateInStreamOrder) {
  const CUstream s = stream();
  CUmemoryPool pool = nullptr, by_default = nullptr;
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  properties.maxSize = 1 << 20;
  ASSERT_OK(cu().cuMemPoolCreate(&pool, &properties));
  ASSERT_OK(cu().cuDeviceGetDefaultMemPool(&by_default, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemPoolDestroy(by_default));
  CUdeviceptr a = 0, b = 0;
  ASSERT_OK(cu().cuMemAllocFromPoolAsync(&a, 4096, pool, s));
  EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY, cu().cuMemAllocFromPoolAsync(&b, 1 << 20, pool, s));
  ASSERT_OK(cu().cuMemAllocAsync(&b, 512, s));
  cuuint64_t used = 0, threshold = 99;
  ASSERT_OK(cu().cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
  EXPECT_EQ(used, 4096u);
  ASSERT_OK(cu().cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
  ASSERT_OK(cu().cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
  EXPECT_EQ(threshold, 99u);
  CUmemoryPool owner = nullptr;
  ASSERT_OK(cu().cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, a));
  EXPECT_EQ(owner, pool);
  ASSERT_OK(cu().cuMemsetD8Async(a, 3, 4096, s));
  ASSERT_OK(cu().cuMemFreeAsync(a, s));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemFreeAsync(a, s));
  ASSERT_OK(cu().cuMemFreeAsync(b, s));
  ASSERT_OK(cu().cuStreamSynchronize(s));
  ASSERT_OK(cu().cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
  EXPECT_EQ(used, 0u);
  ASSERT_OK(cu().cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &used));
  EXPECT_EQ(used, 4096u);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuMemcpyHtoD_v2(a, &used, 8));
  ASSERT_OK(cu().cuDeviceSetMemPool(0, pool));
  ASSERT_OK(cu().cuMemPoolDestroy(pool));
  ASSERT_OK(cu().cuDeviceGetMemPool(&pool, 0));
  EXPECT_EQ(pool, by_default);
}

}  // namespace
}  // namespace corrloom::sim::driver
