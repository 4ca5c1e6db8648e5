#include "runtime/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/base/errors.h"
#include "runtime/backend.h"
#include "tests/unit/runtime/fake_gpu.h"

namespace corrloom {
namespace {

/// f32[2, 3] of 0 .. 5.
Tensor six() {
  return arange({2, 3});
}

std::vector<float> values(const Tensor& tensor) {
  const Tensor dense = tensor.to(cpu()).contiguous();
  return {dense.data<float>(), dense.data<float>() + dense.element_count()};
}

TEST(Tensor, IsCreatedWithItsElements) {
  EXPECT_EQ(values(six()), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(values(zeros({3})), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(values(ones({2})), (std::vector<float>{1, 1}));
  EXPECT_EQ(values(full({2}, 0.5)), (std::vector<float>{0.5, 0.5}));
  EXPECT_EQ(values(Tensor::from<float>({1, 2}, {2, 1})), (std::vector<float>{1, 2}));
  EXPECT_EQ(full({}, -1.0, u8).element(0), scalar::Value::integer(u8, 0));
  EXPECT_EQ(Tensor::from_scalar(scalar::Value::f64(2.5)).item(), 2.5);
  EXPECT_EQ(arange({300}, u8).element(299), scalar::Value::integer(u8, 43));
  EXPECT_EQ(ones({2}, boolean).at({1}), scalar::Value::boolean(true));
}

TEST(Tensor, CopiesOfAHandleNameTheSameTensor) {
  const Tensor a = six();
  const Tensor b = a;
  EXPECT_TRUE(a.is_same_as(b));
  EXPECT_FALSE(a.is_same_as(a.copy()));
  EXPECT_TRUE(a.to(cpu()).is_same_as(a));
  EXPECT_TRUE(a.contiguous().is_same_as(a));
  EXPECT_TRUE(a.to(f32).is_same_as(a));
}

TEST(Tensor, ViewsShareStorage) {
  const Tensor a = six();
  const Tensor column = a.slice(1, 1, 2);
  EXPECT_TRUE(column.shares_storage_with(a));
  EXPECT_FALSE(column.is_contiguous());
  EXPECT_EQ(values(column), (std::vector<float>{1, 4}));
  EXPECT_EQ(values(a.select(0, -1)), (std::vector<float>{3, 4, 5}));
  EXPECT_EQ(values(a.transpose()), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(values(a.slice(1, 0, 3, 2)), (std::vector<float>{0, 2, 3, 5}));
  EXPECT_EQ(values(a.slice(1, -2, 100)), (std::vector<float>{1, 2, 4, 5}));
  EXPECT_EQ(a.slice(0, 2, 1).shape(), (Shape{0, 3}));
  a.data<float>()[4] = 40;
  EXPECT_EQ(column.at({1, 0}), scalar::Value::f32(40));
}

TEST(Tensor, ReshapesInPlaceWhereStridesAllow) {
  const Tensor a = arange({2, 3, 4});
  EXPECT_TRUE(a.reshape({6, 4}).shares_storage_with(a));
  EXPECT_EQ(a.reshape({-1}).shape(), Shape{24});
  const Tensor rows = a.slice(1, 0, 2);  // [2, 2, 4], strides 12, 4, 1
  EXPECT_TRUE(rows.reshape({2, 8}).shares_storage_with(a));
  EXPECT_TRUE(rows.reshape({2, 1, 2, 2, 2}).shares_storage_with(a));
  EXPECT_FALSE(rows.reshape({4, 4}).shares_storage_with(a));
  EXPECT_EQ(values(rows.reshape({4, 4})), values(rows));
  EXPECT_EQ(values(rows.reshape({2, 1, 2, 2, 2})), values(rows));
  EXPECT_FALSE(a.transpose().reshape({24}).shares_storage_with(a));
  EXPECT_EQ(zeros({0, 3}).reshape({3, 0, 2}).shape(), (Shape{3, 0, 2}));
}

TEST(Tensor, CopiesStridedElementsBothWays) {
  const Tensor a = six();
  const Tensor target = zeros({2, 3});
  target.transpose().copy_from(a.reshape({3, 2}));
  EXPECT_EQ(values(target), (std::vector<float>{0, 2, 4, 1, 3, 5}));
  target.slice(1, 1, 3).copy_from(target.slice(1, 0, 2));  // overlapping
  EXPECT_EQ(values(target), (std::vector<float>{0, 0, 2, 1, 1, 3}));
}

TEST(Tensor, LargeTransposesAreRightOnAllThreads) {
  const Tensor a = arange({257, 1031}, i32);
  const Tensor b = a.transpose().contiguous();
  for (const std::int64_t row : {0, 1, 256}) EXPECT_EQ(b.at({1030, row}).as_i64(), row * 1031 + 1030);
}

TEST(Tensor, CastsAsTheLanguageDoes) {
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor a = Tensor::from<float>({-1.5f, 300.0f, NAN, inf, -inf, 0.25f}, {6});
  const Tensor narrow = a.to(i8);
  EXPECT_EQ((std::vector<std::int8_t>(narrow.data<std::int8_t>(), narrow.data<std::int8_t>() + 6)),
            (std::vector<std::int8_t>{-1, 127, 0, 127, -128, 0}));
  EXPECT_EQ(a.to(u16).element(0).as_i64(), 0);
  EXPECT_EQ(a.to(u16).element(3).as_i64(), 65535);
  EXPECT_EQ(static_cast<std::uint64_t>(a.to(u64).element(3).as_i64()), ~std::uint64_t{0});
  EXPECT_TRUE(a.to(boolean).element(2).as_bool());
  EXPECT_EQ(Tensor::from<std::int32_t>({-1}, {1}).to(u8).element(0).as_i64(), 255);
  EXPECT_EQ(Tensor::from<bool>({true}, {1}).to(f32).item(), 1);
  // 2^60 + 2^52 is halfway between two bf16 values; the last bit decides, and a double would lose it.
  EXPECT_EQ(Tensor::from<std::int64_t>({(std::int64_t{1} << 60) + (std::int64_t{1} << 52) + 1}, {1}).to(bf16).item(),
            std::ldexp(1 + 1 / 128.0, 60));
  EXPECT_EQ(Tensor::from<std::uint64_t>({~std::uint64_t{0}}, {1}).to(f64).item(), 18446744073709551616.0);
  EXPECT_EQ(Tensor::from<std::int64_t>({16777217}, {1}).to(f32).item(), 16777216);
}

TEST(Tensor, WrapsACallersMemoryUntilNothingUsesIt) {
  float memory[] = {1, 2, 3, 4};
  int released = 0;
  {
    Tensor view;
    {
      const Tensor a = Tensor::wrap(memory, {2, 2}, f32, [&] { ++released; });
      EXPECT_EQ(a.address(), memory);
      view = a.select(1, 1);
    }
    EXPECT_EQ(released, 0);
    EXPECT_EQ(values(view), (std::vector<float>{2, 4}));
  }
  EXPECT_EQ(released, 1);
  const Tensor backwards = Tensor::wrap(memory + 3, {4}, f32, {}, {-1});
  EXPECT_EQ(values(backwards), (std::vector<float>{4, 3, 2, 1}));
  EXPECT_EQ(values(backwards.slice(0, 1, 3)), (std::vector<float>{3, 2}));
  EXPECT_THROW(Tensor::wrap(reinterpret_cast<char*>(memory) + 1, {1}, f32), InputError);
  EXPECT_THROW(Tensor::wrap(memory, {2}, f32, {}, {std::numeric_limits<std::int64_t>::max()}), InputError);
}

TEST(Tensor, MisuseIsAnInputError) {
  const Tensor a = six();
  EXPECT_THROW(Tensor().shape(), InputError);
  EXPECT_THROW(a.data<double>(), InputError);
  EXPECT_THROW(a.transpose().data<float>(), InputError);
  EXPECT_THROW(a.slice(2, 0, 1), InputError);
  EXPECT_THROW(a.slice(0, 0, 1, 0), InputError);
  EXPECT_THROW(a.select(1, 3), InputError);
  EXPECT_THROW(a.transpose({0, 0}), InputError);
  EXPECT_THROW(a.transpose({0}), InputError);
  EXPECT_THROW(a.reshape({4}), InputError);
  EXPECT_THROW(a.reshape({-1, 4}), InputError);
  EXPECT_THROW(a.reshape({-1, -1}), InputError);
  EXPECT_THROW(a.item(), InputError);
  EXPECT_THROW(a.at({0}), InputError);
  EXPECT_THROW(a.element(6), InputError);
  EXPECT_THROW(a.copy_from(zeros({3, 2})), InputError);
  EXPECT_THROW(zeros({-1}), InputError);
  EXPECT_THROW(zeros({std::int64_t{1} << 40, std::int64_t{1} << 40}), InputError);
  EXPECT_THROW(zeros({0, std::int64_t{1} << 62, 8}), InputError);
  EXPECT_THROW(Tensor::from<float>({1, 2}, {3}), InputError);
  EXPECT_THROW(zeros({std::int64_t{1} << 50}), RuntimeError);
  EXPECT_THROW(zeros({1}, f32, cuda(9)), RuntimeError);
}

TEST(Tensor, MovesBetweenDevices) {
  runtime::test::use_fake_gpus();
  const Tensor a = six();
  const Tensor b = a.to(cuda(0));
  EXPECT_EQ(b.device(), cuda(0));
  EXPECT_TRUE(b.to(cuda(0)).is_same_as(b));
  const Tensor c = b.to(cuda(1));
  EXPECT_EQ(values(c), values(a));
  EXPECT_THROW(c.data<float>(), InputError);
  EXPECT_EQ(values(b.transpose()), values(a.transpose()));
  EXPECT_EQ(values(b.transpose().to(cuda(1))), values(a.transpose()));
  EXPECT_EQ(values(a.transpose().to(cuda(1))), values(a.transpose()));
  EXPECT_EQ(b.transpose().contiguous().device(), cuda(0));
  EXPECT_EQ(values(b.transpose().contiguous()), values(a.transpose()));
  EXPECT_EQ(b.at({1, 2}).as_f64(), 5);
  EXPECT_EQ(values(b.to(f64).to(f32)), values(a));
  EXPECT_EQ(b.to(f64).device(), cuda(0));
  b.select(1, 0).copy_from(Tensor::from<float>({9, 8}, {2}));
  EXPECT_EQ(values(b), (std::vector<float>{9, 1, 2, 8, 4, 5}));
  EXPECT_EQ(values(zeros({2}, f32, cuda(1))), (std::vector<float>{0, 0}));
  EXPECT_EQ(values(b.copy()), values(b));
}

TEST(Tensor, AnotherDeviceWaitsForTheLastWriter) {
  runtime::test::use_fake_gpus();
  const Tensor source = full({1000}, 3.0, f32, cuda(0));
  const Tensor moved = source.copy().to(cuda(1));  // the copy still waits in the queue of cuda:0
  EXPECT_EQ(moved.at({999}).as_f64(), 3);
}

TEST(Tensor, GpuStorageIsNotReusedBeforeItsReadersAreDone) {
  runtime::test::use_fake_gpus();
  Tensor source = full({1000}, 3.0, f32, cuda(0));
  Tensor target = source.to(cuda(1));  // waits in the queue of cuda:1
  source = {};                         // its memory is scribbled over when it is given back
  EXPECT_EQ(target.at({999}).as_f64(), 3);
  target = {};
  EXPECT_EQ(runtime::backend_of(cuda(0))->memory().in_use, 0);
  EXPECT_EQ(runtime::backend_of(cuda(1))->memory().in_use, 0);
}

TEST(TensorText, ShowsShapeDtypeDeviceAndElements) {
  EXPECT_EQ(six().to_string(), "f32[2, 3] on cpu\n[[0. 1. 2.]\n [3. 4. 5.]]");
  EXPECT_EQ(Tensor::from<std::int32_t>({1, -20, 300}, {3}).to_string(), "i32[3] on cpu\n[  1 -20 300]");
  EXPECT_EQ(Tensor::from<bool>({true, false}, {2}).to_string(), "bool[2] on cpu\n[ true false]");
  EXPECT_EQ(full({}, 2.5).to_string(), "f32[] on cpu\n2.5");
  EXPECT_EQ(zeros({2, 0}).to_string(), "f32[2, 0] on cpu\n[]");
  EXPECT_EQ(zeros({1, 2, 1}, u8).to_string(), "u8[1, 2, 1] on cpu\n[[[0]\n  [0]]]");
  EXPECT_EQ(zeros({2, 1, 1}, u8).to_string(), "u8[2, 1, 1] on cpu\n[[[0]]\n\n [[0]]]");
  EXPECT_EQ(Tensor().to_string(), "undefined tensor");
}

TEST(TensorText, AlignsFloatsAsNumPyDoes) {
  EXPECT_EQ(Tensor::from<float>({1, 0.5f, -0.25f}, {3}).to_string(), "f32[3] on cpu\n[ 1.    0.5  -0.25]");
  EXPECT_EQ(Tensor::from<float>({0.1f, NAN, -INFINITY}, {3}).to_string(), "f32[3] on cpu\n[ 0.1  nan -inf]");
  EXPECT_EQ(Tensor::from<double>({1e10, 1.5}, {2}).to_string(), "f64[2] on cpu\n[1.0e+10 1.5e+00]");
  EXPECT_EQ(full({1}, 0.1, f16).to_string(), "f16[1] on cpu\n[0.1]");
  EXPECT_EQ(full({1}, 1.0 / 3).to_string(), "f32[1] on cpu\n[0.33333334]");
}

TEST(TensorText, SummarisesAndBreaksLines) {
  EXPECT_EQ(arange({1001}, i32).to_string(), "i32[1001] on cpu\n[   0    1    2 ...  998  999 1000]");
  const std::string wide = arange({2, 600}, i16).to_string();
  EXPECT_EQ(wide, "i16[2, 600] on cpu\n[[   0    1    2 ...  597  598  599]\n [ 600  601  602 ... 1197 1198 1199]]");
  const std::string lines = arange({30}, i32).to_string();
  EXPECT_EQ(
      lines,
      "i32[30] on cpu\n[ 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23\n 24 25 26 27 28 29]");
  EXPECT_EQ(arange({1001, 1}, i32).slice(0, 0, 7).element_count(), 7);
}

}  // namespace
}  // namespace corrloom
