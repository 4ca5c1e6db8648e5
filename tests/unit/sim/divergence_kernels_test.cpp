#include <algorithm>
#include <numeric>

#include "compiled.h"

/// Control flow as nvcc compiles it: divergence, waiting, recursion, tables of code.
namespace corrloom::sim {
namespace {

class Divergence : public CompiledKernels {};

int slow(int x, int n) {
  for (int i = 0; i < n; ++i) x = int(unsigned(x) * 1103515245u + 12345u);
  return x;
}

TEST_P(Divergence, NestedIf) {
  const auto y = run<int>("nested_if", {1}, {128}, 128);
  for (int t = 0; t < 128; ++t) {
    int r = 0;
    if (t & 1) {
      if (t & 2) {
        r = t & 4 ? slow(t, 3) : slow(t, 5) ^ 1;
      } else {
        for (int i = 0; i < t && i <= 20; ++i) r += i % 7 == 3 ? 0 : i * t;
      }
      r ^= 0x55;
    } else if (t % 3 == 0) {
      r = -t;
    } else {
      do r += t;
      while (r < 100 && r != 42);
    }
    EXPECT_EQ(y[size_t(t)], r) << t;
  }
}

TEST_P(Divergence, EarlyReturn) {
  const int n = 150;
  const auto y = run<int>("early_return", {2}, {96}, n, n);
  for (int t = 0; t < n; ++t) {
    int expected = -1;
    if (t % 5 != 0) {
      int sum = 0, i = 0;
      for (; i != t % 11 && sum <= 200; ++i) sum += i * i;
      expected = sum > 200 ? sum + 1000 : sum;
    }
    EXPECT_EQ(y[size_t(t)], expected) << t;
  }
}

TEST_P(Divergence, LanesTakeTurns) {
  const DeviceAddress out = sim.memory.allocate(128), order = zeros(32);
  ASSERT_TRUE(clean(sim.launch("turns", {1}, {32}, out, order)));
  EXPECT_EQ(sim.download<int>(out, 1)[0], 11);
  auto lanes = sim.download<int>(order, 11);
  std::ranges::sort(lanes);
  for (int i = 0; i < 11; ++i) EXPECT_EQ(lanes[size_t(i)], 3 * i + 1);
}

TEST_P(Divergence, WarpsWithRoles) {
  const auto in = numbers(32 * 7);
  const auto y = run<int>("roles", {1}, {64}, 32 * 7, sim.upload(in), kOut, 7);
  for (int i = 0; i < 32 * 7; ++i) EXPECT_EQ(y[size_t(i)], in[size_t(i / 32 * 32 + 31 - i % 32)] + i / 32);
}

TEST_P(Divergence, BarriersThatCount) {
  std::vector<int> in(96, 2);
  in[5] = 7, in[70] = 9;
  const auto y = run<int>("barrier_counts", {1}, {96}, 96, kOut, sim.upload(in));
  for (const int v : y) EXPECT_EQ(v, 2 * 4 + 2 + 1);
}

TEST_P(Divergence, ALockForEachLane) {
  const DeviceAddress value = zeros(1);
  ASSERT_TRUE(clean(sim.launch("lane_locks", {2}, {64}, zeros(1), value)));
  unsigned expected = 0;
  for (int i = 0; i < 128; ++i) expected = expected * 3 + 1;
  EXPECT_EQ(sim.download<unsigned>(value, 1)[0], expected);
}

TEST_P(Divergence, LanesPlayPingPong) {
  const auto y = run<int>("ping_pong", {1}, {32}, 2, kOut, 6);
  EXPECT_EQ(y[0], 0 + 2 + 4 + 6 + 8 + 10);
  EXPECT_EQ(y[1], 1 + 3 + 5 + 7 + 9 + 11);
}

unsigned ackermann(unsigned m, unsigned n) {
  return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}

TEST_P(Divergence, Recursion) {
  const auto y = run<unsigned>("recursion", {1}, {32}, 32);
  for (unsigned t = 0; t < 32; ++t) EXPECT_EQ(y[t], ackermann(t % 3, t / 3));
}

TEST_P(Divergence, RecursiveSorting) {
  auto in = numbers(16 * 40);
  const DeviceAddress data = sim.upload(in);
  ASSERT_TRUE(clean(sim.launch("sorts", {1}, {16}, data, 40)));
  for (int i = 0; i < 16; ++i) std::sort(in.begin() + i * 40, in.begin() + i * 40 + 40);
  EXPECT_EQ(sim.download<int>(data, in.size()), in);
}

TEST_P(Divergence, MutualRecursionThroughPointers) {
  const auto y = run<int>("mutual", {1}, {64}, 64, kOut, 1);
  for (int t = 0; t < 64; ++t) EXPECT_EQ(y[size_t(t)], ((t + 1) & 1) == 0 ? (t % 2 == 0) : (t % 2 == 1));
}

TEST_P(Divergence, VirtualFunctionsOnTheHeap) {
  const auto y = run<float>("shapes", {1}, {48}, 48);
  for (int t = 0; t < 48; ++t) {
    const float area = float(t) * 2 * (t % 3 == 0 ? 1.0f : t % 3 == 1 ? 0.75f : 0.5f);
    EXPECT_EQ(y[size_t(t)], area + 1000.0f * float(t % 3 == 0 ? 4 : t % 3 == 1 ? 0 : 3)) << t;
  }
}

int dense_switch(int r) {
  const auto reversed = [](unsigned v) {
    unsigned w = 0;
    for (int i = 0; i < 32; ++i) w |= (v >> i & 1) << (31 - i);
    return w;
  };
  for (int i = 0; i < 6; ++i) {
    const auto u = unsigned(r);
    switch (r & 15) {
      case 0:
        r = int(u + 7);
        break;
      case 1:
        r = int(u * 5 + 1);
        break;
      case 2:
        r ^= 0x33;
        break;
      case 3:
        r = ~int(u - 9);
        break;
      case 4:
        r = ~r;
        break;
      case 5:
        r = int((u << 3) | 2);
        break;
      case 6:
        r = r / 3;
        break;
      case 7:
        if (r > 100)
          i = 6;
        else
          r += 50;
        break;
      case 8:
        r = int(reversed(u) >> 8);
        break;
      case 9:
        r = __builtin_popcount(u);
        break;
      case 10:
        r = int(u * u);
        break;
      case 11:
        r = int(0 - u);
        break;
      case 12:
        continue;
      case 13:
        r %= 1000;
        break;
      case 14:
        r |= 64;
        break;
      default:
        r = int(1 - u);
        break;
    }
    r ^= i;
  }
  return r;
}

TEST_P(Divergence, DenseSwitch) {
  std::vector<int> in(256);
  for (int i = 0; i < 256; ++i) in[size_t(i)] = i < 128 ? i : i * 7919 * (i % 2 ? 1 : -1);
  const auto y = run<int>("dense_switch", {1}, {256}, 256, kOut, sim.upload(in));
  for (size_t i = 0; i < 256; ++i) EXPECT_EQ(y[i], dense_switch(in[i])) << in[i];
}

TEST_P(Divergence, ArraysInLocalMemory) {
  const auto index = numbers(32);
  const auto y = run<int>("local_arrays", {1}, {64}, 64, kOut, sim.upload(index));
  for (int t = 0; t < 64; ++t) {
    std::vector<int> a(64);
    for (int i = 0; i < 64; ++i) a[size_t(i)] = i * t;
    int s = 0;
    for (int i = 0; i < 8; ++i) {
      const int k = index[size_t((t + i) % 32)];
      s += a[size_t(k & 63)];
      a[size_t((k * 7) & 63)] = s;
      s += k % 5 - 2 + k % 5 + k % 5;
    }
    EXPECT_EQ(y[size_t(t)], s) << t;
  }
}

TEST_P(Divergence, ShufflesAmongThoseThatRemain) {
  std::vector<int> v(32);
  std::iota(v.begin(), v.end(), 0);
  for (int n = 32; n > 0; n /= 2) {
    const auto old = v;
    for (int lane = 0; lane < n; ++lane) v[size_t(lane)] += old[size_t((lane + 1) % n)];
  }
  EXPECT_EQ(run<int>("shrinking", {1}, {32}, 32), v);
}

TEST_P(Divergence, GameOfLife) {
  std::vector<uint8_t> cells(256);
  for (size_t i = 0; i < 256; ++i) cells[i] = (i * i / 7 + i) % 3 == 0;
  const DeviceAddress data = sim.upload(cells);
  ASSERT_TRUE(clean(sim.launch("game_of_life", {1}, {16, 16}, data, 9)));
  for (int step = 0; step < 9; ++step) {
    const auto old = cells;
    for (int y = 0; y < 16; ++y) {
      for (int x = 0; x < 16; ++x) {
        int n = 0;
        for (int v = std::max(0, y - 1); v <= std::min(15, y + 1); ++v) {
          for (int u = std::max(0, x - 1); u <= std::min(15, x + 1); ++u)
            n += (u != x || v != y) && old[size_t(v * 16 + u)];
        }
        cells[size_t(y * 16 + x)] = n == 3 || (n == 2 && old[size_t(y * 16 + x)]);
      }
    }
  }
  EXPECT_EQ(sim.download<uint8_t>(data, 256), cells);
}

TEST_P(Divergence, TemplatesAndPointersToLocals) {
  const auto in = numbers(32);
  const auto y = run<int>("templates", {1}, {32}, 32, kOut, sim.upload(in));
  for (int t = 0; t < 32; ++t) {
    int expected = 0;
    for (int i = 0; i < 8; ++i) expected += in[size_t((t * 3 + i) % 32)] * ((i + 1) + (i < t % 9));
    EXPECT_EQ(y[size_t(t)], expected);
  }
}

int goto_machine(int x) {
  enum { Start, Even, Fives, Odd, End } state = Start;
  int steps = 0;
  while (state != End) {
    switch (state) {
      case Start:
        if (++steps > 40) {
          state = End;
        } else if (x % 2 == 0) {
          state = Even;
        } else {
          x = 3 * x + 1;
          if (x % 5 == 0) state = Fives;
        }
        break;
      case Even:
        x /= 2;
        state = x == 1 ? End : x % 7 == 0 ? Odd : Start;
        break;
      case Fives:
        x += 2;
        state = Odd;
        break;
      default:
        x -= 1;
        state = x > 3 ? Even : End;
        break;
    }
  }
  return x * 64 + steps;
}

TEST_P(Divergence, GotoMachine) {
  std::vector<int> in(64);
  std::iota(in.begin(), in.end(), 1);
  const auto y = run<int>("goto_machine", {1}, {64}, 64, kOut, sim.upload(in));
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(y[i], goto_machine(in[i])) << in[i];
}

INSTANTIATE_TEST_SUITE_P(Nvcc, Divergence, variants({"divergence_sm80.ptx", "divergence_sm80_debug.ptx"}),
                         variant_name);

}  // namespace
}  // namespace corrloom::sim
