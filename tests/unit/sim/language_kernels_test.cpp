#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cmath>
#include <cstdio>

#include "compiled.h"

/// What C++ for devices offers beside arithmetic, as nvcc compiles it.
namespace corrloom::sim {
namespace {

class Language : public CompiledKernels {};

TEST_P(Language, FormatsOfPrintf) {
  const double d = 1234.56789;
  ASSERT_TRUE(
      clean(sim.launch("formats", {1}, {32}, sim.upload(std::vector<char>{'s', 't', 'r', 'i', 'n', 'g', 0}), d)));
  char text[512];
  std::string expected = "plain % done\n-5 42 4000000000 ff FF 10|\n   42|42   |00042|+42| 42|0xff|010|\n";
  expected += "-3 -4 -5 -6 18446744073709551615 ff 7\n";
  std::snprintf(text, sizeof(text), "%f %.2f %10.3f %-10.1f| %e %.3E %g %G %a\n", d, d, d, d, d, d, d, 1e-10, 1.0);
  expected += text;
  expected +=
      "string|     right|left      |cu|ok\n    42|1234.568|7   |\n1.500000 -0.000000 65\n1 two 3 4.000000 5 6\n12345 "
      "0\n";
  EXPECT_EQ(sim.printed, expected);
}

TEST_P(Language, PrintfCountsItsArguments) {
  EXPECT_EQ(run<int>("from_all", {1}, {40}, 40), std::vector<int>(40, 1));
  std::string expected;
  for (int t = 0; t < 40; ++t) expected += "t" + std::to_string(t) + "\n";
  EXPECT_EQ(sim.printed, expected);
}

TEST_P(Language, AssertionsAndTraps) {
  std::vector<int> in(64, 1);
  EXPECT_EQ(run<int>("asserts", {1}, {64}, 64, sim.upload(in), kOut), in);
  EXPECT_EQ(run<int>("traps", {1}, {64}, 64, sim.upload(in), kOut), in);
  in[37] = -1;
  const DeviceAddress out = zeros(64);
  const LaunchResult failed = sim.launch("asserts", {1}, {64}, sim.upload(in), out);
  EXPECT_EQ(failed.error, LaunchError::Assert);
  EXPECT_NE(failed.message.find("in[threadIdx.x] >= 0 && \"negative\""), std::string::npos) << failed.message;
  EXPECT_NE(failed.message.find("thread (37, 0, 0)"), std::string::npos) << failed.message;
  EXPECT_EQ(sim.launch("traps", {1}, {64}, sim.upload(in), out).error, LaunchError::Trap);
}

TEST_P(Language, ListsOnTheHeap) {
  const uint64_t before = sim.memory.free_bytes();
  const auto y = run<int>("lists", {1}, {32}, 32, kOut, 6);
  for (int t = 0; t < 32; ++t) {
    const int n = 6 + t % 4;
    EXPECT_EQ(y[size_t(t)], n * (n - 1) / 2 * t + 3 * (t + 1));
  }
  EXPECT_EQ(sim.memory.free_bytes(), before - 256);
}

struct Big {
  int a[5];
  short b;
  char c[7];
  double d[3];
  bool operator==(const Big&) const = default;
};

TEST_P(Language, StructsAndMemoryFunctions) {
  std::vector<Big> in(16);
  for (int i = 0; i < 16; ++i)
    in[size_t(i)] = Big{{i, i + 1, i + 2, i + 3, i + 4}, short(-i), "abcdef", {i * 0.5, 1, 2}};
  std::vector<char> from(40);
  for (size_t i = 0; i < 40; ++i) from[i] = char('a' + i % 26);
  const DeviceAddress out = sim.memory.allocate(16 * sizeof(Big)), bytes = sim.memory.allocate(64);
  ASSERT_TRUE(clean(sim.launch("copies", {1}, {16}, out, sim.upload(in), bytes, sim.upload(from), 23)));
  for (size_t t = 0; t < 16; ++t) {
    Big expected = in[t];
    expected.a[t % 5] += 1;
    expected.c[t % 7] = 'x';
    expected.d[1] *= 2;
    EXPECT_EQ(sim.download<Big>(out, 16)[t], expected) << t;
  }
  std::string text(from.begin() + 1, from.begin() + 24);
  EXPECT_EQ(sim.download<char>(bytes, 26), (text += "ZZZ", std::vector<char>(text.begin(), text.end())));
}

TEST_P(Language, ConstantsAndDeviceVariables) {
  const int table[64] = {3, 1, 4, 1, 5, 9, 2, 6}, counters[] = {10, 20, 30, 40};
  const float digits[] = {3.f, .1f, .04f};
  const auto y = run<float>("constants", {1}, {64}, 64, kOut, 3);
  for (int t = 0; t < 64; ++t) {
    float expected = std::fma(2.5f, float(table[t]), 8.0f) + float("constant"[t % 8]) + float(counters[(t + 3) % 4]);
    // By name: g++ 12 subscripts a conditional of arrays wrongly under -fsanitize=undefined.
    const int* const row = t & 1 ? table : counters;
    expected += float(row[t % 4]);
    expected = expected + digits[t % 3] + 30 + 5;
    EXPECT_FLOAT_EQ(y[size_t(t)], expected) << t;
  }
  const GlobalVariable managed = *sim.module->find_global("managed_value");
  *reinterpret_cast<int*>(sim.memory.host_pointer(managed.address, 4)) = 6;
  EXPECT_FLOAT_EQ(run<float>("constants", {1}, {64}, 64, kOut, 3)[9], y[9] + 1);
}

struct Params {
  int n;
  float v[1000];
  uint8_t tail[3];
};

TEST_P(Language, BigParameters) {
  Params p{997, {}, {1, 2, 3}};
  for (size_t i = 0; i < 1000; ++i) p.v[i] = float(i) * 0.5f;
  const auto y = run<float>("big_params", {1}, {64}, 64, p, kOut, 31);
  for (int t = 0; t < 64; ++t) EXPECT_EQ(y[size_t(t)], float(t * 31 % 997) * 0.5f + float(t % 3 + 1));
  const auto z = run<float>("param_copy", {1}, {32}, 32, p, kOut);
  for (const float v : z) EXPECT_EQ(v, 10.5f + 1);
}

TEST_P(Language, ClocksAndIdentity) {
  EXPECT_EQ(run<int64_t>("clocks", {1}, {32}, 32), std::vector<int64_t>(32, 7));
  const auto y = run<unsigned>("identity", {2, 3, 2}, {5, 3, 4}, 12 * 60);
  for (unsigned i = 0; i < 12 * 60; ++i) EXPECT_EQ(y[i], 7 + 8 * (i % 60));
}

TEST_P(Language, AddressSpaces) {
  const auto y = run<unsigned>("spaces", {1}, {3}, 3, kOut, zeros(1));
  EXPECT_EQ(y, (std::vector<unsigned>{0x124, 0x241, 0x412}));
}

TEST_P(Language, StackAllocation) {
  const auto y = run<int>("stack_allocation", {1}, {32}, 32, kOut, 40);
  for (int t = 0; t < 32; ++t) {
    int sum = 0;
    for (int i = 40 + t % 8 - 1; i >= 0; i -= 2) sum += i * i;
    EXPECT_EQ(y[size_t(t)], sum) << t;
  }
  EXPECT_EQ(sim.launch("stack_allocation", {1}, {32}, zeros(32), 1 << 20).error, LaunchError::StackOverflow);
}

TEST_P(Language, UnionsAndBitFields) {
  std::vector<float> in(32);
  for (size_t i = 0; i < 32; ++i) in[i] = float(i) * 1.25f - 7;
  const auto y = run<unsigned>("unions", {1}, {32}, 32, kOut, sim.upload(in));
  for (unsigned t = 0; t < 32; ++t) {
    const unsigned u = std::bit_cast<unsigned>(in[t]) ^ 0x40u << t % 4 * 8;
    EXPECT_EQ(y[t], u ^ ((t & 31) + ((u >> 7 & 0x7FF) << 3) + ((u & 0xFFFF) << 9))) << t;
  }
}

INSTANTIATE_TEST_SUITE_P(Nvcc, Language, variants({"language_sm80.ptx", "language_sm90a_debug.ptx"}), variant_name);

}  // namespace
}  // namespace corrloom::sim
