#include "runtime/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "ir/base/errors.h"
#include "runtime/host/host_backend.h"

namespace corrloom {
namespace {

using Words = std::array<std::uint32_t, 4>;

// Source: the known answers that come with Random123, philox4x32 with 10 rounds.
TEST(Random, PhiloxGivesTheKnownAnswers) {
  EXPECT_EQ(runtime::philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const std::uint32_t all = 0xffffffff;
  EXPECT_EQ(runtime::philox({all, all, all, all}, {all, all}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(runtime::philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, ElementsDependOnSeedAndPositionAlone) {
  const int before = runtime::host_threads();
  runtime::set_host_threads(1);
  const Tensor one = randn({99999}, f32, cpu(), 7);
  runtime::set_host_threads(3);
  const Tensor three = randn({271, 369}, f32, cpu(), 7);
  runtime::set_host_threads(before);
  EXPECT_EQ(std::memcmp(one.data<float>(), three.data<float>(), 99999 * 4), 0);
  const Tensor shorter = randn({5}, f64, cpu(), 7);
  for (std::uint64_t k = 0; k < 5; ++k) {
    EXPECT_EQ(shorter.data<double>()[k], runtime::normal(7, k));
    EXPECT_EQ(one.data<float>()[k], static_cast<float>(runtime::normal(7, k)));
  }
  EXPECT_NE(runtime::normal(7, 0), runtime::normal(8, 0));
}

TEST(Random, NormalFollowsItsFormulaWithinRounding) {
  for (std::uint64_t j = 0; j < 20000; ++j) {
    const double u = static_cast<double>((runtime::draw(3, 2 * j) >> 11) + 1) * 0x1p-53;
    const double v = static_cast<double>(runtime::draw(3, 2 * j + 1) >> 11) * 0x1p-53;
    const double radius = std::sqrt(-2 * std::log(u)), angle = 2 * M_PI * v;
    // log, cos and sin are a few units off at most, each of magnitude at most the radius.
    EXPECT_NEAR(runtime::normal(3, 2 * j), radius * std::cos(angle), 8e-15) << j;
    EXPECT_NEAR(runtime::normal(3, 2 * j + 1), radius * std::sin(angle), 8e-15) << j;
  }
}

TEST(Random, KeepsItsBits) {
  // Bits that later versions and other machines must give as well.
  EXPECT_EQ(runtime::draw(0, 0), 0xe169c58d6627e8d5u);
  EXPECT_EQ(runtime::draw(0, 1), 0x9b00dbd8bc57ac4cu);
  double sum = 0, squares = 0;
  const Tensor numbers = randn({100000}, f64, cpu(), 1);
  for (int k = 0; k < 100000; ++k) {
    sum += numbers.data<double>()[k];
    squares += numbers.data<double>()[k] * numbers.data<double>()[k];
  }
  // Five standard deviations of mean and variance of 10^5 numbers.
  EXPECT_NEAR(sum / 1e5, 0, 5 / std::sqrt(1e5));
  EXPECT_NEAR(squares / 1e5, 1, 5 * std::sqrt(2 / 1e5));
}

TEST(Random, UniformStaysBelowOneInEveryDtype) {
  for (const DType dtype : {f16, bf16, f32, f64}) {
    const Tensor numbers = rand({10001}, dtype, cpu(), 5);
    double highest = 0, sum = 0;
    for (std::int64_t k = 0; k < 10001; ++k) {
      const double number = numbers.element(k).as_f64();
      ASSERT_GE(number, 0);
      highest = std::max(highest, number);
      sum += number;
    }
    EXPECT_LT(highest, 1);
    EXPECT_GT(highest, 0.98);
    EXPECT_NEAR(sum / 10001, 0.5, 5 * std::sqrt(1.0 / 12 / 10001) + 1.0 / 256);
  }
}

TEST(Random, IntegersStayInTheirRangeAndReachItsEnds) {
  const Tensor numbers = randint(-2, 3, {1000}, i8, cpu(), 9);
  int counts[5] = {};
  for (std::int64_t k = 0; k < 1000; ++k) ++counts[numbers.element(k).as_i64() + 2];
  for (const int count : counts) EXPECT_GT(count, 120);
  EXPECT_EQ(randint(5, 6, {3}, f16).element(2).as_f64(), 5);
  const std::int64_t lowest = std::numeric_limits<std::int64_t>::min(),
                     highest = std::numeric_limits<std::int64_t>::max();
  EXPECT_NE(randint(lowest, highest, {2}).element(0), randint(lowest, highest, {2}).element(1));
  EXPECT_THROW(randint(0, 0, {1}), InputError);
  EXPECT_THROW(randint(0, 129, {1}, i8), InputError);
  EXPECT_THROW(randint(-1, 2, {1}, u64), InputError);
  EXPECT_THROW(randint(0, 3000, {1}, f16).item(), InputError);
  EXPECT_THROW(randint(0, 2, {1}, boolean), InputError);
  EXPECT_THROW(randn({1}, i32), InputError);
}

}  // namespace
}  // namespace corrloom
