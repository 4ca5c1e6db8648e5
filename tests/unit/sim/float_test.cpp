#include <cmath>
#include <random>

#include "one_instruction.h"

/// Known answers of floating-point instructions and conversions: rounding, NaN, denormals, saturation.
namespace corrloom::sim {
namespace {

constexpr uint64_t kNan = 0x7FFFFFFF, kInf = 0x7F800000, kMinusInf = 0xFF800000, kMinusZero = 0x80000000, kTiny = 1;
const uint64_t kOne = bits(1.0f), kTwo = bits(2.0f);

TEST(Float, AddMulNanAndInfinity) {
  expect_rows("add.f32 %d, %a, %b;", "rrr",
              {{kOne, kTwo, bits(3.0f)},
               {kInf, kMinusInf, kNan},
               {0xFFC12345, kOne, kNan},
               {kMinusZero, kMinusZero, kMinusZero},
               {kOne, bits(-1.0f), 0}});
  expect_rows("mul.f32 %d, %a, %b;", "rrr",
              {{0, kInf, kNan}, {kTwo, kMinusInf, kMinusInf}, {bits(0x1p-126f), bits(0.5f), 0x00400000}});
  expect_rows("sub.f32 %d, %a, %b;", "rrr", {{kOne, kTwo, bits(-1.0f)}});
  expect_rows("add.f64 %d, %a, %b;", "lll", {{bits(0.1), bits(0.2), bits(0.1 + 0.2)}});
}

TEST(Float, RoundingModes) {
  // 1 + 2^-24 is halfway between 1 and its successor; 1 + 3 * 2^-24 between the next two.
  const uint64_t half_ulp = bits(0x1p-24f), next = kOne + 1;
  expect_rows("add.rn.f32 %d, %a, %b;", "rrr", {{kOne, half_ulp, kOne}, {next, half_ulp, kOne + 2}});
  expect_rows("add.rz.f32 %d, %a, %b;", "rrr", {{next, half_ulp, next}, {bits(-1.0f), bits(-0x1p-24f), bits(-1.0f)}});
  expect_rows("add.rp.f32 %d, %a, %b;", "rrr", {{kOne, half_ulp, next}, {bits(-1.0f), bits(-0x1p-24f), bits(-1.0f)}});
  expect_rows(
      "add.rm.f32 %d, %a, %b;", "rrr",
      {{kOne, half_ulp, kOne}, {bits(-1.0f), bits(-0x1p-24f), bits(-1.0f) + 1}, {kOne, bits(-1.0f), kMinusZero}});
  expect_rows("mul.rp.f32 %d, %a, %b;", "rrr", {{next, next, kOne + 3}});
  expect_rows("mul.rz.f32 %d, %a, %b;", "rrr", {{next, next, kOne + 2}, {bits(0x1p127f), bits(4.0f), 0x7F7FFFFF}});
  expect_rows("div.rn.f32 %d, %a, %b;", "rrr",
              {{kOne, bits(3.0f), 0x3EAAAAAB}, {kOne, 0, kInf}, {0, 0, kNan}, {bits(-1.0f), 0, kMinusInf}});
  expect_rows("div.rz.f32 %d, %a, %b;", "rrr", {{kOne, bits(3.0f), 0x3EAAAAAA}});
  expect_rows("div.rp.f64 %d, %a, %b;", "lll", {{bits(1.0), bits(3.0), 0x3FD5555555555556}});
  expect_rows("sqrt.rn.f32 %d, %a;", "rr", {{bits(2.0f), 0x3FB504F3}, {bits(-1.0f), kNan}, {kMinusZero, kMinusZero}});
  expect_rows("sqrt.rp.f32 %d, %a;", "rr", {{bits(2.0f), 0x3FB504F4}});
  expect_rows("rcp.rn.f32 %d, %a;", "rr", {{bits(3.0f), 0x3EAAAAAB}, {0, kInf}});
  expect_rows("rcp.rz.f64 %d, %a;", "ll", {{bits(3.0), 0x3FD5555555555555}});
}

TEST(Float, FmaIsFused) {
  // (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24: the last term is lost by a rounded product.
  const float x = 1 + 0x1p-12f;
  expect_rows("fma.rn.f32 %d, %a, %b, %c;", "rrrr",
              {{bits(x), bits(x), bits(-(1 + 0x1p-11f)), bits(0x1p-24f)}, {kInf, 0, kOne, kNan}});
  expect_rows("fma.rz.f32 %d, %a, %b, %c;", "rrrr", {{bits(x), bits(x), 0, bits(1 + 0x1p-11f)}});
  expect_rows("fma.rp.f32 %d, %a, %b, %c;", "rrrr", {{bits(x), bits(x), 0, bits(1 + 0x1p-11f) + 1}});
  expect_rows("mad.rn.f32 %d, %a, %b, %c;", "rrrr", {{bits(x), bits(x), bits(-(1 + 0x1p-11f)), bits(0x1p-24f)}});
  expect_rows("fma.rn.f64 %d, %a, %b, %c;", "llll",
              {{bits(1 + 0x1p-30), bits(1 + 0x1p-30), bits(-(1 + 0x1p-29)), bits(0x1p-60)}});
  std::mt19937 engine(5);
  std::vector<std::vector<uint64_t>> rows;
  while (rows.size() < 96) {
    const auto a = std::bit_cast<float>(uint32_t(engine())), b = std::bit_cast<float>(uint32_t(engine())),
               c = std::bit_cast<float>(uint32_t(engine()));
    const float d = std::fma(a, b, c);
    if (a == a && b == b && c == c && d == d) rows.push_back({bits(a), bits(b), bits(c), bits(d)});
  }
  expect_rows("fma.rn.f32 %d, %a, %b, %c;", "rrrr", rows);
}

TEST(Float, FlushToZero) {
  expect_rows("add.ftz.f32 %d, %a, %b;", "rrr",
              {{kTiny, kTiny, 0}, {kMinusZero | 5, kMinusZero | 5, kMinusZero}, {0x00800001, 0x80800000, 0}});
  expect_rows("add.f32 %d, %a, %b;", "rrr", {{kTiny, kTiny, 2}, {0x00800001, 0x80800000, 1}});
  expect_rows("mul.ftz.f32 %d, %a, %b;", "rrr", {{0x807FFFFF, kTwo, kMinusZero}});
  expect_rows("fma.rn.ftz.f32 %d, %a, %b, %c;", "rrrr", {{kOne, kTiny, kTiny, 0}});
  expect_rows("abs.ftz.f32 %d, %a;", "rr", {{kMinusZero | 5, 0}});
  expect_rows("setp.eq.ftz.f32 %d, %a, %b;", "prr", {{kTiny, 0, 1}});
  expect_rows("setp.eq.f32 %d, %a, %b;", "prr", {{kTiny, 0, 0}});
  expect_rows("cvt.ftz.f64.f32 %d, %a;", "lr", {{kTiny, 0}});
  expect_rows("min.ftz.f32 %d, %a, %b;", "rrr", {{kMinusZero | 5, kOne, kMinusZero}});
}

TEST(Float, Saturation) {
  expect_rows("add.sat.f32 %d, %a, %b;", "rrr",
              {{kOne, kOne, kOne}, {bits(-1.0f), 0, 0}, {0x7FC00000, 0, 0}, {bits(0.25f), bits(0.5f), bits(0.75f)}});
  expect_rows("fma.rn.sat.f32 %d, %a, %b, %c;", "rrrr", {{kTwo, kTwo, kOne, kOne}});
  expect_rows("cvt.sat.f32.f32 %d, %a;", "rr", {{bits(-1.0f), 0}, {0x7FC00000, 0}, {bits(7.0f), kOne}});
}

TEST(Float, MinMax) {
  expect_rows("min.f32 %d, %a, %b;", "rrr",
              {{0x7FC00000, kOne, kOne},
               {kOne, 0x7FC00000, kOne},
               {0x7FC00000, 0x7FC00000, kNan},
               {kMinusZero, 0, kMinusZero},
               {0, kMinusZero, kMinusZero}});
  expect_rows("max.f32 %d, %a, %b;", "rrr", {{kMinusZero, 0, 0}, {0, kMinusZero, 0}, {kOne, kTwo, kTwo}});
  expect_rows("min.NaN.f32 %d, %a, %b;", "rrr", {{0x7FC00000, kOne, kNan}, {kOne, kTwo, kOne}});
  expect_rows("max.xorsign.abs.f32 %d, %a, %b;", "rrr",
              {{bits(-3.0f), kTwo, bits(-3.0f)}, {bits(-3.0f), bits(-4.0f), bits(4.0f)}});
  expect_rows("max.f64 %d, %a, %b;", "lll", {{bits(1.0), bits(2.0), bits(2.0)}, {bits(-0.0), bits(0.0), bits(0.0)}});
}

TEST(Float, SignsAndTests) {
  expect_rows("neg.f32 %d, %a;", "rr", {{0x7FC12345, 0xFFC12345}, {0, kMinusZero}});
  expect_rows("abs.f64 %d, %a;", "ll", {{bits(-2.5), bits(2.5)}});
  expect_rows("copysign.f32 %d, %a, %b;", "rrr", {{kMinusZero, kTwo, bits(-2.0f)}, {kOne, bits(-3.0f), bits(3.0f)}});
  expect_rows("testp.subnormal.f32 %d, %a;", "pr", {{kTiny, 1}, {0, 0}, {kOne, 0}});
  expect_rows("testp.normal.f32 %d, %a;", "pr", {{kTiny, 0}, {0, 1}, {0x80000000, 1}, {kOne, 1}, {kInf, 0}, {kNan, 0}});
  expect_rows("sin.approx.f32 %d, %a;", "rr", {{kTiny, 0}, {kTiny | 0x80000000, 0x80000000}});
  expect_rows("testp.notanumber.f32 %d, %a;", "pr", {{kNan, 1}, {kInf, 0}});
  expect_rows("testp.finite.f64 %d, %a;", "pl", {{bits(1.0), 1}, {0x7FF0000000000000, 0}});
  expect_rows("setp.lt.f32 %d, %a, %b;", "prr", {{0x7FC00000, kOne, 0}, {kOne, kTwo, 1}});
  expect_rows("setp.ltu.f32 %d, %a, %b;", "prr", {{0x7FC00000, kOne, 1}});
  expect_rows("setp.neu.f32 %d, %a, %b;", "prr", {{0x7FC00000, 0x7FC00000, 1}, {0, kMinusZero, 0}});
  expect_rows("setp.ne.f32 %d, %a, %b;", "prr", {{0x7FC00000, kOne, 0}});
  expect_rows("setp.num.f32 %d, %a, %b;", "prr", {{kOne, kOne, 1}, {kOne, 0x7FC00000, 0}});
  expect_rows("setp.nan.f64 %d, %a, %b;", "pll", {{bits(1.0), 0x7FF8000000000000, 1}});
}

TEST(Float, Approximations) {
  expect_rows("rcp.approx.f32 %d, %a;", "rr", {{kTwo, bits(0.5f)}, {0, kInf}, {kMinusInf, kMinusZero}});
  expect_rows("rcp.approx.ftz.f32 %d, %a;", "rr", {{kTiny, kInf}});
  expect_rows("rsqrt.approx.f32 %d, %a;", "rr", {{bits(4.0f), bits(0.5f)}, {0, kInf}, {bits(-1.0f), kNan}});
  expect_rows("sqrt.approx.f32 %d, %a;", "rr", {{bits(9.0f), bits(3.0f)}});
  expect_rows("ex2.approx.f32 %d, %a;", "rr", {{bits(3.0f), bits(8.0f)}, {bits(-140.0f), 0x00000200}, {kMinusInf, 0}});
  expect_rows("ex2.approx.ftz.f32 %d, %a;", "rr", {{bits(-140.0f), 0}, {kMinusZero | 5, kOne}});
  expect_rows("lg2.approx.f32 %d, %a;", "rr", {{bits(8.0f), bits(3.0f)}, {0, kMinusInf}, {bits(-1.0f), kNan}});
  expect_rows("sin.approx.f32 %d, %a;", "rr", {{0, 0}, {kInf, kNan}});
  expect_rows("cos.approx.f32 %d, %a;", "rr", {{0, kOne}});
  expect_rows("tanh.approx.f32 %d, %a;", "rr", {{kInf, kOne}, {kMinusInf, bits(-1.0f)}});
  expect_rows("div.approx.f32 %d, %a, %b;", "rrr",
              {{kOne, kTwo, bits(0.5f)}, {kOne, bits(0x1.8p126f), 0}, {kInf, bits(0x1.8p126f), kNan}});
  expect_rows("div.full.f32 %d, %a, %b;", "rrr", {{kOne, kTwo, bits(0.5f)}});
  expect_rows("rcp.approx.ftz.f64 %d, %a;", "ll", {{bits(2.0), bits(0.5)}, {bits(3.0), 0x3FD5555500000000}});
}

TEST(Float, Halves) {
  expect_rows("add.f16 %d, %a, %b;", "hhh",
              {{0x3C00, 0x3C00, 0x4000}, {0x7BFF, 0x7BFF, 0x7C00}, {0x0001, 0x0001, 0x0002}, {0x7E00, 0x3C00, 0x7FFF}});
  expect_rows("add.ftz.f16 %d, %a, %b;", "hhh", {{0x0001, 0x0001, 0}});
  expect_rows("add.sat.f16 %d, %a, %b;", "hhh", {{0x3C00, 0x3C00, 0x3C00}});
  // 2049 is halfway between 2048 and 2050: to even.
  expect_rows("add.rn.f16 %d, %a, %b;", "hhh", {{0x6800, 0x3C00, 0x6800}});
  expect_rows("mul.f16x2 %d, %a, %b;", "rrr", {{0x3C004000, 0x42004200, 0x42004600}});
  expect_rows("fma.rn.f16 %d, %a, %b, %c;", "hhhh", {{0x3C01, 0x3C01, 0xBC02, 0x0010}});
  expect_rows("fma.rn.relu.f16 %d, %a, %b, %c;", "hhhh", {{0x3C00, 0xBC00, 0, 0}, {0x3C00, 0x3C00, 0, 0x3C00}});
  expect_rows("fma.rn.bf16 %d, %a, %b, %c;", "hhhh",
              {{0x3F81, 0x3F81, 0xBF82, 0x3880}, {0x3F80, 0x3F80, 0x3B80, 0x3F80}});
  expect_rows("add.bf16 %d, %a, %b;", "hhh", {{0x3F80, 0x3F80, 0x4000}});
  expect_rows("fma.rn.bf16x2 %d, %a, %b, %c;", "rrrr", {{0x3F804000, 0x40003F80, 0x3F803F80, 0x40404040}});
  expect_rows("neg.f16x2 %d, %a;", "rr", {{0x3C008000, 0xBC000000}});
  expect_rows("abs.bf16 %d, %a;", "hh", {{0xBF80, 0x3F80}});
  expect_rows("max.f16 %d, %a, %b;", "hhh", {{0x8000, 0, 0}, {0x7E00, 0x3C00, 0x3C00}});
  expect_rows("max.NaN.bf16x2 %d, %a, %b;", "rrr", {{0x7FC03F80, 0x3F804000, 0x7FFF4000}});
  expect_rows("min.xorsign.abs.f16 %d, %a, %b;", "hhh", {{0xC000, 0x3C00, 0xBC00}});
  expect_rows("ex2.approx.f16 %d, %a;", "hh", {{0x4200, 0x4800}});
  expect_rows("tanh.approx.bf16x2 %d, %a;", "rr", {{0x7F80FF80, 0x3F80BF80}});
  expect_rows("setp.lt.f16 %d, %a, %b;", "phh", {{0x3C00, 0x4000, 1}, {0x7E00, 0x4000, 0}});
  expect_rows("setp.eq.f16x2 %d|_, %a, %b;", "prr", {{0x3C003C00, 0x40003C00, 1}});
  expect_rows("set.lt.f16x2.f16x2 %d, %a, %b;", "rrr", {{0x3C004000, 0x40003C00, 0x3C000000}});
}

TEST(Float, ConversionsBetweenFloats) {
  expect_rows("cvt.rn.f16.f32 %d, %a;", "hr",
              {{bits(70000.0f), 0x7C00},
               {bits(65519.0f), 0x7BFF},
               {bits(65520.0f), 0x7C00},
               {bits(0x1p-25f), 0},
               {bits(0x1.8p-25f), 1},
               {kNan, 0x7FFF},
               {bits(-1.5f), 0xBE00}});
  expect_rows("cvt.rz.f16.f32 %d, %a;", "hr", {{bits(70000.0f), 0x7BFF}, {bits(0x1.8p-25f), 0}});
  expect_rows("cvt.rn.bf16.f32 %d, %a;", "hr",
              {{0x3F808000, 0x3F80}, {0x3F818000, 0x3F82}, {kNan, 0x7FFF}, {0x7F7FFFFF, 0x7F80}});
  expect_rows("cvt.rz.bf16.f32 %d, %a;", "hr", {{0x3F81FFFF, 0x3F81}, {0x7F7FFFFF, 0x7F7F}});
  expect_rows("cvt.f32.f16 %d, %a;", "rh",
              {{0x3C00, kOne}, {0x0001, bits(0x1p-24f)}, {0x7C00, kInf}, {0x03FF, bits(0x3FFp-24f)}});
  expect_rows("cvt.f32.bf16 %d, %a;", "rh", {{0x3F80, kOne}, {0x0001, 0x00010000}});
  expect_rows("cvt.rn.f32.f64 %d, %a;", "rl", {{bits(1 + 0x1p-24), kOne}, {bits(1e300), kInf}, {bits(0x1p-150), 0}});
  expect_rows("cvt.rp.f32.f64 %d, %a;", "rl", {{bits(1 + 0x1p-24), kOne + 1}, {bits(0x1p-150), 1}});
  expect_rows("cvt.rz.f32.f64 %d, %a;", "rl", {{bits(1e300), 0x7F7FFFFF}});
  expect_rows("cvt.rn.f16x2.f32 %d, %a, %b;", "rrr", {{kOne, kTwo, 0x3C004000}});
  expect_rows("cvt.rn.relu.bf16x2.f32 %d, %a, %b;", "rrr", {{bits(-1.0f), kTwo, 0x00004000}});
  expect_rows("cvt.rna.tf32.f32 %d, %a;", "rr", {{0x3F801000, 0x3F802000}, {0x3F800FFF, 0x3F800000}, {kInf, kInf}});
  expect_rows("cvt.rn.satfinite.e4m3x2.f32 %d, %a, %b;", "hrr",
              {{bits(448.0f), bits(1000.0f), 0x7E7E}, {bits(1.0f), bits(-0x1p-9f), 0x3881}, {kNan, 0, 0x7F00}});
  expect_rows("cvt.rn.satfinite.e5m2x2.f32 %d, %a, %b;", "hrr",
              {{bits(57344.0f), bits(1e9f), 0x7B7B}, {kOne, 0, 0x3C00}});
  expect_rows("cvt.rn.f16x2.e4m3x2 %d, %a;", "rh", {{0x387E, 0x3C005F00}, {0x7F01, 0x7FFF1800}});
}

TEST(Float, ConversionsToIntegers) {
  expect_rows("cvt.rzi.s32.f32 %d, %a;", "rr",
              {{kNan, 0}, {bits(3e9f), 0x7FFFFFFF}, {bits(-3e9f), 0x80000000}, {bits(-2.9f), uint32_t(-2)}});
  expect_rows("cvt.rni.s32.f32 %d, %a;", "rr", {{bits(2.5f), 2}, {bits(3.5f), 4}, {bits(-2.5f), uint32_t(-2)}});
  expect_rows("cvt.rmi.s32.f32 %d, %a;", "rr", {{bits(-2.1f), uint32_t(-3)}});
  expect_rows("cvt.rpi.s32.f32 %d, %a;", "rr", {{bits(2.1f), 3}});
  expect_rows("cvt.rzi.u32.f32 %d, %a;", "rr", {{bits(-1.0f), 0}, {bits(5e9f), 0xFFFFFFFF}, {kNan, 0}});
  expect_rows("cvt.rzi.s64.f64 %d, %a;", "ll",
              {{bits(1e30), 0x7FFFFFFFFFFFFFFF}, {bits(-1e30), 1ull << 63}, {bits(123456789012.7), 123456789012}});
  expect_rows("cvt.rzi.u64.f32 %d, %a;", "lr", {{bits(0x1p63f), 1ull << 63}, {bits(0x1p64f), ~0ull}});
  expect_rows("cvt.rzi.s16.f16 %d, %a;", "hh", {{0xC500, 0xFFFB}});
  expect_rows("{ .reg .u32 t; cvt.rzi.u8.f32 t, %a; mov.b32 %d, t; }", "rr", {{bits(300.0f), 255}, {bits(-5.0f), 0}});
  expect_rows("{ .reg .s32 t; cvt.rzi.s8.f32 t, %a; mov.b32 %d, t; }", "rr", {{bits(-200.0f), 0xFFFFFF80}});
  expect_rows("cvt.rni.f32.f32 %d, %a;", "rr", {{bits(2.5f), kTwo}, {bits(-0.25f), kMinusZero}});
  expect_rows("cvt.rpi.f64.f64 %d, %a;", "ll", {{bits(2.25), bits(3.0)}});
}

TEST(Float, ConversionsFromIntegers) {
  expect_rows("cvt.rn.f32.s32 %d, %a;", "rr",
              {{0x80000000, bits(-0x1p31f)}, {16777217, bits(16777216.0f)}, {16777219, bits(16777220.0f)}});
  expect_rows("cvt.rp.f32.u32 %d, %a;", "rr", {{16777217, bits(16777218.0f)}});
  expect_rows("cvt.rz.f32.u64 %d, %a;", "rl", {{~0ull, 0x5F7FFFFF}});
  expect_rows("cvt.rn.f32.u64 %d, %a;", "rl",
              {{~0ull, bits(0x1p64f)},
               {(1ull << 40) + (1ull << 16), bits(0x1p40f)},
               {(1ull << 40) + (1ull << 16) + 1, bits(0x1p40f) + 1}});
  expect_rows("cvt.rn.f64.s64 %d, %a;", "ll", {{uint64_t(-3), bits(-3.0)}, {(1ull << 53) + 1, bits(0x1p53)}});
  expect_rows("cvt.rn.f16.s32 %d, %a;", "hr", {{2049, 0x6800}, {100000, 0x7C00}});
  expect_rows("cvt.rn.bf16.u32 %d, %a;", "hr", {{257, 0x4380}});
  expect_rows("cvt.rn.f16.u64 %d, %a;", "hl", {{2049, 0x6800}, {2051, 0x6802}});
}

TEST(Float, IntegerConversionsAndPacking) {
  expect_rows("cvt.s32.s16 %d, %a;", "rh", {{0x8000, 0xFFFF8000}});
  expect_rows("cvt.u64.u32 %d, %a;", "lr", {{0xFFFFFFFF, 0xFFFFFFFF}});
  expect_rows("cvt.s64.s32 %d, %a;", "lr", {{0xFFFFFFFF, ~0ull}});
  expect_rows("cvt.s32.s8 %d, %a;", "rr", {{0x1FF, 0xFFFFFFFF}, {0x180, 0xFFFFFF80}});
  expect_rows("cvt.u16.u32 %d, %a;", "hr", {{0x12345678, 0x5678}});
  expect_rows("cvt.sat.u8.s32 %d, %a;", "rr", {{uint32_t(-5), 0}, {300, 255}});
  expect_rows("cvt.sat.s8.s32 %d, %a;", "rr", {{uint32_t(-200), 0xFFFFFF80}, {200, 127}});
  expect_rows("cvt.pack.sat.s16.s32 %d, %a, %b;", "rrr", {{100000, uint32_t(-100000), 0x7FFF8000}});
  expect_rows("cvt.pack.sat.u8.s32.b32 %d, %a, %b, %c;", "rrrr", {{300, uint32_t(-1), 0x1234, 0x1234FF00}});
}

}  // namespace
}  // namespace corrloom::sim
