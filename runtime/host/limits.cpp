#include "runtime/host/limits.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "runtime/host/pool.h"

namespace corrloom::runtime {
namespace {

using Clock = std::chrono::steady_clock;

/// A measurement is the best of some samples: what disturbs one only makes it slower.
constexpr int kMostSamples = 12, kLeastSamples = 6;
constexpr double kSampleNs = 3e5, kMeasurementNs = 5e6;
constexpr std::int64_t kMostBytes = std::int64_t{256} << 20;

// ---- arithmetic

/// Runs so many steps and gives how many operations they were. The sums live in registers, enough of them to hide the
/// latency of an fma.
using Probe = double (*)(std::int64_t steps);

#if defined(__x86_64__)
constexpr int kWideSums = 24, kNarrowSums = 12;

__attribute__((target("avx512f"))) double fma_16(std::int64_t steps) {
  __m512 sums[kWideSums];
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  const __m512 a = _mm512_set1_ps(0.5F), b = _mm512_set1_ps(1.0F);
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 24
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(sum, a, b);
  }
  for (__m512& sum : sums) asm volatile("" : : "v"(sum));
  return static_cast<double>(steps) * kWideSums * 16 * 2;
}

__attribute__((target("avx512f,avx512bf16"))) double bf16_pairs_16(std::int64_t steps) {
  __m512 sums[kWideSums];
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  const auto ones = reinterpret_cast<__m512bh>(_mm512_set1_epi16(0x3f80));
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 24
    for (__m512& sum : sums) sum = _mm512_dpbf16_ps(sum, ones, ones);
  }
  for (__m512& sum : sums) asm volatile("" : : "v"(sum));
  return static_cast<double>(steps) * kWideSums * 32 * 2;
}

__attribute__((target("avx512f,avx512vnni"))) double byte_quads_16(std::int64_t steps) {
  using Vector = std::int32_t __attribute__((vector_size(64)));
  Vector sums[kWideSums];
  for (Vector& sum : sums) sum = Vector{};
  const __m512i ones = _mm512_set1_epi8(1);
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 24
    for (Vector& sum : sums) sum = Vector(_mm512_dpbusd_epi32(__m512i(sum), ones, ones));
  }
  for (Vector& sum : sums) asm volatile("" : : "v"(sum));
  return static_cast<double>(steps) * kWideSums * 64 * 2;
}

// Of integers the compiler would make one operation of many if it could: products alternate with sums, sums with
// another operation, and nobody knows the value of `a`.

__attribute__((target("avx512f"))) double i32_products_16(std::int64_t steps) {
  using Vector = std::int32_t __attribute__((vector_size(64)));
  Vector sums[kWideSums];
  for (Vector& sum : sums) sum = Vector{};
  Vector a = Vector(_mm512_set1_epi32(3));
  asm volatile("" : "+v"(a));
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 24
    for (Vector& sum : sums) sum = sum * a + a;
  }
  for (Vector& sum : sums) asm volatile("" : : "v"(sum));
  return static_cast<double>(steps) * kWideSums * 16 * 2;
}

__attribute__((target("avx512f"))) double i32_16(std::int64_t steps) {
  using Vector = std::int32_t __attribute__((vector_size(64)));
  Vector sums[kWideSums];
  Vector a = Vector(_mm512_set1_epi32(3));
  asm volatile("" : "+v"(a));
  for (Vector& sum : sums) sum = a;
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 24
    for (Vector& sum : sums) sum = (sum + a) ^ a;
  }
  for (Vector& sum : sums) asm volatile("" : : "v"(sum));
  return static_cast<double>(steps) * kWideSums * 16 * 2;
}

__attribute__((target("avx2"))) double i32_products_8(std::int64_t steps) {
  using Vector = std::int32_t __attribute__((vector_size(32)));
  Vector sums[kNarrowSums];
  for (Vector& sum : sums) sum = Vector{};
  Vector a = Vector(_mm256_set1_epi32(3));
  asm volatile("" : "+x"(a));
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (Vector& sum : sums) sum = sum * a + a;
  }
  for (Vector& sum : sums) asm volatile("" : : "x"(sum));
  return static_cast<double>(steps) * kNarrowSums * 8 * 2;
}

