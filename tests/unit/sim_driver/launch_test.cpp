#include <cstring>

#include "tests/unit/sim_driver/client.h"

namespace corrloom::sim::driver {
namespace {

using ::testing::ElementsAre;
using Launch = DriverTest;

TEST_F(Launch, RunsAKernelWithPointerArguments) {
  const CUdeviceptr in = upload<uint32_t>({1, 2, 3, 4}), out = allocate(16);
  ASSERT_OK(launch(load(add_kernel()), 2, 2, out, in, 10));
  EXPECT_THAT(download<uint32_t>(out, 4), ElementsAre(11, 12, 13, 14));
}

TEST_F(Launch, RunsAKernelWithABufferOfArguments) {
  const CUdeviceptr in = upload<uint32_t>({1, 2, 3, 4}), out = allocate(16);
  struct {
    CUdeviceptr out, in;
    unsigned n;
  } arguments = {out, in, 7};
  size_t bytes = 20;
  void* extra[] = {reinterpret_cast<void*>(kLaunchParamPointer), &arguments, reinterpret_cast<void*>(kLaunchParamSize),
                   &bytes, reinterpret_cast<void*>(kLaunchParamEnd)};
  const CUfunction function = load(add_kernel());
  ASSERT_OK(cu().cuLaunchKernel(function, 4, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));
  EXPECT_THAT(download<uint32_t>(out, 4), ElementsAre(8, 9, 10, 11));
  bytes = 19;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu().cuLaunchKernel(function, 4, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));
}

TEST_F(Launch, RefusesSizesThatNoDeviceAccepts) {
  const CUdeviceptr out = upload<uint32_t>(std::vector<uint32_t>(2048));
  const CUfunction function = load(add_kernel());
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, launch(function, 0, 32, out, out, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, launch(function, 1, 1025, out, out, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, launch(invented<CUfunction>(), 1, 1, out, out, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, launch(function, 1, 1, out, out, 0, invented<CUstream>()));
  // None of these is sticky.
  EXPECT_CU(CUDA_SUCCESS, launch(function, 1, 1024, out, out, 0));
  EXPECT_CU(CUDA_SUCCESS, cu().cuCtxSynchronize());
}

TEST_F(Launch, DynamicSharedMemoryAbove48KiBMustBeOptedInTo) {
  const CUdeviceptr out = upload<uint32_t>(std::vector<uint32_t>(32));
  const CUfunction function = load(add_kernel());
  EXPECT_CU(CUDA_SUCCESS, launch(function, 1, 32, out, out, 0, nullptr, 49152));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, launch(function, 1, 32, out, out, 0, nullptr, 49153));
  ASSERT_OK(cu().cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536));
  EXPECT_CU(CUDA_SUCCESS, launch(function, 1, 32, out, out, 0, nullptr, 65536));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, launch(function, 1, 32, out, out, 0, nullptr, 65537));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cu().cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 20));
}

TEST_F(Launch, AnIllegalAddressIsStickyAndTheResetPrimaryContextIsWhole) {
  const CUdeviceptr out = allocate(16);
  const CUfunction function = load(add_kernel());
  testing::internal::CaptureStderr();
  EXPECT_CU(CUDA_SUCCESS, launch(function, 1, 32, out, out + (1 << 20), 0));
  EXPECT_CU(CUDA_ERROR_ILLEGAL_ADDRESS, cu().cuCtxSynchronize());
  const std::string report = testing::internal::GetCapturedStderr();
  EXPECT_THAT(report, testing::HasSubstr("in kernel k at PTX line"));
  EXPECT_THAT(report, testing::HasSubstr("block (0, 0, 0), thread (0, 0, 0), address 0x8"));
  CUdeviceptr more = 0;
  EXPECT_CU(CUDA_ERROR_ILLEGAL_ADDRESS, cu().cuMemAlloc_v2(&more, 16));
  EXPECT_CU(CUDA_ERROR_ILLEGAL_ADDRESS, launch(function, 1, 32, out, out, 0));
  uint32_t value = 0;
  EXPECT_CU(CUDA_ERROR_ILLEGAL_ADDRESS, cu().cuMemcpyDtoH_v2(&value, out, 4));
  ASSERT_OK(cu().cuDevicePrimaryCtxReset_v2(0));
  EXPECT_THAT(download<uint32_t>(upload<uint32_t>({5}), 1), ElementsAre(5));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, launch(function, 1, 32, out, out, 0));
}

}  // namespace
}  // namespace corrloom::sim::driver
