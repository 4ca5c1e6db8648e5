#include "one_instruction.h"

/// Video instructions: extraction, saturation, second operations, merging. Expected values follow the pseudocode in the
/// ISA's "Scalar Video Instructions" and "SIMD Video Instructions".
namespace corrloom::sim {
namespace {

TEST(Video, ScalarOperationsOnParts) {
  // byte 1 of a is 0x80 = -128, the upper half of b 0x7FFF
  expect_rows("vadd.s32.s32.s32 %d, %a.b1, %b.h1;", "rrr", {{0x00008000, 0x7FFF0000, 0x7FFF - 128}});
  expect_rows("vadd.u32.u32.s32 %d, %a.b1, %b.h1;", "rrr", {{0x00008000, 0xFFFF0000, 127}});
  expect_rows("vsub.s32.u32.u32.sat %d, %a, %b;", "rrr", {{0xFFFFFFFF, 1, 0x7FFFFFFF}, {0, 0xFFFFFFFF, 0x80000000}});
  expect_rows("vabsdiff.u32.s32.s32 %d, %a.h0, %b.b3;", "rrr", {{0xFFFE, 0x05000000, 7}});
  expect_rows("vmin.s32.s32.s32.max %d, %a.b0, %b.b0, %c;", "rrrr", {{0xFE, 3, 0xFFFFFFF0, 0xFFFFFFFE}, {9, 3, 7, 7}});
  expect_rows("vadd.u32.u32.u32.add %d, %a.b3, %b.b2, %c;", "rrrr", {{0xFF000000, 0x00020000, 100, 357}});
  expect_rows("vshl.u32.u32.u32.clamp %d, %a, %b;", "rrr", {{1, 40, 0}, {1, 31, 0x80000000}});
  expect_rows("vshr.u32.s32.u32.wrap %d, %a, %b;", "rrr", {{0x80000000, 33, 0xC0000000}});
}

TEST(Video, MergesIntoPartOfTheResult) {
  expect_rows("vadd.u32.u32.u32 %d.b2, %a, %b, %c;", "rrrr", {{0x1F0, 0x0F, 0x11223344, 0x11FF3344}});
  expect_rows("vadd.u32.u32.u32.sat %d.b0, %a, %b, %c;", "rrrr", {{0x1F0, 0x0F, 0x11223344, 0x112233FF}});
  expect_rows("vsub.s32.s32.s32.sat %d.h1, %a, %b, %c;", "rrrr", {{0, 40000, 0x11223344, 0x80003344}});
}

TEST(Video, Comparison) {
  expect_rows("vset.s32.u32.lt %d, %a.b0, %b.b0;", "rrr", {{0xFF, 0x01, 1}, {0x01, 0x01, 0}});
  expect_rows("vset.u32.u32.ge.add %d, %a, %b, %c;", "rrrr", {{5, 5, 10, 11}, {4, 5, 10, 10}});
  expect_rows("vset.u32.u32.eq %d.h1, %a, %b, %c;", "rrrr", {{5, 5, 0xAAAABBBB, 0x0001BBBB}});
}

TEST(Video, MultiplyAdd) {
  expect_rows("vmad.s32.s32.s32 %d, %a.b0, %b.h1, %c;", "rrrr", {{0xFE, 0x00030000, 10, 4}});
  expect_rows("vmad.s32.u32.u32 %d, -%a, %b, %c;", "rrrr", {{3, 4, 20, 8}});
  expect_rows("vmad.s32.u32.u32 %d, %a, %b, -%c;", "rrrr", {{3, 4, 20, 0xFFFFFFF8}});
  expect_rows("vmad.u32.u32.u32.po %d, %a, %b, %c;", "rrrr", {{3, 4, 20, 33}});
  expect_rows("vmad.u32.u32.u32.sat.shr7 %d, %a, %b, %c;", "rrrr",
              {{0xFFFFFFFF, 0xFFFFFFFF, 0, 0xFFFFFFFF}, {256, 3, 128, 7}});
  expect_rows("vmad.s32.s32.s32.sat.shr15 %d, %a, %b, %c;", "rrrr",
              {{0x80000000, 0x7FFFFFFF, 0, 0x80000000}, {65536, 5, 0, 10}});
}

TEST(Video, PackedOperationsSelectAndMask) {
  // Parts come from a (0 to 3) and b (4 to 7); the default of the second operand is b in order.
  expect_rows("vadd4.u32.u32.u32 %d, %a, %b, %c;", "rrrr", {{0x01020304, 0x10203040, 0, 0x11223344}});
  expect_rows("vadd4.u32.u32.u32.sat %d.b31, %a, %b, %c;", "rrrr", {{0xF0F0F0F0, 0x20202020, 0x01020304, 0xFF02FF04}});
  expect_rows("vsub4.u32.u32.u32 %d, %a.b0123, %b.b0123, %c;", "rrrr", {{0x01020304, 0x55667788, 0, 0}});
  expect_rows("vadd2.s32.s32.s32 %d, %a.h01, %b.h32, %c;", "rrrr", {{0x00010002, 0x00300040, 0, 0x00320041}});
  expect_rows("vabsdiff4.u32.u32.u32.add %d, %a, %b, %c;", "rrrr",
              {{0x01FF0510, 0x02000520, 1000, 1000 + 1 + 255 + 0 + 16}});
  expect_rows("vavrg2.s32.s32.s32 %d, %a, %b, %c;", "rrrr", {{0xFFFF0001, 0x00000002, 0, 0x00000002}});
  expect_rows("vset4.u32.u32.lt %d, %a, %b, %c;", "rrrr", {{0x01020304, 0x02020203, 0, 0x01000000}});
  expect_rows("vset2.s32.s32.gt.add %d, %a, %b, %c;", "rrrr", {{0x0001FFFF, 0x00000001, 5, 6}});
}

TEST(Video, SelectorsBelongToVideoInstructions) {
  Simulator sim;
  for (const char* text : {"add.u32 %x, %x.b0, %x;", "add.u32 %x, -%x, %x;", "vadd.u32.u32.u32 %x, %x.b4, %x;",
                           "vadd2.u32.u32.u32 %x, %x.b10, %x, %x;", "vadd4.u32.u32.u32 %x, %x.b8888, %x, %x;",
                           "vmad.u32.u32.u32.po %x, -%x, %x, %x;"}) {
    const LoadResult result =
        load_module(kernel_text(std::string(".reg .b32 %x; ") + text), sim.options.arch, sim.memory);
    EXPECT_EQ(result.status, LoadStatus::InvalidPtx) << text;
    EXPECT_NE(result.error_log.find("line 6"), std::string::npos) << result.error_log;
  }
}

}  // namespace
}  // namespace corrloom::sim
