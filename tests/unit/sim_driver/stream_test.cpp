#include <atomic>
#include <thread>

#include "tests/unit/sim_driver/client.h"

namespace corrloom::sim::driver {
namespace {

using ::testing::ElementsAre;

/// Loop turns of `slow_kernel` that take long enough for the host to look meanwhile.
constexpr CUdeviceptr kLong = 3'000'000;

class Streams : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    slow = load(slow_kernel());
    out = upload<uint32_t>({0});
    void* memory = nullptr;
    ASSERT_OK(cu().cuMemHostAlloc(&memory, 4, 0));
    pinned = static_cast<std::atomic<uint32_t>*>(memory);
    *pinned = 0;
  }
  CUfunction slow = nullptr;
  CUdeviceptr out = 0;
  std::atomic<uint32_t>* pinned = nullptr;
};

TEST_F(Streams, WorkIsAsynchronousAndAMissingSynchronisationShowsStaleData) {
  const CUstream s = stream();
  ASSERT_OK(launch(slow, 1, 1, out, kLong, 42, s));
  ASSERT_OK(cu().cuMemcpyDtoHAsync_v2(pinned, out, 4, s));
  EXPECT_CU(CUDA_ERROR_NOT_READY, cu().cuStreamQuery(s));
  EXPECT_EQ(*pinned, 0u);
  EXPECT_CU(CUDA_SUCCESS, cu().cuStreamSynchronize(s));
  EXPECT_EQ(*pinned, 42u);
  EXPECT_CU(CUDA_SUCCESS, cu().cuStreamQuery(s));
}

TEST_F(Streams, AnEventOrdersTwoStreams) {
  const CUstream first = stream(), second = stream();
  const CUevent done = event();
  ASSERT_OK(launch(slow, 1, 1, out, kLong, 7, first));
  ASSERT_OK(cu().cuEventRecord(done, first));
  EXPECT_CU(CUDA_ERROR_NOT_READY, cu().cuEventQuery(done));
  ASSERT_OK(cu().cuStreamWaitEvent(second, done, 0));
  ASSERT_OK(cu().cuMemcpyDtoHAsync_v2(pinned, out, 4, second));
  ASSERT_OK(cu().cuStreamSynchronize(second));
  EXPECT_EQ(*pinned, 7u);
}

TEST_F(Streams, TheLegacyStreamWaitsForBlockingStreamsOnly) {
  const CUstream blocking = stream(CU_STREAM_DEFAULT), free = stream();
  ASSERT_OK(launch(slow, 1, 1, out, kLong, 9, blocking));
  EXPECT_THAT(download<uint32_t>(out, 1), ElementsAre(9));
  ASSERT_OK(launch(slow, 1, 1, out, kLong, 10, free));
  EXPECT_THAT(download<uint32_t>(out, 1), ElementsAre(9));
  ASSERT_OK(cu().cuStreamSynchronize(free));
  EXPECT_THAT(download<uint32_t>(out, 1), ElementsAre(10));
}

TEST_F(Streams, EventsMeasureTime) {
  const CUstream s = stream();
  const CUevent start = event(), end = event();
  float milliseconds = -1;
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cu().cuEventElapsedTime(&milliseconds, start, end));
  ASSERT_OK(cu().cuEventRecord(start, s));
  ASSERT_OK(launch(slow, 1, 1, out, kLong, 1, s));
  ASSERT_OK(cu().cuEventRecord(end, s));
  EXPECT_CU(CUDA_ERROR_NOT_READY, cu().cuEventElapsedTime(&milliseconds, start, end));
  ASSERT_OK(cu().cuEventSynchronize(end));
  ASSERT_OK(cu().cuEventElapsedTime(&milliseconds, start, end));
  EXPECT_GT(milliseconds, 0.1f);
}

TEST_F(Streams, HostFunctionsRunInOrderAndMayNotCallTheDriver) {
  const CUstream s = stream();
  struct Seen {
    std::atomic<uint32_t>* pinned;
    uint32_t value = 0;
    CUresult call = CUDA_SUCCESS;
  } seen{pinned};
  ASSERT_OK(launch(slow, 1, 1, out, kLong, 5, s));
  ASSERT_OK(cu().cuMemcpyDtoHAsync_v2(pinned, out, 4, s));
  ASSERT_OK(cu().cuLaunchHostFunc(
      s,
      [](void* data) {
        auto* seen = static_cast<Seen*>(data);
        seen->value = *seen->pinned;
        seen->call = cu().cuCtxSynchronize();
      },
      &seen));
  ASSERT_OK(cu().cuStreamSynchronize(s));
  EXPECT_EQ(seen.value, 5u);
  EXPECT_CU(CUDA_ERROR_NOT_PERMITTED, seen.call);
}

TEST_F(Streams, APerThreadDefaultStreamIsTheThreadsOwn) {
  ASSERT_OK(launch(slow, 1, 1, out, kLong, 3));  // in the legacy stream
  CUstream mine = reinterpret_cast<CUstream>(kStreamPerThread);
  unsigned long long id = 0, other_id = 0, legacy_id = 0;
  ASSERT_OK(cu().cuStreamGetId(mine, &id));
  ASSERT_OK(cu().cuStreamGetId(nullptr, &legacy_id));
  std::thread([&] {
    cu().cuCtxSetCurrent(context);
    cu().cuStreamGetId_ptsz(nullptr, &other_id);
  }).join();
  EXPECT_NE(id, other_id);
  EXPECT_NE(id, legacy_id);
  unsigned long long same = 0;
  ASSERT_OK(cu().cuStreamGetId_ptsz(nullptr, &same));
  EXPECT_EQ(same, id);
  // It is a blocking stream: it waits for the kernel above.
  ASSERT_OK(cu().cuMemcpyDtoHAsync_v2_ptsz(pinned, out, 4, nullptr));
  ASSERT_OK(cu().cuStreamSynchronize_ptsz(nullptr));
  EXPECT_EQ(*pinned, 3u);
}

TEST_F(Streams, ADestroyedStreamFinishesItsWork) {
  const CUstream s = stream();
  ASSERT_OK(launch(slow, 1, 1, out, kLong, 21, s));
  ASSERT_OK(cu().cuStreamDestroy_v2(s));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cu().cuStreamQuery(s));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cu().cuStreamDestroy_v2(s));
  ASSERT_OK(cu().cuCtxSynchronize());
  EXPECT_THAT(download<uint32_t>(out, 1), ElementsAre(21));
}

}  // namespace
}  // namespace corrloom::sim::driver
