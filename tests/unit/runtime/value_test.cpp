#include "runtime/io/value.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ir/base/errors.h"
#include "runtime/random.h"

namespace corrloom::io {
namespace {

Tensor make(const char* text, std::optional<DType> wanted = {}) {
  return make_tensor(parse_value(text), wanted);
}

std::string usage_error(const std::string& text) {
  try {
    parse_value(text);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Value, NamesFiles) {
  EXPECT_EQ(std::get<FileValue>(parse_value("dir/x.npy")).path, "dir/x.npy");
  EXPECT_EQ(std::get<FileValue>(parse_value("w.npz:key")).key, "key");
  EXPECT_EQ(std::get<FileValue>(parse_value("w.safetensors:a.b")).key, "a.b");
  EXPECT_EQ(std::get<FileValue>(parse_value("randn[3].png")).path, "randn[3].png");
  EXPECT_THROW(make("missing.npy"), RuntimeError);
}

TEST(Value, GeneratesTensors) {
  EXPECT_EQ(make("randn[3, 19]").type(), (TensorType{f32, {3, 19}}));
  EXPECT_EQ(make("randn[2]@7").element(1), randn({2}, f32, cpu(), 7).element(1));
  EXPECT_EQ(make("randn[2]:f64@7").dtype(), f64);
  EXPECT_EQ(make("randn[2]@7:f64").element(1), randn({2}, f64, cpu(), 7).element(1));
  EXPECT_EQ(make("randint(0,10)[4,4]:i32").type(), (TensorType{i32, {4, 4}}));
  EXPECT_EQ(make("randint(0,10)[4]").dtype(), i64);
  EXPECT_EQ(make("randint(-5,-4)[1]").item(), -5);
  EXPECT_EQ(make("zeros[]").type(), (TensorType{f32, {}}));
  EXPECT_EQ(make("ones[2,0]").shape(), (Shape{2, 0}));
  EXPECT_EQ(make("full(0.1)[2]:f64").element(0).as_f64(), 0.1);
  EXPECT_EQ(make("arange[2,3]", i8).type(), (TensorType{i8, {2, 3}}));
  EXPECT_EQ(make("arange(1,0.5)[3]").element(2).as_f64(), 2);
  EXPECT_EQ(make("arange(10,-2)[3]:u8").element(2).as_i64(), 6);
  EXPECT_EQ(make("rand[2]", f64).dtype(), f64);
  EXPECT_EQ(make(" randint ( 0 , 2 ) [ 2 ] : u8 @ 3 ").dtype(), u8);
}

TEST(Value, ReadsNumbersInTheDtypeTheyTake) {
  EXPECT_EQ(make_scalar(parse_value("3"), f32), scalar::Value::f32(3));
  EXPECT_EQ(make_scalar(parse_value("-1e-5"), f64), scalar::Value::f64(-1e-5));
  EXPECT_EQ(make_scalar(parse_value("+2.5"), f16).as_f64(), 2.5);
  EXPECT_EQ(make_scalar(parse_value("0x1F"), u8).as_i64(), 31);
  EXPECT_EQ(make_scalar(parse_value("0xff"), f32).as_f64(), 255);
  EXPECT_EQ(make_scalar(parse_value("1_000"), i32).as_i64(), 1000);
  EXPECT_EQ(make_scalar(parse_value("-128"), i8).as_i64(), -128);
  EXPECT_EQ(make_scalar(parse_value("-inf"), f32).as_f64(), -INFINITY);
  EXPECT_TRUE(std::isnan(make_scalar(parse_value("nan"), f32).as_f64()));
  EXPECT_TRUE(make_scalar(parse_value("true"), boolean).as_bool());
  EXPECT_EQ(make("2").dtype(), i64);
  EXPECT_EQ(make("2", f32).type(), (TensorType{f32, {}}));
  EXPECT_EQ(make("2.0").dtype(), f32);
  EXPECT_EQ(make("false").dtype(), boolean);
}

TEST(Value, NumbersThatDoNotSuitAreInputErrors) {
  const std::pair<const char*, DType> cases[] = {{"300", i8},    {"-1", u8},     {"0.5", i32},
                                                 {"nan", i32},   {"true", f32},  {"inf", i64},
                                                 {"2", boolean}, {"1e999", f64}, {"99999999999999999999", i64}};
  for (const auto& [text, dtype] : cases) EXPECT_THROW(make_scalar(parse_value(text), dtype), InputError) << text;
  EXPECT_THROW(make_scalar(parse_value("ones[1]"), f32), InputError);
  EXPECT_THROW(make("randn[2]", i32), InputError);
  EXPECT_THROW(make("randint(3,3)[1]"), InputError);
  EXPECT_THROW(make("randint(0,1.5)[1]"), InputError);
  EXPECT_THROW(make("zeros[4611686018427387904,4]"), InputError);
  EXPECT_THROW(make("zeros[1000000000000000]"), RuntimeError);
  EXPECT_THROW(make("arange(1)[2]:bool"), InputError);
}

TEST(Value, MalformedTextsAreUsageErrors) {
  for (const char* text : {"",
                           "x.txt",
                           "foo",
                           "randn",
                           "randn[",
                           "randn[3",
                           "randn[3]]",
                           "randn[-1]",
                           "randn[3,]",
                           "randn[3]:f8",
                           "randn[3]@",
                           "randn[3]@-1",
                           "randn[3]@1@2",
                           "randn[3]:f32:f32",
                           "randint[3]",
                           "randint(0)[3]",
                           "randint(0,1,2)[3]",
                           "randn(1)[3]",
                           "1.",
                           "1e",
                           "1x",
                           "--1",
                           "0x",
                           "1 2",
                           "nanx",
                           "randn[99999999999999999999]",
                           "randn[3]@99999999999999999999999",
                           "full[2]",
                           "-",
                           ".5",
                           "arange(1,2,3)[2]",
                           "arange()[2]"}) {
    EXPECT_NE(usage_error(text), "no error") << text;
  }
  EXPECT_EQ(usage_error("randn[3,y]"),
            "`randn[3,y]`: wanted an extent from 0 to 9223372036854775807 at column 9, found `y]`");
  EXPECT_EQ(usage_error("randn[3]x"), "`randn[3]x`: wanted `:dtype`, `@seed` or the end at column 9, found `x`");
  EXPECT_LT(usage_error(std::string(100000, 'q')).size(), 400u);
  EXPECT_LT(usage_error("randn[" + std::string(100000, '(')).size(), 400u);
}

TEST(Value, ParsesTypes) {
  const TypeSpec type = parse_type("f32[?, 1920]");
  EXPECT_EQ(type.dtype, f32);
  EXPECT_EQ(type.extents, (std::vector<std::optional<std::int64_t>>{std::nullopt, 1920}));
  EXPECT_TRUE(parse_type("bool[]").extents.empty());
  for (const char* text : {"", "f32", "f8[2]", "f32[2", "f32[-1]", "f32[2]x", "f32[2,]"})
    EXPECT_THROW(parse_type(text), UsageError) << text;
}

}  // namespace
}  // namespace corrloom::io
