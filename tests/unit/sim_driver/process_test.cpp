#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <thread>

#include "runtime/sim/driver/corrloom_sim.h"
#include "tests/unit/sim_driver/client.h"

/// What concerns a whole process: the environment, calls before cuInit, fork, exit. Each test runs in a process of its
/// own.
namespace corrloom::sim::driver {
namespace {

/// Ends the child process with 1 and a message unless the call gives what it should.
void must(CUresult expected, CUresult got, const char* what) {
  if (got == expected) return;
  std::fprintf(stderr, "%s gives %s\n", what, name_of(got).c_str());
  std::_Exit(1);
}
#define MUST(expected, call) must(expected, call, #call)

/// cuInit and a current primary context.
void start() {
  MUST(CUDA_SUCCESS, cu().cuInit(0));
  CUcontext context = nullptr;
  MUST(CUDA_SUCCESS, cu().cuDevicePrimaryCtxRetain(&context, 0));
  MUST(CUDA_SUCCESS, cu().cuCtxSetCurrent(context));
}

/// Launches `slow_kernel` with so many turns.
CUdeviceptr launch_slow(CUdeviceptr turns) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CUdeviceptr out = 0;
  unsigned n = 1;
  MUST(CUDA_SUCCESS, cu().cuModuleLoadData(&module, slow_kernel().c_str()));
  MUST(CUDA_SUCCESS, cu().cuModuleGetFunction(&function, module, "k"));
  MUST(CUDA_SUCCESS, cu().cuMemAlloc_v2(&out, 4));
  void* arguments[] = {&out, &turns, &n};
  MUST(CUDA_SUCCESS, cu().cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));
  return out;
}

