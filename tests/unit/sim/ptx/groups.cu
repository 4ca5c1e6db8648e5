// Cooperative groups, warp collectives, grid synchronisation.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

extern "C" __global__ void tiles(int* out, const int* in) {
  auto block = cg::this_thread_block();
  auto warp = cg::tiled_partition<32>(block);
  auto quad = cg::tiled_partition<4>(warp);
  const int t = block.thread_rank();
  int v = in[t];
  int r = cg::reduce(warp, v, cg::plus<int>());
  r += 3 * cg::reduce(quad, v, cg::greater<int>());
  r += 5 * cg::inclusive_scan(quad, v);
  r += 7 * cg::exclusive_scan(warp, v, cg::plus<int>());
  r ^= cg::reduce(cg::tiled_partition<16>(block), v, cg::bit_xor<int>());
  r += quad.shfl(v, 2) + warp.shfl_xor(v, 5) + warp.shfl_up(v, 3) + quad.shfl_down(v, 1);
  r += warp.any(v == 17) + 2 * quad.all(v > 100) + 4 * __popc(warp.ballot(v & 1));
  r += quad.meta_group_rank() * 1000 + warp.meta_group_size();
  out[t] = r;
}

extern "C" __global__ void coalesced(int* out, const int* in) {
  const int t = threadIdx.x;
  out[t] = -1;
  if (in[t] % 3 != 1) {
    auto active = cg::coalesced_threads();
    const int rank = active.thread_rank(), size = active.size();
    const int sum = cg::reduce(active, in[t], cg::plus<int>());
    const int first = active.shfl(in[t], 0);
    const int next = active.shfl_down(in[t], 1);
    active.sync();
    out[t] = rank + 100 * size + sum + first + (rank + 1 < size ? next : 0);
  }
}

extern "C" __global__ void labeled(int* out, const int* in) {
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  auto same = cg::labeled_partition(warp, in[threadIdx.x] % 5);
  auto half = cg::binary_partition(warp, in[threadIdx.x] > 500);
  out[threadIdx.x] = cg::reduce(same, in[threadIdx.x], cg::plus<int>()) + 1000000 * same.thread_rank() +
                     3 * half.size() + cg::reduce(half, in[threadIdx.x], cg::less<int>());
}

// A tile of 64 threads spans two warps: it synchronises and shuffles through memory given by the block.
extern "C" __global__ void __launch_bounds__(256) wide_tiles(int* out, const int* in) {
  __shared__ cg::block_tile_memory<256> memory;
  auto block = cg::this_thread_block(memory);
  auto tile = cg::tiled_partition<64>(block);
  const int t = block.thread_rank();
  int sum = cg::reduce(tile, in[t], cg::plus<int>());
  sum += tile.shfl(in[t], 33);
  sum += 100 * (tile.any(in[t] == 8) ? 1 : 0);
  tile.sync();
  out[t] = sum + tile.meta_group_rank();
}

extern "C" __global__ void copies(int* out, const int* in, int n) {
  extern __shared__ int s[];
  auto block = cg::this_thread_block();
  cg::memcpy_async(block, s, in, sizeof(int) * n);
  cg::wait(block);
  out[block.thread_rank()] = s[(block.thread_rank() * 5) % n];
  block.sync();
  auto warp = cg::tiled_partition<32>(block);
  cg::memcpy_async(warp, s + warp.meta_group_rank() * 32, in + 1 + warp.meta_group_rank() * 32, sizeof(int) * 32);
  cg::wait_prior<0>(warp);
  warp.sync();
  out[block.thread_rank()] += s[block.thread_rank() ^ 1];
}

// Sum of everything with two passes over the grid and a barrier of the whole grid in between.
extern "C" __global__ void grid_reduce(const int* in, int* partial, int* out, int n) {
  auto grid = cg::this_grid();
  auto block = cg::this_thread_block();
  __shared__ int s[128];
  int sum = 0;
  for (int i = grid.thread_rank(); i < n; i += grid.size()) sum += in[i];
  s[block.thread_rank()] = sum;
  block.sync();
  for (int o = 64; o > 0; o /= 2) {
    if (block.thread_rank() < o) s[block.thread_rank()] += s[block.thread_rank() + o];
    block.sync();
  }
  if (block.thread_rank() == 0) partial[block.group_index().x] = s[0];
  grid.sync();
  if (grid.thread_rank() == 0) {
    int total = 0;
    for (int i = 0; i < gridDim.x; ++i) total += partial[i];
    *out = total;
  }
  grid.sync();
  if (grid.thread_rank() < n) partial[grid.thread_rank()] = *out - (int)grid.thread_rank();
}

// Repeated smoothing: every step reads what other blocks wrote in the step before.
extern "C" __global__ void grid_jacobi(float* a, float* b, int n, int steps) {
  auto grid = cg::this_grid();
  const int i = grid.thread_rank();
  for (int s = 0; s < steps; ++s) {
    if (i > 0 && i < n - 1) b[i] = 0.5f * a[i] + 0.25f * (a[i - 1] + a[i + 1]);
    else if (i < n) b[i] = a[i];
    grid.sync();
    float* x = a; a = b; b = x;
  }
}

