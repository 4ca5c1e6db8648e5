#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

#include "compiled.h"

/// Cooperative groups, warp collectives and barriers of the whole grid, as nvcc compiles them.
namespace corrloom::sim {
namespace {

class Groups : public CompiledKernels {
 protected:
  /// Folds the elements of `in` that belong to the group of `size` around `t`, up to `end`.
  static int fold(const std::vector<int>& in, int t, int size, int end, int start,
                  const std::function<int(int, int)>& f) {
    int result = start;
    for (int i = t / size * size; i < end; ++i) result = f(result, in[size_t(i)]);
    return result;
  }
};

TEST_P(Groups, Tiles) {
  const auto in = numbers(128);
  const auto y = run<int>("tiles", {1}, {128}, 128, kOut, sim.upload(in));
  const auto at = [&](int i) { return in[size_t(i)]; };
  for (int t = 0; t < 128; ++t) {
    const int w = t / 32 * 32, q = t / 4 * 4;
    int r = fold(in, t, 32, w + 32, 0, std::plus<>());
    r += 3 * fold(in, t, 4, q + 4, 0, [](int a, int b) { return std::max(a, b); });
    r += 5 * fold(in, t, 4, t + 1, 0, std::plus<>());
    r += 7 * fold(in, t, 32, t, 0, std::plus<>());
    r ^= fold(in, t, 16, t / 16 * 16 + 16, 0, std::bit_xor<>());
    r += at(q + 2) + at(t ^ 5) + (t - w < 3 ? at(t) : at(t - 3)) + (t - q == 3 ? at(t) : at(t + 1));
    int any = 0, all = 1, odd = 0;
    for (int i = w; i < w + 32; ++i) any |= at(i) == 17, odd += at(i) & 1;
    for (int i = q; i < q + 4; ++i) all &= at(i) > 100;
    r += any + 2 * all + 4 * odd + t % 32 / 4 * 1000 + 4;
    EXPECT_EQ(y[size_t(t)], r) << t;
  }
}

TEST_P(Groups, CoalescedThreads) {
  const auto in = numbers(64);
  const auto y = run<int>("coalesced", {1}, {64}, 64, kOut, sim.upload(in));
  for (int w = 0; w < 64; w += 32) {
    std::vector<int> members;
    for (int t = w; t < w + 32; ++t) {
      if (in[size_t(t)] % 3 != 1) members.push_back(in[size_t(t)]);
    }
    const int sum = std::accumulate(members.begin(), members.end(), 0);
    size_t rank = 0;
    for (int t = w; t < w + 32; ++t) {
      int expected = -1;
      if (in[size_t(t)] % 3 != 1) {
        expected = int(rank) + 100 * int(members.size()) + sum + members[0] +
                   (rank + 1 < members.size() ? members[rank + 1] : 0);
        ++rank;
      }
      EXPECT_EQ(y[size_t(t)], expected) << t;
    }
  }
}

TEST_P(Groups, LabeledPartitions) {
  const auto in = numbers(64);
  const auto y = run<int>("labeled", {1}, {64}, 64, kOut, sim.upload(in));
  for (int t = 0; t < 64; ++t) {
    int sum = 0, rank = 0, half = 0, least = INT32_MAX;
    for (int i = t / 32 * 32; i < t / 32 * 32 + 32; ++i) {
      const int v = in[size_t(i)], mine = in[size_t(t)];
      if (v % 5 == mine % 5) sum += v, rank += i < t;
      if ((v > 500) == (mine > 500)) ++half, least = std::min(least, v);
    }
    EXPECT_EQ(y[size_t(t)], sum + 1000000 * rank + 3 * half + least) << t;
  }
}

TEST_P(Groups, TilesOfTwoWarps) {
  const auto in = numbers(256);
  const auto y = run<int>("wide_tiles", {1}, {256}, 256, kOut, sim.upload(in));
  for (int t = 0; t < 256; ++t) {
    const int base = t / 64 * 64;
    int r = fold(in, t, 64, base + 64, 0, std::plus<>()) + in[size_t(base + 33)] + t / 64;
    r += 100 * (std::count(in.begin() + base, in.begin() + base + 64, 8) > 0);
    EXPECT_EQ(y[size_t(t)], r) << t;
  }
}

TEST_P(Groups, AsynchronousCopies) {
  const int n = 128;
  const auto in = numbers(n + 1);
  sim.dynamic_shared = n * 4;
  const auto y = run<int>("copies", {1}, {Dim3{128}}, 128, kOut, sim.upload(in), n);
  for (int t = 0; t < n; ++t) EXPECT_EQ(y[size_t(t)], in[size_t(t * 5 % n)] + in[size_t((t ^ 1) + 1)]) << t;
}

TEST_P(Groups, GridBarriers) {
  sim.cooperative = true;
  const auto in = numbers(3000);
  const DeviceAddress partial = sim.memory.allocate(12000), out = sim.memory.allocate(4);
  ASSERT_TRUE(clean(sim.launch("grid_reduce", {9}, {128}, sim.upload(in), partial, out, 1100)));
  const int total = std::accumulate(in.begin(), in.begin() + 1100, 0);
  EXPECT_EQ(sim.download<int>(out, 1)[0], total);
  const auto y = sim.download<int>(partial, 1100);
  for (int i = 0; i < 1100; ++i) EXPECT_EQ(y[size_t(i)], total - i);
}

TEST_P(Groups, GridIteration) {
  sim.cooperative = true;
  std::vector<float> a(500), b(500);
  for (size_t i = 0; i < a.size(); ++i) a[i] = float(i * i % 97);
  const DeviceAddress da = sim.upload(a), db = sim.memory.allocate(2000);
  ASSERT_TRUE(clean(sim.launch("grid_jacobi", {8}, {64}, da, db, 500, 20)));
  for (int s = 0; s < 20; ++s) {
    b = a;
    for (size_t i = 1; i + 1 < a.size(); ++i) b[i] = std::fma(0.25f, a[i - 1] + a[i + 1], 0.5f * a[i]);
    a.swap(b);
  }
  const auto y = sim.download<float>(da, 500);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_FLOAT_EQ(y[i], a[i]) << i;
}

TEST_P(Groups, SplitGridBarrier) {
  sim.cooperative = true;
  const auto y = run<int>("grid_split_barrier", {6}, {32}, 192, sim.memory.allocate(768), kOut);
  for (int t = 0; t < 192; ++t) EXPECT_EQ(y[size_t(t)], (t + 37) % 192 * 3 + t / 32);
}

TEST_P(Groups, Matches) {
  const auto in = numbers(128);
  const auto y = run<unsigned>("matches", {1}, {128}, 128, kOut, sim.upload(in));
  for (int t = 0; t < 128; ++t) {
    unsigned peers = 0, few = 0;
    for (int i = 0; i < 32; ++i) {
      const int v = in[size_t(t / 32 * 32 + i)] % 6, mine = in[size_t(t)] % 6;
      peers |= unsigned(v == mine) << i;
      few |= unsigned(v < 4 && (v & 1) == (mine & 1)) << i;
    }
    unsigned r = peers + 0xFFFFFFFFu + 1 + 1;
    if (in[size_t(t)] % 6 < 4) r ^= few;
    EXPECT_EQ(y[size_t(t)], r) << t;
  }
}

TEST_P(Groups, Reductions) {
  std::vector<unsigned> in(32);
  for (size_t i = 0; i < 32; ++i) in[i] = unsigned(i * 0x9E3779B9u) | 3u << 29;
  const auto y = run<unsigned>("reductions", {1}, {32}, 32, kOut, sim.upload(in));
  unsigned sum = 0, both = ~0u, either = 0, parity = 0, least = ~0u, odd_most = 0;
  int most = INT32_MIN, even_least = INT32_MAX;
  for (size_t i = 0; i < 32; ++i) {
    sum += in[i], both &= in[i], either |= in[i], parity ^= in[i];
    least = std::min(least, in[i]), most = std::max(most, int(in[i]));
    if (i & 1)
      odd_most = std::max(odd_most, in[i]);
    else
      even_least = std::min(even_least, int(in[i]));
  }
  for (size_t t = 0; t < 32; ++t) {
    const unsigned r = (sum ^ (unsigned(most) + least)) + both + either + parity;
    EXPECT_EQ(y[t], t & 1 ? r + odd_most : r - unsigned(even_least));
  }
}

template <class T>
T shuffled(const std::vector<T>& v, int t) {
  const auto at = [&](int i) { return v[size_t(i)]; };
  T r = at(t * 7 % 32);
  r += t % 8 < 3 ? at(t) : at(t - 3);
  r += t % 16 > 13 ? at(t) : at(t + 2);
  // With width 4 the lane 6 away lies in another segment; xor may reach into earlier segments only.
  r += (t ^ 6) / 4 > t / 4 ? at(t) : at(t ^ 6);
  return r;
}

TEST_P(Groups, ShufflesOfAllWidths) {
  const DeviceAddress d = sim.memory.allocate(256), l = sim.memory.allocate(256), f = sim.memory.allocate(128),
                      i = sim.memory.allocate(128);
  ASSERT_TRUE(clean(sim.launch("shuffles", {1}, {32}, d, l, f, i)));
  std::vector<double> vd(32);
  std::vector<int64_t> vl(32);
  std::vector<float> vf(32);
  std::vector<int> vi(32);
  for (int t = 0; t < 32; ++t) {
    vd[size_t(t)] = t * 0.5, vl[size_t(t)] = t * int64_t(10000000000), vf[size_t(t)] = float(t) * 0.25f,
    vi[size_t(t)] = t * 3;
  }
  for (int t = 0; t < 32; ++t) {
    EXPECT_EQ(sim.download<double>(d, 32)[size_t(t)], shuffled(vd, t)) << t;
    EXPECT_EQ(sim.download<int64_t>(l, 32)[size_t(t)], shuffled(vl, t)) << t;
    EXPECT_EQ(sim.download<float>(f, 32)[size_t(t)], shuffled(vf, t)) << t;
    EXPECT_EQ(sim.download<int>(i, 32)[size_t(t)], shuffled(vi, t)) << t;
  }
}

TEST_P(Groups, SortsAndCompaction) {
  auto in = numbers(256);
  DeviceAddress data = sim.upload(in);
  ASSERT_TRUE(clean(sim.launch("warp_sort", {1}, {256}, data)));
  auto sorted = in;
  for (int w = 0; w < 256; w += 32) std::sort(sorted.begin() + w, sorted.begin() + w + 32);
  EXPECT_EQ(sim.download<int>(data, 256), sorted);

  const DeviceAddress count = zeros(1);
  const auto kept = run<int>("compact", {1}, {256}, 256, sim.upload(in), kOut, count);
  std::vector<int> even;
  std::ranges::copy_if(in, std::back_inserter(even), [](int v) { return v % 2 == 0; });
  ASSERT_EQ(sim.download<int>(count, 1)[0], int(even.size()));
  EXPECT_TRUE(std::equal(even.begin(), even.end(), kept.begin()));

  std::vector<unsigned> keys(256);
  for (size_t i = 0; i < 256; ++i) keys[i] = unsigned(i * 2654435761u) ^ unsigned(i << 3);
  data = sim.upload(keys);
  ASSERT_TRUE(clean(sim.launch("radix_sort", {1}, {256}, data)));
  std::ranges::sort(keys);
  EXPECT_EQ(sim.download<unsigned>(data, 256), keys);
}

INSTANTIATE_TEST_SUITE_P(Nvcc, Groups, variants({"groups_sm80.ptx", "groups_sm90a.ptx"}), variant_name);

}  // namespace
}  // namespace corrloom::sim