__attribute__((target("avx2"))) double i32_8(std::int64_t steps) {
  using Vector = std::int32_t __attribute__((vector_size(32)));
  Vector sums[kNarrowSums];
  Vector a = Vector(_mm256_set1_epi32(3));
  asm volatile("" : "+x"(a));
  for (Vector& sum : sums) sum = a;
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (Vector& sum : sums) sum = (sum + a) ^ a;
  }
  for (Vector& sum : sums) asm volatile("" : : "x"(sum));
  return static_cast<double>(steps) * kNarrowSums * 8 * 2;
}

__attribute__((target("avx2,fma"))) double fma_8(std::int64_t steps) {
  __m256 sums[kNarrowSums];
  for (__m256& sum : sums) sum = _mm256_setzero_ps();
  const __m256 a = _mm256_set1_ps(0.5F), b = _mm256_set1_ps(1.0F);
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (__m256& sum : sums) sum = _mm256_fmadd_ps(sum, a, b);
  }
  for (__m256& sum : sums) asm volatile("" : : "x"(sum));
  return static_cast<double>(steps) * kNarrowSums * 8 * 2;
}
__attribute__((target("avx512f"))) double divisions_16(std::int64_t steps) {
  __m512 sums[kWideSums];
  __m512 a = _mm512_set1_ps(1.5F);
  asm volatile("" : "+v"(a));
  for (__m512& sum : sums) sum = a;
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 24
    for (__m512& sum : sums) sum = a / sum;
  }
  for (__m512& sum : sums) asm volatile("" : : "v"(sum));
  return static_cast<double>(steps) * kWideSums * 16;
}

__attribute__((target("avx512f"))) double roots_16(std::int64_t steps) {
  __m512 sums[kWideSums];
  __m512 a = _mm512_set1_ps(1.5F);
  asm volatile("" : "+v"(a));
  for (__m512& sum : sums) sum = a;
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 24
    for (__m512& sum : sums) sum = _mm512_maskz_sqrt_ps(0xffff, sum);
  }
  for (__m512& sum : sums) asm volatile("" : : "v"(sum));
  return static_cast<double>(steps) * kWideSums * 16;
}

__attribute__((target("avx2"))) double divisions_8(std::int64_t steps) {
  __m256 sums[kNarrowSums];
  __m256 a = _mm256_set1_ps(1.5F);
  asm volatile("" : "+x"(a));
  for (__m256& sum : sums) sum = a;
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (__m256& sum : sums) sum = a / sum;
  }
  for (__m256& sum : sums) asm volatile("" : : "x"(sum));
  return static_cast<double>(steps) * kNarrowSums * 8;
}

__attribute__((target("avx2"))) double roots_8(std::int64_t steps) {
  __m256 sums[kNarrowSums];
  __m256 a = _mm256_set1_ps(1.5F);
  asm volatile("" : "+x"(a));
  for (__m256& sum : sums) sum = a;
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (__m256& sum : sums) sum = _mm256_sqrt_ps(sum);
  }
  for (__m256& sum : sums) asm volatile("" : : "x"(sum));
  return static_cast<double>(steps) * kNarrowSums * 8;
}
#endif

/// Four lanes, as the compiler makes them: on machines of other kinds, and old ones.
double multiply_add_4(std::int64_t steps) {
  using Vector = float __attribute__((vector_size(16)));
  constexpr int kSums = 12;
  Vector sums[kSums] = {};
  const Vector a = {0.5F, 0.5F, 0.5F, 0.5F}, b = {1, 1, 1, 1};
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (Vector& sum : sums) sum = sum * a + b;
  }
  volatile float sink = 0;
  for (const Vector& sum : sums) sink = sum[0];
  (void)sink;
  return static_cast<double>(steps) * kSums * 4 * 2;
}

/// The same for integers.
double integers_4(std::int64_t steps, bool with_products) {
  using Vector = std::int32_t __attribute__((vector_size(16)));
  constexpr int kSums = 12;
  Vector sums[kSums];
  Vector a = {3, 3, 3, 3};
  asm volatile("" : "+m"(a));
  for (Vector& sum : sums) sum = a;
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (Vector& sum : sums) sum = with_products ? sum * a + a : (sum + a) ^ a;
  }
  volatile std::int32_t sink = 0;
  for (const Vector& sum : sums) sink = sum[0];
  (void)sink;
  return static_cast<double>(steps) * kSums * 4 * 2;
}

