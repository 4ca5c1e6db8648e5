#include <random>

#include "one_instruction.h"

/// Known answers of integer and bit instructions. Wide references are computed with 128-bit integers.
namespace corrloom::sim {
namespace {

__extension__ typedef __int128 Wide;
__extension__ typedef unsigned __int128 UnsignedWide;

template <class T>
std::vector<T> edges() {
  std::vector<T> values{0,
                        1,
                        2,
                        3,
                        T(-1),
                        T(-2),
                        std::numeric_limits<T>::min(),
                        std::numeric_limits<T>::max(),
                        T(std::numeric_limits<T>::max() - 1)};
  std::mt19937_64 engine(7);
  for (int i = 0; i < 4; ++i) values.push_back(T(engine()));
  return values;
}

/// Rows over all pairs of edge values with the reference's result cut to the type's width.
template <class T, class R = T, class F>
std::vector<std::vector<uint64_t>> pairs(F f) {
  const uint64_t mask = sizeof(T) == 8 ? ~uint64_t(0) : (uint64_t(1) << (8 * sizeof(T))) - 1;
  const uint64_t result_mask = sizeof(R) == 8 ? ~uint64_t(0) : (uint64_t(1) << (8 * sizeof(R))) - 1;
  std::vector<std::vector<uint64_t>> rows;
  for (const T a : edges<T>()) {
    for (const T b : edges<T>())
      rows.push_back({uint64_t(a) & mask, uint64_t(b) & mask, uint64_t(f(Wide(a), Wide(b))) & result_mask});
  }
  return rows;
}

template <class T>
void check_arithmetic(const std::string& type, const std::string& letters) {
  constexpr int kBits = 8 * sizeof(T);
  const auto op = [&](const std::string& name) { return name + "." + type + " %d, %a, %b;"; };
  expect_rows(op("add"), letters, pairs<T>([](Wide a, Wide b) { return a + b; }));
  expect_rows(op("sub"), letters, pairs<T>([](Wide a, Wide b) { return a - b; }));
  expect_rows(op("mul.lo"), letters, pairs<T>([](Wide a, Wide b) { return UnsignedWide(a) * UnsignedWide(b); }));
  if constexpr (kBits < 64) {
    expect_rows(op("mul.hi"), letters, pairs<T>([](Wide a, Wide b) { return (a * b) >> kBits; }));
  }
  expect_rows(op("min"), letters, pairs<T>([](Wide a, Wide b) { return a < b ? a : b; }));
  expect_rows(op("max"), letters, pairs<T>([](Wide a, Wide b) { return a > b ? a : b; }));
  // Division by zero gives all ones, as ptxas folds it.
  expect_rows(op("div"), letters, pairs<T>([](Wide a, Wide b) { return b == 0 ? Wide(-1) : a / b; }));
  expect_rows(op("rem"), letters, pairs<T>([](Wide a, Wide b) { return b == 0 ? Wide(-1) : a % b; }));
  const auto predicate = letters.substr(1);
  expect_rows("setp.lt." + type + " %d, %a, %b;", "p" + predicate,
              pairs<T, uint8_t>([](Wide a, Wide b) { return a < b; }));
  expect_rows("setp.ge." + type + " %d, %a, %b;", "p" + predicate,
              pairs<T, uint8_t>([](Wide a, Wide b) { return a >= b; }));
  expect_rows("setp.ne." + type + " %d, %a, %b;", "p" + predicate,
              pairs<T, uint8_t>([](Wide a, Wide b) { return a != b; }));
}

TEST(Integer, ArithmeticAtEveryWidth) {
  check_arithmetic<uint16_t>("u16", "hhh");
  check_arithmetic<int16_t>("s16", "hhh");
  check_arithmetic<uint32_t>("u32", "rrr");
  check_arithmetic<int32_t>("s32", "rrr");
  check_arithmetic<uint64_t>("u64", "lll");
  check_arithmetic<int64_t>("s64", "lll");
}

TEST(Integer, WideAndHighProducts) {
  expect_rows("mul.wide.s16 %d, %a, %b;", "rhh", pairs<int16_t, uint32_t>([](Wide a, Wide b) { return a * b; }));
  expect_rows("mul.wide.u32 %d, %a, %b;", "lrr", pairs<uint32_t, uint64_t>([](Wide a, Wide b) { return a * b; }));
  expect_rows("mul.wide.s32 %d, %a, %b;", "lrr", pairs<int32_t, uint64_t>([](Wide a, Wide b) { return a * b; }));
  expect_rows("mul.hi.u64 %d, %a, %b;", "lll",
              pairs<uint64_t>([](Wide a, Wide b) { return Wide(UnsignedWide(a) * UnsignedWide(b) >> 64); }));
  expect_rows("mul.hi.s64 %d, %a, %b;", "lll", pairs<int64_t>([](Wide a, Wide b) { return (a * b) >> 64; }));
}

TEST(Integer, Saturation) {
  expect_rows("add.sat.s32 %d, %a, %b;", "rrr",
              {{0x7FFFFFFF, 1, 0x7FFFFFFF}, {0x80000000, 0xFFFFFFFF, 0x80000000}, {5, 6, 11}});
  expect_rows("sub.sat.s32 %d, %a, %b;", "rrr",
              {{0x80000000, 1, 0x80000000}, {0x7FFFFFFF, 0xFFFFFFFF, 0x7FFFFFFF}, {5, 6, 0xFFFFFFFF}});
  expect_rows("mad.hi.sat.s32 %d, %a, %b, %c;", "rrrr", {{0x7FFFFFFF, 0x7FFFFFFF, 0x7FFFFFFF, 0x7FFFFFFF}});
}

TEST(Integer, MultiplyAdd) {
  expect_rows("mad.lo.s32 %d, %a, %b, %c;", "rrrr", {{3, 4, 5, 17}, {0xFFFFFFFF, 7, 1, 0xFFFFFFFA}});
  expect_rows("mad.wide.u32 %d, %a, %b, %c;", "lrrl", {{0xFFFFFFFF, 0xFFFFFFFF, 1, 0xFFFFFFFE00000002}});
  expect_rows("mad.wide.s32 %d, %a, %b, %c;", "lrrl", {{0xFFFFFFFF, 2, 1, 0xFFFFFFFFFFFFFFFF}});
  expect_rows("mad.lo.u64 %d, %a, %b, %c;", "llll", {{1ull << 63, 2, 9, 9}});
  expect_rows("mul24.lo.s32 %d, %a, %b;", "rrr", {{0x00FFFFFF, 2, 0xFFFFFFFE}, {0x01000003, 5, 15}});
  expect_rows("mul24.hi.u32 %d, %a, %b;", "rrr", {{0x00FFFFFF, 0x00FFFFFF, 0xFFFFFE00}});
  expect_rows("mad24.lo.u32 %d, %a, %b, %c;", "rrrr", {{3, 4, 5, 17}});
  expect_rows("sad.s32 %d, %a, %b, %c;", "rrrr", {{3, 10, 1, 8}, {0xFFFFFFFF, 1, 0, 2}});
  expect_rows("sad.u32 %d, %a, %b, %c;", "rrrr", {{0xFFFFFFFF, 1, 0, 0xFFFFFFFE}});
}

TEST(Integer, CarryChains) {
  expect_rows("add.cc.u32 %d, %a, %b; addc.u32 %d, %c, 0;", "rrrr", {{0xFFFFFFFF, 1, 5, 6}, {1, 1, 5, 5}});
  expect_rows("sub.cc.u32 %d, %a, %b; subc.u32 %d, %c, 0;", "rrrr", {{0, 1, 5, 4}, {1, 1, 5, 5}});
  expect_rows("mad.lo.cc.u32 %d, %a, %b, %c; madc.hi.u32 %d, %a, %b, 0;", "rrrr",
              {{0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, {2, 3, 0xFFFFFFFA, 1}});
  // The flag of a subtraction read by an addition: set where nothing was borrowed, as nvcc's 128-bit division expects.
  expect_rows("sub.cc.u32 %d, %a, %b; addc.u32 %d, %c, 0;", "rrrr", {{0, 1, 5, 5}, {1, 1, 5, 6}});
  expect_rows("add.cc.u64 %d, %a, %b; addc.u64 %d, %c, 0;", "llll", {{~0ull, 1, 5, 6}});
}

TEST(Integer, SignAndCounts) {
  expect_rows("neg.s32 %d, %a;", "rr", {{1, 0xFFFFFFFF}, {0x80000000, 0x80000000}, {0, 0}});
  expect_rows("abs.s32 %d, %a;", "rr", {{0xFFFFFFFF, 1}, {0x80000000, 0x80000000}, {7, 7}});
  expect_rows("abs.s16 %d, %a;", "hh", {{0xFFFF, 1}, {0x8000, 0x8000}});
  expect_rows("neg.s64 %d, %a;", "ll", {{1, ~0ull}});
  expect_rows("popc.b32 %d, %a;", "rr", {{0, 0}, {0xFFFFFFFF, 32}, {0x80000001, 2}});
  expect_rows("popc.b64 %d, %a;", "rl", {{~0ull, 64}});
  expect_rows("clz.b32 %d, %a;", "rr", {{0, 32}, {1, 31}, {0x80000000, 0}});
  expect_rows("clz.b64 %d, %a;", "rl", {{0, 64}, {1, 63}});
  expect_rows("bfind.u32 %d, %a;", "rr", {{0, 0xFFFFFFFF}, {1, 0}, {0x80000000, 31}});
  expect_rows("bfind.s32 %d, %a;", "rr",
              {{0xFFFFFFFF, 0xFFFFFFFF}, {0xFFFFFFFE, 0}, {0x7FFFFFFF, 30}, {0x80000000, 30}});
  expect_rows("bfind.shiftamt.u32 %d, %a;", "rr", {{1, 31}, {0x80000000, 0}});
  expect_rows("brev.b32 %d, %a;", "rr", {{1, 0x80000000}, {0x0000FFFF, 0xFFFF0000}});
  expect_rows("brev.b64 %d, %a;", "ll", {{1, 1ull << 63}});
  expect_rows("fns.b32 %d, %a, %b, %c;", "rrrr",
              {{0xAAAAAAAA, 0, 0, 0xFFFFFFFF},
               {0xAAAAAAAA, 3, 0, 3},
               {0xAAAAAAAA, 3, 1, 3},
               {0xAAAAAAAA, 3, 2, 5},
               {0xAAAAAAAA, 3, 0xFFFFFFFE, 1}});
}

TEST(Integer, Shifts) {
  expect_rows("shl.b32 %d, %a, %b;", "rrr", {{1, 31, 0x80000000}, {1, 32, 0}, {1, 0xFFFFFFFF, 0}});
  expect_rows("shl.b16 %d, %a, %b;", "hhr", {{1, 15, 0x8000}, {1, 16, 0}});
  expect_rows("shl.b64 %d, %a, %b;", "llr", {{1, 63, 1ull << 63}, {1, 64, 0}});
  expect_rows("shr.u32 %d, %a, %b;", "rrr", {{0x80000000, 31, 1}, {0x80000000, 32, 0}});
  expect_rows("shr.s32 %d, %a, %b;", "rrr",
              {{0x80000000, 31, 0xFFFFFFFF}, {0x80000000, 99, 0xFFFFFFFF}, {0x7FFFFFFF, 99, 0}});
  expect_rows("shr.s16 %d, %a, %b;", "hhr", {{0x8000, 20, 0xFFFF}});
  expect_rows("shr.s64 %d, %a, %b;", "llr", {{1ull << 63, 64, ~0ull}});
  expect_rows("shf.l.clamp.b32 %d, %a, %b, %c;", "rrrr",
              {{0x11111111, 0x22222222, 4, 0x22222221}, {0x11111111, 0x22222222, 40, 0x11111111}});
  expect_rows("shf.l.wrap.b32 %d, %a, %b, %c;", "rrrr",
              {{0x11111111, 0x22222222, 36, 0x22222221}, {0x11111111, 0x22222222, 32, 0x22222222}});
  expect_rows("shf.r.clamp.b32 %d, %a, %b, %c;", "rrrr",
              {{0x11111111, 0x22222222, 4, 0x21111111}, {0x11111111, 0x22222222, 40, 0x22222222}});
  expect_rows("shf.r.wrap.b32 %d, %a, %b, %c;", "rrrr", {{0x11111111, 0x22222222, 36, 0x21111111}});
}

TEST(Integer, Fields) {
  expect_rows("bfe.u32 %d, %a, %b, %c;", "rrrr",
              {{0x12345678, 8, 8, 0x56},
               {0xFFFFFFFF, 32, 4, 0},
               {0xFFFFFFFF, 28, 8, 0xF},
               {0xFFFFFFFF, 0, 0, 0},
               {0xFFFFFFFF, 0, 32, 0xFFFFFFFF}});
  expect_rows("bfe.s32 %d, %a, %b, %c;", "rrrr",
              {{0x80000000, 28, 8, 0xFFFFFFF8},
               {0x00008000, 8, 8, 0xFFFFFF80},
               {0x80000000, 40, 8, 0xFFFFFFFF},
               {0x12345678, 4, 4, 7}});
  expect_rows("bfe.u64 %d, %a, %b, %c;", "llrr", {{0x123456789ABCDEF0, 32, 16, 0x5678}});
  expect_rows("bfi.b32 %d, %a, %b, %c, %e;", "rrrrr",
              {{0xAB, 0xFFFFFFFF, 8, 8, 0xFFFFABFF},
               {0xAB, 0x11111111, 32, 8, 0x11111111},
               {0xAB, 0x11111111, 4, 0, 0x11111111},
               {0xFFFFFFFF, 0, 28, 8, 0xF0000000}});
  expect_rows("bfi.b64 %d, %a, %b, %c, %e;", "lllrr", {{0xAB, 0, 60, 4, 0xB000000000000000}});
  expect_rows("szext.wrap.s32 %d, %a, %b;", "rrr",
              {{0x80, 8, 0xFFFFFF80}, {0x80, 40, 0xFFFFFF80}, {0x7F, 8, 0x7F}, {5, 0, 0}});
  expect_rows("szext.clamp.u32 %d, %a, %b;", "rrr", {{0xFFFFFFFF, 8, 0xFF}, {0xFFFFFFFF, 40, 0xFFFFFFFF}});
  expect_rows("bmsk.clamp.b32 %d, %a, %b;", "rrr", {{4, 8, 0xFF0}, {0, 32, 0xFFFFFFFF}, {40, 8, 0}});
  expect_rows("bmsk.wrap.b32 %d, %a, %b;", "rrr", {{36, 8, 0xFF0}, {0, 32, 0}});
}

TEST(Integer, Logic) {
  expect_rows("and.b32 %d, %a, %b;", "rrr", {{0xF0F0F0F0, 0xFF00FF00, 0xF000F000}});
  expect_rows("or.b64 %d, %a, %b;", "lll", {{1ull << 63, 1, (1ull << 63) | 1}});
  expect_rows("xor.b16 %d, %a, %b;", "hhh", {{0xFFFF, 0x00FF, 0xFF00}});
  expect_rows("not.b32 %d, %a;", "rr", {{0, 0xFFFFFFFF}});
  expect_rows("cnot.b32 %d, %a;", "rr", {{0, 1}, {5, 0}});
  expect_rows("and.pred %d, %a, %b;", "ppp", {{1, 1, 1}, {1, 0, 0}});
  expect_rows("xor.pred %d, %a, %b;", "ppp", {{1, 1, 0}, {1, 0, 1}});
  expect_rows("not.pred %d, %a;", "pp", {{1, 0}, {0, 1}});
  // 0xE8 is the majority of three, 0x96 their parity.
  expect_rows("lop3.b32 %d, %a, %b, %c, 0xE8;", "rrrr",
              {{0xFF00FF00, 0xF0F0F0F0, 0xCCCCCCCC, 0xFCC0FCC0 & 0xFCC0FCC0}, {0, 0, 0xFFFFFFFF, 0}});
  expect_rows("lop3.b32 %d, %a, %b, %c, 0x96;", "rrrr",
              {{0xFF00FF00, 0xF0F0F0F0, 0xCCCCCCCC, 0xFF00FF00 ^ 0xF0F0F0F0 ^ 0xCCCCCCCC}});
}

TEST(Integer, BytePermutation) {
  expect_rows("prmt.b32 %d, %a, %b, %c;", "rrrr",
              {{0x33221100, 0x77665544, 0x3210, 0x33221100},
               {0x33221100, 0x77665544, 0x7531, 0x77553311},
               {0x33228000, 0, 0x9999, 0xFFFFFFFF},
               {0x33221100, 0, 0x8888, 0}});
  expect_rows("prmt.b32.f4e %d, %a, %b, %c;", "rrrr", {{0x33221100, 0x77665544, 1, 0x44332211}});
  expect_rows("prmt.b32.b4e %d, %a, %b, %c;", "rrrr", {{0x33221100, 0x77665544, 1, 0x66770011}});
  expect_rows("prmt.b32.rc8 %d, %a, %b, %c;", "rrrr", {{0x33221100, 0, 2, 0x22222222}});
  expect_rows("prmt.b32.ecl %d, %a, %b, %c;", "rrrr", {{0x33221100, 0, 1, 0x33221111}});
  expect_rows("prmt.b32.ecr %d, %a, %b, %c;", "rrrr", {{0x33221100, 0, 1, 0x11111100}});
  expect_rows("prmt.b32.rc16 %d, %a, %b, %c;", "rrrr", {{0x33221100, 0, 1, 0x33223322}});
}

TEST(Integer, DotProducts) {
  expect_rows("dp4a.s32.s32 %d, %a, %b, %c;", "rrrr",
              {{0xFF010203, 0x01010101, 10, 15}, {0x80808080, 0x80808080, 0, 65536}});
  expect_rows("dp4a.u32.s32 %d, %a, %b, %c;", "rrrr", {{0xFF000000, 0xFF000000, 0, uint32_t(-255)}});
  expect_rows("dp2a.lo.s32.s32 %d, %a, %b, %c;", "rrrr", {{0x0002FFFF, 0x09080304, 1, 1 - 4 + 6}});
  expect_rows("dp2a.hi.u32.u32 %d, %a, %b, %c;", "rrrr", {{0x0002FFFF, 0x09080304, 1, 1 + 65535 * 8 + 18}});
}

TEST(Integer, SelectionAndSets) {
  expect_rows("selp.b32 %d, %a, %b, %c;", "rrrp", {{1, 2, 1, 1}, {1, 2, 0, 2}});
  expect_rows("slct.u32.s32 %d, %a, %b, %c;", "rrrr", {{1, 2, 0, 1}, {1, 2, 0xFFFFFFFF, 2}});
  expect_rows("slct.u64.f32 %d, %a, %b, %c;", "lllr", {{1, 2, bits(-0.0f), 1}, {1, 2, 0x7FC00000, 2}});
  expect_rows("set.lt.u32.s32 %d, %a, %b;", "rrr", {{0xFFFFFFFF, 0, 0xFFFFFFFF}, {1, 0, 0}});
  expect_rows("set.gt.f32.u32 %d, %a, %b;", "rrr", {{2, 1, 0x3F800000}});
  expect_rows("setp.lt.and.u32 %d, %a, %b, %c;", "prrp", {{1, 2, 1, 1}, {1, 2, 0, 0}});
  expect_rows("setp.lt.xor.u32 %d, %a, %b, !%c;", "prrp", {{1, 2, 1, 1}, {1, 2, 0, 0}});
  expect_rows("setp.hi.u32 %d, %a, %b;", "prr", {{0xFFFFFFFF, 0, 1}});
  expect_rows("{ .reg .pred q; setp.lt.u32 q|%d, %a, %b; }", "prr", {{1, 2, 0}, {2, 1, 1}});
}

TEST(Integer, PackedHalves) {
  expect_rows("add.u16x2 %d, %a, %b;", "rrr", {{0xFFFF0001, 0x00010001, 0x00000002}});
  expect_rows("max.s16x2 %d, %a, %b;", "rrr", {{0xFFFF0001, 0x00018000, 0x00010001}});
  expect_rows("min.relu.s32 %d, %a, %b;", "rrr", {{0xFFFFFFF0, 5, 0}, {7, 5, 5}});
}

TEST(Integer, MovesPackAndUnpack) {
  expect_rows("mov.b64 %d, {%a, %b};", "lrr", {{1, 2, 0x200000001}});
  expect_rows("{ .reg .b32 lo, hi; mov.b64 {lo, hi}, %a; mov.b32 %d, hi; }", "rl", {{0x200000001, 2}});
  expect_rows("{ .reg .b16 lo, hi; mov.b32 {lo, hi}, %a; mov.b32 %d, {hi, lo}; }", "rr", {{0x11112222, 0x22221111}});
  expect_rows("{ .reg .b16 x, y, z, w; mov.b64 {x, y, z, w}, %a; mov.b64 %d, {w, z, y, x}; }", "ll",
              {{0x1111222233334444, 0x4444333322221111}});
  expect_rows("{ .reg .b128 q; .reg .b64 lo; mov.b128 q, {%a, %b}; mov.b128 {lo, %d}, q; }", "lll", {{1, 2, 2}});
  expect_rows("mov.u32 %d, %laneid;", "rr", {{0, 0}, {0, 1}, {0, 2}});
  expect_rows("mov.u32 %d, WARP_SZ;", "rr", {{0, 32}});
  expect_rows("{ .reg .u32 m; mov.u32 m, %lanemask_lt; add.u32 %d, %a, m; }", "rr", {{0, 0}, {0, 1}, {0, 3}});
}

}  // namespace
}  // namespace corrloom::sim