class Process : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(Process, CallsBeforeInitialisation) {
  EXPECT_EXIT(
      {
        int count = 0;
        const char* text = nullptr;
        MUST(CUDA_ERROR_NOT_INITIALIZED, cu().cuDeviceGetCount(&count));
        MUST(CUDA_ERROR_NOT_INITIALIZED, cu().cuCtxSynchronize());
        MUST(CUDA_SUCCESS, cu().cuDriverGetVersion(&count));
        MUST(CUDA_SUCCESS, cu().cuGetErrorName(CUDA_ERROR_NO_DEVICE, &text));
        MUST(CUDA_ERROR_INVALID_VALUE, cu().cuInit(1));
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(Process, TheEnvironmentDescribesTheDevices) {
  EXPECT_EXIT(
      {
        ::setenv("CORRLOOM_SIM_DEVICES", "3", 1);
        ::setenv("CORRLOOM_SIM_ARCH", "sm_80", 1);
        ::setenv("CORRLOOM_SIM_MEMORY", "16M", 1);
        ::setenv("CORRLOOM_SIM_CHECKS", "none", 1);
        start();
        int value = 0;
        size_t bytes = 0;
        MUST(CUDA_SUCCESS, cu().cuDeviceGetCount(&value));
        if (value != 3) std::_Exit(2);
        MUST(CUDA_SUCCESS, cu().cuDeviceGetAttribute(&value, CUdevice_attribute(75), 2));
        if (value != 8) std::_Exit(3);
        MUST(CUDA_SUCCESS, cu().cuDeviceTotalMem_v2(&bytes, 0));
        if (bytes != 16u << 20) std::_Exit(4);
        CUdeviceptr address = 0;
        MUST(CUDA_ERROR_OUT_OF_MEMORY, cu().cuMemAlloc_v2(&address, 17 << 20));
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(Process, WhatTheEnvironmentGetsWrongIsSaid) {
  const auto refused = [](const char* name, const char* value, CUresult code) {
    ::setenv(name, value, 1);
    MUST(code, cu().cuInit(0));
    std::exit(0);
  };
  EXPECT_EXIT(refused("CORRLOOM_SIM_ARCH", "sm_1", CUDA_ERROR_INVALID_VALUE), ::testing::ExitedWithCode(0),
              "CORRLOOM_SIM_ARCH=sm_1");
  EXPECT_EXIT(refused("CORRLOOM_SIM_MEMORY", "2X", CUDA_ERROR_INVALID_VALUE), ::testing::ExitedWithCode(0),
              "CORRLOOM_SIM_MEMORY=2X");
  EXPECT_EXIT(refused("CORRLOOM_SIM_CHECKS", "rases", CUDA_ERROR_INVALID_VALUE), ::testing::ExitedWithCode(0),
              "CORRLOOM_SIM_CHECKS=rases");
  EXPECT_EXIT(refused("CORRLOOM_SIM_WATCHDOG", "-1", CUDA_ERROR_INVALID_VALUE), ::testing::ExitedWithCode(0),
              "CORRLOOM_SIM_WATCHDOG=-1");
  EXPECT_EXIT(refused("CORRLOOM_SIM_DEVICES", "0", CUDA_ERROR_NO_DEVICE), ::testing::ExitedWithCode(0), "");
}

TEST_F(Process, ExitWithWorkInFlightIsCleanAndQuick) {
  EXPECT_EXIT(
      {
        start();
        launch_slow(uint64_t(1) << 40);
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "^$");
}

TEST_F(Process, TheWatchdogEndsAnEndlessKernel) {
  EXPECT_EXIT(
      {
        ::setenv("CORRLOOM_SIM_WATCHDOG", "1", 1);
        start();
        launch_slow(uint64_t(1) << 40);
        MUST(CUDA_ERROR_LAUNCH_TIMEOUT, cu().cuCtxSynchronize());
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "watchdog");
}

TEST_F(Process, AForkedChildHasNoDriver) {
  EXPECT_EXIT(
      {
        start();
        launch_slow(100'000'000);
        const pid_t child = ::fork();
        if (child == 0) {
          int count = 0;
          const bool right = cu().cuInit(0) == CUDA_ERROR_NOT_INITIALIZED &&
                             cu().cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED &&
                             cu().cuCtxSynchronize() == CUDA_ERROR_NOT_INITIALIZED;
          std::exit(right ? 0 : 9);
        }
        int status = 0;
        ::waitpid(child, &status, 0);
        std::exit(WIFEXITED(status) ? WEXITSTATUS(status) : 8);
      },
      ::testing::ExitedWithCode(0), "^$");
}

TEST_F(Process, LeaksAreReportedOnRequest) {
  const auto leak = [](const char* checks) {
    ::setenv("CORRLOOM_SIM_CHECKS", checks, 1);
    start();
    CUdeviceptr lost = 0;
    CUdeviceptr freed = 0;
    MUST(CUDA_SUCCESS, cu().cuMemAlloc_v2(&lost, 123));
    MUST(CUDA_SUCCESS, cu().cuMemAlloc_v2(&freed, 77));
    MUST(CUDA_SUCCESS, cu().cuMemFree_v2(freed));
    std::exit(0);
  };
  EXPECT_EXIT(leak("all,leaks"), ::testing::ExitedWithCode(0), "leak: 123 bytes of device memory at 0x8");
  EXPECT_EXIT(leak("all"), ::testing::ExitedWithCode(0), "^$");
}

TEST_F(Process, ManyThreadsAtOnce) {
  EXPECT_EXIT(
      {
        start();
        CUcontext context = nullptr;
        MUST(CUDA_SUCCESS, cu().cuCtxGetCurrent(&context));
        CUmodule module = nullptr;
        CUfunction add = nullptr;
        MUST(CUDA_SUCCESS, cu().cuModuleLoadData(&module, add_kernel().c_str()));
        MUST(CUDA_SUCCESS, cu().cuModuleGetFunction(&add, module, "k"));
        std::vector<std::thread> threads;
        for (unsigned t = 0; t < 4; ++t) {
          threads.emplace_back([&, t]() mutable {
            MUST(CUDA_SUCCESS, cu().cuCtxSetCurrent(context));
            CUstream stream = nullptr;
            CUdeviceptr data = 0;
            MUST(CUDA_SUCCESS, cu().cuStreamCreate(&stream, t % 2));
            for (unsigned i = 0; i < 20; ++i) {
              unsigned value = 7;
              MUST(CUDA_SUCCESS, cu().cuMemAllocAsync(&data, 128, stream));
              MUST(CUDA_SUCCESS, cu().cuMemsetD32Async(data, i, 32, stream));
              void* arguments[] = {&data, &data, &t};
              MUST(CUDA_SUCCESS, cu().cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, stream, arguments, nullptr));
              MUST(CUDA_SUCCESS, cu().cuMemcpyDtoHAsync_v2(&value, data + 124, 4, stream));
              MUST(CUDA_SUCCESS, cu().cuMemFreeAsync(data, stream));
              MUST(CUDA_SUCCESS, cu().cuStreamSynchronize(stream));
              if (value != i + t) std::_Exit(5);
            }
            MUST(CUDA_SUCCESS, cu().cuStreamDestroy_v2(stream));
          });
        }
        for (std::thread& thread : threads) thread.join();
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(Process, RegistersAndSpillsComeFromAnAssembler) {
  const auto counted = [](const std::string& ptxas, uint32_t registers, uint32_t stores, uint32_t loads) {
    if (!ptxas.empty()) ::setenv("CORRLOOM_SIM_PTXAS", ptxas.c_str(), 1);
    start();
    launch_slow(3);
    MUST(CUDA_SUCCESS, cu().cuCtxSynchronize());
    const auto get =
        reinterpret_cast<decltype(&corrloom_sim_get_launch)>(::dlsym(library(), "corrloom_sim_get_launch"));
    corrloom_sim_launch launch{};
    const bool right = get(0, 0, &launch) == 1 && launch.assembled == !ptxas.empty() &&
                       (registers == 0 || launch.registers == registers) && launch.spill_store_bytes == stores &&
                       launch.spill_load_bytes == loads;
    std::exit(right ? 0 : 3);
  };
  const std::string script = ::testing::TempDir() + "sim_ptxas." + std::to_string(::getpid());
  {
    std::ofstream file(script);
    file << "#!/bin/sh\ngrep -q '[.]entry k' \"$5\" || exit 1\ncat <<TEXT\n"
            "ptxas info    : 0 bytes gmem\n"
            "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
            "ptxas info    : Function properties for k\n"
            "    640 bytes stack frame, 1232 bytes spill stores, 1340 bytes spill loads\n"
            "ptxas info    : Used 254 registers, used 1 barriers, 640 bytes cumulative stack size\nTEXT\n";
  }
  ::chmod(script.c_str(), 0700);
  EXPECT_EXIT(counted(script, 254, 1232, 1340), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(counted("", 0, 0, 0), ::testing::ExitedWithCode(0), "");
  ::unlink(script.c_str());
  EXPECT_EXIT(counted("/no/such/program", 0, 0, 0), ::testing::ExitedWithCode(1), "CORRLOOM_SIM_PTXAS");
}

}  // namespace
}  // namespace corrloom::sim::driver
