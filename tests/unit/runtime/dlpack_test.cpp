#include <dlpack/dlpack.h>
#include <gtest/gtest.h>

#include "ir/base/errors.h"
#include "runtime/tensor.h"

namespace corrloom {
namespace {

/// A tensor of another library: two rows of a matrix of three columns.
struct Foreign {
  float memory[7] = {-1, 0, 1, 2, 3, 4, 5};
  std::int64_t shape[2] = {2, 3};
  DLManagedTensor managed{};
  int deleted = 0;

  Foreign() {
    managed.dl_tensor.data = memory;
    managed.dl_tensor.byte_offset = 4;
    managed.dl_tensor.device = {kDLCPU, 0};
    managed.dl_tensor.ndim = 2;
    managed.dl_tensor.dtype = {kDLFloat, 32, 1};
    managed.dl_tensor.shape = shape;
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensor* self) { ++static_cast<Foreign*>(self->manager_ctx)->deleted; };
  }
};

TEST(DLPack, TakesATensorOverUntilNothingUsesIt) {
  Foreign foreign;
  {
    Tensor view;
    {
      const Tensor a = Tensor::from_dlpack(&foreign.managed);
      EXPECT_EQ(a.type(), (TensorType{f32, {2, 3}}));
      EXPECT_EQ(a.address(), foreign.memory + 1);
      view = a.select(0, 1);
    }
    EXPECT_EQ(foreign.deleted, 0);
    EXPECT_EQ(view.at({2}).as_f64(), 5);
  }
  EXPECT_EQ(foreign.deleted, 1);
}

TEST(DLPack, RefusesWhatIsNoTensorAndDeletesItOnce) {
  const auto refuses = [](auto change) {
    Foreign foreign;
    change(foreign.managed.dl_tensor);
    EXPECT_THROW(Tensor::from_dlpack(&foreign.managed), std::runtime_error);
    EXPECT_EQ(foreign.deleted, 1);
  };
  refuses([](DLTensor& t) { t.dtype.lanes = 4; });
  refuses([](DLTensor& t) { t.dtype.code = kDLComplex; });
  refuses([](DLTensor& t) { t.device.device_type = kDLMetal; });
  refuses([](DLTensor& t) { t.device = {kDLCUDA, 99}; });
  refuses([](DLTensor& t) { t.byte_offset = 1; });
  refuses([](DLTensor& t) { t.ndim = -1; });
  refuses([](DLTensor& t) { t.shape[0] = -2; });
  refuses([](DLTensor& t) {
    t.data = nullptr;
    t.byte_offset = 0;
  });
  EXPECT_THROW(Tensor::from_dlpack(nullptr), InputError);
}

TEST(DLPack, HandsOutViewsAndKeepsThemAlive) {
  DLManagedTensor* managed = nullptr;
  {
    const Tensor a = arange({2, 3}, i16);
    managed = a.slice(1, 1, 3).to_dlpack();
  }
  EXPECT_EQ(managed->dl_tensor.ndim, 2);
  EXPECT_EQ(managed->dl_tensor.dtype.bits, 16);
  EXPECT_EQ(managed->dl_tensor.strides[0], 3);
  const Tensor back = Tensor::from_dlpack(managed);
  EXPECT_EQ(back.at({1, 1}).as_i64(), 5);
}

TEST(DLPack, KeepsEveryDtype) {
  for (const DType dtype : kAllDTypes) {
    EXPECT_EQ(Tensor::from_dlpack(zeros({2}, dtype).to_dlpack()).dtype(), dtype);
  }
  const Tensor scalar = Tensor::from_dlpack(full({}, 2.0).to_dlpack());
  EXPECT_EQ(scalar.item(), 2);
  EXPECT_EQ(Tensor::from_dlpack(zeros({0, 3}).to_dlpack()).shape(), (Shape{0, 3}));
}

}  // namespace
}  // namespace corrloom
