#include <gtest/gtest.h>

#include "compiler/api/corrloom.h"
#include "compiler/api/op_core.h"

namespace corrloom {
namespace {

constexpr const char* kProgram = R"(
op scaled<T: number>(X: T[...D], gain: T = 2) -> Y: T[...D] { Y[...d] = X[...d] * gain }
op filled<T: any>[N: int](x: T) -> Y: T[N] { Y[i] = x }
)";

class GenericTest : public ::testing::Test {
 protected:
  const Library library = Library::parse(kProgram, "generic.loom");
  const Op scaled = library["scaled"];
};

TEST_F(GenericTest, TakesTypesAndRanksOfItsArguments) {
  const Tensor narrow = scaled(ones({2, 3}, i8));
  EXPECT_EQ(narrow.type(), (TensorType{i8, {2, 3}}));
  EXPECT_EQ(narrow.element(0).as_i64(), 2);
  const Tensor wide = scaled(ones({4}, f64), 0.25);
  EXPECT_EQ(wide.type(), (TensorType{f64, {4}}));
  EXPECT_EQ(wide.element(0).as_f64(), 0.25);
}

TEST_F(GenericTest, MakesOneInstanceForEachSetOfTypesAndRanks) {
  const std::vector<TypeArgument> matrix = {TensorType{f32, {2, 3}}}, other = {TensorType{f32, {5, 1}}},
                                  vector = {TensorType{f32, {2}}};
  const api::OpCore& core = *scaled.core();
  EXPECT_EQ(&core.instance_for(matrix), &core.instance_for(other));
  EXPECT_NE(&core.instance_for(matrix), &core.instance_for(vector));
  EXPECT_EQ(core.instance_for(matrix).info().parameters[0].to_string(), "X: f32[D.0, D.1]");
  EXPECT_EQ(core.info().parameters[0].to_string(), "X: T[...D]");
}

TEST_F(GenericTest, ANumberAloneSaysItsType) {
  const Op filled = library["filled"].with({{"N", 3}}).on(cpu());
  EXPECT_EQ(filled(7).dtype(), i64);
  EXPECT_EQ(filled(0.5f).dtype(), f32);
  EXPECT_EQ(filled(true).dtype(), DType::Bool);
}

TEST_F(GenericTest, RefusesWhatTheClassOrAnotherArgumentForbids) {
  EXPECT_THROW((void)scaled(ones({2}, DType::Bool)), InputError);
  EXPECT_THROW((void)scaled(ones({2}, i8), 300), InputError);
  EXPECT_THROW((void)scaled(), InputError);
  EXPECT_EQ(scaled(ones({2}, i8)).element(1).as_i64(), 2) << "an error leaves the op as it was";
}

}  // namespace
}  // namespace corrloom
