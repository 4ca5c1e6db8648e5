#include <algorithm>
#include <numeric>

#include "compiled.h"

/// libcu++ barriers, pipelines and atomics, as nvcc compiles them.
namespace corrloom::sim {
namespace {

class Sync : public CompiledKernels {};

TEST_P(Sync, PipelinesOfABlock) {
  std::vector<float> in(128 * 9);
  for (size_t i = 0; i < in.size(); ++i) in[i] = float(i % 251);
  for (const char* kernel : {"pipeline2", "pipeline4"}) {
    const auto y = run<float>(kernel, {1}, {128}, 128, sim.upload(in), kOut, 9);
    for (size_t t = 0; t < 128; ++t) {
      float sum = 0;
      for (size_t i = 0; i < 9; ++i) sum += in[i * 128 + (t * 3 + i) % 128];
      EXPECT_EQ(y[t], sum) << kernel << t;
    }
  }
}

TEST_P(Sync, PipelineWithRoles) {
  const auto in = numbers(64 * 8);
  const auto y = run<int>("pipeline_roles", {1}, {96}, 64, sim.upload(in), kOut, 8);
  for (size_t t = 0; t < 64; ++t) {
    int sum = 0;
    for (size_t i = 0; i < 8; ++i) sum += in[i * 64 + (t + 32 + i) % 64] * int(i + 1);
    EXPECT_EQ(y[t], sum) << t;
  }
}

TEST_P(Sync, PipelinePrimitives) {
  const auto in = numbers(5 * 64 * 4);
  const auto y = run<int>("primitives", {1}, {64}, 64, sim.upload(in), kOut, 5);
  for (size_t t = 0; t < 64; ++t) {
    int sum = 0;
    for (size_t i = 0; i < 5; ++i) {
      for (size_t j = 0; j < 4; ++j) sum += in[(i * 64 + t) * 4 + j] * int(j + 1);
    }
    // The last copy moves 4 of 16 bytes and fills the rest with zeros.
    EXPECT_EQ(y[t], sum + in[t * 4] * 1000) << t;
  }
}

TEST_P(Sync, SplitBarrier) {
  const auto in = numbers(128);
  const auto y = run<int>("split_barrier", {1}, {128}, 128, kOut, sim.upload(in));
  for (size_t t = 0; t < 128; ++t) EXPECT_EQ(y[t], 10 + 5 * in[(t + 1) % 128] + 10) << t;
}

TEST_P(Sync, ThreadsDropOut) {
  int expected = 0;
  for (int t = 0; t < 64; ++t) expected += t / 2;
  EXPECT_EQ(run<int>("dropping", {1}, {64}, 1)[0], expected);
}

TEST_P(Sync, ManyPhases) {
  const DeviceAddress out = zeros(1);
  ASSERT_TRUE(clean(sim.launch("completions", {1}, {96}, out, 50)));
  EXPECT_EQ(sim.download<int>(out, 1)[0], 49 * 50 / 2);
  EXPECT_EQ(run<int>("barrier_parity", {1}, {64}, 64), std::vector<int>(64, 42));
}

TEST_P(Sync, CopiesThatArriveAtABarrier) {
  const auto in = numbers(256);
  const auto y = run<int>("barrier_copies", {1}, {256}, 256, sim.upload(in), kOut);
  for (size_t t = 0; t < 256; ++t) EXPECT_EQ(y[t], in[255 - t] + in[t]);
}

TEST_P(Sync, AtomicReferences) {
  for (const char* kernel : {"atomics_block", "atomics_device", "atomics_system"}) {
    const unsigned blocks = kernel == std::string("atomics_block") ? 1 : 4;
    const DeviceAddress counter = zeros(1), wide = zeros(2);
    const auto y = run<int>(kernel, {blocks}, {64}, int(blocks) * 64, counter, wide, kOut);
    EXPECT_EQ(sim.download<int>(counter, 1)[0], int(blocks) * 64 * 2) << kernel;
    EXPECT_EQ(sim.download<uint64_t>(wide, 1)[0], (blocks * 64 - 1) * 3) << kernel;
    EXPECT_EQ(y, std::vector<int>(blocks * 64, 1));
  }
}

TEST_P(Sync, AtomicTypes) {
  const DeviceAddress f = sim.upload(std::vector<float>{1, -1}), d = sim.upload(std::vector<double>{100}), p = zeros(2),
                      bytes = sim.upload(std::vector<uint8_t>(4)), halves = sim.upload(std::vector<uint16_t>(2)),
                      flag = sim.upload(std::vector<uint8_t>(4));
  ASSERT_TRUE(clean(sim.launch("atomic_types", {1}, {64}, f, d, p, bytes, halves, flag)));
  EXPECT_EQ(sim.download<float>(f, 2), (std::vector<float>{33, 63}));
  EXPECT_EQ(sim.download<double>(d, 1)[0], 84.0);
  EXPECT_EQ(sim.download<int>(p, 2), (std::vector<int>{63 * 32, 64}));
  EXPECT_EQ(sim.download<uint8_t>(bytes, 3), (std::vector<uint8_t>{22, 21, 21}));
  EXPECT_EQ(sim.download<uint16_t>(halves, 2), (std::vector<uint16_t>{0x5555, 0xAAAA}));
  EXPECT_EQ(sim.download<uint8_t>(flag, 1)[0], 1);
}

TEST_P(Sync, MessagesBetweenBlocks) {
  auto y = run<int>("messages", {2}, {64}, 64, sim.memory.allocate(256), zeros(1), kOut);
  for (int t = 0; t < 64; ++t) EXPECT_EQ(y[size_t(t)], (t ^ 1) * 5);
  y = run<int>("fences", {2}, {32}, 32, sim.memory.allocate(128), zeros(1), kOut);
  for (int t = 0; t < 32; ++t) EXPECT_EQ(y[size_t(t)], 31 - t + 7);
}

TEST_P(Sync, LatchesAndSemaphores) {
  const auto y = run<int>("latches", {1}, {64}, 32);
  for (int t = 0; t < 32; ++t) EXPECT_EQ(y[size_t(t)], (31 - t) * 2);
  const DeviceAddress inside = zeros(1), most = zeros(1), semaphore = sim.upload(std::vector<int64_t>(8, 3));
  ASSERT_TRUE(clean(sim.launch("semaphores", {8}, {32}, inside, most, semaphore)));
  EXPECT_EQ(sim.download<int>(inside, 1)[0], 0);
  EXPECT_GE(sim.download<int>(most, 1)[0], 1);
  EXPECT_LE(sim.download<int>(most, 1)[0], 3);
}

TEST_P(Sync, TicketLock) {
  const DeviceAddress lock = zeros(2), value = zeros(1);
  ASSERT_TRUE(clean(sim.launch("ticket_lock", {3}, {40}, lock, value)));
  unsigned expected = 0;
  for (unsigned i = 0; i < 120; ++i) expected = expected * 5 + i;
  EXPECT_EQ(sim.download<unsigned>(value, 1)[0], expected);
}

INSTANTIATE_TEST_SUITE_P(Nvcc, Sync, variants({"sync_sm80.ptx", "sync_sm90a.ptx"}), variant_name);

}  // namespace
}  // namespace corrloom::sim
