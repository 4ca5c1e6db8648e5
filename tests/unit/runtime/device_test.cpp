#include "runtime/device.h"

#include <gtest/gtest.h>

#include "ir/base/errors.h"
#include "runtime/backend.h"
#include "tests/unit/runtime/fake_gpu.h"

namespace corrloom {
namespace {

TEST(Device, ParsesAndPrintsNames) {
  EXPECT_EQ(Device::parse("cpu"), cpu());
  EXPECT_EQ(Device::parse("cuda"), cuda(0));
  EXPECT_EQ(Device::parse("cuda:12"), cuda(12));
  EXPECT_EQ(cuda(3).name(), "cuda:3");
  EXPECT_EQ(Device{}.name(), "cpu");
  EXPECT_LT(cpu(), cuda(0));
}

TEST(Device, RefusesOtherNames) {
  for (const char* name :
       {"", "gpu", "cpu:0", "cuda:", "cuda:-1", "cuda:-0", "cuda:1x", "cuda: 1", "cuda:99999999999", "CPU"}) {
    EXPECT_THROW(Device::parse(name), InputError) << name;
  }
}

TEST(Device, KnowsWhatIsThere) {
  runtime::test::use_fake_gpus();
  EXPECT_EQ(device_count(), 2);
  EXPECT_EQ(try_gpu(), cuda(0));
  EXPECT_EQ(try_gpu(7), cpu());
  EXPECT_EQ(try_all_gpus(), (std::vector<Device>{cuda(0), cuda(1)}));
  try {
    runtime::backend_of(cuda(5));
    ADD_FAILURE();
  } catch (const RuntimeError& error) {
    EXPECT_STREQ(error.what(), "device cuda:5 is not there; this machine has cpu, cuda:0, cuda:1");
  }
}

}  // namespace
}  // namespace corrloom