extern "C" __global__ void grid_split_barrier(int* data, int* out) {
  auto grid = cg::this_grid();
  data[grid.thread_rank()] = grid.thread_rank() * 3;
  auto token = grid.barrier_arrive();
  int local = grid.block_rank();
  grid.barrier_wait(std::move(token));
  out[grid.thread_rank()] = data[(grid.thread_rank() + 37) % grid.size()] + local;
}

extern "C" __global__ void matches(unsigned* out, const int* in) {
  const int t = threadIdx.x, v = in[t] % 6;
  const unsigned peers = __match_any_sync(~0u, v);
  int pred;
  const unsigned all = __match_all_sync(~0u, t / 64, &pred);
  const unsigned peers64 = __match_any_sync(~0u, (unsigned long long)v << 40);
  unsigned r = peers + all + pred + (peers64 == peers);
  if (v < 4) r ^= __match_any_sync(__activemask(), v & 1);
  out[t] = r;
}

extern "C" __global__ void reductions(unsigned* out, const unsigned* in) {
  const unsigned t = threadIdx.x, v = in[t];
  unsigned r = __reduce_add_sync(~0u, v);
  r ^= __reduce_max_sync(~0u, (int)v) + __reduce_min_sync(~0u, v);
  r += __reduce_and_sync(~0u, v) + __reduce_or_sync(~0u, v) + __reduce_xor_sync(~0u, v);
  if (t & 1) r += __reduce_max_sync(0xAAAAAAAA, v);
  else r -= (unsigned)__reduce_min_sync(0x55555555, (int)v);
  out[t] = r;
}

template <class T> __device__ T shuffled(T v, int t) {
  T r = __shfl_sync(~0u, v, t * 7);
  r += __shfl_up_sync(~0u, v, 3, 8);
  r += __shfl_down_sync(~0u, v, 2, 16);
  r += __shfl_xor_sync(~0u, v, 6, 4);
  return r;
}
extern "C" __global__ void shuffles(double* d, long long* l, float* f, int* i) {
  const int t = threadIdx.x;
  d[t] = shuffled<double>(t * 0.5, t);
  l[t] = shuffled<long long>(t * 10000000000ll, t);
  f[t] = shuffled<float>(t * 0.25f, t);
  i[t] = shuffled<int>(t * 3, t);
}

// Warp-level bitonic sort by shuffles, and a ballot-based stream compaction.
extern "C" __global__ void warp_sort(int* data) {
  const int lane = threadIdx.x & 31;
  int v = data[threadIdx.x];
  for (int k = 2; k <= 32; k *= 2)
    for (int j = k / 2; j > 0; j /= 2) {
      const int other = __shfl_xor_sync(~0u, v, j);
      const bool up = (lane & k) == 0, low = (lane & j) == 0;
      v = (low == up) ? min(v, other) : max(v, other);
    }
  data[threadIdx.x] = v;
}
extern "C" __global__ void compact(const int* in, int* out, int* count) {
  __shared__ int warp_count[8];
  const int t = threadIdx.x, lane = t & 31, warp = t / 32;
  const bool keep = in[t] % 2 == 0;
  const unsigned ballot = __ballot_sync(~0u, keep);
  if (lane == 0) warp_count[warp] = __popc(ballot);
  __syncthreads();
  int base = 0;
  for (int w = 0; w < warp; ++w) base += warp_count[w];
  if (keep) out[base + __popc(ballot & ((1u << lane) - 1))] = in[t];
  if (t == blockDim.x - 1) *count = base + __popc(ballot);
}
// Radix sort of one block: ranks by match_any.
extern "C" __global__ void radix_sort(unsigned* keys) {
  __shared__ unsigned s[256], digits[8][16], base[16];
  const int t = threadIdx.x, lane = t & 31, warp = t / 32;
  for (int shift = 0; shift < 32; shift += 4) {
    const unsigned k = keys[t], digit = k >> shift & 15;
    if (t < 128) digits[t / 16][t % 16] = 0;
    __syncthreads();
    const unsigned peers = __match_any_sync(~0u, digit);
    const int rank = __popc(peers & ((1u << lane) - 1));
    if (rank == 0) digits[warp][digit] = __popc(peers);
    __syncthreads();
    if (t < 16) {
      unsigned sum = 0;
      for (int w = 0; w < 8; ++w) { const unsigned c = digits[w][t]; digits[w][t] = sum; sum += c; }
      unsigned total = sum;
      for (int o = 1; o < 16; o *= 2) {
        const unsigned up = __shfl_up_sync(0xFFFF, total, o, 16);
        if (t >= o) total += up;
      }
      base[t] = total - sum;
    }
    __syncthreads();
    s[base[digit] + digits[warp][digit] + rank] = k;
    __syncthreads();
    keys[t] = s[t];
    __syncthreads();
  }
}
