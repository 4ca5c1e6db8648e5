#include "runtime/host/limits.h"

#include <gtest/gtest.h>

namespace corrloom::runtime {
namespace {

TEST(MachineLimits, AreRatesThatSomeMachineHas) {
  // A machine of our days does between 0.1 and 10,000 operations, and moves between 0.1 and 10,000 bytes, in a
  // nanosecond.
  for (const double rate :
       {measure_flops_per_ns(Arithmetic::F32, 1), measure_flops_per_ns(Arithmetic::F32, 2),
        measure_flops_per_ns(Arithmetic::Bf16Pairs, 1), measure_flops_per_ns(Arithmetic::ByteQuads, 1),
        measure_flops_per_ns(Arithmetic::I32Products, 1), measure_flops_per_ns(Arithmetic::I32, 1),
        measure_flops_per_ns(Arithmetic::Divisions, 1), measure_flops_per_ns(Arithmetic::Roots, 2),
        measure_bytes_per_ns(Traffic::Read, 16 << 10, 1), measure_bytes_per_ns(Traffic::Write, 1 << 20, 1),
        measure_bytes_per_ns(Traffic::Copy, 1 << 20, 2), measure_bytes_per_ns(Traffic::Copy, 1, 3)}) {
    EXPECT_GT(rate, 0.1);
    EXPECT_LT(rate, 1e4);
  }
}

}  // namespace
}  // namespace corrloom::runtime
