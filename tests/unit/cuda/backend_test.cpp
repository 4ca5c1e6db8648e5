#include "runtime/cuda/backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "ir/base/errors.h"
#include "tests/unit/runtime/fake_driver.h"
#include "tests/unit/runtime/test_programs.h"

namespace corrloom::runtime {
namespace {

using test::FakeDriver;
using testing::HasSubstr;

class CudaBackend : public testing::Test {
 protected:
  CudaBackend() : device(FakeDriver::devices().backends.at(0)) {}
  /// Launches `add` of 6 elements on memory that is there.
  void launch_add(const LoadedCode& code, void* memory, std::int64_t blocks = 2) {
    std::int64_t n = 6;
    void* address = memory;
    void* arguments[] = {&address, &address, &address, &n};
    device->launch({.code = &code, .blocks = blocks, .arguments = arguments, .argument_count = 4});
  }
  std::string error_of(const std::function<void()>& body) {
    try {
      body();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "no error";
  }

  FakeDriver driver;
  BackendRef device;
  test::ProgramRef program = test::add_program(test::ptx_target_for_tests(), 6);
};

TEST_F(CudaBackend, RefusesMoreBlocksThanAGridHas) {
  const std::unique_ptr<LoadedCode> code = device->load(*program);
  void* const memory = device->allocate(64);
  EXPECT_THAT(error_of([&] { launch_add(*code, memory, std::int64_t{1} << 31); }),
              HasSubstr("op `add`, kernel `add` needs 2147483648 blocks; cuda:0 runs at most 2147483647"));
  launch_add(*code, memory);
  device->free(memory, 64);
}

TEST_F(CudaBackend, AsksForSharedMemoryAbove48KiB) {
  program->kernels[0].shared_bytes = 100 << 10;
  const std::unique_ptr<LoadedCode> code = device->load(*program);
  void* const memory = device->allocate(64);
  launch_add(*code, memory);
  program->kernels[0].shared_bytes = 300 << 10;
  EXPECT_THAT(error_of([&] { device->load(*program); }), HasSubstr("needs 307200 bytes of shared memory a block"));
  device->free(memory, 64);
}

TEST_F(CudaBackend, LaunchesClusters) {
  program->kernels[0].cluster = 2;
  const std::unique_ptr<LoadedCode> code = device->load(*program);
  void* const memory = device->allocate(64);
  launch_add(*code, memory);
  EXPECT_THAT(error_of([&] { launch_add(*code, memory, 3); }), HasSubstr("cuLaunchKernel(op `add`, kernel `add`)"));
  device->free(memory, 64);
}

TEST_F(CudaBackend, ShowsTheLogOfTheDriversCompiler) {
  program->code = "nothing p\n";
  try {
    device->load(*program);
    ADD_FAILURE();
  } catch (const InternalError& error) {
    EXPECT_THAT(error.what(), HasSubstr("op `add`, 10 bytes of PTX for sm_90a"));
    EXPECT_THAT(error.what(), HasSubstr("\n  no kernel nothing"));
  }
}

TEST_F(CudaBackend, OutOfMemoryGivesKeptBlocksBackAndTriesOnceMore) {
  const std::size_t large = std::size_t{150} << 20;
  void* const first = device->allocate(large);
  device->free(first, large);
  // Another size: the kept block does not fit, and both do not fit the device.
  void* const second = device->allocate(large + (std::size_t{50} << 20));
  EXPECT_EQ(device->memory().reserved, device->memory().in_use);
  const std::string error = error_of([&] { device->allocate(large); });
  EXPECT_THAT(error, HasSubstr("allocate(157286400 bytes) on cuda:0: out of memory (free "));
  EXPECT_THAT(error, HasSubstr("in use 218103808)"));
  device->free(second, large + (std::size_t{50} << 20));
  device->free(device->allocate(large), large);
}

TEST_F(CudaBackend, ALostDeviceIsAClearErrorForAllThatFollows) {
  const std::unique_ptr<LoadedCode> code = device->load(*program);
  void* const memory = device->allocate(64);
  launch_add(*code, memory);
  const Event event = device->record();
  driver.lose_devices(700);
  const std::string first = error_of([&] { device->synchronise(Stream{}); });
  EXPECT_THAT(first, HasSubstr("cuStreamSynchronize() on cuda:0: CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
  EXPECT_THAT(first, HasSubstr("note: launched last: op `add`, kernel `add`"));
  const std::function<void()> uses[] = {[&] { device->allocate(64); },
                                        [&] { launch_add(*code, memory); },
                                        [&] { device->copy_to_host(&program, memory, 8); },
                                        [&] { device->copy_from_host(memory, &program, 8); },
                                        [&] { device->load(*program); },
                                        [&] { device->synchronise(event); },
                                        [&] { device->create_stream(); },
                                        [&] { device->trim(); },
                                        [&] { device->synchronise(); }};
  for (const auto& use : uses) EXPECT_THAT(error_of(use), HasSubstr("device cuda:0 is lost"));
  device->destroy_event(event);
  device->free(memory, 64);
}

TEST_F(CudaBackend, LeavesTheCallersContextCurrent) {
  FakeDriver::set_current_context(driver.foreign_context());
  const std::unique_ptr<LoadedCode> code = device->load(*program);
  void* const memory = device->allocate(64);
  launch_add(*code, memory);
  device->synchronise();
  device->free(memory, 64);
  EXPECT_EQ(FakeDriver::current_context(), driver.foreign_context());
}

TEST_F(CudaBackend, EndsWithWorkInFlight) {
  const std::unique_ptr<LoadedCode> code = device->load(*program);
  void* const memory = device->allocate(64);
  launch_add(*code, memory);
  EXPECT_EXIT(std::exit(0), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace corrloom::runtime
