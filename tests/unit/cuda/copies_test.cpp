#include <gtest/gtest.h>

#include <functional>

#include "runtime/tensor.h"
#include "tests/unit/cuda/registered.h"

/// Copies of tensors on a GPU, counted in calls of the driver.
namespace corrloom::runtime {
namespace {

std::int64_t calls_of(const std::function<void()>& body) {
  const std::int64_t before = test::registered_driver().calls();
  body();
  return test::registered_driver().calls() - before;
}

TEST(CudaCopies, ATensorIsShownByOneCopyHoweverManyElementsItHas) {
  (void)test::registered_driver();
  const Tensor few = arange({2, 3}, f32, cuda()), many = arange({20, 30}, f32, cuda());
  EXPECT_EQ(many.to_string(), arange({20, 30}).to_string().replace(15, 3, "cuda:0"));
  const std::int64_t least = calls_of([&] { (void)few.to_string(); });
  EXPECT_EQ(calls_of([&] { (void)many.to_string(); }), least);
}

TEST(CudaCopies, ASummaryFetchesWhatItShows) {
  (void)test::registered_driver();
  const Tensor host = arange({40, 50}), device = host.to(cuda());
  (void)device.to_string();
  EXPECT_EQ(device.to_string(), arange({40, 50}).to_string().replace(15, 3, "cuda:0"));
  // Four corners, a copy, and what goes with each; its 36 elements one by one took more than a hundred calls.
  EXPECT_LT(calls_of([&] { (void)device.to_string(); }), 60);
}

TEST(CudaCopies, StridedViewsAreCopiedOnTheDevice) {
  (void)test::registered_driver();
  const Tensor host = arange({4, 5, 6}), device = host.to(cuda());
  const Tensor view = device.transpose({2, 0, 1}).slice(0, 1, 6, 2);
  EXPECT_EQ(view.contiguous().to(cpu()).to_string(), host.transpose({2, 0, 1}).slice(0, 1, 6, 2).copy().to_string());
  const Tensor target = zeros({4, 5, 6}, f32, cuda());
  target.transpose({2, 0, 1}).slice(0, 1, 6, 2).copy_from(view);
  const Tensor wanted = zeros({4, 5, 6});
  wanted.transpose({2, 0, 1}).slice(0, 1, 6, 2).copy_from(host.transpose({2, 0, 1}).slice(0, 1, 6, 2));
  EXPECT_EQ(target.to(cpu()).to_string(), wanted.to_string());
  // The number of calls does not depend on how much is copied.
  const Tensor larger = arange({40, 50, 6}, f32, cuda()).transpose({2, 0, 1});
  (void)larger.contiguous();
  EXPECT_EQ(calls_of([&] { (void)larger.contiguous(); }), calls_of([&] { (void)view.contiguous(); }));
}

}  // namespace
}  // namespace corrloom::runtime
