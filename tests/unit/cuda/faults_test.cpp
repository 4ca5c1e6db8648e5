#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "ir/base/errors.h"
#include "runtime/run.h"
#include "runtime/storage.h"
#include "tests/unit/cuda/registered.h"
#include "tests/unit/runtime/test_programs.h"

namespace corrloom::runtime {
namespace {

using test::FakeDriver;

using Values = std::vector<float>;

void append(Values& out, const Tensor& tensor) {
  const Tensor host = tensor.to(cpu());
  const auto* const data = host.data<float>();
  out.insert(out.end(), data, data + host.element_count());
}

LoadedProgram load(const test::ProgramRef& program, Device device) {
  return {program, backend_of(device)};
}

/// A program that uses every part of a device: copies of both kinds and directions, peers, kernels with workspaces, in
/// place and with checks, streams that wait for one another.
Values run_script() {
  const kernel::Target target = test::ptx_target_for_tests();
  Values out;
  Values many(40000);
  std::iota(many.begin(), many.end(), 0.0F);
  const LoadedProgram add = load(test::add_program(target, -1), cuda(0));
  const LoadedProgram scale = load(test::scale_program(target), cuda(0));
  const LoadedProgram gather = load(test::gather_program(target), cuda(0));
  const LoadedProgram increment = load(test::increment_program(target, 6), cuda(1));

  const Tensor x = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {6}, cuda(0));
  const Tensor large = Tensor::from(many, {40000}, cuda(0));
  const Tensor sum = add.run(std::vector{x, x})[0];
  const Tensor large_sum = add.run(std::vector{large, large})[0];
  const Tensor later = large_sum.to_async(cpu());
  const Tensor scaled = scale.run(std::vector{sum}, std::vector{scalar::Value::f32(10)})[0];
  append(out, scaled);
  const Tensor there = scaled.to(cuda(1));
  append(out, increment.run(std::vector{there})[0]);
  append(out, there.to(cuda(0)));
  const Tensor at = Tensor::from<std::int64_t>({5, 0, 2}, {3}, cuda(0));
  append(out, gather.run(std::vector{x, at})[0]);
  const Tensor bad = Tensor::from<std::int64_t>({1, 99, 7}, {3}, cuda(0));
  const Tensor wrong = gather.run(std::vector{x, bad})[0];
  try {
    append(out, wrong);
    out.push_back(-1);
  } catch (const InputError& error) {
    out.push_back(std::string(error.what()) == "X[at[i]]: the subscript is 7" ? 1.0F : -2.0F);
  }
  append(out, zeros({3}, f32, cuda(0)));
  append(out, x.slice(0, 1, 6, 2).to(cuda(1)));
  out.push_back(later.data<float>()[39999]);
  synchronise(cuda(0));
  synchronise(cuda(1));
  return out;
}

class CudaFaults : public testing::Test {
 protected:
  void SetUp() override {
    driver.fail_call(0, 0);
    FakeDriver::set_current_context(driver.foreign_context());
    expected = run_script();
    baseline = resources();
  }
  /// What is in use when kept blocks are given back.
  std::string resources() {
    for (const Device device : {cuda(0), cuda(1)}) {
      backend_of(device)->synchronise();
      backend_of(device)->trim();
      EXPECT_EQ(backend_of(device)->memory().in_use, 0) << device.name();
    }
    return driver.allocations();
  }
  /// Runs the script with a fault; what it gives must be right unless it throws RuntimeError. Whether the fault came.
  bool survive(const std::string& fault) {
    std::string where = fault;
    try {
      EXPECT_EQ(run_script(), expected) << where;
    } catch (const RuntimeError& error) {
      EXPECT_NE(std::string(error.what()), "") << where;
    } catch (const std::exception& error) {
      ADD_FAILURE() << where << ": " << error.what();
    }
    const bool came = driver.has_failed();
    where += " (" + driver.failed_call() + ")";
    driver.fail_call(0, 0);
    EXPECT_EQ(FakeDriver::current_context(), driver.foreign_context()) << where;
    // Checks of launches that nobody asked about are reported here, as they should be.
    for (const Device device : {cuda(0), cuda(1)}) {
      try {
        synchronise(device);
      } catch (const InputError&) {
      }
    }
    EXPECT_EQ(run_script(), expected) << "after " << where;
    // Code whose unloading failed itself stays; everything else is given back.
    const std::string left = resources();
    if (left != baseline) {
      EXPECT_THAT(where, testing::AnyOf(testing::HasSubstr("cuModuleUnload"), testing::HasSubstr("cuCtx")))
          << left << " instead of " << baseline;
      EXPECT_THAT(left, testing::StartsWith("0 allocations")) << where;
      baseline = left;
    }
    return came;
  }

  FakeDriver& driver = test::registered_driver();
  Values expected;
  std::string baseline;
};

TEST_F(CudaFaults, EveryCallOfADriverMayFail) {
  int injected = 0;
  for (const gpu::Result error : {999, gpu::kOutOfMemory}) {
    for (std::int64_t number = 1;; ++number) {
      driver.fail_call(number, error);
      const bool came = survive("call " + std::to_string(number) + " gives " + std::to_string(error));
      if (HasFailure() || !came) break;
      ++injected;
    }
  }
  RecordProperty("faults", injected);
  EXPECT_GT(injected, 200);
}

TEST_F(CudaFaults, EveryAllocationMayFailForGood) {
  int injected = 0;
  for (std::int64_t number = 1;; ++number) {
    driver.fail_allocations(number);
    const bool came = survive("allocation " + std::to_string(number));
    if (HasFailure() || !came) break;
    ++injected;
  }
  RecordProperty("faults", injected);
  EXPECT_GT(injected, 3);
}

}  // namespace
}  // namespace corrloom::runtime
