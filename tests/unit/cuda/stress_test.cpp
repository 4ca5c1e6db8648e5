#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "ir/base/errors.h"
#include "runtime/run.h"
#include "tests/unit/cuda/registered.h"
#include "tests/unit/runtime/test_programs.h"

namespace corrloom::runtime {
namespace {

/// How long the stress lasts: CORRLOOM_STRESS_SECONDS, else a moment.
std::chrono::duration<double> stress_time() {
  const char* const setting = std::getenv("CORRLOOM_STRESS_SECONDS");
  return std::chrono::duration<double>(setting == nullptr ? 0.3 : std::atof(setting));
}

/// Loads, launches and moves on both devices; large tensors take the streams of copies.
void use_devices(int number) {
  const kernel::Target target = test::ptx_target_for_tests();
  const Device here = cuda(number % 2), there = cuda(1 - number % 2);
  const std::int64_t n = 6 + 20000 * (number % 3);
  const LoadedProgram add(test::add_program(target, -1), backend_of(here));
  const LoadedProgram gather(test::gather_program(target), backend_of(here));
  const std::vector<float> values(static_cast<std::size_t>(n), static_cast<float>(number));
  const Tensor x = Tensor::from(values, {n}, here);
  Tensor sum = add.run(std::vector{x, x})[0];
  for (int round = 0; round < 3; ++round) sum = add.run(std::vector{sum, x})[0];
  const Tensor later = sum.to_async(cpu());
  const Tensor moved = sum.to(there).to(here);
  const Tensor bad = gather.run(std::vector{x, Tensor::from<std::int64_t>({0, n + number}, {2}, here)})[0];
  EXPECT_THROW(bad.wait(), InputError);
  EXPECT_EQ(later.data<float>()[n - 1], 5 * static_cast<float>(number));
  EXPECT_EQ(moved.to(cpu()).data<float>()[0], 5 * static_cast<float>(number));
  synchronise(there);
}

TEST(CudaStress, EightThreadsLoadLaunchAndMove) {
  test::registered_driver();
  const auto end = std::chrono::steady_clock::now() + stress_time();
  std::atomic<int> rounds{0};
  std::vector<std::thread> threads;
  for (int number = 0; number < 8; ++number) {
    threads.emplace_back([&, number] {
      do {
        try {
          use_devices(number);
        } catch (const InputError&) {
          // The failed check of another thread's launch, which nobody had waited for when this one synchronised.
        }
        ++rounds;
      } while (std::chrono::steady_clock::now() < end);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Device device : {cuda(0), cuda(1)}) {
    try {
      synchronise(device);
    } catch (const InputError&) {
    }
    EXPECT_EQ(backend_of(device)->memory().in_use, 0) << device.name();
  }
  EXPECT_GE(rounds, 8);
  RecordProperty("rounds", rounds);
}

}  // namespace
}  // namespace corrloom::runtime
