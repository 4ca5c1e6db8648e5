#include "compiled.h"

/// Intrinsics that nvcc turns into one instruction or a few, against plain arithmetic in the same kernel.
namespace corrloom::sim {
namespace {

struct Row {
  uint32_t got, want;
};

class Numeric : public CompiledKernels {
 protected:
  /// Runs a kernel that writes `rows` pairs a thread for 256 threads and compares each pair.
  void compare(const std::string& kernel, size_t stride, size_t rows) {
    constexpr uint32_t kThreads = 256;
    std::vector<uint32_t> in(kThreads + 2);
    uint32_t state = 12345;
    for (uint32_t& v : in) {
      state = state * 1664525u + 1013904223u;
      v = state ^ state >> 13;
    }
    const uint32_t edges[] = {0, 1, 0x80000000u, 0x7FFFFFFFu, 0xFFFFFFFFu, 0x7F80FF00u, 0x00FF00FFu, 0x80808080u};
    std::copy(std::begin(edges), std::end(edges), in.begin() + 40);
    const auto y = run<Row>(kernel, {2}, {kThreads / 2}, int(kThreads * stride), kOut, sim.upload(in));
    int shown = 0;
    for (size_t t = 0; t < kThreads; ++t) {
      for (size_t i = 0; i < rows; ++i) {
        const Row& row = y[t * stride + i];
        if (row.got == row.want || ++shown > 10) continue;
        ADD_FAILURE() << kernel << " row " << i << ": " << std::hex << row.got << ", expected " << row.want << " for "
                      << in[t] << ' ' << in[t + 1] << ' ' << in[t + 2];
      }
    }
    EXPECT_NE(y[5 * stride + rows - 1].got, 0xFDFDFDFDu) << "fewer rows than the test thinks";
    if (rows < stride) {
      EXPECT_EQ(y[5 * stride + rows].got, 0xFDFDFDFDu) << "more rows than the test thinks";
    }
  }
};

TEST_P(Numeric, Integers) {
  compare("integers", 32, 32);
}
TEST_P(Numeric, PackedIntegers) {
  compare("packed", 40, 35);
}
TEST_P(Numeric, HalfPrecision) {
  compare("halves", 40, 29);
}
TEST_P(Numeric, BrainFloats) {
  compare("brains", 40, 29);
}
TEST_P(Numeric, EightBitFloats) {
  compare("eights", 40, 12);
}
TEST_P(Numeric, Conversions) {
  compare("conversions", 48, 32);
}

INSTANTIATE_TEST_SUITE_P(Nvcc, Numeric, variants({"numeric_sm80.ptx", "numeric_sm90a.ptx"}), variant_name);

}  // namespace
}  // namespace corrloom::sim