double divisions_4(std::int64_t steps) {
  using Vector = float __attribute__((vector_size(16)));
  constexpr int kSums = 12;
  Vector sums[kSums];
  Vector a = {1.5F, 1.5F, 1.5F, 1.5F};
  asm volatile("" : "+m"(a));
  for (Vector& sum : sums) sum = a;
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (Vector& sum : sums) sum = a / sum;
  }
  volatile float sink = 0;
  for (const Vector& sum : sums) sink = sum[0];
  (void)sink;
  return static_cast<double>(steps) * kSums * 4;
}

bool is_of_integers(Arithmetic kind) {
  return kind == Arithmetic::ByteQuads || kind == Arithmetic::I32Products || kind == Arithmetic::I32;
}

Probe widest_of_integers(Arithmetic kind) {
#if defined(__x86_64__)
  if (kind == Arithmetic::ByteQuads && __builtin_cpu_supports("avx512vnni")) return byte_quads_16;
  if (__builtin_cpu_supports("avx512f")) return kind == Arithmetic::I32 ? i32_16 : i32_products_16;
  if (__builtin_cpu_supports("avx2")) return kind == Arithmetic::I32 ? i32_8 : i32_products_8;
#endif
  if (kind == Arithmetic::I32) return [](std::int64_t steps) { return integers_4(steps, false); };
  return [](std::int64_t steps) { return integers_4(steps, true); };
}

/// A root takes about as long as a division.
Probe widest_of_divisions(Arithmetic kind) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return kind == Arithmetic::Roots ? roots_16 : divisions_16;
  if (__builtin_cpu_supports("avx2")) return kind == Arithmetic::Roots ? roots_8 : divisions_8;
#endif
  (void)kind;
  return divisions_4;
}

Probe widest(Arithmetic kind) {
  if (kind == Arithmetic::Divisions || kind == Arithmetic::Roots) return widest_of_divisions(kind);
  if (is_of_integers(kind)) return widest_of_integers(kind);
#if defined(__x86_64__)
  if (kind == Arithmetic::Bf16Pairs && __builtin_cpu_supports("avx512bf16")) return bf16_pairs_16;
  if (__builtin_cpu_supports("avx512f")) return fma_16;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return fma_8;
#endif
  (void)kind;
  return multiply_add_4;
}

// ---- memory

/// Loads every word and does nothing with it. `count` is a multiple of 64.
using Reader = void (*)(const std::uint64_t* words, std::size_t count);

#if defined(__x86_64__)
__attribute__((target("avx512f"))) void read_64(const std::uint64_t* words, std::size_t count) {
  __m512i sums[8];
  for (__m512i& sum : sums) sum = _mm512_setzero_si512();
  for (std::size_t k = 0; k + 64 <= count; k += 64) {
#pragma GCC unroll 8
    for (std::size_t part = 0; part < 8; ++part)
      sums[part] = _mm512_or_si512(sums[part], _mm512_load_si512(words + k + 8 * part));
  }
  for (__m512i& sum : sums) asm volatile("" : : "v"(sum));
}

__attribute__((target("avx2"))) void read_32(const std::uint64_t* words, std::size_t count) {
  __m256i sums[8];
  for (__m256i& sum : sums) sum = _mm256_setzero_si256();
  for (std::size_t k = 0; k + 32 <= count; k += 32) {
#pragma GCC unroll 8
    for (std::size_t part = 0; part < 8; ++part)
      sums[part] =
          _mm256_or_si256(sums[part], _mm256_load_si256(reinterpret_cast<const __m256i*>(words + k + 4 * part)));
  }
  for (__m256i& sum : sums) asm volatile("" : : "x"(sum));
}

/// A copy past the caches, which need not read the lines that it writes.
void copy_past_caches(std::byte* to, const std::byte* from, std::size_t bytes) {
  const auto* source = reinterpret_cast<const __m128i*>(from);
  auto* target = reinterpret_cast<__m128i*>(to);
  for (std::size_t k = 0; k < bytes / 16; k += 4) {
#pragma GCC unroll 4
    for (std::size_t part = 0; part < 4; ++part) _mm_stream_si128(target + k + part, _mm_load_si128(source + k + part));
  }
  _mm_sfence();
}
#else
void copy_past_caches(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}
#endif

