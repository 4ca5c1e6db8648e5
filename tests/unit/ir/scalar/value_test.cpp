#include "ir/scalar/value.h"

#include <gtest/gtest.h>

#include <cmath>

#include "mpfr_reference.h"
#include "random_expr.h"

namespace corrloom::scalar {
namespace {

Value parsed(const std::string& text, DType dtype) {
  Value value;
  EXPECT_TRUE(parse_value(text, dtype, value)) << text << " as " << name_of(dtype);
  return value;
}

bool fits(const std::string& text, DType dtype) {
  Value value;
  return parse_value(text, dtype, value);
}

TEST(Value, IntegersKeepTheirLowBits) {
  EXPECT_EQ(Value::integer(DType::I8, 300).as_i64(), 44);
  EXPECT_EQ(Value::integer(DType::I8, 200).as_i64(), -56);
  EXPECT_EQ(Value::integer(DType::U16, -1).as_i64(), 65535);
  EXPECT_EQ(Value::integer(DType::I32, -5).bits, 0xfffffffbu);
}

TEST(Value, EveryNarrowFloatIsWidenedExactly) {
  for (std::uint64_t bits = 0; bits < 0x10000; ++bits) {
    const std::uint64_t fraction = bits & 0x3ff;
    const int exponent = static_cast<int>(bits >> 10 & 31);
    if (exponent == 31) continue;
    const double magnitude = exponent == 0 ? std::ldexp(static_cast<double>(fraction), -24)
                                           : std::ldexp(1 + static_cast<double>(fraction) / 1024, exponent - 15);
    const Value half{DType::F16, bits};
    ASSERT_EQ(Value::f64(half.as_f64()), Value::f64(std::copysign(magnitude, bits >> 15 ? -1.0 : 1.0))) << bits;
    // A bf16 is the upper half of an f32.
    const Value upper{DType::F32, bits << 16};
    const Value brain{DType::BF16, bits};
    ASSERT_TRUE(testing::agree(Value::f64(brain.as_f64()), Value::f64(upper.as_f64()))) << bits;
  }
}

TEST(Value, EveryNarrowFloatSurvivesNarrowing) {
  for (const DType dtype : {DType::F16, DType::BF16}) {
    for (std::uint64_t bits = 0; bits < 0x10000; ++bits) {
      const Value value{dtype, bits};
      ASSERT_TRUE(testing::agree(Value::floating(dtype, value.as_f64()), value)) << name_of(dtype) << " " << bits;
    }
  }
}

TEST(Value, NarrowingRoundsOnceAtEveryMidpoint) {
  testing::Real exact;
  for (const DType dtype : {DType::F16, DType::BF16}) {
    for (std::uint64_t bits = 0; bits < 0x7f80; bits += dtype == DType::F16 ? 1 : 3) {
      const double low = Value{dtype, bits}.as_f64();
      const double high = Value{dtype, bits + 1}.as_f64();
      const double middle = std::isinf(high) ? low + (low - Value{dtype, bits - 1}.as_f64()) / 2 : low / 2 + high / 2;
      for (const double x : {middle, std::nextafter(middle, 0), std::nextafter(middle, 1e300), -middle}) {
        mpfr_set_d(exact.get(), x, MPFR_RNDN);
        ASSERT_TRUE(testing::agree(Value::floating(dtype, x), testing::round_to(exact, dtype)))
            << name_of(dtype) << " " << x;
      }
    }
  }
}

TEST(Value, NarrowingRoundsRandomDoublesOnce) {
  testing::Random random(1);
  testing::Real exact;
  for (int i = 0; i < 40000; ++i) {
    for (const DType dtype : {DType::F16, DType::BF16, DType::F32}) {
      const double x =
          std::ldexp(std::uniform_real_distribution<double>(-1, 1)(random), static_cast<int>(random() % 320) - 180);
      mpfr_set_d(exact.get(), x, MPFR_RNDN);
      ASSERT_TRUE(testing::agree(Value::floating(dtype, x), testing::round_to(exact, dtype)))
          << name_of(dtype) << " " << x;
    }
  }
}

TEST(Value, TextIsReadBackToTheSameBits) {
  testing::Random random(2);
  for (const DType dtype : kAllDTypes) {
    for (int i = 0; i < 4000; ++i) {
      const Value value = testing::random_value(random, dtype);
      EXPECT_EQ(parsed(to_text(value), dtype), value) << to_text(value) << " " << name_of(dtype);
    }
  }
}

TEST(Value, WritesFormsThatAreEasyToRead) {
  EXPECT_EQ(to_text(Value::i64(-3)), "-3");
  EXPECT_EQ(to_text(Value::boolean(true)), "true");
  EXPECT_EQ(to_text(Value::f32(0.1f)), "0.1");
  EXPECT_EQ(to_text(Value::f64(2)), "2.0");
  EXPECT_EQ(to_text(Value::f64(-0.0)), "-0.0");
  EXPECT_EQ(to_text(Value::floating(DType::BF16, -INFINITY)), "-inf");
  EXPECT_EQ(to_text(Value::floating(DType::F16, NAN)), "nan");
  EXPECT_EQ(to_text(Value{DType::F32, 0x7fc00001}), "nan:0x7fc00001");
  EXPECT_EQ(to_text(Value{DType::U64, ~std::uint64_t{0}}), "18446744073709551615");
}

TEST(Value, ReadsOnlyWhatFits) {
  EXPECT_TRUE(fits("-128", DType::I8));
  EXPECT_FALSE(fits("128", DType::I8));
  EXPECT_FALSE(fits("-1", DType::U8));
  EXPECT_TRUE(fits("0xff", DType::U8));
  EXPECT_FALSE(fits("18446744073709551616", DType::U64));
  EXPECT_TRUE(fits("-9223372036854775808", DType::I64));
  EXPECT_FALSE(fits("0.5", DType::I32));
  EXPECT_FALSE(fits("1", DType::Bool));
  EXPECT_FALSE(fits("65520", DType::F16));
  EXPECT_TRUE(fits("65519", DType::F16));
  EXPECT_FALSE(fits("1e39", DType::F32));
  EXPECT_FALSE(fits("1e400", DType::F64));
  EXPECT_FALSE(fits("100000e99999999999999999999", DType::F64));
  EXPECT_FALSE(fits("nan:0x7f800000", DType::F32));
  for (const char* broken : {"", "-", "+1", "1x", "1.5.2", "0x", "infinity", "--1", "e5", ".5", "nan:"}) {
    EXPECT_FALSE(fits(broken, DType::F32)) << broken;
    EXPECT_FALSE(fits(broken, DType::I32)) << broken;
  }
}

TEST(Value, ReadsNumbersTooSmallAsZero) {
  EXPECT_EQ(parsed("1e-400", DType::F64), Value::f64(0));
  EXPECT_EQ(parsed("-0.00001e-99999999999999999999", DType::F32), Value::f32(-0.0f));
  EXPECT_EQ(parsed("1e-45", DType::F32), (Value{DType::F32, 1}));
  EXPECT_EQ(parsed("3", DType::F32), Value::f32(3));
}

TEST(Value, ReadsDecimalsRoundedOnce) {
  // By way of f64 this would be rounded to a tie first, and then down.
  EXPECT_EQ(parsed("1.00000005960464477540", DType::F32), Value::f32(0x1.000002p0f));
  EXPECT_EQ(parsed("1.00048828125000000001", DType::F16), Value::floating(DType::F16, 0x1.004p0));
}

}  // namespace
}  // namespace corrloom::scalar
