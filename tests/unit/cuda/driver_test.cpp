#include "runtime/cuda/driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include "ir/base/errors.h"
#include "runtime/cuda/devices.h"
#include "tests/unit/runtime/fake_driver.h"
#include "tests/unit/runtime/test_programs.h"

namespace corrloom::runtime {
namespace {

using gpu::find_driver;
using test::FakeDriver;
using testing::HasSubstr;

TEST(CudaDriver, SaysWhyThereIsNone) {
  EXPECT_EQ(find_driver("off").driver, nullptr);
  EXPECT_THAT(find_driver("off").reason, HasSubstr("CORRLOOM_CUDA is off"));
  EXPECT_THAT(find_driver("gpu").reason, HasSubstr("wanted auto, off, sim or the path of a driver"));
  EXPECT_THAT(find_driver("/nowhere/libcuda.so").reason, HasSubstr("/nowhere/libcuda.so"));
  EXPECT_THAT(find_driver("/proc/self/exe").reason, HasSubstr("cannot load the CUDA driver"));
}

TEST(CudaDriver, ThatDoesNotStartIsNoGpu) {
  FakeDriver driver;
  driver.fail_call(1, 999);
  const gpu::CudaDevices found = FakeDriver::devices();
  EXPECT_TRUE(found.backends.empty());
  EXPECT_THAT(found.status, HasSubstr("cuInit(0) of fake"));
  EXPECT_THAT(found.status, HasSubstr("(999)"));
}

TEST(CudaDriver, ADeviceThatDoesNotStartIsLeftOut) {
  FakeDriver driver;
  // cuInit, cuDeviceGetCount, cuDeviceGet, cuDevicePrimaryCtxRetain of device 0.
  driver.fail_call(4, 2);
  const gpu::CudaDevices found = FakeDriver::devices();
  ASSERT_EQ(found.backends.size(), 1u);
  EXPECT_EQ(found.backends[0]->device(), corrloom::cuda(1));
  EXPECT_THAT(found.status, HasSubstr("device 0 does not start"));
}

TEST(CudaDriver, AnyCallOfTheSearchMayFail) {
  std::int64_t survived = 0;
  for (std::int64_t number = 1;; ++number) {
    FakeDriver driver;
    driver.fail_call(number, 999);
    std::optional<gpu::CudaDevices> found = FakeDriver::devices();
    const bool came = driver.has_failed();
    const std::string fault = driver.failed_call() + ", call " + std::to_string(number);
    driver.fail_call(0, 0);
    found.reset();
    EXPECT_EQ(driver.leaks(), "") << fault;
    if (!came) break;
    ++survived;
  }
  EXPECT_GT(survived, 10);
}

TEST(CudaDriver, NamesArchitectures) {
  const auto architecture = [](int major, int minor) {
    FakeDriver driver({.devices = 1, .major = major, .minor = minor});
    return FakeDriver::devices().backends.at(0)->architecture();
  };
  EXPECT_EQ(architecture(9, 0), "sm_90a");
  EXPECT_EQ(architecture(8, 6), "sm_86");
  EXPECT_EQ(architecture(12, 0), "sm_120a");
  // Unknown to the compiler: the newest one whose PTX runs there.
  EXPECT_EQ(architecture(10, 9), "sm_103");
  EXPECT_EQ(architecture(7, 0), "sm_70");
}

TEST(CudaDriver, IsRefusedInAChildOfFork) {
  FakeDriver driver;
  const BackendRef device = FakeDriver::devices().backends.at(0);
  void* const memory = device->allocate(64);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int answer = 1;
    try {
      device->allocate(64);
    } catch (const RuntimeError& error) {
      answer = std::string(error.what()).find("forked") == std::string::npos ? 2 : 0;
    }
    device->free(memory, 64);  // does nothing
    _exit(answer);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  // The parent goes on.
  device->free(memory, 64);
  EXPECT_NE(device->allocate(64), nullptr);
}

TEST(CudaDriver, WorksInAChildThatUsesItFirst) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    FakeDriver driver;
    const BackendRef device = FakeDriver::devices().backends.at(0);
    void* const memory = device->allocate(64);
    device->free(memory, 64);
    _exit(memory == nullptr ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace corrloom::runtime