void read_8(const std::uint64_t* words, std::size_t count) {
  std::uint64_t sums[8] = {};
  for (std::size_t k = 0; k + 8 <= count; k += 8) {
    for (std::size_t part = 0; part < 8; ++part) sums[part] |= words[k + part];
  }
  volatile std::uint64_t sink = 0;
  for (const std::uint64_t sum : sums) sink = sum;
  (void)sink;
}

Reader widest_reader() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return read_64;
  if (__builtin_cpu_supports("avx2")) return read_32;
#endif
  return read_8;
}

// ---- measuring

/// Runs `body(thread)` on so many threads at once; the calling one is the first.
void run_together(int threads, const std::function<void(int)>& body) {
  std::atomic<int> ready = 0;
  const auto run = [&](int thread) {
    ++ready;
    while (ready.load() < threads) std::this_thread::yield();
    body(thread);
  };
  std::vector<std::jthread> others;
  for (int thread = 1; thread < threads; ++thread) others.emplace_back(run, thread);
  run(0);
}

/// The best rate of a few samples, units in a nanosecond over all threads, which work at the same time in each. `once`
/// does some work and gives how many units that was; a sample repeats it for a fraction of a millisecond.
double best_rate(int threads, const std::function<double(int)>& once) {
  std::vector<double> rates(static_cast<std::size_t>(threads), 0);
  std::barrier together(threads);
  double best = 0, total_ns = 0;
  bool is_enough = false;
  run_together(threads, [&](int thread) {
    for (int sample = 0; !is_enough; ++sample) {
      together.arrive_and_wait();
      const Clock::time_point start = Clock::now();
      double units = 0, ns = 0;
      while (ns < kSampleNs) {
        units += once(thread);
        ns = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
      }
      rates[static_cast<std::size_t>(thread)] = units / ns;
      together.arrive_and_wait();
      if (thread == 0) {
        best = std::max(best, std::accumulate(rates.begin(), rates.end(), 0.0));
        total_ns += ns;
        is_enough = sample + 1 >= kMostSamples || (sample + 1 >= kLeastSamples && total_ns >= kMeasurementNs);
      }
      together.arrive_and_wait();
    }
  });
  return best;
}

/// Memory of one thread's part of a measurement.
class Block {
 public:
  Block(HostPool& pool, std::size_t bytes)
      : pool_(pool), bytes_(bytes), data_(static_cast<std::byte*>(pool.allocate(bytes))) {
    std::memset(data_, 1, bytes);
  }
  ~Block() { pool_.free(data_, bytes_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  std::byte* data() const { return data_; }

 private:
  HostPool& pool_;
  std::size_t bytes_;
  std::byte* data_;
};

}  // namespace

double measure_flops_per_ns(Arithmetic kind, int threads) {
  const Probe probe = widest(kind);
  return best_rate(threads, [&](int) { return probe(10000); });
}

double measure_bytes_per_ns(Traffic traffic, std::int64_t bytes, int threads) {
  constexpr std::int64_t kGranule = 4096;
  const std::int64_t each = std::clamp<std::int64_t>(bytes, kGranule * 2 * threads, kMostBytes) / threads;
  // A copy works in two halves.
  const auto half = static_cast<std::size_t>(each / 2 / kGranule * kGranule);
  HostPool pool(0);
  std::vector<std::unique_ptr<Block>> blocks;
  for (int thread = 0; thread < threads; ++thread) blocks.push_back(std::make_unique<Block>(pool, 2 * half));
  const Reader read = widest_reader();
  const auto rate = [&](bool past_caches) {
    return best_rate(threads, [&](int thread) {
      std::byte* const data = blocks[static_cast<std::size_t>(thread)]->data();
      if (traffic == Traffic::Read) {
        read(reinterpret_cast<const std::uint64_t*>(data), half / 4);
      } else if (traffic == Traffic::Write) {
        std::memset(data, 2, 2 * half);
      } else if (past_caches) {
        copy_past_caches(data + half, data, half);
      } else {
        std::memcpy(data + half, data, half);
      }
      return 2.0 * static_cast<double>(half);
    });
  };
  return traffic == Traffic::Copy ? std::max(rate(false), rate(true)) : rate(false);
}

}  // namespace corrloom::runtime
