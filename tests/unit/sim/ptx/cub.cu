// Block and warp primitives of CUB, and complex numbers of libcu++.
#include <cub/cub.cuh>
#include <cub/block/block_shuffle.cuh>
#include <cuda/functional>
#include <cuda/std/complex>

constexpr int kThreads = 128;
extern "C" __global__ void block_scan(const int* in, int* out, int* total) {
  using Scan = cub::BlockScan<int, kThreads, cub::BLOCK_SCAN_WARP_SCANS>;
  using Raking = cub::BlockScan<int, kThreads, cub::BLOCK_SCAN_RAKING>;
  __shared__ union { Scan::TempStorage scan; Raking::TempStorage raking; } storage;
  int v[4], sum;
  for (int i = 0; i < 4; ++i) v[i] = in[threadIdx.x * 4 + i];
  Scan(storage.scan).ExclusiveSum(v, v, sum);
  __syncthreads();
  int most = in[threadIdx.x], aggregate;
  Raking(storage.raking).InclusiveScan(most, most, cuda::maximum<>{}, aggregate);
  for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = v[i];
  if (threadIdx.x == 0) { total[0] = sum; total[1] = aggregate; }
}
extern "C" __global__ void block_reduce(const float* in, float* out) {
  using A = cub::BlockReduce<float, kThreads, cub::BLOCK_REDUCE_WARP_REDUCTIONS>;
  using B = cub::BlockReduce<float, kThreads, cub::BLOCK_REDUCE_RAKING>;
  __shared__ union { A::TempStorage a; B::TempStorage b; } storage;
  const float v = in[blockIdx.x * kThreads + threadIdx.x];
  const float sum = A(storage.a).Sum(v);
  __syncthreads();
  const float most = B(storage.b).Reduce(v, cuda::maximum<>{});
  __syncthreads();
  const float some = A(storage.a).Sum(v, 77);
  if (threadIdx.x == 0) { out[blockIdx.x * 3] = sum; out[blockIdx.x * 3 + 1] = most; out[blockIdx.x * 3 + 2] = some; }
}
extern "C" __global__ void block_sort(unsigned* keys, int* values) {
  using Sort = cub::BlockRadixSort<unsigned, kThreads, 5, int>;
  using Load = cub::BlockLoad<unsigned, kThreads, 5, cub::BLOCK_LOAD_TRANSPOSE>;
  using Store = cub::BlockStore<unsigned, kThreads, 5, cub::BLOCK_STORE_WARP_TRANSPOSE>;
  __shared__ union { Sort::TempStorage sort; Load::TempStorage load; Store::TempStorage store; } storage;
  unsigned k[5];
  int v[5];
  Load(storage.load).Load(keys, k);
  for (int i = 0; i < 5; ++i) v[i] = threadIdx.x * 5 + i;
  __syncthreads();
  Sort(storage.sort).Sort(k, v);
  __syncthreads();
  Store(storage.store).Store(keys, k);
  for (int i = 0; i < 5; ++i) values[threadIdx.x * 5 + i] = v[i];
}
struct Less { __device__ bool operator()(float a, float b) const { return a < b; } };
extern "C" __global__ void merge_sort(float* keys, int valid) {
  using Sort = cub::BlockMergeSort<float, kThreads, 3>;
  __shared__ Sort::TempStorage storage;
  float k[3];
  for (int i = 0; i < 3; ++i) k[i] = threadIdx.x * 3 + i < valid ? keys[threadIdx.x * 3 + i] : 1e30f;
  Sort(storage).Sort(k, Less(), valid, 1e30f);
  for (int i = 0; i < 3; ++i) if (threadIdx.x * 3 + i < valid) keys[threadIdx.x * 3 + i] = k[i];
}
extern "C" __global__ void block_histogram(const unsigned char* in, int* bins) {
  using Sort = cub::BlockHistogram<unsigned char, kThreads, 8, 64, cub::BLOCK_HISTO_SORT>;
  using Atomic = cub::BlockHistogram<unsigned char, kThreads, 8, 64, cub::BLOCK_HISTO_ATOMIC>;
  __shared__ union { Sort::TempStorage sort; Atomic::TempStorage atomic; } storage;
  __shared__ int a[64], b[64];
  unsigned char v[8];
  for (int i = 0; i < 8; ++i) v[i] = in[threadIdx.x * 8 + i];
  Sort(storage.sort).Histogram(v, a);
  __syncthreads();
  for (int i = 0; i < 8; ++i) v[i] = in[threadIdx.x * 8 + i];
  Atomic(storage.atomic).Histogram(v, b);
  __syncthreads();
  if (threadIdx.x < 64) bins[threadIdx.x] = a[threadIdx.x] * 1000 + b[threadIdx.x];
}
extern "C" __global__ void neighbours(const int* in, int* out) {
  using Difference = cub::BlockAdjacentDifference<int, kThreads>;
  using Flags = cub::BlockDiscontinuity<int, kThreads>;
  using Exchange = cub::BlockExchange<int, kThreads, 4>;
  using Shuffle = cub::BlockShuffle<int, kThreads>;
  __shared__ union { Difference::TempStorage d; Flags::TempStorage f; Exchange::TempStorage e; Shuffle::TempStorage s; } storage;
  int v[4], d[4], f[4];
  for (int i = 0; i < 4; ++i) v[i] = in[threadIdx.x * 4 + i];
  Difference(storage.d).SubtractLeft(v, d, cuda::std::minus<>{});
  __syncthreads();
  Flags(storage.f).FlagHeads(f, v, cuda::std::not_equal_to<>{});
  __syncthreads();
  int rotated;
  Shuffle(storage.s).Rotate(v[0], rotated, 5);
  __syncthreads();
  Exchange(storage.e).BlockedToStriped(v, v);
  for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = v[i] * 4 + f[i] + 1000 * d[i] + (i ? 0 : rotated * 100000);
}
extern "C" __global__ void warp_primitives(const int* in, int* out) {
  using Scan = cub::WarpScan<int>;
  using Reduce = cub::WarpReduce<int, 16>;
  using Sort = cub::WarpMergeSort<int, 2>;
  __shared__ Scan::TempStorage scan[4];
  __shared__ Reduce::TempStorage reduce[8];
  __shared__ Sort::TempStorage sort[4];
  const int w = threadIdx.x / 32;
  int v = in[threadIdx.x], s, r;
  Scan(scan[w]).InclusiveSum(v, s);
  r = Reduce(reduce[threadIdx.x / 16]).HeadSegmentedSum(v, threadIdx.x % 5 == 0);
  int k[2] = {v, in[threadIdx.x + 128]};
  Sort(sort[w]).Sort(k, [](int a, int b) { return a < b; });
  out[threadIdx.x] = s;
  out[threadIdx.x + 128] = threadIdx.x % 5 == 0 ? r : 0;
  out[256 + threadIdx.x * 2] = k[0];
  out[256 + threadIdx.x * 2 + 1] = k[1];
}
// Decoupled look-back: a scan over the grid in one pass.
using State = cub::ScanTileState<int>;
extern "C" __global__ void lookback_init(char* memory, int tiles) {
  State state;
  state.Init(tiles, memory, 1 << 20);
  state.InitializeStatus(tiles);
}
extern "C" __global__ void lookback_scan(char* memory, int tiles, const int* in, int* out) {
  using Scan = cub::BlockScan<int, kThreads>;
  using Prefix = cub::TilePrefixCallbackOp<int, cuda::std::plus<>, State>;
  __shared__ Scan::TempStorage storage;
  __shared__ Prefix::TempStorage prefix_storage;
  State state;
  state.Init(tiles, memory, 1 << 20);
  int v = in[blockIdx.x * kThreads + threadIdx.x];
  if (blockIdx.x == 0) {
    int aggregate;
    Scan(storage).ExclusiveSum(v, v, aggregate);
    if (threadIdx.x == 0) state.SetInclusive(0, aggregate);
  } else {
    Prefix prefix(state, prefix_storage, cuda::std::plus<>{}, blockIdx.x);
    Scan(storage).ExclusiveSum(v, v, prefix);
  }
  out[blockIdx.x * kThreads + threadIdx.x] = v;
}
extern "C" __global__ void complex_numbers(float2* out, const float2* in) {
  using C = cuda::std::complex<float>;
  const C a(in[threadIdx.x].x, in[threadIdx.x].y), b(1.5f, -0.5f);
  const C r = a * b / (b + C(2)) + cuda::std::conj(a) - cuda::std::polar(cuda::std::abs(a), 0.25f);
  out[threadIdx.x] = {r.real(), r.imag()};
}
